//! What holds of the findings of all rules.

use berth_lint::{RULES, Selection, Severity, UnknownRule};

use crate::report;

/// A Deployment whose anti-affinity selects nothing.
fn deployment(annotations: &str, template_annotations: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, annotations: {{{annotations}}}}}
spec:
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}, annotations: {{{template_annotations}}}}}
    spec:
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {{topologyKey: kubernetes.io/zone, labelSelector: {{matchLabels: {{ap: web}}}}}}
      containers: [{{name: c, image: c}}]
"
    )
}

fn rules(text: &str) -> Vec<&'static str> {
    report(text, &["*"]).findings.iter().map(|finding| finding.rule).collect()
}

#[test]
fn a_finding_names_the_object_and_the_field() {
    let report = report(&deployment("", ""), &["selector-matches-nothing"]);
    let [finding] = report.findings.as_slice() else { panic!("{report:?}") };
    let path = "spec.template.spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector";
    assert_eq!((finding.kind.as_str(), finding.namespace.as_str()), ("Deployment", "default"));
    assert_eq!((finding.name.as_str(), finding.path.as_str()), ("web", path));
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.fix.contains("app=web"), "{}", finding.fix);
}

#[test]
fn annotations_exempt_objects_from_rules() {
    let both = ["selector-matches-nothing", "unknown-topology-key"];
    assert_eq!(rules(&deployment("", "")), both);
    let ignore = |rules: &str| format!("lint.berth.dev/ignore: '{rules}'");
    assert_eq!(rules(&deployment(&ignore("unknown-topology-key"), "")), both[..1]);
    assert_eq!(rules(&deployment("", &ignore("never-first, selector-matches-nothing"))), both[1..]);
    assert_eq!(rules(&deployment("", &ignore("*"))), [""; 0]);
}

#[test]
fn rules_are_selected_by_name() {
    let mut selection = Selection::default();
    assert_eq!(selection.disable(&["no-such-rule".to_owned()]), Err(UnknownRule("no-such-rule".to_owned())));
    for info in RULES {
        assert_eq!(selection.enable(&[info.name.to_owned()]), Ok(()));
    }
}

#[test]
fn an_object_that_the_api_server_rejects_is_invalid_unless_a_finding_says_why() {
    let pod = |expression: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: c}}], affinity: {{
  nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{matchExpressions: [
    {expression}]}}]}}}}}}}}}}"
        )
    };
    let stated = report(&pod("{key: a, operator: Gt, values: [x]}"), &["*"]);
    assert_eq!((stated.findings.len(), stated.invalid.len()), (1, 0), "{stated:?}");
    let rejected = report(&pod("{key: a, operator: Exists, values: [x]}"), &["*"]);
    assert_eq!((rejected.findings.len(), rejected.invalid.len()), (0, 1), "{rejected:?}");
    assert_eq!(rejected.invalid[0].object, "Pod default/p");
}

#[test]
fn pods_of_an_owner_that_is_not_in_the_input_are_reported_once() {
    let pod = |name: &str| {
        format!(
            "---
{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: web}}, ownerReferences: [{{
  apiVersion: apps/v1, kind: StatefulSet, name: web, uid: u, controller: true}}]}}, spec: {{nodeName: node-1,
  containers: [{{name: c, image: c}}], nodeSelector: {{beta.kubernetes.io/os: linux}}}}}}
"
        )
    };
    let text: String = ["web-0", "web-1"].map(pod).concat();
    assert_eq!(rules(&text), ["deprecated-topology-key"]);
}
