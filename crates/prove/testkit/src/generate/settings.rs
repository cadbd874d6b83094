//! Random profiles and options.

use std::time::Duration;

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_api::object::{
    NodeAffinity, NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm, SelectorRequirement,
    TopologySpreadConstraint,
};
use berth_api::syntax::labels::HOSTNAME;
use berth_input::config::{
    Plugin, Profile, ResourceSpec, ScoringStrategyKind, SpreadDefaulting, UtilizationShapePoint,
};

use super::names::{RACK, REGION, ZONE};
use super::{Flavour, Random};
use crate::naive::Options;

/// A profile: often the default profile, otherwise with changed arguments, weights and plugins.
pub fn profile(seed: u64) -> Profile {
    let mut random = Random::new(seed);
    let mut profile = Profile::default();
    profile.dynamic_resources.preempt_for_devices = !seed.is_multiple_of(4);
    if random.chance(30) {
        return profile;
    }
    let affinity = &mut profile.inter_pod_affinity;
    affinity.hard_pod_affinity_weight = random.pick(&[0, 1, 1, 50, 100]).copied().unwrap_or(1);
    affinity.ignore_preferred_terms_of_existing_pods = random.chance(25);
    affinity.ignore_preferred_anti_affinity_of_existing_pods = random.chance(25);
    if random.chance(25) {
        profile.node_affinity.added_affinity = Some(added_affinity(&mut random));
    }
    if random.chance(60) {
        draw_resources(&mut random, &mut profile);
    }
    if random.chance(40) {
        let soft = |topology_key: &str, max_skew| TopologySpreadConstraint {
            topology_key: topology_key.to_owned(),
            max_skew,
            when_unsatisfiable: "ScheduleAnyway".to_owned(),
            ..TopologySpreadConstraint::default()
        };
        let mut list = vec![soft(ZONE, 1), soft(HOSTNAME, 2)];
        list.truncate(random.below(3));
        if let Some(first) = list.first_mut().filter(|_| random.chance(40)) {
            first.when_unsatisfiable = "DoNotSchedule".to_owned();
        }
        profile.pod_topology_spread.defaulting = SpreadDefaulting::List(list);
    }
    if random.chance(30) {
        let off = random.pick(&Plugin::ALL).copied();
        for list in [&mut profile.pre_filter, &mut profile.filter, &mut profile.pre_score] {
            list.retain(|p| Some(*p) != off);
        }
        profile.score.retain(|(p, _)| Some(*p) != off);
    }
    for (_, weight) in &mut profile.score {
        if random.chance(20) {
            *weight = 1 + random.below(10) as i64;
        }
    }
    if random.chance(20) {
        profile.dynamic_resources.binding_timeout = Duration::from_secs(1 + random.below(900) as u64);
    }
    if random.chance(30) {
        let point = |utilization, score| UtilizationShapePoint { utilization, score };
        profile.volume_binding.shape = vec![point(10, 1), point(60, 8), point(90, 2)];
    }
    profile
}

fn added_affinity(random: &mut Random) -> NodeAffinity {
    let term = |key: &str, operator: &str| NodeSelectorTerm {
        match_expressions: vec![SelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: Vec::new(),
        }],
        ..NodeSelectorTerm::default()
    };
    let mut added = NodeAffinity::default();
    if random.chance(50) {
        let terms = vec![term("disk", "Exists"), term("cores", "DoesNotExist")];
        added.required_during_scheduling_ignored_during_execution =
            Some(NodeSelector { node_selector_terms: terms, ..NodeSelector::default() });
    }
    if random.chance(70) {
        added.preferred_during_scheduling_ignored_during_execution.push(PreferredSchedulingTerm {
            weight: 10,
            preference: Some(term(RACK, "DoesNotExist")),
            ..PreferredSchedulingTerm::default()
        });
    }
    added
}

fn draw_resources(random: &mut Random, profile: &mut Profile) {
    let specs = |random: &mut Random| {
        let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu"];
        let names = random.words(&names, 1, 4);
        names.into_iter().map(|name| ResourceSpec { name, weight: 1 + random.below(3) as i64 }).collect()
    };
    let fit = &mut profile.node_resources_fit;
    fit.scoring_strategy.resources = specs(random);
    fit.scoring_strategy.kind = match random.below(3) {
        0 => ScoringStrategyKind::LeastAllocated,
        1 => ScoringStrategyKind::MostAllocated,
        _ => {
            let point = |utilization, score| UtilizationShapePoint { utilization, score };
            let rising = random.chance(50);
            let ends = if rising { (0, 10) } else { (10, 0) };
            let shape = vec![point(0, ends.0), point(40, 3), point(100, ends.1)];
            ScoringStrategyKind::RequestedToCapacityRatio { shape }
        }
    };
    if random.chance(20) {
        fit.ignored_resource_groups.push("example.com".to_owned());
    } else if random.chance(20) {
        fit.ignored_resources.push("example.com/gpu".to_owned());
    }
    if random.chance(50) {
        profile.balanced_allocation.resources = specs(random);
    }
}

/// Options for histories of this flavor.
pub fn options(seed: u64, flavour: Flavour) -> Options {
    let mut random = Random::new(seed);
    let version = KubernetesVersion::ALL[random.below(3)];
    let feature_gates = FeatureGates {
        taint_toleration_comparison_operators: random.chance(40),
        storage_capacity_scoring: random.chance(40),
        volume_limit_scaling: random.chance(40),
        dra_node_allocatable_resources: flavour == Flavour::Devices && random.chance(50),
        ..FeatureGates::from(version)
    };
    if flavour == Flavour::Devices && !seed.is_multiple_of(3) {
        return Options { exempt_namespaces: Vec::new(), feature_gates, ..Options::default() };
    }
    if flavour != Flavour::Extensions {
        return Options { feature_gates, ..Options::strict_v1() };
    }
    let exempt_for_v1 = random.chance(30);
    let mut options = Options { exempt_for_v1, feature_gates, ..Options::default() };
    if random.chance(30) {
        options.exempt_namespaces = random.words(&["kube-system", "team-a"], 0, 2);
    }
    if random.chance(30) {
        options.all_topologies = random.words(&[HOSTNAME, ZONE, REGION, RACK], 1, 2);
    }
    options
}
