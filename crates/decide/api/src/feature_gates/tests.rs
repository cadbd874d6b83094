//! The feature gates of kube-scheduler 1.36.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{FeatureGate, FeatureGates, GateSetting};

fn gates(text: &str) -> FeatureGates {
    let settings: Vec<_> = text.split(',').map(|pair| GateSetting::parse(pair).expect("a setting")).collect();
    FeatureGates::new(&settings)
}

#[test]
fn gates_are_set_by_name_and_by_stage() {
    assert_eq!(gates("AllBeta=true"), FeatureGates::default());
    assert_eq!(gates("kube:VolumeLimitScaling=true").names(), ["VolumeLimitScaling"]);
    assert_eq!(gates("AllAlpha=true").names().len(), 9);
    // A gate that is named is not set by its stage, whatever comes first.
    for text in ["AllAlpha=true,StorageCapacityScoring=false", "StorageCapacityScoring=false,AllAlpha=true"] {
        assert!(!gates(text).storage_capacity_scoring && gates(text).mutable_pv_node_affinity, "{text}");
    }
    assert_eq!(gates("VolumeLimitScaling=true,VolumeLimitScaling=false"), FeatureGates::default());
}

#[test]
fn settings_that_kube_scheduler_refuses_are_errors() {
    for (text, expected) in [
        (
            "VolumeLimitScalin=true",
            "unrecognized feature gate: VolumeLimitScalin; did you mean \"VolumeLimitScaling\"?",
        ),
        ("Quux=true", "unrecognized feature gate: Quux"),
        ("VolumeLimitScaling", "missing bool value for VolumeLimitScaling"),
        ("VolumeLimitScaling=yes", "invalid value of VolumeLimitScaling=yes: must be true or false"),
        (
            "SchedulerQueueingHints=false",
            "cannot set feature gate SchedulerQueueingHints to false, feature is locked to true",
        ),
    ] {
        assert_eq!(GateSetting::parse(text).unwrap_err(), expected);
    }
    assert!(GateSetting::parse("SchedulerQueueingHints=true").is_ok());
}

#[test]
fn changes_without_effect_are_named() {
    let without_effect = |text| GateSetting::parse(text).unwrap().without_effect();
    for text in ["TaintTolerationComparisonOperators=true", "AllAlpha=true", "SchedulerAsyncPreemption=true"]
    {
        assert_eq!(without_effect(text), None, "{text}");
    }
    assert_eq!(
        without_effect("SchedulerAsyncPreemption=false").unwrap(),
        "SchedulerAsyncPreemption=false has no effect: always on"
    );
    assert!(without_effect("MemoryQoS=true").unwrap().contains("other components"));
}

/// docs/feature-gates.md has a row for each gate.
#[test]
fn the_list_of_gates_is_complete() {
    const HEAD: &str = "| gate | in Kubernetes 1.36 | in Berth |\n|---|---|---|\n";
    let mut table = HEAD.to_owned();
    for FeatureGate { name, stage, default, is_locked, in_berth } in FeatureGate::all() {
        let default = if *default { "on" } else { "off" };
        let locked = if *is_locked { ", locked" } else { "" };
        let in_berth = if in_berth.is_empty() { "–" } else { in_berth };
        writeln!(table, "| `{name}` | {stage}, {default}{locked} | {in_berth} |").unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/feature-gates.md");
    let page = fs::read_to_string(&path).unwrap();
    let (text, written) = page.split_at(page.find(HEAD).expect("the page has the table"));
    if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
        fs::write(&path, format!("{text}{table}")).unwrap();
    } else {
        assert!(written == table, "docs/feature-gates.md differs; BERTH_UPDATE_GOLDEN=1 updates it");
    }
}

#[test]
fn names_are_sorted_and_unique() {
    assert!(FeatureGate::all().windows(2).all(|pair| pair[0].name < pair[1].name));
    let stages = ["Alpha", "Beta", "GA", "Deprecated"];
    assert!(FeatureGate::all().iter().all(|gate| stages.contains(&gate.stage)));
}
