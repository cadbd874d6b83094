//! Admission against the recorded answers of kube-apiserver: errors, warnings and what it stores.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_api::object::{Affinity, Pod, Shared, TopologySpreadConstraint};
use berth_rules::RuleOptions;
use berth_rules::admission::{AdmissionOptions, admit};
use flate2::read::GzDecoder;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[test]
fn admission_equals_the_recordings() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let larger = tree.join("../shared/conformance");
    let own = ["1.36", "1.37", "1.38"].map(|version| tree.join("conformance").join(version));
    let suites: Vec<PathBuf> = ["", "large", "v1.37", "v1.38"]
        .map(|folder| larger.join(folder))
        .iter()
        .chain(&own)
        .filter_map(|dir| dir.read_dir().ok())
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| path.to_string_lossy().ends_with(".jsonl.gz"))
        .collect();
    if !larger.exists() {
        println!("the larger suites were not found at {}", larger.display());
    }
    let mut steps = 0;
    let mut differences = Vec::new();
    for suite in &suites {
        let folder =
            suite.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
        let version = folder.parse().unwrap_or(KubernetesVersion::V1_36);
        let gates = FeatureGates::from(version);
        for line in BufReader::new(GzDecoder::new(File::open(suite).unwrap())).lines() {
            let recording: Value = serde_json::from_str(&line.unwrap()).unwrap();
            let scenario = &recording["scenario"];
            if scenario["raw"] == Value::Bool(true) {
                continue;
            }
            let pending = scenario["pending"].as_array().unwrap();
            let expected = recording["expect"]["steps"].as_array().unwrap();
            assert_eq!(pending.len(), expected.len());
            for (pod, expected) in pending.iter().zip(expected) {
                steps += 1;
                compare(pod, expected, gates, &mut |what: &str, expected: String, got: String| {
                    let name = format!("{} {}", scenario["name"], pod["metadata"]["name"]);
                    differences.push(format!("{name}: {what}\n  expected {expected}\n  got      {got}"));
                });
            }
        }
    }
    assert!(
        differences.is_empty(),
        "{} differences in {steps} steps:\n{}",
        differences.len(),
        differences[..differences.len().min(20)].join("\n")
    );
    assert!(steps > 0);
}

fn compare(
    pod: &Value,
    expected: &Value,
    feature_gates: FeatureGates,
    differ: &mut dyn FnMut(&str, String, String),
) {
    let mut pod: Pod = serde_json::from_value(pod.clone()).expect("a recorded pod");
    let options = AdmissionOptions {
        rules: RuleOptions { extensions: false, feature_gates },
        ..AdmissionOptions::default()
    };
    let admission = admit(&mut pod, &options);
    // What a recording does not carry is not compared; only the large suite leaves fields out on purpose.
    let is_partial = expected.get("nodes").is_none() && expected.get("invalid").is_none();

    let got = sorted_by_map_order(serde_json::to_value(&admission.errors).expect("errors as JSON"));
    let wanted =
        sorted_by_map_order(expected.get("invalid").cloned().unwrap_or_else(|| Value::Array(vec![])));
    if got != wanted {
        differ("invalid", wanted.to_string(), got.to_string());
    }
    let wanted: Vec<String> = decoded(expected.get("warnings"));
    if admission.warnings != wanted {
        differ("warnings", format!("{wanted:?}"), format!("{:?}", admission.warnings));
    }
    if is_partial || !admission.is_accepted() {
        return;
    }
    let wanted = expected.get("admittedAffinity").map(|affinity| comparable(decoded(Some(affinity))));
    let got = pod.spec.affinity.as_ref().map(|affinity| comparable(Affinity::clone(affinity)));
    if got != wanted {
        differ("admittedAffinity", format!("{wanted:?}"), format!("{got:?}"));
    }
    let wanted: Shared<Vec<TopologySpreadConstraint>> = decoded(expected.get("admittedSpread"));
    if pod.spec.topology_spread_constraints != wanted {
        differ(
            "admittedSpread",
            format!("{wanted:?}"),
            format!("{:?}", pod.spec.topology_spread_constraints),
        );
    }
}

fn decoded<T: DeserializeOwned + Default>(value: Option<&Value>) -> T {
    value.map(|value| serde_json::from_value(value.clone()).expect("a recorded object")).unwrap_or_default()
}

/// Without the differences that the v1 API does not keep: an empty list or term is an absent one.
fn comparable(mut affinity: Affinity) -> Affinity {
    if let Some(rules) = &mut affinity.node_affinity {
        for term in &mut rules.preferred_during_scheduling_ignored_during_execution {
            term.preference.get_or_insert_default();
        }
    }
    for rules in [&mut affinity.pod_affinity, &mut affinity.pod_anti_affinity].into_iter().flatten() {
        let preferred = &mut rules.preferred_during_scheduling_ignored_during_execution;
        let preferred = preferred.iter_mut().map(|weighted| &mut weighted.pod_affinity_term);
        for term in rules.required_during_scheduling_ignored_during_execution.iter_mut().chain(preferred) {
            term.namespaces = term.namespaces.take().filter(|namespaces| !namespaces.is_empty());
        }
    }
    affinity
}

/// The API server goes through maps in random order, so errors about the entries of one map have none.
fn sorted_by_map_order(errors: Value) -> Value {
    let Value::Array(mut errors) = errors else { return errors };
    let field = |error: &Value| error["field"].as_str().unwrap_or_default().to_owned();
    let is_map =
        |field: &str| ["nodeSelector", "matchLabels", "labels"].iter().any(|end| field.ends_with(end));
    for run in errors.chunk_by_mut(|a, b| field(a) == field(b)) {
        if is_map(&field(&run[0])) {
            run.sort_by_key(|error| error["error"].as_str().unwrap_or_default().to_owned());
        }
    }
    Value::Array(errors)
}
