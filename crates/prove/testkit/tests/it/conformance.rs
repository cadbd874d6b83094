//! Compares the naive evaluator with the recorded answers of kube-scheduler.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_api::object::{DeviceObject, Pod, VolumeKind, VolumeObject};
use berth_api::read::Kind;
use berth_input::config::SchedulerConfig;
use berth_input::recording::RecordedClaim;
use berth_rules::RuleOptions;
use berth_rules::admission::{AdmissionOptions, admit};
use berth_testkit::naive::{Decision, NodeResult, Options, Rejection, Victims, World, evaluate, preempt};
use serde_json::{Map, Value, json};

use crate::devices;

/// When the recordings were made, in seconds since 1970.
const RECORDED_AT: i64 = 1_790_000_000;

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a readable recording")
}

/// A running pod as the API server stored it.
fn stored(pod: &Value, raw: bool, feature_gates: FeatureGates) -> Pod {
    let mut pod: Pod = read(pod);
    if !raw {
        admit(
            &mut pod,
            &AdmissionOptions {
                rules: RuleOptions { extensions: false, feature_gates },
                ..AdmissionOptions::default()
            },
        );
    }
    pod
}

/// A pending pod on its nominated node.
fn nominated(pod: &Value, raw: bool, feature_gates: FeatureGates) -> Pod {
    let mut pod = stored(pod, raw, feature_gates);
    pod.spec.node_name = pod.status.nominated_node_name.clone();
    pod
}

fn rejection(r: &Rejection) -> Map<String, Value> {
    let mut json = Map::new();
    json.insert("plugin".to_owned(), json!(r.plugin));
    json.insert("code".to_owned(), json!(r.code.name()));
    if !r.reasons.is_empty() {
        json.insert("reasons".to_owned(), json!(r.reasons));
    }
    json
}

fn node_result(result: &NodeResult) -> Value {
    match result {
        NodeResult::Rejected(r) => Value::Object(rejection(r)),
        NodeResult::Feasible { scores, total } => json!({"scores": scores, "total": total}),
        NodeResult::Unscored => json!({}),
    }
}

/// The decision as a recorded step.
fn step(decision: &Decision) -> BTreeMap<&'static str, Value> {
    let mut step = BTreeMap::new();
    if let Some(r) = &decision.pre_filter {
        step.insert("preFilter", Value::Object(rejection(r)));
    }
    if !decision.nodes.is_empty() {
        let nodes: Map<_, _> = decision.nodes.iter().map(|(n, r)| (n.clone(), node_result(r))).collect();
        step.insert("nodes", Value::Object(nodes));
    }
    if !decision.best.is_empty() {
        step.insert("best", json!(decision.best));
    }
    if let Some(chosen) = &decision.chosen {
        step.insert("chosen", json!(chosen));
    }
    if let Some(message) = &decision.message {
        step.insert("message", json!(message));
    }
    if let Some(volumes) = &decision.volumes {
        let mut json = Map::new();
        if !volumes.bind.is_empty() {
            let pairs = volumes.bind.iter().map(|(claim, volume)| (claim.clone(), json!(volume)));
            json.insert("static".to_owned(), Value::Object(pairs.collect()));
        }
        if !volumes.provision.is_empty() {
            json.insert("provision".to_owned(), json!(volumes.provision));
        }
        step.insert("volumes", Value::Object(json));
    }
    if decision.error.is_some() {
        // The texts of errors may differ.
        step.insert("err", json!(true));
    }
    step
}

fn differences(recording: &Value, feature_gates: FeatureGates) -> (usize, Vec<String>) {
    let options = Options { feature_gates, ..Options::strict_v1() };
    let scenario = &recording["scenario"];
    let list = |field: &str| scenario[field].as_array().cloned().unwrap_or_default();
    let raw = scenario["raw"].as_bool().unwrap_or_default();
    let mut world = World {
        nodes: list("nodes").iter().map(read).collect(),
        namespaces: list("namespaces").iter().map(read).collect(),
        services: list("services").iter().map(read).collect(),
        workloads: Vec::new(),
        pods: list("pods")
            .iter()
            .map(|p| stored(p, raw, feature_gates))
            .filter(|p| !p.is_terminal())
            .collect(),
        nominated: list("nominated").iter().map(|p| nominated(p, raw, feature_gates)).collect(),
        budgets: list("pdbs").iter().map(read).collect(),
        ..World::default()
    };
    let config = match &scenario["config"] {
        Value::Null => SchedulerConfig::default(),
        config => {
            SchedulerConfig::read_with(config, true, feature_gates).expect("a readable configuration").0
        }
    };
    world.devices.now = RECORDED_AT;
    for object in list("objects") {
        let text = |field: &str| object[field].as_str().unwrap_or_default();
        match Kind::of(text("apiVersion"), text("kind")) {
            Some(Kind::Device(kind)) => {
                world.devices.set(DeviceObject::decode(kind, &object).expect("a readable object"));
            }
            _ => {
                let kind = VolumeKind::ALL.into_iter().find(|kind| object["kind"] == kind.resource().kind);
                let kind = kind.unwrap_or_else(|| panic!("a kind of volumes: {object}"));
                world.storage.set(VolumeObject::decode(kind, &object).expect("a readable object"));
            }
        }
    }
    if feature_gates.dra_device_taint_rules {
        world.devices.add_taints_of_rules();
    }
    let mut found = Vec::new();
    let mut n_steps = 0;
    // Where faults of the reference were corrected later, its later answers count.
    let expect = &recording["expect"];
    let steps = expect["fixedSteps"].as_array().or(expect["steps"].as_array()).expect("steps");
    for (pending, expected) in list("pending").iter().zip(steps) {
        if expected.get("invalid").is_some() {
            continue;
        }
        n_steps += 1;
        let mut pod: Pod = read(pending);
        if !raw {
            let options = AdmissionOptions {
                rules: RuleOptions { extensions: false, feature_gates },
                ..AdmissionOptions::default()
            };
            let admission = admit(&mut pod, &options);
            assert!(admission.is_accepted(), "{}: {admission:?}", pod.key());
        }
        let profile = config.profile(&pod.spec.scheduler_name).expect("a profile for the pod");
        let decision = evaluate(&world, &pod, profile, &options);
        let got = step(&decision);
        if decision.error.is_none() {
            let claims: Vec<RecordedClaim> = expected.get("claims").map(read).unwrap_or_default();
            let claims: Vec<_> = claims.iter().map(RecordedClaim::decision).collect();
            let got = devices::decisions(&claims, decision.devices.as_ref());
            if claims != got {
                let name = scenario["name"].as_str().unwrap_or_default();
                found.push(format!("{name} {} claims:\n expected {claims:?}\n got      {got:?}", pod.key()));
            }
        }
        devices::write(&mut world.devices, &read(expected), &pod);
        for field in ["preFilter", "nodes", "best", "chosen", "volumes", "message", "err"] {
            let expected = expected.get(field).map(|v| if field == "err" { json!(true) } else { v.clone() });
            let mut got = got.get(field).cloned();
            if let ("nodes", Some(expected), Some(got)) = (field, &expected, &mut got) {
                devices::without_zero_scores(expected, got);
            }
            if expected != got {
                let name = scenario["name"].as_str().unwrap_or_default();
                found.push(format!(
                    "{name} {} {field}:\n expected {expected:?}\n got      {got:?}",
                    pod.key()
                ));
            }
        }
        let preemption = &expected["preemption"];
        if !preemption.is_null() {
            let profile = config.profile(&pod.spec.scheduler_name).expect("a profile for the pod");
            let got = match preempt(&world, &pod, profile, &options) {
                Ok(Victims { node, victims, .. }) => {
                    let victims: Vec<_> = victims.iter().map(ToString::to_string).collect();
                    json!({"node": node, "victims": victims})
                }
                Err(message) => json!({"node": null, "message": message}),
            };
            if got.as_object().expect("an object").iter().any(|(field, got)| preemption[field] != *got) {
                let name = scenario["name"].as_str().unwrap_or_default();
                found.push(format!("{name} {}: expected {preemption}, got {got}", pod.key()));
            }
            let gone = |field: &str, pods: &mut Vec<Pod>| {
                let gone = preemption[field].as_array().into_iter().flatten().filter_map(Value::as_str);
                let gone: Vec<_> = gone.collect();
                pods.retain(|pod| !gone.contains(&&*pod.key()));
            };
            gone("victims", &mut world.pods);
            gone("clearedNominations", &mut world.nominated);
        }
        let placed = expected.get("chosen").or(preemption.get("placed")).and_then(Value::as_str);
        if let Some(node) = placed {
            if let Some(volumes) = &decision.volumes {
                world.storage.assume(&pod.metadata.namespace, node, volumes);
            }
            pod.spec.node_name = node.to_owned();
            let started = expected.get("startTime").or(preemption.get("startTime"));
            pod.status.start_time = started.and_then(|time| time.as_str()?.parse().ok());
            world.pods.push(pod);
        }
    }
    (n_steps, found)
}

#[test]
fn agrees_with_every_recording() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let own = KubernetesVersion::ALL.map(|version| (tree.join(format!("conformance/{version}")), version));
    let larger =
        ["", "v1.37", "v1.38"].into_iter().zip(KubernetesVersion::ALL).flat_map(|(folder, version)| {
            let folder = tree.join("../shared/conformance").join(folder);
            [(folder.join("more"), version), (folder, version)]
        });
    let mut all = Vec::new();
    let suites = own.into_iter().chain(larger).flat_map(|(folder, version)| {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            println!("{} not found: it was not compared", folder.display());
            return Vec::new();
        };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut suites: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == "gz")).collect();
        suites.sort();
        suites.into_iter().map(|path| (path, version)).collect()
    });
    for (path, version) in suites {
        let file = std::fs::File::open(&path).expect("a readable file");
        let lines = BufReader::new(flate2::read::GzDecoder::new(file)).lines();
        let mut n_steps = 0;
        let mut n_differences = 0;
        for line in lines {
            let recording = serde_json::from_str(&line.expect("text")).expect("JSON");
            let (steps, found) = differences(&recording, FeatureGates::from(version));
            n_steps += steps;
            n_differences += found.len();
            all.extend(found);
        }
        println!("{}: {n_steps} steps, {n_differences} differences", path.display());
        assert!(n_steps > 0, "{} has no steps", path.display());
    }
    assert!(
        all.is_empty(),
        "{} differences, the first:\n{}",
        all.len(),
        all[..all.len().min(500)].join("\n")
    );
}
