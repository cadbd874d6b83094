//! Versions of Kubernetes and their feature gates.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::KubernetesVersion::{V1_36, V1_37, V1_38};
use super::{
    ChangeRow, FeatureGate, FeatureGates, GateSetting, GateState, KubernetesVersion, ServerVersion,
    VersionChange,
};

fn gates(version: KubernetesVersion, text: &str) -> Vec<&'static str> {
    let settings: Vec<_> = text.split(',').map(|pair| GateSetting::parse(pair).expect("a setting")).collect();
    FeatureGates::new(version, &settings).names()
}

#[test]
fn gates_are_set_by_name_and_by_stage() {
    assert_eq!(gates(V1_36, "AllBeta=true"), ["DRADeviceTaintRules"]);
    assert_eq!(gates(V1_36, "kube:VolumeLimitScaling=true"), ["VolumeLimitScaling"]);
    assert_eq!(gates(V1_36, "AllAlpha=true").len(), 11);
    // A gate that is named is not set by its stage, whatever comes first.
    for text in ["AllAlpha=true,StorageCapacityScoring=false", "StorageCapacityScoring=false,AllAlpha=true"] {
        let gates = gates(V1_36, text);
        assert!(
            !gates.contains(&"StorageCapacityScoring") && gates.contains(&"MutablePVNodeAffinity"),
            "{text}"
        );
    }
    assert!(gates(V1_36, "VolumeLimitScaling=true,VolumeLimitScaling=false").is_empty());
}

#[test]
fn a_version_has_its_own_gates_and_defaults() {
    let defaults = |version| FeatureGates::from(version).names();
    assert!(defaults(V1_36).is_empty());
    assert_eq!(
        defaults(V1_37),
        ["StorageCapacityScoring", "VolumeLimitScaling", "DRADeviceTaintRules", "DRAFractionalCapacityRange"]
    );
    assert_eq!(gates(V1_38, "AllBeta=false"), ["DRADeviceTaintRules", "DRAFractionalCapacityRange"]);
    // CompositePodGroup is new in 1.37, and beta in 1.38; PodGroupPreemptionPolicy is in 1.37 alone.
    assert!(gates(V1_36, "CompositePodGroup=true,PodGroupPreemptionPolicy=true").is_empty());
    assert!(gates(V1_37, "AllAlpha=true").contains(&"PodGroupPreemptionPolicy"));
    assert!(gates(V1_38, "AllBeta=true").contains(&"CompositePodGroup"));
    assert!(
        !gates(V1_38, "AllAlpha=true,PodGroupPreemptionPolicy=true").contains(&"PodGroupPreemptionPolicy")
    );
}

#[test]
fn versions_are_read_as_users_and_servers_write_them() {
    for (text, expected) in [("1.36", V1_36), ("v1.37.2", V1_37), ("1.38.0-beta.0", V1_38)] {
        assert_eq!(text.parse(), Ok(expected));
    }
    for text in ["1.35", "1.3", "1.370", "latest", ""] {
        let error = text.parse::<KubernetesVersion>().unwrap_err();
        assert_eq!(error, "supported versions are 1.36, 1.37, 1.38", "{text}");
    }
    for (minor, expected, is_supported) in
        [("37", V1_37, true), ("38+", V1_38, true), ("41", V1_38, false), ("29", V1_36, false)]
    {
        let version = ServerVersion::parse("1", minor).unwrap();
        assert_eq!((version.nearest, version.warning().is_none()), (expected, is_supported), "{minor}");
    }
    assert_eq!(ServerVersion::parse("1", "x"), None);
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
    ] {
        assert_eq!(GateSetting::parse(text).unwrap_err(), expected);
    }
}

#[test]
fn changes_without_effect_are_named() {
    let without_effect = |text| GateSetting::parse(text).unwrap().without_effect(V1_36);
    for text in ["TaintTolerationComparisonOperators=true", "AllAlpha=true", "SchedulerAsyncPreemption=true"]
    {
        assert_eq!(without_effect(text), None, "{text}");
    }
    for (text, why) in [
        ("SchedulerAsyncPreemption=false", "always on"),
        ("InPlacePodVerticalScaling=false", "Kubernetes 1.36 locks it to true"),
        ("MemoryQoS=true", "it concerns other components of Kubernetes"),
        ("SchedulerPreQueueingHints=true", "Kubernetes 1.36 does not have this gate of 1.37 and 1.38"),
        (
            "CompositePodGroup=true",
            "Kubernetes 1.36 does not have this gate of 1.37 and 1.38 (groups of groups are placed as one unit)",
        ),
    ] {
        assert_eq!(without_effect(text).unwrap(), format!("{text} has no effect: {why}"));
    }
}

/// docs/differences.md has a row for each change.
#[test]
fn the_list_of_changes_is_complete() {
    const HEAD: &str = "| since | change | number |\n|---|---|---|\n";
    let mut table = HEAD.to_owned();
    for (i, ChangeRow { change, number, from, text }) in VersionChange::all().iter().enumerate() {
        assert_eq!(*change as usize, i, "{change:?}");
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        writeln!(table, "| {from} | {text} | {number} |").unwrap();
    }
    compare("differences.md", HEAD, &table);
}

/// docs/feature-gates.md has a row for each gate.
#[test]
fn the_list_of_gates_is_complete() {
    const HEAD: &str = "| gate | 1.36 | 1.37 | 1.38 | in Berth |\n|---|---|---|---|---|\n";
    let mut table = HEAD.to_owned();
    for FeatureGate { name, states, in_berth } in FeatureGate::all() {
        let in_berth = if in_berth.is_empty() { "–" } else { in_berth };
        write!(table, "| `{name}` |").unwrap();
        for state in states {
            match state {
                Some(GateState { stage, default, is_locked }) => {
                    let default = if *default { "on" } else { "off" };
                    let locked = if *is_locked { ", locked" } else { "" };
                    write!(table, " {stage}, {default}{locked} |").unwrap();
                }
                None => table.push_str(" – |"),
            }
        }
        writeln!(table, " {in_berth} |").unwrap();
    }
    compare("feature-gates.md", HEAD, &table);
}

/// Compares the table that ends a page.
fn compare(page: &str, head: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, written) = text.split_at(text.find(head).expect("the page has the table"));
    if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
        fs::write(&path, format!("{before}{table}")).unwrap();
    } else {
        assert!(written == table, "docs/{page} differs; BERTH_UPDATE_GOLDEN=1 updates it");
    }
}

#[test]
fn names_are_sorted_and_unique() {
    assert!(FeatureGate::all().windows(2).all(|pair| pair[0].name < pair[1].name));
    let stages = ["Alpha", "Beta", "GA", "Deprecated"];
    assert!(
        FeatureGate::all()
            .iter()
            .flat_map(|gate| gate.states.into_iter().flatten())
            .all(|s| stages.contains(&s.stage))
    );
}
