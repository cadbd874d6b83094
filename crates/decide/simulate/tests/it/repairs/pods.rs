//! Changes of the pending pod and of its workload, and moved pods.

use berth_api::syntax::shell::Command;

use super::*;

#[test]
fn as_few_pods_as_possible_move_to_nodes_where_they_fit() {
    let text = "node a cpu=4 pods=9\nnode b cpu=2 pods=9\nnode c cpu=1 pods=9
        pod default/s1 on a cpu=1 owner:ReplicaSet/s\npod default/s2 on a cpu=1 owner:ReplicaSet/s
        pod default/m on a cpu=2 owner:ReplicaSet/m\npod default/x on b cpu=1
        pod default/p cpu=2";
    assert!(
        repairs(text).contains("20 move default/s1 from a to b + move default/s2 from a to c -> a\n"),
        "{}",
        repairs(text)
    );
    // Pods without a controller stay, and as many pods as the budget demands.
    let text = "node a cpu=2\nnode b cpu=1
        pod default/x on a cpu=1 app=x owner:ReplicaSet/x\npod default/y on a cpu=1
        pdb default/x app=x
        pod default/p cpu=1";
    assert!(!repairs(text).contains("move"), "{}", repairs(text));
    // Anti-affinity over several nodes of a zone, and the matching pod that is needed.
    let text = "node a zone=z1\nnode b zone=z1\nnode c zone=z2 cpu=1
        pod default/x on b app=x cpu=1 owner:ReplicaSet/x\npod default/p cpu=2 anti(app=x @zone)";
    assert!(repairs(text).contains("10 move default/x from b to c -> a\n"), "{}", repairs(text));
    let text = "node a zone=z1\nnode b zone=z2 cpu=1
        pod default/x on b app=x cpu=1 owner:ReplicaSet/x\npod default/p cpu=2 aff(app=x @zone)";
    assert!(repairs(text).contains("10 move default/x from b to a -> a\n"), "{}", repairs(text));
}

#[test]
fn rules_are_relaxed_and_requests_lowered_only_as_far_as_needed() {
    let text = "node a zone=z1 disk=hdd cpu=2 taint:x=y:NoSchedule
        pod default/p cpu=1 select:disk=ssd node(tier=gold) anti(app=x @zone) spread(1 app=p @zone)";
    let expected = "60 prefer instead of require spec.nodeSelector[disk] + prefer instead of require \
                    spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution + tolerate the taint \
                    x=y:NoSchedule -> a";
    assert!(repairs(text).contains(expected), "{}", repairs(text));
    let text = "node a cpu=3\nnode b cpu=8\npod default/x on b cpu=4500m\npod default/p cpu=4";
    let expected = "15 request 3500m cpu instead of 4 in container c -> b\n";
    assert!(repairs(text).contains(expected), "{}", repairs(text));
    let text = "node a cpu=1\npod default/x on a port:80\npod default/p port:80";
    assert!(repairs(text).contains("20 do not request the host port 80 -> a\n"), "{}", repairs(text));
}

#[test]
fn a_term_of_the_proposals_keeps_its_meaning_as_a_preferred_term_of_v1() {
    let patch = |term: &str| {
        let (_, _, explained) = explained(&format!("node a zone=z1\npod default/p rdrd-aff({term})"));
        let relaxed =
            explained.repairs.iter().find(|repair| matches!(repair.changes[..], [Change::Relax { .. }]));
        serde_json::to_string(&relaxed.expect("the term can be relaxed").patch).expect("a patch")
    };
    assert!(
        patch("app=x ns= @zone").contains("podAffinityTerm/namespaceSelector"),
        "{}",
        patch("app=x ns= @zone")
    );
    assert!(!patch("app=x @zone").contains("namespace"));
    // v1 has no term over all topologies: the term is left out.
    assert!(!patch("app=x @*").contains("podAffinityTerm"), "{}", patch("app=x @*"));
}

#[test]
fn a_change_of_the_pending_workload_comes_before_one_of_nodes_and_says_what_it_restarts() {
    let owned = "owner:StatefulSet/web cpu=1 select:disk=ssd";
    let text = format!(
        "node a disk=ssd cpu=2 pods=9\nnode b taint:x:NoSchedule disk=ssd\nnode c\npod default/web-0 on a {owned}
         pod default/web-1 on a {owned}\npod default/web-2 {owned}"
    );
    let (_, _, explained) = explained(&text);
    let repairs: Vec<_> = explained.repairs.iter().map(ToString::to_string).collect();
    let expected = [
        "request 666m cpu instead of 1 in container c (restarts 2 running pods)",
        "prefer instead of require spec.nodeSelector[disk] (restarts 2 running pods)",
        "add a node like a",
        "tolerate the taint x:NoSchedule (restarts 2 running pods)",
        "remove the taint x:NoSchedule of b",
    ];
    assert_eq!(repairs, expected);
    let (added, relaxed) = (explained.repairs.get(2), explained.repairs.get(1));
    let commands =
        |repair: Option<&Repair>| repair.map(|repair| Command::lines(&repair.commands)).unwrap_or_default();
    assert!(commands(added).contains("kubectl apply -f -"), "{}", commands(added));
    // A StatefulSet does not replace a pending pod of an earlier template.
    assert!(commands(relaxed).ends_with("kubectl delete pod -n default web-2"), "{}", commands(relaxed));
}

/// The repairs of the pending pod of a workload with three pods, each with the number of pods that fit then.
fn repairs_for_all(text: &str) -> Vec<String> {
    let (_, _, explained) = explained(text);
    let line = |repair: &Repair| format!("{repair} -> {}", repair.result());
    explained.repairs.iter().map(line).collect()
}

#[test]
fn a_repair_was_verified_for_one_pod_of_its_workload() {
    // One pod of 4 fits, all of 2 do.
    let nodes = "node a cpu=4\nnode b cpu=2\nnode c cpu=2\n";
    let pods: String = (0..3).map(|i| format!("pod default/p{i} cpu=5 owner:ReplicaSet/p\n")).collect();
    assert_eq!(
        repairs_for_all(&(nodes.to_owned() + &pods)),
        ["request 2 cpu instead of 5 in container c -> b; all 3 pods fit"]
    );
    // Beside running pods of its own workload, one more fits with 1; with 2, all of them do.
    let nodes = "node a cpu=4\nnode b cpu=4\n";
    let running =
        "pod default/p3 on a cpu=3 owner:ReplicaSet/p\npod default/p4 on b cpu=3 owner:ReplicaSet/p\n";
    let pending = "pod default/p5 cpu=3 owner:ReplicaSet/p\n";
    let repairs = repairs_for_all(&(nodes.to_owned() + running + pending));
    assert!(repairs[0].starts_with("request 2 cpu instead of 3 in container c"), "{repairs:?}");
    // Two pods fit on the new node, none on another.
    let nodes = "node a cpu=10 zone=z1\n";
    let running = "pod default/x on a cpu=9 priority:9 owner:DaemonSet/x\n";
    let repairs = repairs_for_all(&(nodes.to_owned() + running + &pods));
    assert_eq!(
        repairs,
        [
            "request 333m cpu instead of 5 in container c -> a; all 3 pods fit",
            "add a node like a -> new-node; 2 of 3 pods fit then"
        ]
    );
}

/// The first repair of a workload of which three pods run and two are pending.
fn repair_of_workload(kind: &str, owner: &str, more: &str) -> Repair {
    let template = "{metadata: {labels: {app: w}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}}";
    let workload = format!(
        "{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: w}}, spec: \
         {{replicas: 5, selector: {{matchLabels: {{app: w}}}}, template: {template}{more}}}}}"
    );
    let pod = |i: usize, on: &str| {
        format!("pod default/w-{i} {on} cpu=3 app=w pod-template-hash=x owner:{owner}\n")
    };
    let running: String = ["a", "b", "c"].iter().zip(0..).map(|(n, i)| pod(i, &format!("on {n}"))).collect();
    let text = "node a cpu=4\nnode b cpu=4\nnode c cpu=4\n".to_owned() + &running + &pod(3, "") + &pod(4, "");
    let (_, _, explained) =
        explained_of(&text, Inventory::from_text(&workload).expect("the text is well-formed"));
    explained.repairs.into_iter().next().expect("the pods fit with less")
}

#[test]
fn a_pending_pod_was_deleted_that_its_controller_replaces() {
    let deletes = |more: &str| {
        let more = format!(", serviceName: w, podManagementPolicy: Parallel{more}");
        let repair = repair_of_workload("StatefulSet", "StatefulSet/w", &more);
        Command::lines(&repair.commands).contains("kubectl delete pod")
    };
    assert!(!deletes(""));
    assert!(deletes(", updateStrategy: {type: OnDelete}"));
}

#[test]
fn a_repair_of_running_pods_was_verified_without_their_rolling_update() {
    let repairs = |kind: &str, owner: &str, more: &str| {
        let repair = repair_of_workload(kind, owner, more);
        format!("{} -> {}", repair.changes[0], repair.result())
    };
    // With 2, no new pod fits beside the old ones, and a rolling update stops none of them: three of five run, and four have to.
    let beside = "request 1 cpu instead of 3 in container c -> a; all 5 pods fit";
    assert_eq!(repairs("Deployment", "ReplicaSet/w-x", ""), beside);
    // A StatefulSet stops none before its last pod runs.
    assert_eq!(
        repairs("StatefulSet", "StatefulSet/w", ", serviceName: w, podManagementPolicy: Parallel"),
        beside
    );
    // All old pods stop first.
    let recreate = repairs("Deployment", "ReplicaSet/w-x", ", strategy: {type: Recreate}");
    assert_eq!(recreate, "request 2 cpu instead of 3 in container c -> a; all 5 pods fit");
    // Who deletes the pods decides when.
    let on_delete = ", serviceName: w, podManagementPolicy: Parallel, updateStrategy: {type: OnDelete}";
    assert!(repairs("StatefulSet", "StatefulSet/w", on_delete).starts_with("request 2 cpu"));
}

#[test]
fn anti_affinity_of_pods_of_one_workload_was_not_relaxed_for_all_of_them() {
    let pod =
        |i: usize, on: &str| format!("pod default/p{i} {on} app=p anti(app=p @host) owner:ReplicaSet/p\n");
    let text = "node a host=a\nnode b host=b\n".to_owned() + &pod(1, "on a") + &pod(2, "on b") + &pod(3, "");
    let repairs = repairs_for_all(&text);
    assert!(repairs[0].starts_with("prefer instead of require spec.affinity.podAntiAffinity"), "{repairs:?}");
    assert!(repairs[0].ends_with("all 3 pods fit"), "{repairs:?}");
}

#[test]
fn a_spread_constraint_was_repaired_by_tolerating_the_taint_of_the_control_plane() {
    let text = "node cp taint:node-role.kubernetes.io/control-plane:NoSchedule\nnode w1\nnode w2\n";
    let pod = |i: usize, on: &str| {
        format!("pod default/p{i}{on} app=x spread(1 app=x @hostname) owner:ReplicaSet/p\n")
    };
    let pods = pod(0, " on w1") + &pod(1, " on w2") + &pod(2, "");
    let (_, pod, explained) = explained(&(text.to_owned() + &pods));
    let repairs: Vec<_> = explained.repairs.iter().map(|repair| repair.changes[0].clone()).collect();
    let spread = || "spec.topologySpreadConstraints[0]".to_owned();
    assert_eq!(
        repairs[..2],
        [Change::HonorTaints { term: spread() }, Change::Relax { term: spread(), policy: None }],
        "{repairs:?}"
    );
    assert!(
        matches!(repairs[2..], [Change::AddNode { .. }, Change::Tolerate { .. }, Change::RemoveTaint { .. }]),
        "{repairs:?}"
    );
    let mut object = serde_json::to_value(&pod).expect("an object");
    let patch = serde_json::Value::from(explained.repairs[0].patch.clone());
    let patch: json_patch::Patch = serde_json::from_value(patch).expect("a patch");
    json_patch::patch(&mut object, &patch).expect("it applies");
    assert_eq!(object["spec"]["topologySpreadConstraints"][0]["nodeTaintsPolicy"], "Honor");
}

#[test]
fn a_rule_that_a_policy_added_is_repaired_at_the_policy() {
    let text = "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {kubernetes.io/hostname: a}}, status: {allocatable: {cpu: 9, pods: 9}}}
---
{apiVersion: scheduling.berth.dev/v1alpha1, kind: PlacementPolicy, metadata: {name: pool, namespace: default}, spec: {affinity:
  {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [
  {key: pool, operator: In, values: [batch]}]}]}}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: web}}, template:
  {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}";
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the objects are valid");
    let name = simulation.pods()[0].pod.metadata.name.clone();
    let explained = simulation.explain("default", &name, None).expect("the pod exists");
    let is_of_policy =
        |repair: &&Repair| matches!(repair.changes[..], [Change::Relax { policy: Some(_), .. }]);
    let repair = explained.repairs.iter().find(is_of_policy).expect("the rule can be relaxed");
    let [patch, delete] = repair.commands.as_slice() else { panic!("{:?}", repair.commands) };
    assert!(
        patch.to_string().starts_with("kubectl patch -n default placementpolicies pool --type=json"),
        "{patch}"
    );
    assert_eq!(delete.to_string(), format!("kubectl delete pod -n default {name}"));
    assert!(repair.restarts == 0 && repair.blast_radius == Reach::Policy);
}

#[test]
fn what_a_runtime_class_adds_to_the_pod_is_not_relaxed_in_the_workload() {
    let text = "{apiVersion: v1, kind: Node, metadata: {name: a, labels: {kubernetes.io/hostname: a}}, status: {allocatable: {cpu: 9, pods: 9}}}
---
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: kata}, handler: kata, scheduling: {nodeSelector: {runtime: kata}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 1, selector: {matchLabels: {app: web}}, template:
  {metadata: {labels: {app: web}}, spec: {runtimeClassName: kata, containers: [{name: c, image: i}]}}}}";
    let inventory = Inventory::from_text(text).expect("the text is well-formed");
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the objects are valid");
    let name = simulation.pods()[0].pod.metadata.name.clone();
    let explained = simulation.explain("default", &name, None).expect("the pod exists");
    let changes: Vec<_> = explained.repairs.iter().flat_map(|repair| &repair.changes).collect();
    let is_relaxed = |change: &&&Change| matches!(change, Change::Relax { .. });
    assert!(changes.iter().any(|change| matches!(change, Change::SetLabel { .. })), "{changes:?}");
    assert!(changes.iter().find(is_relaxed).is_none(), "{changes:?}");
}

#[test]
fn a_change_that_breaks_a_rule_of_a_running_pod_is_no_repair() {
    let text = "node a disk=ssd\npod default/x on a rdrd-node(disk=ssd)\npod default/p node(disk=hdd)";
    assert!(!repairs(text).contains("set the label"), "{}", repairs(text));
}
