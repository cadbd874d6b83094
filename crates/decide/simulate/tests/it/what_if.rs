//! Changes of clusters: small cases, and the loss of domains against a simulation of each one.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::{NamespacedName, OwnerReference, Taint};
use berth_api::read::Kind;
use berth_input::inventory::Inventory;
use berth_simulate::SimulationOptions;
use berth_simulate::what_if::{Change, Changed, DomainLoss, EvictedPod, WhatIf, WhatIfOutcome};
use berth_testkit::generate::{self, Flavour};
use berth_testkit::naive::World;
use berth_testkit::text;
use jiff::Timestamp;

use crate::worlds::inventory;

fn begun(inventory: Inventory) -> WhatIf {
    WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH)
        .expect("the objects are valid")
}

fn changed(inventory: Inventory, changes: &[Change]) -> Changed {
    let mut what_if = begun(inventory);
    for change in changes {
        what_if.apply(change).expect("the changed object exists");
    }
    what_if.run(|_, _| ()).expect("the objects are valid")
}

fn what_if(world: &str, changes: &[Change]) -> WhatIfOutcome {
    changed(inventory(text::world(world)), changes).outcome
}

/// The moves as `default/web-1: a -> b`.
fn moves(outcome: &WhatIfOutcome) -> Vec<String> {
    let from = |from: &Option<String>| from.clone().unwrap_or_else(|| "none".to_owned());
    let moves = outcome.moved.iter();
    moves.map(|m| format!("{}/{}: {} -> {}", m.namespace, m.name, from(&m.from), m.to)).collect()
}

fn unplaced(outcome: &WhatIfOutcome) -> Vec<String> {
    outcome.unplaced.iter().map(|pod| format!("{}/{}", pod.namespace, pod.name)).collect()
}

fn remove(node: &str) -> Change {
    Change::RemoveNode(node.to_owned())
}

fn drain(node: &str) -> Change {
    Change::Drain(node.to_owned())
}

fn label(node: &str, key: &str, value: &str) -> Change {
    Change::SetLabel { node: node.to_owned(), key: key.to_owned(), value: Some(value.to_owned()) }
}

const ZONES: &str = "
    node a zone=z1
    node b zone=z2
    node c zone=z3
    pod default/web-1 on a app=web owner:ReplicaSet/web spread(1 app=web @zone)
    pod default/web-2 on b app=web owner:ReplicaSet/web spread(1 app=web @zone)
    pod default/web-3 on c app=web owner:ReplicaSet/web spread(1 app=web @zone)
    pod default/log-a on a owner:DaemonSet/log
    pod default/bare on a";

#[test]
fn a_removed_node_takes_its_domain_along() {
    let outcome = what_if(ZONES, &[remove("a")]);
    assert_eq!(moves(&outcome), ["default/web-1: a -> b"]);
    assert_eq!(unplaced(&outcome), ["default/bare"]);
    assert_eq!(outcome.unplaced[0].message, "has no controller: it is lost with its node");
    assert_eq!((outcome.evicted.len(), outcome.broken_rules.len()), (0, 0));
}

#[test]
fn a_drained_node_is_still_a_domain_of_spread_constraints() {
    let outcome = what_if(&format!("{ZONES} prefer-node(1 x)"), &[drain("a"), drain("b")]);
    // One pod more in c than in a and b.
    assert_eq!(moves(&outcome), Vec::<String>::new());
    assert_eq!(unplaced(&outcome), ["default/bare", "default/web-1", "default/web-2"]);
    assert!(outcome.unplaced[1].message.contains("1 node(s) didn't match pod topology spread constraints"));
}

#[test]
fn a_plan_that_moves_a_pod_again_and_again_took_time_without_limit() {
    let mut what_if = begun(inventory(text::world(ZONES)));
    let to = |node: &str| {
        let pod = NamespacedName::new("default", "web-1");
        Change::Move { pod, from: None, to: node.to_owned() }
    };
    let refused = (0..2000).find_map(|i| what_if.apply(&to(["a", "b"][i % 2])).err());
    let expected = "the plan moves pods again and again: more than 1000 steps";
    assert_eq!(refused.map(|error| error.to_string()), Some(expected.to_owned()));
}

#[test]
fn the_order_of_changes_matters() {
    let domain = || Change::RemoveDomain { key: "pool".to_owned(), value: "old".to_owned() };
    let world = "
        node a pool=old
        node b
        pod default/x on a owner:ReplicaSet/x
        pod default/y on b owner:ReplicaSet/y";
    assert_eq!(moves(&what_if(world, &[domain(), label("b", "pool", "old")])), ["default/x: a -> b"]);
    let both = what_if(world, &[label("b", "pool", "old"), domain()]);
    assert_eq!(unplaced(&both), ["default/x", "default/y"]);
}

#[test]
fn a_pod_without_a_feasible_node_is_eventually_evicted_unless_it_is_held_for_ever() {
    let world = "node a disk=ssd
         node b
         pod default/held on a owner:StatefulSet/held rdrd-node(disk=ssd)
         pod default/goes on a owner:StatefulSet/goes rdrd-node(disk=ssd)";
    let mut what_if = begun(inventory(text::world(world)));
    what_if.apply(&label("a", "disk", "hdd")).expect("the node exists");
    what_if.evict_without_target(|_| vec![("default".to_owned(), "goes".to_owned())]);
    let outcome = what_if.run(|_, _| ()).expect("the objects are valid").outcome;
    assert_eq!(unplaced(&outcome), ["default/goes"]);
    let evicted = serde_json::to_value(&outcome.evicted).expect("an outcome is data");
    let goes =
        serde_json::json!({"namespace": "default", "name": "goes", "by": "enforcer", "withoutTarget": true});
    assert_eq!(evicted, serde_json::json!([goes]));
    let broken: Vec<_> = outcome.broken_rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(broken, ["goes", "held"]);
}

#[test]
fn preemption_and_the_enforcer_evict() {
    let outcome = what_if(
        "node a cpu=2
         node b cpu=2
         pod default/high on a owner:ReplicaSet/high priority:9 cpu=2
         pod default/low on b owner:ReplicaSet/low cpu=2",
        &[remove("a")],
    );
    assert_eq!(moves(&outcome), ["default/high: a -> b"]);
    assert_eq!(unplaced(&outcome), ["default/low"]);
    let evicted = serde_json::to_value(&outcome.evicted).expect("an outcome is data");
    assert_eq!(evicted, serde_json::json!([{"namespace": "default", "name": "low", "by": "preemption"}]));

    let outcome = what_if(
        "node a disk=ssd
         node b disk=ssd
         pod default/db on a owner:StatefulSet/db rdrd-node(disk=ssd)
         pod default/web on a owner:ReplicaSet/web node(disk=ssd)",
        &[label("a", "disk", "hdd")],
    );
    assert_eq!(moves(&outcome), ["default/db: a -> b"]);
    let evicted = serde_json::to_value(&outcome.evicted).expect("an outcome is data");
    assert_eq!(evicted, serde_json::json!([{"namespace": "default", "name": "db", "by": "enforcer"}]));
    let broken: Vec<_> = outcome.broken_rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(
        broken,
        ["db", "web"],
        "the rule of web is ignored during execution, and is broken all the same"
    );
}

#[test]
fn a_rule_that_was_broken_before_does_not_break() {
    let world = "node a\nnode b disk=ssd\npod default/web on a owner:ReplicaSet/web node(disk=ssd)";
    let outcome = what_if(world, &[label("b", "x", "y")]);
    assert!(outcome.broken_rules.iter().all(|pod| pod.before) && outcome.broken_rules.len() == 1);
    assert!(outcome.is_harmless() && !outcome.is_perfect());
}

#[test]
fn a_taint_that_forbids_execution_evicts() {
    let taint = |effect: &str| Change::SetTaint {
        node: "a".to_owned(),
        taint: Taint { key: "k".to_owned(), value: String::new(), effect: effect.to_owned() },
    };
    let world = "
        node a
        node b
        pod default/x on a owner:ReplicaSet/x
        pod default/y on a owner:ReplicaSet/y tolerate:k";
    let outcome = what_if(world, &[taint("NoSchedule")]);
    assert_eq!((moves(&outcome).len(), outcome.broken_rules.len()), (0, 0));
    assert_eq!(moves(&what_if(world, &[taint("NoExecute")])), ["default/x: a -> b"]);
}

#[test]
fn new_nodes_have_the_rules_of_their_model_and_the_pods_of_daemon_sets() {
    let outcome = what_if(
        "node a pool=gpu cpu=2
         pod default/log-a on a cpu=1 owner:DaemonSet/log
         pod default/x cpu=1 select:pool=gpu owner:ReplicaSet/x
         pod default/y cpu=1 select:pool=gpu owner:ReplicaSet/y
         pod default/z cpu=1 select:pool=gpu owner:ReplicaSet/z
         pod default/0 cpu=1 select:pool=gpu owner:ReplicaSet/0",
        &[Change::AddNodes { n_nodes: 2, like: "a".to_owned() }],
    );
    let nodes: BTreeSet<&str> = outcome.moved.iter().map(|pod| pod.to.as_str()).collect();
    assert_eq!(outcome.moved.len(), 5, "{:?}", moves(&outcome));
    assert_eq!(nodes, BTreeSet::from(["a", "a-new-1", "a-new-2"]));
    assert_eq!(unplaced(&outcome).len(), 1);
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
---
{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 9}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: 2, pods: 9}}}
";

fn scale(n_replicas: u16) -> Change {
    Change::Scale { kind: Kind::Deployment, name: NamespacedName::new("default", "web"), n_replicas }
}

#[test]
fn pods_of_workloads_that_the_input_lacks_run_before_the_changes() {
    let inventory = || Inventory::from_text(DEPLOYMENT).expect("the text is well-formed");
    assert_eq!(changed(inventory(), &[]).outcome, WhatIfOutcome { n_unmoved: 3, ..WhatIfOutcome::default() });
    let outcome = changed(inventory(), &[remove("a")]).outcome;
    assert_eq!((outcome.n_unmoved + outcome.moved.len(), unplaced(&outcome).len()), (2, 1));
}

#[test]
fn a_workload_is_scaled_in_both_directions() {
    let inventory = || Inventory::from_text(DEPLOYMENT).expect("the text is well-formed");
    let up = changed(inventory(), &[scale(5)]).outcome;
    assert_eq!((up.n_unmoved, up.moved.len(), up.unplaced.len()), (3, 1, 1));
    assert_eq!(up.moved[0].from, None);
    // One of the two on the same node goes first.
    let down = changed(inventory(), &[scale(2)]).outcome;
    assert_eq!((down.n_unmoved, down.scaled_down.len()), (2, 1));
    let nodes = |changed: &Changed| {
        changed.simulation.pods().iter().filter_map(|p| p.node().map(str::to_owned)).collect::<BTreeSet<_>>()
    };
    assert_eq!(nodes(&changed(inventory(), &[scale(2)])).len(), 2);
}

#[test]
fn an_autoscaled_workload_was_scaled_below_its_floor() {
    let autoscaler = "---\n{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web}, spec: {minReplicas: 3,
  maxReplicas: 4, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}\n";
    let inventory =
        || Inventory::from_text(&(DEPLOYMENT.to_owned() + autoscaler)).expect("the text is well-formed");
    let Changed { outcome: down, simulation } = changed(inventory(), &[scale(1)]);
    assert_eq!((down.n_unmoved, down.scaled_down.len()), (3, 0));
    let warning = "Deployment default/web: spec.replicas is 1, and HorizontalPodAutoscaler web keeps it from 3 to 4: 3 pods are counted";
    assert_eq!(simulation.warnings(), [warning]);
    let up = changed(inventory(), &[scale(9)]).outcome;
    assert_eq!(up.n_unmoved + up.moved.len() + up.unplaced.len(), 4);
    assert_eq!(changed(inventory(), &[scale(0)]).outcome.scaled_down.len(), 3, "0 switches it off");
}

#[test]
fn the_pods_of_a_new_template_have_the_names_of_those_that_they_replace() {
    let inventory = Inventory::from_text(DEPLOYMENT).expect("the text is well-formed");
    let mut what_if = WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH)
        .expect("the objects are valid");
    let names = |pods: &mut dyn Iterator<Item = &str>| pods.map(str::to_owned).collect::<BTreeSet<_>>();
    let before = names(&mut what_if.inventory().pods.iter().map(|e| e.object.metadata.name.as_str()));
    // Two of three fit.
    let changed = DEPLOYMENT
        .replace("{cpu: 1}", "{cpu: 2}")
        .replace("replicas: 3", "replicas: 3\n  strategy: {type: Recreate}");
    what_if
        .overlay(|inventory| inventory.read(changed.as_bytes(), "change"))
        .expect("the objects are valid")
        .expect("the text is well-formed");
    let outcome = what_if.run(|_, _| ()).expect("the objects are valid").outcome;
    let after =
        outcome.moved.iter().map(|p| p.name.as_str()).chain(outcome.unplaced.iter().map(|p| p.name.as_str()));
    let after = names(&mut after.into_iter());
    assert!(after.is_subset(&before) && outcome.unplaced.len() == 1, "{before:?} {outcome:?}");
    assert_eq!(outcome.moved.len() + outcome.n_unmoved, 2);
    assert!(outcome.moved.iter().all(|pod| pod.from.is_some()) && outcome.unplaced[0].was_running);
}

#[test]
fn pods_without_their_workload_are_scaled_by_copies() {
    let world = "
        node a
        pod default/web-6-x on a app=web pod-template-hash=6 owner:ReplicaSet/web-6
        pod default/web-6-y on a app=web pod-template-hash=6 owner:ReplicaSet/web-6";
    assert_eq!(moves(&what_if(world, &[scale(3)])), ["default/web-new-1: none -> a"]);
    assert_eq!(what_if(world, &[scale(1)]).scaled_down.len(), 1);
}

#[test]
fn a_stateful_set_is_scaled_down_from_the_last_ordinal() {
    let world =
        "node a\npod default/db-9 on a owner:StatefulSet/db\npod default/db-10 on a owner:StatefulSet/db";
    let change =
        Change::Scale { kind: Kind::StatefulSet, name: NamespacedName::new("default", "db"), n_replicas: 1 };
    let outcome = what_if(world, &[change]);
    assert_eq!(outcome.scaled_down, [NamespacedName::new("default", "db-10")]);
}

#[test]
fn new_pods_of_a_stateful_set_had_no_ordinals() {
    let world = "node a
pod default/db-0 on a owner:StatefulSet/db";
    let change =
        Change::Scale { kind: Kind::StatefulSet, name: NamespacedName::new("default", "db"), n_replicas: 2 };
    assert_eq!(moves(&what_if(world, &[change])), ["default/db-1: none -> a"]);
}

#[test]
fn what_does_not_exist_cannot_be_changed() {
    let mut what_if = WhatIf::new(
        inventory(text::world("node a taint:x=y:NoSchedule\npod default/x")),
        SimulationOptions::default(),
        Timestamp::UNIX_EPOCH,
    )
    .expect("the objects are valid");
    let mut message = |change: &Change| what_if.apply(change).expect_err("nothing to change").to_string();
    assert_eq!(message(&remove("b")), "Node b is not in the input");
    assert_eq!(
        message(&Change::RemoveDomain { key: "k".to_owned(), value: "v".to_owned() }),
        "no node has the label k=v"
    );
    assert_eq!(
        message(&Change::Evict(NamespacedName::new("default", "x"))),
        "Pod default/x has no node: it cannot be evicted"
    );
    assert_eq!(message(&scale(1)), "Deployment default/web is not in the input");
    let taint = |key: &str, effect: Option<&str>| Change::RemoveTaint {
        node: "a".to_owned(),
        key: key.to_owned(),
        effect: effect.map(str::to_owned),
    };
    assert_eq!(message(&taint("z", None)), "Node a has no taint z");
    assert_eq!(message(&taint("x", Some("NoExecute"))), "Node a has no taint x:NoExecute");
    assert!(what_if.apply(&taint("x", Some("NoSchedule"))).is_ok());
}

const ZONE: &str = "topology.kubernetes.io/zone";

/// A world of random objects in which most pods have a controller.
fn random_world(seed: u64) -> World {
    let mut world = World::default();
    for operation in generate::operations(seed, 120, Flavour::Extensions) {
        world.apply(&operation);
    }
    for (i, pod) in world.pods.iter_mut().enumerate() {
        let kind = ["ReplicaSet", "ReplicaSet", "StatefulSet", "DaemonSet"][i % 4];
        pod.metadata.owner_references = vec![OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: kind.to_owned(),
            name: "one".to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]
        .into();
        if i % 7 == 0 {
            pod.metadata.owner_references.clear();
        }
        // As the API server copies it when it binds a pod.
        let node = world.nodes.iter().find(|n| n.metadata.name == pod.spec.node_name);
        if let Some(zone) = node.and_then(|n| n.metadata.label(ZONE)).filter(|_| i % 3 == 0) {
            pod.metadata.labels.insert(ZONE.to_owned(), zone.to_owned());
        }
    }
    world.pods.retain(|pod| {
        pod.spec.node_name.is_empty() || world.nodes.iter().any(|n| n.metadata.name == pod.spec.node_name)
    });
    world
}

/// The same cluster with the placed pods as running ones, and without the others.
fn settled(inventory: &Inventory, changed: &Changed) -> Inventory {
    let nodes: BTreeMap<String, String> = changed
        .simulation
        .pods()
        .iter()
        .filter_map(|pod| Some((pod.pod.key(), pod.node()?.to_owned())))
        .collect();
    let mut settled = inventory.clone();
    settled.pods.retain_mut(|entry| {
        let node = nodes.get(&entry.object.key());
        entry.object.spec.node_name = node.cloned().unwrap_or_default();
        node.is_some()
    });
    settled
}

#[test]
fn a_domain_loses_what_a_simulation_of_its_loss_loses() {
    let (mut n_domains, mut n_unplaced, mut n_evicted) = (0, 0, 0);
    for seed in 0..60 {
        let inventory = inventory(random_world(seed));
        let settled = settled(&inventory, &changed(inventory.clone(), &[]));
        for key in [ZONE, "kubernetes.io/hostname"] {
            let mut base = changed(settled.clone(), &[]);
            let losses = base.simulation.lose_each_domain(key, |_, _| ());
            assert_eq!(
                base.simulation.lose_each_domain(key, |_, _| ()),
                losses,
                "seed {seed}: the state is restored"
            );
            for loss in losses.domains {
                let change = Change::RemoveDomain { key: key.to_owned(), value: loss.domain.clone() };
                // The enforcer evicts in the simulation alone: without rules required during execution it has no reason.
                let outcome = changed(settled.clone(), &[change]).outcome;
                if outcome.evicted.iter().any(|pod| pod.by == berth_simulate::what_if::Evictor::Enforcer) {
                    continue;
                }
                let DomainLoss { domain, unplaced, moved, .. } = &loss;
                let expected: Vec<_> =
                    outcome.unplaced.iter().map(|pod| (&pod.namespace, &pod.name)).collect();
                let found: BTreeSet<_> = unplaced.iter().map(|pod| (&pod.namespace, &pod.name)).collect();
                assert_eq!(Vec::from_iter(found), expected, "seed {seed}: {key}={domain}");
                assert_eq!(loss.survives, unplaced.is_empty());
                let evicted = outcome.evicted.len();
                assert!(loss.evicted.len() <= evicted, "seed {seed}: {key}={domain}");
                assert!(*moved <= outcome.moved.len(), "seed {seed}: {key}={domain}");
                (n_domains, n_unplaced, n_evicted) =
                    (n_domains + 1, n_unplaced + expected.len(), n_evicted + evicted);
            }
        }
    }
    assert!(n_domains > 300 && n_unplaced > 100 && n_evicted > 10, "{n_domains} {n_unplaced} {n_evicted}");
}

#[test]
fn repairs_are_found_for_the_first_pod_of_each_workload() {
    let world = "node a cpu=2\nnode b cpu=2 unschedulable\n\
        pod default/w-1 on a cpu=1 owner:ReplicaSet/w\npod default/w-2 on a cpu=1 owner:ReplicaSet/w";
    let mut changed = changed(inventory(text::world(world)), &[remove("a")]);
    assert!(changed.outcome.unplaced.iter().all(|pod| pod.repairs.is_empty()));
    changed.find_repairs(5);
    let repairs = |i: usize| changed.outcome.unplaced[i].repairs.iter().map(|r| r.changes[0].to_string());
    assert_eq!(repairs(0).collect::<Vec<_>>(), ["add a node like b", "uncordon b"]);
    assert_eq!(repairs(1).next(), None);
}

#[test]
fn pods_of_a_group_that_is_evicted_as_a_whole_are_one_unit() {
    let node = |name: &str, disk: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{disk: {disk}}}}}, status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 110}}}}}}\n"
        )
    };
    let term = r#"{"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}}"#;
    let pod = |name: &str, node: &str, annotations: String| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default{annotations}}}, spec: {{nodeName: {node}, schedulingGroup: {{podGroupName: gang}}, containers: [{{name: c, image: i}}]}}, status: {{phase: Running}}}}\n"
        )
    };
    let group = "---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: gang, namespace: default}, spec: {schedulingPolicy: {gang: {minCount: 2}}, disruptionMode: MODE}}\n";
    let run = |mode: &str| {
        let rule = format!(", annotations: {{scheduling.berth.dev/affinity: '{term}'}}");
        let objects = node("a", "ssd")
            + &node("b", "hdd")
            + &node("c", "ssd")
            + &group.replace("MODE", mode)
            + &pod("g1", "a", rule)
            + &pod("g2", "b", String::new());
        let inventory = Inventory::from_text(&objects).expect("the manifest is valid");
        let label = Change::SetLabel { node: "a".to_owned(), key: "disk".to_owned(), value: None };
        changed(inventory, &[label]).outcome.evicted
    };
    let single = run("{single: {}}");
    assert_eq!(
        EvictedPod::units(&single).into_iter().map(EvictedPod::name_of_unit).collect::<Vec<_>>(),
        ["default/g1"]
    );
    let whole = run("{all: {}}");
    let names: Vec<_> = EvictedPod::units(&whole).into_iter().map(EvictedPod::name_of_unit).collect();
    assert_eq!(
        (names, whole[1].cause()),
        (vec!["pod group default/gang: g1, g2".to_owned()], "enforcer".to_owned())
    );
}
