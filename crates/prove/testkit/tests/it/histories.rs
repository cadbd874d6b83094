//! The random histories are reproducible and valid, and cover every rule.

use std::collections::BTreeSet;

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_api::object::Pod;
use berth_rules::RuleOptions;
use berth_rules::admission::validate_pod;
use berth_testkit::generate::{Flavour, Operation, operations, options, profile, written_claims};
use berth_testkit::naive::{NodeResult, World, evaluate};

const FLAVOURS: [Flavour; 4] = [Flavour::V1, Flavour::Extensions, Flavour::Volumes, Flavour::Devices];

#[test]
fn a_seed_is_a_history() {
    let history = operations(7, 120, Flavour::Extensions);
    assert_eq!(history, operations(7, 120, Flavour::Extensions));
    assert_ne!(history, operations(8, 120, Flavour::Extensions));
}

#[test]
fn generated_pods_are_valid() {
    for flavour in FLAVOURS {
        let extensions = flavour == Flavour::Extensions;
        for operation in (0..40).flat_map(|seed| operations(seed, 100, flavour)) {
            if let Operation::AddPod(pod) | Operation::Decide(pod) = operation {
                // Users cannot set a pod's deletion and node, so they are not validated.
                let gates = ["TaintTolerationComparisonOperators", "UserNamespacesHostNetworkSupport"];
                let gates = gates.map(str::to_owned);
                let feature_gates = FeatureGates::of_names(KubernetesVersion::default(), &gates);
                let errors = validate_pod(&pod, RuleOptions { extensions, feature_gates });
                assert!(errors.is_empty(), "{errors:?}\n{}", serde_json::to_string(&pod).expect("JSON"));
            }
        }
    }
}

#[test]
fn histories_reach_every_rule() {
    for flavour in FLAVOURS {
        let mut seen = BTreeSet::new();
        for seed in 0..60 {
            let (profile, options) = (profile(seed), options(seed, flavour));
            let mut world = World::default();
            for operation in operations(
                seed,
                if matches!(flavour, Flavour::Volumes | Flavour::Devices) { 160 } else { 120 },
                flavour,
            ) {
                world.apply(&operation);
                let Operation::Decide(pod) = operation else { continue };
                let decision = evaluate(&world, &pod, &profile, &options);
                seen.extend(decision.pre_filter.into_iter().flat_map(|r| r.reasons));
                seen.extend(decision.error.map(|_| "an error".to_owned()));
                for result in decision.nodes.into_values() {
                    match result {
                        NodeResult::Rejected(r) => seen.extend(r.reasons),
                        NodeResult::Feasible { scores, .. } => {
                            seen.extend(scores.into_iter().filter(|(_, score)| *score > 0).map(|(p, _)| p));
                        }
                        NodeResult::Unscored => {}
                    }
                }
                if let Some(node) = decision.chosen {
                    let mut pod: Pod = *pod;
                    if let Some(volumes) = decision.volumes {
                        seen.extend((!volumes.bind.is_empty()).then(|| "bind".to_owned()));
                        seen.extend((!volumes.provision.is_empty()).then(|| "provision".to_owned()));
                        world.storage.assume(&pod.metadata.namespace, &node, &volumes);
                    }
                    if let Some(devices) = decision.devices {
                        for claim in &devices.claims {
                            let new = claim.allocation.iter().flat_map(|new| &new.devices.results);
                            seen.extend(claim.waits.then(|| "wait".to_owned()));
                            seen.extend(claim.extended.iter().map(|_| "extended resources".to_owned()));
                            for result in new {
                                let is_shared = result.share_id.is_some();
                                seen.insert(if is_shared { "share" } else { "allocate" }.to_owned());
                            }
                        }
                        let made = format!("made-{}", pod.metadata.name);
                        for claim in written_claims(&world, &pod, &devices.claims, &made) {
                            world.devices.set(claim);
                        }
                    }
                    pod.spec.node_name = node;
                    world.apply(&Operation::AddPod(Box::new(pod)));
                }
            }
        }
        let shared = [
            "node(s) were unschedulable",
            "node(s) had untolerated taint(s)",
            "node(s) didn't match Pod's node affinity/selector",
            "node(s) didn't match scheduler-enforced node affinity",
            "node(s) didn't have free ports for the requested pod ports",
            "Too many pods",
            "Insufficient cpu",
            "Insufficient memory",
            "Insufficient ephemeral-storage",
            "Insufficient example.com/gpu",
            "node(s) didn't match pod topology spread constraints",
            "node(s) didn't match pod topology spread constraints (missing required label)",
            "node(s) didn't match pod affinity rules",
            "node(s) didn't match pod anti-affinity rules",
            "node(s) didn't satisfy existing pods anti-affinity rules",
            "node(s) didn't match Pod's required features",
            "an error",
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "NodeResourcesBalancedAllocation",
            "PodTopologySpread",
            "InterPodAffinity",
            "ImageLocality",
        ];
        let of_volumes = [
            "node(s) had no available disk",
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by \
             another pod",
            "node(s) exceed max volume count",
            "node(s) didn't match PersistentVolume's node affinity",
            "node(s) didn't find available persistent volumes to bind",
            "node(s) did not have enough free storage",
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            "node(s) had no available volume zone",
            "pod has unbound immediate PersistentVolumeClaims",
            "bind",
            "provision",
        ];
        let of_devices = [
            "cannot allocate all claims",
            "resourceclaim not available on the node",
            "invalid resource pools were encountered",
            "DynamicResources",
            "allocate",
            "share",
            "wait",
            "extended resources",
        ];
        let of_volumes = of_volumes.iter().filter(|_| flavour == Flavour::Volumes);
        let of_devices = of_devices.iter().filter(|_| flavour == Flavour::Devices);
        for reason in shared.iter().chain(of_volumes).chain(of_devices) {
            assert!(seen.contains(*reason), "{flavour:?} never saw {reason:?}");
        }
    }
}
