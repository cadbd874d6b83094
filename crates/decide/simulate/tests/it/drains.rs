//! Drains and evictions under disruption budgets, and the state before as a baseline.

use berth_api::object::NamespacedName;
use berth_simulate::SimulationOptions;
use berth_simulate::what_if::{Change, Changed, Counts, WhatIf, WhatIfOutcome};
use berth_testkit::text;
use jiff::Timestamp;

use crate::worlds::inventory;

fn changed(world: &str, changes: &[Change]) -> Changed {
    let inventory = inventory(text::world(world));
    let mut what_if = WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH)
        .expect("the objects are valid");
    for change in changes {
        what_if.apply(change).expect("the changed object exists");
    }
    what_if.run(|_, _| ()).expect("the objects are valid")
}

fn what_if(world: &str, changes: &[Change]) -> WhatIfOutcome {
    changed(world, changes).outcome
}

fn drain(node: &str) -> Change {
    Change::Drain(node.to_owned())
}

fn blocked(outcome: &WhatIfOutcome) -> Vec<String> {
    outcome.blocked.iter().map(|b| format!("{}/{} {}", b.namespace, b.name, b.message)).collect()
}

const PG: &str = "
    node a cpu=2
    node b cpu=2
    node c cpu=2
    pod default/pg-0 on a app=pg cpu=1 owner:StatefulSet/pg
    pod default/pg-1 on b app=pg cpu=1 owner:StatefulSet/pg
    pod default/web-1 on a app=web cpu=1 owner:ReplicaSet/web";

#[test]
fn evictions_that_a_budget_refuses_are_in_the_output() {
    let outcome = what_if(&format!("{PG}\n pdb default/pg app=pg allowed:0"), &[drain("a")]);
    assert_eq!(blocked(&outcome), ["default/pg-0 blocked by PodDisruptionBudget pg: 0 disruptions allowed"]);
    assert!(!outcome.is_harmless());
    // The other pods move, and the protected one stays.
    assert_eq!((outcome.moved.len(), outcome.n_unmoved), (1, 2));
    let json = serde_json::to_value(&outcome.blocked).expect("an outcome is data");
    assert_eq!(json, serde_json::json!([{"namespace": "default", "name": "pg-0", "budget": "pg"}]));
    let evicted = what_if(
        &format!("{PG}\n pdb default/pg app=pg allowed:0"),
        &[Change::Evict(NamespacedName::new("default", "pg-1"))],
    );
    assert_eq!(evicted.blocked.len(), 1);
}

#[test]
fn a_refused_eviction_is_tried_again_when_the_evicted_pod_runs_elsewhere() {
    let world = "
        node a cpu=4
        node b cpu=4
        pod default/pg-0 on a app=pg cpu=1 owner:StatefulSet/pg
        pod default/pg-1 on a app=pg cpu=1 owner:StatefulSet/pg
        pod default/pg-2 on a app=pg cpu=1 owner:StatefulSet/pg
        pdb default/pg app=pg allowed:1";
    let outcome = what_if(world, &[drain("a")]);
    assert_eq!((blocked(&outcome), outcome.moved.len()), (vec![], 3));
    assert!(outcome.is_harmless());
    // Where the first one finds no node, the budget is used up.
    let outcome = what_if(&world.replace("node b cpu=4", "node b cpu=0"), &[drain("a")]);
    assert_eq!((outcome.blocked.len(), outcome.unplaced.len(), outcome.n_unmoved), (2, 1, 2));
}

#[test]
fn a_budget_without_a_status_is_counted_from_its_pods() {
    use berth_input::inventory::Inventory;
    let text = |budget: &str, conditions: &str| {
        let pod = |i: usize| {
            format!(
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: pg-{i}, labels: {{app: pg}}, ownerReferences: [{{apiVersion: apps/v1, kind: \
                 StatefulSet, name: pg, uid: u, controller: true}}]}}, spec: {{nodeName: n{i}, containers: [{{name: c, image: i}}]}}, status: \
                 {{phase: Running, conditions: [{conditions}]}}}}\n---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}, status: \
                 {{allocatable: {{pods: 1}}}}}}\n"
            )
        };
        format!(
            "{{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {{name: pg}}, spec: {{{budget}, selector: {{matchLabels: {{app: \
             pg}}}}}}}}\n{}{}",
            pod(0),
            pod(1)
        )
    };
    let drained = |budget: &str, conditions: &str| {
        let inventory = Inventory::from_text(&text(budget, conditions)).expect("well-formed");
        let mut what_if =
            WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH).unwrap();
        what_if.apply(&drain("n0")).expect("the node exists");
        what_if.run(|_, _| ()).expect("valid").outcome.blocked.len()
    };
    for (budget, n_blocked) in [
        ("minAvailable: 2", 1),
        ("minAvailable: 1", 0),
        ("maxUnavailable: 0", 1),
        ("maxUnavailable: '50%'", 0),
    ] {
        assert_eq!(drained(budget, ""), n_blocked, "{budget}");
    }
    // Pods that are not ready are healthy for no budget; they may go only if enough others are healthy, or with AlwaysAllow.
    let unready = "{type: Ready, status: 'False'}";
    assert_eq!(drained("minAvailable: 1", unready), 1);
    assert_eq!(drained("minAvailable: 0", unready), 1, "a budget that wants no healthy pod is not met");
    assert_eq!(drained("minAvailable: 1, unhealthyPodEvictionPolicy: AlwaysAllow", unready), 0);
}

#[test]
fn the_eviction_of_a_daemon_pod_asked_no_budget() {
    let world = "
        node a cpu=2
        pod default/ds-1 on a app=ds cpu=1 owner:DaemonSet/ds
        pdb default/ds app=ds allowed:0";
    let evict = [Change::Evict(NamespacedName::new("default", "ds-1"))];
    assert_eq!(blocked(&what_if(world, &evict)).len(), 1);
    let outcome = what_if(&world.replace("allowed:0", "allowed:1"), &evict);
    assert_eq!((blocked(&outcome).len(), outcome.n_unmoved), (0, 1));
    assert!(what_if(world, &[drain("a")]).is_harmless(), "a drain leaves pods of DaemonSets out");
}

#[test]
fn a_budget_that_allows_nothing_did_not_name_the_pods_that_are_not_ready() {
    let pod = |name: &str, ready: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: pg}}, ownerReferences: [{{apiVersion: apps/v1, kind: \
             StatefulSet, name: pg, uid: u, controller: true}}]}}, spec: {{nodeName: node, containers: [{{name: c, image: i}}]}}, status: {{phase: \
             Running, conditions: [{{type: Ready, status: '{ready}'}}]}}}}\n"
        )
    };
    let text = "{apiVersion: v1, kind: Node, metadata: {name: node}, status: {allocatable: {pods: 9}}}\n---\n\
                {apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: pg}, spec: {minAvailable: 2, selector: {matchLabels: {app: pg}}}}\n"
        .to_owned()
        + &pod("pg-0", "True")
        + &pod("pg-1", "False");
    let inventory = berth_input::inventory::Inventory::from_text(&text).expect("well-formed");
    let mut what_if =
        WhatIf::new(inventory, SimulationOptions::default(), Timestamp::UNIX_EPOCH).expect("valid");
    what_if.apply(&drain("node")).expect("the node exists");
    let messages = blocked(&what_if.run(|_, _| ()).expect("valid").outcome);
    let zero = "blocked by PodDisruptionBudget pg: 0 disruptions allowed, 1 pod not ready: pg-1";
    let hint = "; with unhealthyPodEvictionPolicy: AlwaysAllow, pods that are not ready may be evicted";
    assert_eq!(messages, [format!("default/pg-0 {zero}"), format!("default/pg-1 {zero}{hint}")]);
}

#[test]
fn a_node_that_is_removed_asks_no_budget() {
    let world = format!("{PG}\n pdb default/pg app=pg allowed:0");
    let outcome = what_if(&world, &[Change::RemoveNode("a".to_owned())]);
    assert_eq!((outcome.blocked.len(), outcome.moved.len()), (0, 2));
}

#[test]
fn pods_that_were_pending_before_are_not_the_effect_of_a_drain() {
    let world = "
        node a cpu=2
        node b cpu=2
        pod default/web-1 on a cpu=1 owner:ReplicaSet/web
        pod default/big-1 cpu=9 owner:ReplicaSet/big
        pod default/big-2 cpu=9 owner:ReplicaSet/big";
    let outcome = what_if(world, &[drain("a")]);
    assert_eq!(outcome.summary.unplaced, Counts { before: 2, after: 2, new: 0 });
    assert!(outcome.unplaced.iter().all(|pod| pod.before));
    assert!(outcome.is_harmless() && !outcome.is_perfect());
    let outcome = what_if(world, &[drain("a"), drain("b")]);
    assert_eq!(outcome.summary.unplaced, Counts { before: 2, after: 3, new: 1 });
    assert!(!outcome.is_harmless());
    let json = serde_json::to_value(&outcome).expect("an outcome is data");
    let before: Vec<_> = (0..3).map(|i| json["unplaced"][i]["before"].clone()).collect();
    assert_eq!(before, [true, true, false]);
    // A change that helps shows in the numbers as well.
    let outcome =
        what_if(&world.replace("cpu=9", "cpu=2"), &[Change::AddNodes { n_nodes: 1, like: "b".to_owned() }]);
    assert_eq!(outcome.summary.unplaced, Counts { before: 2, after: 0, new: 0 });
}

#[test]
fn rules_that_were_broken_before_are_named_as_such() {
    let world = "
        node a disk=ssd
        node b
        pod default/old on b node(disk=ssd) owner:ReplicaSet/old
        pod default/new on a node(disk=ssd) owner:ReplicaSet/new";
    let label = Change::SetLabel { node: "a".to_owned(), key: "disk".to_owned(), value: None };
    let outcome = what_if(world, &[label]);
    let broken: Vec<_> = outcome.broken_rules.iter().map(|pod| (pod.name.as_str(), pod.before)).collect();
    assert_eq!(broken, [("new", false), ("old", true)]);
    assert_eq!(outcome.summary.broken_rules, Counts { before: 1, after: 2, new: 1 });
}

#[test]
fn each_domain_is_lost_on_top_of_the_baseline() {
    let world = "
        node a zone=z1 cpu=2
        node b zone=z2 cpu=2
        pod default/web-1 on a cpu=1 owner:ReplicaSet/web
        pod default/big-1 cpu=9 owner:ReplicaSet/big";
    let mut changed = changed(world, &[]);
    let losses = changed.lose_each_domain("topology.kubernetes.io/zone", |_, _| ());
    assert!(losses.is_harmless() && !losses.is_perfect(), "{losses:?}");
    assert_eq!(losses.changes.summary.unplaced, Counts { before: 1, after: 1, new: 0 });
    let json = serde_json::to_value(&losses).expect("losses are data");
    assert_eq!(json["changes"]["unplaced"][0]["before"], true);
}

#[test]
fn an_uncordoned_node_takes_pods_again() {
    let world = "node a unschedulable\n pod default/web-1 owner:ReplicaSet/web";
    assert_eq!(what_if(world, &[]).unplaced.len(), 1);
    assert_eq!(what_if(world, &[Change::Uncordon("a".to_owned())]).moved.len(), 1);
}
