//! Validation errors and warnings of the API server that the recordings do not show, and those of the extensions.

use berth_api::object::Pod;
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_rules::RuleOptions;
use berth_rules::admission::{AdmissionOptions, AdmissionResult, admit};
use serde_json::{Value, json};

mod containers;
mod dialects;
mod placement;

const LABEL_KEY: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
     an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used \
     for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const DNS_LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const DNS_SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn admitted(metadata: Value, spec: Value, extensions: bool) -> (Pod, AdmissionResult) {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (part, given) in [("metadata", metadata), ("spec", spec)] {
        for (name, value) in given.as_object().expect("an object") {
            pod[part][name] = value.clone();
        }
    }
    let mut pod: Pod = serde_json::from_value(pod).expect("a pod");
    let admission = admit(
        &mut pod,
        &AdmissionOptions {
            rules: RuleOptions { extensions, ..RuleOptions::default() },
            ..AdmissionOptions::default()
        },
    );
    (pod, admission)
}

#[track_caller]
fn check_spec(spec: Value, errors: &[&str]) {
    for extensions in [false, true] {
        let (_, admission) = admitted(json!({}), spec.clone(), extensions);
        let got: Vec<String> = admission.errors.iter().map(ToString::to_string).collect();
        assert_eq!(got, errors, "{spec}, extensions: {extensions}");
    }
}

#[track_caller]
fn check_metadata(metadata: Value, errors: &[&str]) {
    let (_, admission) = admitted(metadata.clone(), json!({}), false);
    let got: Vec<String> = admission.errors.iter().map(ToString::to_string).collect();
    assert_eq!(got, errors, "{metadata}");
}

#[track_caller]
fn check_warnings(metadata: Value, spec: Value, extensions: bool, warnings: &[&str]) {
    let (_, admission) = admitted(metadata, spec.clone(), extensions);
    assert_eq!(admission.warnings, warnings, "{spec}");
}

fn with_node_term(term: Value) -> Value {
    let selector = json!({"nodeSelectorTerms": [term]});
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}})
}

fn with_pod_term(term: Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

const POD_TERM: &str = "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
