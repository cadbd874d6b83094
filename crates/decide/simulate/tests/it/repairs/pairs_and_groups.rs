//! Pairs of changes, and repairs of groups.

use std::borrow::Cow;

use super::*;

#[test]
fn where_no_single_change_helps_the_cheapest_pair_does() {
    // A label and requests; a taint and a pod that moves; a rule and a node.
    let text = "node a cpu=2 disk=hdd\npod default/p cpu=4 select:disk=ssd";
    assert_eq!(
        repairs(text),
        "17 set the label disk=ssd on a + request 2 cpu instead of 4 in container c -> a\n"
    );
    let note = |text: &str| explained(text).2.without_single_repair;
    assert_eq!(note(text), Some("No single change lets the pod fit, several together do"));
    assert_eq!(note("node a disk=hdd\npod default/p select:disk=ssd"), None);
    assert_eq!(note("node a disk=ssd\npod default/p select:disk=ssd"), None);
    // Neither helps against the lack of a resource and a label.
    let neither = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 9}}}\n---\n\
        {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {disk: ssd}, containers: [{name: c, image: i, resources: \
        {requests: {example.com/gpu: 1}, limits: {example.com/gpu: 1}}}]}}\n";
    let inventory = Inventory::from_text(neither).expect("the text is well-formed");
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the pods are valid");
    let explained = simulation.explain("default", "p", None).expect("the pod exists");
    let note = explained.without_single_repair;
    assert_eq!(note, Some("No single change and no pair of changes lets the pod fit"));
    let text = "node a cpu=2 taint:x:NoSchedule disk=ssd\nnode b cpu=1
        pod default/x on a cpu=1 app=x owner:ReplicaSet/x\npod default/p cpu=2 select:disk=ssd";
    // Cheaper than: remove the taint of a, and move x to b.
    let expected = "16 set the label disk=ssd on b + request 1 cpu instead of 2 in container c -> b\n";
    assert_eq!(repairs(text), expected);
    let text =
        "node a cpu=2 zone=z1\npod default/x on a cpu=2 priority:9\npod default/p cpu=1 select:disk=ssd";
    assert!(
        repairs(text).contains("prefer instead of require spec.nodeSelector[disk] + add a node like a"),
        "{}",
        repairs(text)
    );
}

#[test]
fn pod_groups_have_repairs_after_which_all_members_are_placed() {
    let member = |i: usize| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: m{i}, labels: {{scheduling.x-k8s.io/pod-group: g}}}}, spec: {{containers: [{{name: c, image: i,
              resources: {{requests: {{cpu: 4}}}}}}]}}}}"
        )
    };
    let node = |name: &str, cpu: usize, taint: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}, spec: {{{taint}}},
              status: {{allocatable: {{cpu: {cpu}, pods: 9}}}}}}"
        )
    };
    let taint = "taints: [{key: x, effect: NoSchedule}]";
    let group = "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 3}}";
    let objects = [
        node("a", 5, ""),
        node("b", 4, taint),
        node("c", 4, taint),
        group.to_owned(),
        member(1),
        member(2),
        member(3),
    ];
    let inventory = Inventory::from_text(&objects.join("\n---\n")).expect("the text is well-formed");
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the objects are valid");
    let explained = simulation.explain("default", "m1", None).expect("the pod exists");
    assert_eq!(explained.explanation.outcome.node(), None, "it said that the pod is placed");
    let repairs: Vec<_> = explained.repairs.iter().map(ToString::to_string).collect();
    let taints = "remove the taint x:NoSchedule of b, and remove the taint x:NoSchedule of c";
    assert!(repairs.iter().any(|repair| repair == taints), "{repairs:?}");
    let tolerate = explained.repairs.iter().find(|r| matches!(r.changes[0], Change::Tolerate { .. }));
    assert_eq!(
        tolerate.map(|repair| repair.commands.len()),
        Some(3),
        "one command for each member: {repairs:?}"
    );
}

#[test]
fn the_members_of_a_gang_were_told_to_request_what_the_last_of_them_could_have() {
    let mut text = String::from(
        "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: default}, spec: {schedulingPolicy: \
         {gang: {minCount: 4}}}}\n",
    );
    for i in 0..2 {
        text += &format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}}}, status: {{allocatable: {{cpu: 8, pods: 9, example.com/gpu: 8}}}}}}\n"
        );
    }
    for i in 0..4 {
        text += &format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: m{i}}}, spec: {{schedulingGroup: {{podGroupName: g}}, containers: [{{name: c, \
             image: i, resources: {{requests: {{cpu: 1}}, limits: {{example.com/gpu: 7}}}}}}]}}}}\n"
        );
    }
    let inventory = Inventory::from_text(&text).expect("the text is well-formed");
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the objects are valid");
    let repairs = simulation.explain("default", "m0", None).expect("the pod exists").repairs;
    let less = "request 4 example.com/gpu instead of 7 in container c";
    assert_eq!((repairs[0].to_string().as_str(), repairs[0].commands.len()), (less, 4), "{repairs:?}");
    assert_eq!(repairs[0].fits.map(|fits| fits.to_string()).as_deref(), Some("all 4 pods fit"));
}

#[test]
fn a_group_that_is_disrupted_as_a_whole_stays_and_the_reason_is_given() {
    let node = |name: &str, disk: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{disk: {disk}}}}}, status: {{allocatable: {{cpu: 2, pods: 9}}}}}}"
        )
    };
    let pod = |name: &str, cpu: usize, spec: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, ownerReferences: [{{apiVersion: apps/v1, kind: ReplicaSet, \
             name: r, uid: r, controller: true}}]}}, spec: {{{spec}, containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}"
        )
    };
    let group = "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: default}, \
        spec: {schedulingPolicy: {gang: {minCount: 1}}, disruptionMode: MODE}}";
    let planned = |mode: &str| {
        let objects = [
            node("a", "ssd"),
            node("b", "hdd"),
            group.replace("MODE", mode),
            pod("x", 1, "nodeName: a, schedulingGroup: {podGroupName: g}"),
            pod("p", 2, "nodeSelector: {disk: ssd}"),
        ];
        let inventory = Inventory::from_text(&objects.join("\n---\n")).expect("the text is well-formed");
        let mut simulation = Simulation::as_is(Cow::Owned(inventory), SimulationOptions::default())
            .expect("the objects are valid");
        let plan = simulation.rebalance(&Request::new(vec![Goal::Defragment], Timestamp::MAX), None);
        let explained = simulation.explain("default", "p", None).expect("the pod exists");
        let moves = explained.repairs.iter().flat_map(|repair| &repair.changes);
        let n_moves = moves.filter(|change| matches!(change, Change::Move { .. })).count();
        assert_eq!(plan.moves.len(), n_moves, "the repair is the plan");
        let reasons = plan.immovable.into_iter().map(|pod| format!("{}: {}", pod.name, pod.reason));
        (n_moves, reasons.collect::<Vec<_>>())
    };
    assert_eq!(planned("{single: {}}"), (1, Vec::new()));
    assert_eq!(planned("{all: {}}"), (0, vec!["x: its group is disrupted as a whole".to_owned()]));
}

#[test]
fn a_member_of_a_gang_is_not_planned_for_without_the_others() {
    let objects = "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 4, pods: 9}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b}, status: {allocatable: {cpu: 4, pods: 9}}}
---
{apiVersion: v1, kind: Node, metadata: {name: c}, status: {allocatable: {cpu: 2, pods: 9}}}
---
{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, namespace: default}, spec: {minMember: 2}}
";
    let pod = |name: &str, cpu: usize, node: &str, labels: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default, labels: {{{labels}}}, ownerReferences: [{{apiVersion: apps/v1, \
             kind: ReplicaSet, name: r, uid: r, controller: true}}]}}, spec: {{nodeName: {node}, containers: [{{name: c, image: i, resources: {{requests: \
             {{cpu: {cpu}}}}}}}]}}}}\n"
        )
    };
    let member = "scheduling.x-k8s.io/pod-group: g";
    let pods = [
        pod("x1", 1, "a", ""),
        pod("x2", 1, "b", ""),
        pod("m1", 4, "\"\"", member),
        pod("m2", 4, "\"\"", member),
    ];
    let inventory = Inventory::from_text(&(objects.to_owned() + &pods.concat())).expect("well-formed");
    let simulation = Simulation::as_is(Cow::Owned(inventory), SimulationOptions::default())
        .expect("the objects are valid");
    let member = simulation.pods().iter().position(|pod| pod.pod.metadata.name == "m1").expect("the member");
    let request = Request::new(vec![Goal::Defragment], Timestamp::MAX);
    let plan = simulation.rebalance(&request, Some(&[member]));
    assert_eq!((plan.moves.len(), plan.placed.len()), (2, 2), "{plan:?}");
}
