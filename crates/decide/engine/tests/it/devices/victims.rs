//! The victims of preemption for devices, compared with those of an exhaustive search by the naive evaluator.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use berth_api::object::device::DeviceObject;
use berth_api::object::{NamespacedName, Pod};
use berth_engine::{DisruptionBudget, Outcome, Preemption};
use berth_testkit::generate::Random;
use berth_testkit::naive::{self, Options, World, check_node};
use berth_testkit::text;

use super::preemption::{pod_of, settings, user};
use super::{CLASS, claim, nodes, requests, slice, world_with};

const N_PODS: usize = 6;

/// Two nodes with some devices, pods of low priority, of which some share a claim, and a pod that needs devices.
fn draw(random: &mut Random) -> String {
    let mut manifest = format!("{}{CLASS}{}", nodes(2), claim("shared", &requests(&[""])));
    for node in ["n0", "n1"] {
        let devices = (0..2 + random.below(3)).map(|i| {
            let numa = random.below(2);
            format!("{{name: gpu-{i}, attributes: {{example.com/numa: {{int: {numa}}}}}}}")
        });
        manifest += &slice(node, &devices.collect::<Vec<_>>().join(", "));
    }
    for i in 0..N_PODS {
        let (name, priority) = (format!("p{i}"), random.below(4) as i32);
        manifest += &match random.chance(30) {
            true => pod_of(&name, priority, &["shared"]),
            false => user(&name, priority, 1 + random.below(4) / 3),
        };
    }
    let mut devices = requests(&[&format!(", count: {}", 1 + random.below(3))]);
    if random.chance(40) {
        _ = write!(devices, ", constraints: [{{matchAttribute: example.com/numa}}]");
    }
    manifest + &claim("high", &devices) + &pod_of("high", 2 + random.below(2) as i32, &["high"])
}

/// Removes pods from the world as the controller of claims sees it: claims that no pod uses any more are deallocated.
fn without(world: &World, gone: &BTreeSet<NamespacedName>) -> World {
    let mut world = world.clone();
    world.pods.retain(|pod| !gone.contains(&pod.metadata.namespaced_name()));
    for object in &mut world.devices.objects {
        let DeviceObject::ResourceClaim(claim) = object else { continue };
        let namespace = claim.metadata.namespace.clone();
        claim.status.reserved_for.retain(|pod| !gone.contains(&NamespacedName::new(&namespace, &pod.name)));
        if claim.status.reserved_for.is_empty() {
            claim.status.allocation = None;
        }
    }
    world
}

/// Of all sets of pods on a node without which the pod fits, the one that keeps those with a budget first, and then the most
/// important ones.
fn victims_on<'a>(
    world: &'a World,
    pod: &Pod,
    node: &str,
    guarded: &BTreeSet<String>,
) -> Option<Vec<&'a Pod>> {
    let is_lower = |other: &&Pod| other.spec.node_name == node && other.spec.priority < pod.spec.priority;
    let mut lower: Vec<&Pod> = world.pods.iter().filter(is_lower).collect();
    lower.sort_by_key(|pod| {
        let is_guarded = guarded.contains(&pod.metadata.name);
        (Reverse(is_guarded), Reverse(pod.spec.priority), pod.metadata.name.clone())
    });
    let profile = &settings(true).config.profiles[0];
    let fits = |victims: &Vec<&Pod>| {
        let gone = victims.iter().map(|pod| pod.metadata.namespaced_name()).collect();
        check_node(&without(world, &gone), pod, profile, &Options::default(), node).is_ok()
    };
    // Of two sets, the one that is lower in this order keeps the first pod in which they differ.
    let sets = (0..1_u32 << lower.len()).map(|set| {
        let is_in = |i: &usize| set >> (lower.len() - 1 - i) & 1 == 1;
        (0..lower.len()).filter(is_in).map(|i| lower[i]).collect::<Vec<_>>()
    });
    sets.into_iter().find(fits).filter(|victims| !victims.is_empty())
}

/// The victims on the best node by the criteria of kube-scheduler.
fn exhaustive(world: &World, pod: &Pod, guarded: &BTreeSet<String>) -> Option<naive::Victims> {
    let candidates = world.nodes.iter().filter_map(|node| {
        let victims = victims_on(world, pod, &node.metadata.name, guarded)?;
        Some((node.metadata.name.clone(), victims))
    });
    let is_guarded = |pod: &&&Pod| guarded.contains(&pod.metadata.name);
    let (node, mut victims) = candidates.min_by_key(|(node, victims)| {
        let priorities = || victims.iter().filter_map(|pod| pod.spec.priority);
        let sum: i64 = priorities().map(|priority| i64::from(priority) + (1 << 31)).sum();
        (victims.iter().filter(is_guarded).count(), priorities().max(), sum, victims.len(), node.clone())
    })?;
    let n_pdb_violations = victims.iter().filter(is_guarded).count();
    victims.sort_by_key(|pod| (Reverse(pod.spec.priority), pod.metadata.name.clone()));
    let victims = victims.iter().map(|pod| pod.metadata.namespaced_name()).collect();
    Some(naive::Victims { node, victims, n_pdb_violations })
}

#[test]
fn victims_are_those_of_an_exhaustive_search() {
    let (mut n_found, mut n_several) = (0, 0);
    for seed in 0..400 {
        let random = &mut Random::new(seed);
        let manifest = draw(random);
        let mut running = world_with(settings(true), &manifest);
        let mut world = World::default();
        world.nodes.extend(running.inventory.nodes.iter().map(|node| node.object.clone()));
        let objects = running.inventory.device_objects.iter().map(|object| object.object.clone());
        world.devices.objects.extend(objects);
        for name in (0..N_PODS).map(|i| format!("p{i}")) {
            let Outcome::Placed { node, devices, .. } = running.place(&name) else { continue };
            let mut pod = running.pod(&name).clone();
            for decided in devices.iter().flat_map(|devices| &devices.claims) {
                let before = world.devices.claims().find(|c| c.metadata.namespaced_name() == decided.claim);
                let now = "2026-01-01T00:00:00Z".parse().expect("a time");
                let written = decided.written(before, &pod.metadata, "", now);
                let written = DeviceObject::ResourceClaim(Box::new(written));
                running.cluster.set_device_object(&written);
                world.devices.set(written);
            }
            pod.spec.node_name = node;
            world.pods.push(pod);
        }
        let high = running.prepare("high");
        if !matches!(running.cluster.decide(&high), Outcome::Unschedulable { .. }) {
            continue;
        }
        let guarded = (0..N_PODS).filter(|_| random.chance(25)).map(|i| format!("p{i}")).collect();
        let pdb = |name: &String| format!("pdb default/{name} app={name}\n");
        let budgets = BTreeSet::iter(&guarded).map(pdb).collect::<String>();
        let budgets: Vec<_> = text::world(&budgets).budgets.iter().map(DisruptionBudget::from).collect();
        let found = match running.cluster.preempt(&high, &budgets) {
            Preemption::Victims(found) => Some(found),
            _ => None,
        };
        n_found += usize::from(found.is_some());
        n_several += usize::from(found.as_ref().is_some_and(|found| found.victims.len() > 1));
        let found = found.map(|found| naive::Victims {
            node: found.node,
            victims: found.victims,
            n_pdb_violations: found.n_pdb_violations,
        });
        let expected = exhaustive(&world, running.pod("high"), &guarded);
        assert_eq!(found, expected, "seed {seed}, budgets of {guarded:?}\n{manifest}");
    }
    assert!(n_found > 100 && n_several > 50, "{n_found} {n_several}");
}
