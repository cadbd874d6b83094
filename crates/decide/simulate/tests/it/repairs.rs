//! Repairs: the cheapest of each kind, verified by the naive evaluator.

use std::collections::BTreeMap;

use berth_api::config::SchedulerConfig;
use berth_api::inventory::Inventory;
use berth_api::object::{Node, Pod, Taint};
use berth_api::syntax::quantity::Quantity;
use berth_api::work::WorkBudget;
use berth_engine::{Explanation, TopologyPair};
use berth_simulate::{Change, PodExplanation, Reach, Repair, Simulation, SimulationOptions};
use berth_testkit::generate::Random;
use berth_testkit::naive::{self, NodeResult, Options, World};
use berth_testkit::text;

use crate::worlds::{entries, start};

/// Explains the last pod of the text. The world has the pods as admitted.
fn explained(text: &str) -> (World, Pod, PodExplanation) {
    let mut world = text::world(text);
    world.pods.iter_mut().for_each(start);
    let name = world.pods.last().expect("a pod is pending").metadata.clone();
    let mut inventory = Inventory::default();
    inventory.nodes = entries(world.nodes.clone());
    inventory.pods = entries(world.pods.clone());
    inventory.pod_disruption_budgets = entries(world.budgets.clone());
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the pods are valid");
    simulation.disable_preemption();
    let explained = simulation.explain(&name.namespace, &name.name, None).expect("the pod exists");
    world.pods = simulation.pods().iter().map(|p| p.pod.clone()).collect();
    let pod = world.pods.pop().expect("the pod");
    (world, pod, explained)
}

/// The repairs of the last pod of the text, one a line: cost, changes, node.
fn repairs(text: &str) -> String {
    let (world, pod, explained) = explained(text);
    let line = |repair: &Repair| {
        assert_works(&world, &pod, repair);
        let changes: Vec<_> = repair.changes.iter().map(ToString::to_string).collect();
        format!("{} {} -> {}\n", repair.cost, changes.join(" + "), repair.node)
    };
    explained.repairs.iter().map(line).collect()
}

#[test]
fn a_node_is_uncordoned_untainted_and_labelled_at_the_lowest_cost() {
    let text = "node a unschedulable taint:dedicated=db:NoSchedule
        node b disk=hdd
        node c -hostname
        pod default/p select:disk=ssd";
    assert!(
        repairs(text).lines().any(|line| line == "1 set the label disk=ssd on c -> c"),
        "{}",
        repairs(text)
    );
    let text = "node a unschedulable taint:node.kubernetes.io/unschedulable:NoSchedule
        node b taint:dedicated=db:NoSchedule taint:x:NoExecute
        pod default/p";
    assert!(repairs(text).lines().any(|line| line == "1 uncordon a -> a"), "{}", repairs(text));
    // A label that is there costs more, and those that say what a node is are not changed.
    let text = "node a disk=hdd
        node b zone=z2 tier=gold
        pod default/p node(disk=ssd | zone=z1,z9 tier=gold)";
    assert!(
        repairs(text).lines().any(|line| line == "1 set the label disk=ssd on b -> b"),
        "{}",
        repairs(text)
    );
    let text = "node a gen=3\npod default/p node(gen>4)";
    assert!(repairs(text).lines().any(|line| line == "2 set the label gen=5 on a -> a"), "{}", repairs(text));
    let text = "node a taint:node.kubernetes.io/memory-pressure:NoSchedule\npod default/p";
    assert_eq!(repairs(text), "100 add a node like a -> new-node\n");
}

#[test]
fn a_missing_topology_label_is_set() {
    let text = "node a\nnode b zone=z1 cpu=1\npod default/x on b app=x\npod default/p cpu=2 aff(app=x @zone)";
    let first = "1 set the label topology.kubernetes.io/zone=z1 on a -> a";
    assert!(repairs(text).lines().any(|line| line == first), "{}", repairs(text));
}

#[test]
fn as_few_pods_as_possible_move_to_nodes_where_they_fit() {
    let text = "node a cpu=4 pods=9\nnode b cpu=2 pods=9\nnode c cpu=1 pods=9
        pod default/s1 on a cpu=1\npod default/s2 on a cpu=1\npod default/m on a cpu=2
        pod default/p cpu=2";
    assert!(repairs(text).starts_with("10 move default/m from a to b -> a\n") || repairs(text).is_empty());
    // Pods of higher priority stay, and as many pods as the budget demands.
    let text = "node a cpu=2\nnode b cpu=1
        pod default/x on a cpu=1 app=x\npod default/y on a cpu=1 priority:5
        pdb default/x app=x
        pod default/p cpu=2";
    assert!(!repairs(text).contains("move"), "{}", repairs(text));
    // Anti-affinity over several nodes of a zone, and the matching pod that is needed.
    let text = "node a zone=z1\nnode b zone=z1\nnode c zone=z2 cpu=1
        pod default/x on b app=x cpu=1\npod default/p cpu=2 anti(app=x @zone)";
    assert!(repairs(text).contains("10 move default/x from b to c -> a\n"), "{}", repairs(text));
    let text = "node a zone=z1\nnode b zone=z2 cpu=1
        pod default/x on b app=x cpu=1\npod default/p cpu=2 aff(app=x @zone)";
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
fn a_node_or_a_replica_is_added_where_that_helps() {
    let text = "node a zone=z1 cpu=2\nnode b zone=z1 cpu=8\npod default/x on b cpu=8 app=x
        pod default/p cpu=4 anti(app=x @zone)";
    let expected =
        "100 add a node like b, with a new value of the label topology.kubernetes.io/zone -> new-node\n";
    assert!(repairs(text).contains(expected), "{}", repairs(text));
    let text = "node a zone=z1 cpu=2\nnode b zone=z2 cpu=1
        pod default/x on b cpu=1 app=x owner:StatefulSet/x\npod default/p cpu=1 aff(app=x @zone)";
    assert!(repairs(text).contains("5 scale StatefulSet x in default to 2 -> a\n"), "{}", repairs(text));
    let text = "node a\npod default/p gate:x";
    assert_eq!(repairs(text), "1 remove the scheduling gates x -> a\n");
}

#[test]
fn where_no_single_change_helps_the_cheapest_pair_does() {
    // A label and requests; a taint and a pod that moves; a rule and a node.
    let text = "node a cpu=2 disk=hdd\npod default/p cpu=4 select:disk=ssd";
    assert_eq!(
        repairs(text),
        "17 set the label disk=ssd on a + request 2 cpu instead of 4 in container c -> a\n"
    );
    let text = "node a cpu=2 taint:x:NoSchedule disk=ssd\nnode b cpu=1
        pod default/x on a cpu=1 app=x\npod default/p cpu=2 select:disk=ssd";
    let expected = "11 remove the taint x:NoSchedule of a + move default/x from a to b -> a\n";
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
fn a_change_of_the_pending_workload_comes_before_one_of_nodes_and_says_what_it_restarts() {
    let owned = "owner:StatefulSet/web cpu=1 select:disk=ssd";
    let text = format!(
        "node a disk=ssd cpu=2 pods=9\nnode b taint:x:NoSchedule disk=ssd\nnode c\npod default/web-0 on a {owned}
         pod default/web-1 on a {owned}\npod default/web-2 {owned}"
    );
    let (_, _, explained) = explained(&text);
    let repairs: Vec<_> = explained.repairs.iter().map(ToString::to_string).collect();
    let [first, .., last] = repairs.as_slice() else { panic!("{repairs:?}") };
    assert!(first.ends_with("(restarts 2 running pods)"), "{repairs:?}");
    assert!(last.starts_with("add a node"), "{repairs:?}");
    assert!(repairs.iter().any(|repair| repair == "remove the taint x:NoSchedule of b"), "{repairs:?}");
    let (added, relaxed) = (explained.repairs.last(), explained.repairs.first());
    let commands =
        |repair: Option<&Repair>| repair.map(|repair| repair.commands.join("\n")).unwrap_or_default();
    assert!(commands(added).contains("kubectl apply -f -"), "{}", commands(added));
    // A StatefulSet does not replace a pending pod of an earlier template.
    assert!(commands(relaxed).ends_with("kubectl delete pod -n default web-2"), "{}", commands(relaxed));
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
    assert!(patch.starts_with("kubectl patch -n default placementpolicies pool --type=json"), "{patch}");
    assert_eq!(*delete, format!("kubectl delete pod -n default {name}"));
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
fn a_change_that_breaks_a_rule_of_a_running_pod_is_no_repair() {
    let text = "node a disk=ssd\npod default/x on a rdrd-node(disk=ssd)\npod default/p node(disk=hdd)";
    assert!(!repairs(text).contains("set the label"), "{}", repairs(text));
}

#[test]
fn a_topology_label_gets_an_existing_value_if_one_helps() {
    let text = "node a\nnode b zone=z1 unschedulable\npod default/p spread(1 app=x @zone)";
    let first = repairs(text);
    assert!(first.contains("1 set the label topology.kubernetes.io/zone=z1 on a -> a"), "{first}");
}

#[test]
fn a_shape_of_a_node_has_the_labels_that_rules_read() {
    let nodes: String = (0..9).map(|i| format!("node n{i} cpu=1 serial={i}\n")).collect();
    let text = format!(
        "{nodes}node z cpu=1 disk=ssd\npod default/x on z cpu=1\npod default/p cpu=1 select:disk=ssd"
    );
    assert!(repairs(&text).contains("100 add a node like z -> new-node\n"), "{}", repairs(&text));
}

#[test]
fn the_document_describes_every_kind_of_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/json.md");
    let document = std::fs::read_to_string(path).expect("the document");
    let section = document.split("\n### Change\n").nth(1).expect("the section about changes");
    let section = section.split("\n### ").next().unwrap_or_default();
    let text = String::new;
    let changes = [
        Change::Uncordon { node: text() },
        Change::RemoveTaint { node: text(), taint: text() },
        Change::SetLabel { node: text(), key: text(), value: text() },
        Change::RemoveLabel { node: text(), key: text() },
        Change::Scale { namespace: text(), workload: text(), replicas: 1 },
        Change::Move { namespace: text(), name: text(), from: text(), to: text() },
        Change::RequestLess { container: text(), resource: text(), from: text(), to: text() },
        Change::Relax { term: text(), policy: Some(text()) },
        Change::StopOldPodsFirst { namespace: text(), workload: text() },
        Change::Tolerate { taint: text() },
        Change::FreeHostPort { port: 1 },
        Change::RemoveGates { gates: Vec::new() },
        Change::AddNode {
            like: text(),
            in_new_domain: vec![TopologyPair { key: text(), value: None }],
            pool: Some(TopologyPair { key: text(), value: None }),
        },
    ];
    for change in changes {
        let object = serde_json::to_value(&change).expect("an object");
        let kind = format!("`{}`", object["change"].as_str().expect("a kind"));
        assert!(section.contains(&kind), "{kind}");
        for field in object.as_object().expect("fields").keys() {
            let is_row =
                |line: &str| line.split('|').nth(1).is_some_and(|c| c.contains(&format!("`{field}`")));
            assert!(section.lines().any(is_row), "{kind}: {field}");
        }
    }
}

// Brute force on small clusters: every repair works, and there is none of the kind that costs less.

#[test]
fn no_cheaper_repair_of_a_kind_exists() {
    let (mut counts, mut n_pairs, mut wrong) = ([0; 4], 0, Vec::new());
    for seed in 0..500 {
        let text = random_cluster(&mut Random::new(seed));
        let (world, pod, explained) = explained(&text);
        if explained.explanation.outcome.node().is_some() {
            continue;
        }
        let mut check = |what: &str, fails: bool| {
            if fails {
                wrong.push(format!("seed {seed}: {what}\n{text}\n{:#?}", explained.repairs));
            }
        };
        for repair in &explained.repairs {
            assert_works(&world, &pod, repair);
        }
        // A pair of changes is there only where none of a single kind helps.
        let is_pair = |repair: &Repair| {
            let kind = |change: &Change| match change {
                change if is_of_node(change) => 0,
                Change::Move { .. } => 1,
                Change::Relax { .. } | Change::Tolerate { .. } | Change::FreeHostPort { .. } => 2,
                Change::RequestLess { .. } => 3,
                _ => 4,
            };
            repair.changes.iter().any(|change| kind(change) != kind(&repair.changes[0]))
        };
        let n_pairs_here = explained.repairs.iter().filter(|repair| is_pair(repair)).count();
        check("a pair beside others", n_pairs_here > 0 && explained.repairs.len() > 1);
        n_pairs += n_pairs_here;
        let single: Vec<_> = explained.repairs.iter().filter(|repair| !is_pair(repair)).collect();
        let cost = |is: fn(&Change) -> bool| single.iter().find(|r| is(&r.changes[0])).map(|r| r.cost);
        let node = cost(is_of_node);
        check("a cheaper change of a node", node_change_below(&world, &pod, node.unwrap_or(4).min(4)));
        let moves = cost(|c| matches!(c, Change::Move { .. }));
        check("fewer moves", moves_below(&world, &pod, moves.unwrap_or(30).min(30) / 10));
        let rules = cost(|c| {
            matches!(c, Change::Relax { .. } | Change::Tolerate { .. } | Change::FreeHostPort { .. })
        });
        check("fewer rules", relaxed_below(&world, &pod, rules.map_or(4, |cost| cost / 20)));
        let less = single.iter().find_map(|r| match &r.changes[0] {
            Change::RequestLess { to, .. } => Some(to),
            _ => None,
        });
        check("a larger request", request_above(&world, &pod, less.map(String::as_str)));
        check("another core", !is_core_minimal(&explained.explanation, explained.core.len()));
        for (count, found) in
            counts.iter_mut().zip([node.is_some(), moves.is_some(), rules.is_some(), less.is_some()])
        {
            *count += u32::from(found);
        }
    }
    wrong.truncate(5);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // The clusters have something to repair in every way.
    assert!(counts.iter().all(|n| *n > 10) && n_pairs > 0, "{counts:?} {n_pairs}");
}

fn random_cluster(random: &mut Random) -> String {
    let mut text = String::new();
    let nodes = ["a", "b", "c", "d"];
    let n_nodes = 2 + random.below(3);
    for node in &nodes[..n_nodes] {
        text += &format!("node {node} cpu={}", 2 + random.below(3));
        for (percent, words) in [
            (85, &["zone=z1", "zone=z2"][..]),
            (40, &["disk=ssd", "disk=hdd"]),
            (40, &["gen=1", "gen=2", "gen=3"]),
            (25, &["taint:x=1:NoSchedule", "taint:y:NoExecute"]),
            (15, &["unschedulable"]),
        ] {
            if random.chance(percent) {
                text += " ";
                text += &random.word(words);
            }
        }
        text += "\n";
    }
    for i in 0..4 + random.below(4) {
        text += &format!("pod default/r{i} on {}", random.word(&nodes[..n_nodes]));
        text += &rules(random, 12);
        text += "\n";
    }
    text + "pod default/p" + &rules(random, 40)
}

fn rules(random: &mut Random, percent: usize) -> String {
    let mut text =
        format!(" app={} cpu={}", random.word(&["x", "y"]), random.word(&["500m", "1", "1500m", "2", "3"]));
    for words in [
        &["anti(app=x @hostname)", "anti(app=y @zone)", "anti(app=x,y @zone)"][..],
        &["aff(app=x @zone)", "aff(app=y @hostname)"],
        &["select:disk=ssd", "select:disk=hdd"],
        &["node(gen>1)", "node(gen=3 | disk)", "node(!disk gen)", "node(disk!=hdd gen<3)"],
        &["spread(1 app=x @zone)", "spread(1 app=x,y @hostname)"],
        &["port:80"],
        &["tolerate:x"],
    ] {
        if random.chance(percent / 2) {
            text += " ";
            text += &random.word(words);
        }
    }
    text
}

fn feasible_on(world: &World, pod: &Pod) -> Vec<String> {
    let profile = &SchedulerConfig::default().profiles[0];
    let decision = naive::evaluate(world, pod, profile, &Options::default());
    let feasible = |(node, result): (String, NodeResult)| match result {
        NodeResult::Rejected(_) => None,
        _ => Some(node),
    };
    decision.nodes.into_iter().filter_map(feasible).collect()
}

/// Applies the changes to the objects; then the naive evaluator finds the pod's node feasible, and every moved pod's.
fn assert_works(world: &World, pod: &Pod, repair: &Repair) {
    let (mut world, mut pod) = (world.clone(), pod.clone());
    if !repair.patch.is_empty() {
        let patch: json_patch::Patch =
            serde_json::from_value(serde_json::Value::from(repair.patch.clone())).expect("a patch");
        let mut object = serde_json::to_value(&pod).expect("an object");
        json_patch::patch(&mut object, &patch).expect("it applies");
        pod = serde_json::from_value(object).expect("a pod");
    }
    for change in &repair.changes {
        match change {
            Change::Scale { workload, .. } => {
                let owner = workload.split_once(' ').expect("kind and name").1;
                let of = |p: &&Pod| p.metadata.owner_references.iter().any(|o| o.name == owner);
                let mut replica = world.pods.iter().find(of).expect("a replica").clone();
                replica.metadata.name += "-new";
                replica.spec.node_name = String::new();
                let profile = &SchedulerConfig::default().profiles[0];
                let chosen = naive::evaluate(&world, &replica, profile, &Options::default()).chosen;
                replica.spec.node_name = chosen.expect("the replica fits");
                world.pods.push(replica);
            }
            Change::Move { name, from, to, .. } => {
                let moved = world.pods.iter_mut().find(|p| p.metadata.name == *name).expect("the pod");
                assert_eq!(moved.spec.node_name, *from);
                moved.spec.node_name.clone_from(to);
            }
            Change::AddNode { like, in_new_domain, .. } => {
                let mut node = world.nodes.iter().find(|n| n.metadata.name == *like).expect("a node").clone();
                node.metadata.labels.insert("kubernetes.io/hostname".to_owned(), repair.node.clone());
                for pair in in_new_domain {
                    node.metadata.labels.insert(pair.key.clone(), pair.value.clone().expect("a value"));
                }
                node.metadata.name.clone_from(&repair.node);
                node.spec.unschedulable = false;
                node.spec.taints.retain(|t| !t.key.starts_with("node.kubernetes.io/"));
                world.nodes.push(node);
            }
            Change::RequestLess { resource, to, .. } => {
                let requests = &mut pod.spec.containers[0].resources.requests;
                requests.insert(resource.clone(), Quantity::parse(to).expect("a quantity"));
            }
            change => world.nodes.iter_mut().for_each(|node| change_node(node, change)),
        }
    }
    assert!(feasible_on(&world, &pod).contains(&repair.node), "{repair:?} does not help");
    pod.spec.node_name.clone_from(&repair.node);
    world.pods.push(pod);
    for change in &repair.changes {
        let Change::Move { name, to, .. } = change else { continue };
        let at = world.pods.iter().position(|p| p.metadata.name == *name).expect("the pod");
        let mut moved = world.pods.remove(at);
        moved.spec.node_name = String::new();
        // Of several moved pods, each fits with those that moved before it.
        let fits = feasible_on(&world, &moved).contains(to);
        assert!(fits || repair.changes.len() > 1, "{name} does not fit on {to}: {repair:?}");
        moved.spec.node_name.clone_from(to);
        world.pods.insert(at, moved);
    }
}

fn is_of_node(change: &Change) -> bool {
    matches!(
        change,
        Change::Uncordon { .. }
            | Change::RemoveTaint { .. }
            | Change::SetLabel { .. }
            | Change::RemoveLabel { .. }
    )
}

fn text_of(taint: &Taint) -> String {
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    format!("{}{value}:{}", taint.key, taint.effect)
}

fn change_node(changed: &mut Node, change: &Change) {
    match change {
        Change::Uncordon { node } if *node == changed.metadata.name => {
            changed.spec.unschedulable = false;
            changed.spec.taints.retain(|t| t.key != "node.kubernetes.io/unschedulable");
        }
        Change::RemoveTaint { node, taint } if *node == changed.metadata.name => {
            changed.spec.taints.retain(|t| text_of(t) != *taint);
        }
        Change::SetLabel { node, key, value } if *node == changed.metadata.name => {
            changed.metadata.labels.insert(key.clone(), value.clone());
        }
        Change::RemoveLabel { node, key } if *node == changed.metadata.name => {
            changed.metadata.labels.remove(key);
        }
        _ => {}
    }
}

/// Whether changes of one node that cost less together let the pod fit on it.
fn node_change_below(world: &World, pod: &Pod, cost: u32) -> bool {
    (0..world.nodes.len()).any(|i| {
        let node = &world.nodes[i];
        let name = node.metadata.name.clone();
        let mut changes: Vec<(u32, String, Change)> = Vec::new();
        if node.spec.unschedulable {
            changes.push((1, "cordon".to_owned(), Change::Uncordon { node: name.clone() }));
        }
        for taint in node.spec.taints.iter().map(text_of) {
            changes.push((1, taint.clone(), Change::RemoveTaint { node: name.clone(), taint }));
        }
        let zone = "topology.kubernetes.io/zone";
        for (key, values) in [("disk", &["ssd", "hdd"][..]), ("gen", &["1", "2", "3"]), (zone, &["z1", "z2"])]
        {
            let has = node.metadata.labels.contains_key(key);
            if has && key == zone {
                continue;
            }
            let (node, key) = (name.clone(), key.to_owned());
            if has {
                let change = Change::RemoveLabel { node: node.clone(), key: key.clone() };
                changes.push((2, key.clone(), change));
            }
            for value in values.iter().map(|v| (*v).to_owned()) {
                let change = Change::SetLabel { node: node.clone(), key: key.clone(), value };
                changes.push((if has { 2 } else { 1 }, key.clone(), change));
            }
        }
        subsets(changes.len(), 3).into_iter().any(|set| {
            let sum: u32 = set.iter().map(|c| changes[*c].0).sum();
            let mut of: Vec<_> = set.iter().map(|c| &changes[*c].1).collect();
            of.dedup();
            if sum >= cost || of.len() < set.len() {
                return false;
            }
            let mut world = world.clone();
            set.iter().for_each(|c| change_node(&mut world.nodes[i], &changes[*c].2));
            feasible_on(&world, pod).contains(&name)
        })
    })
}

/// The sets of up to `most` numbers below `n`, the empty one left out.
fn subsets(n: usize, most: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..most {
        let to = sets.len();
        for i in from..to {
            let first = sets[i].last().map_or(0, |last| last + 1);
            let longer = (first..n).map(|next| sets[i].iter().copied().chain([next]).collect());
            sets.extend(longer.collect::<Vec<Vec<usize>>>());
        }
        from = to;
    }
    sets.split_off(1)
}

/// Whether fewer moved pods than `n` let the pod fit. Of two, neither may be needless for the pod itself.
fn moves_below(world: &World, pod: &Pod, n: u32) -> bool {
    let without = |gone: &[usize]| {
        let mut world = world.clone();
        let mut i = 0;
        world.pods.retain(|_| {
            i += 1;
            !gone.contains(&(i - 1))
        });
        world
    };
    let fits = |world: &World, name: &str| feasible_on(world, pod).iter().any(|node| node == name);
    let sets = subsets(world.pods.len(), (n as usize).saturating_sub(1));
    sets.into_iter().any(|set| {
        world.nodes.iter().any(|node| {
            let name = &node.metadata.name;
            if set.len() > 1 {
                let is_chain = set.iter().any(|one| fits(&without(&[*one]), name));
                if is_chain || !fits(&without(&set), name) {
                    return false;
                }
            }
            let mut world_then = without(&set);
            world_then.pods.push(Pod { spec: on(pod, name), ..pod.clone() });
            let moved: Vec<&Pod> = set.iter().map(|i| &world.pods[*i]).collect();
            placed(&world_then, pod, name, &moved)
        })
    })
}

fn on(pod: &Pod, node: &str) -> berth_api::object::PodSpec {
    berth_api::object::PodSpec { node_name: node.to_owned(), ..pod.spec.clone() }
}

/// Whether the pods fit on other nodes one after the other, in some order, and the pod itself at the end.
fn placed(world: &World, pod: &Pod, name: &str, moved: &[&Pod]) -> bool {
    if moved.is_empty() {
        let mut world = world.clone();
        world.pods.retain(|p| p.metadata.name != pod.metadata.name);
        return feasible_on(&world, pod).iter().any(|node| node == name);
    }
    moved.iter().enumerate().any(|(i, next)| {
        let rest: Vec<_> = moved.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, p)| *p).collect();
        let pending = Pod { spec: on(next, ""), ..(*next).clone() };
        feasible_on(world, &pending).into_iter().filter(|to| *to != next.spec.node_name).any(|to| {
            let mut world = world.clone();
            world.pods.push(Pod { spec: on(next, &to), ..(*next).clone() });
            placed(&world, pod, name, &rest)
        })
    })
}

/// Whether the pod fits without fewer rules than `n`.
fn relaxed_below(world: &World, pod: &Pod, n: u32) -> bool {
    type Relax<'a> = Box<dyn Fn(&mut Pod) + 'a>;
    let mut rules: Vec<Relax<'_>> = Vec::new();
    for key in pod.spec.node_selector.keys() {
        rules.push(Box::new(move |pod| _ = pod.spec.node_selector.remove(key)));
    }
    let affinity = pod.spec.affinity.clone().unwrap_or_default();
    if affinity.node_affinity.is_some() {
        rules.push(Box::new(|pod| pod.spec.affinity.as_mut().expect("affinity").node_affinity = None));
    }
    if affinity.pod_affinity.is_some() {
        rules.push(Box::new(|pod| pod.spec.affinity.as_mut().expect("affinity").pod_affinity = None));
    }
    if affinity.pod_anti_affinity.is_some() {
        rules.push(Box::new(|pod| pod.spec.affinity.as_mut().expect("affinity").pod_anti_affinity = None));
    }
    if !pod.spec.topology_spread_constraints.is_empty() {
        rules.push(Box::new(|pod| pod.spec.topology_spread_constraints.clear()));
    }
    if pod.spec.containers[0].ports.iter().any(|p| p.host_port > 0) {
        rules.push(Box::new(|pod| pod.spec.containers[0].ports.clear()));
    }
    for key in ["x", "y"] {
        rules.push(Box::new(move |pod| {
            pod.spec.tolerations.push(berth_api::object::Toleration {
                key: key.to_owned(),
                operator: "Exists".to_owned(),
                ..Default::default()
            });
        }));
    }
    subsets(rules.len(), (n as usize).saturating_sub(1)).into_iter().any(|set| {
        let mut pod = pod.clone();
        set.iter().for_each(|i| rules[*i](&mut pod));
        !feasible_on(world, &pod).is_empty()
    })
}

/// Whether the pod fits with a larger request than `to`; without it, with any but none.
fn request_above(world: &World, pod: &Pod, to: Option<&str>) -> bool {
    let now = pod.spec.containers[0].resources.requests["cpu"].millis();
    let least = to.map_or(0, |to| Quantity::parse(to).expect("a quantity").millis());
    (least + 1..now).filter(|millis| millis % 100 == 0 || *millis == least + 1).any(|millis| {
        let mut pod = pod.clone();
        let requests = &mut pod.spec.containers[0].resources.requests;
        requests.insert("cpu".to_owned(), Quantity::from_millis(millis));
        !feasible_on(world, &pod).is_empty()
    })
}

/// Whether there is a core of this size, and none that is smaller.
fn is_core_minimal(explanation: &Explanation, n_core: usize) -> bool {
    let key = |term: &str, detail: &str| format!("{term} {detail}");
    let terms: Vec<_> = explanation.terms.iter().map(|t| key(&t.term, &t.detail)).collect();
    let groups = explanation.excluded.iter().map(|group| {
        let keys = group.verdicts.iter().map(|v| key(v.term.as_deref().unwrap_or_default(), &v.detail));
        keys.collect::<Vec<_>>()
    });
    let groups: Vec<_> = groups.collect();
    let excludes_all =
        |set: &Vec<usize>| groups.iter().all(|group| set.iter().any(|i| group.contains(&terms[*i])));
    n_core > 0
        && !subsets(terms.len(), n_core - 1).iter().any(excludes_all)
        && subsets(terms.len(), n_core).iter().any(excludes_all)
}

#[test]
fn the_search_for_repairs_of_large_pods_grows_with_their_rules() {
    let spent = |n_keys: usize| {
        let mut world = text::world("node a zone=z\nnode b zone=z\npod default/p");
        let keys = (0..n_keys).map(|i| (format!("key-{i}"), "v".to_owned()));
        world.pods[0].spec.node_selector = keys.collect::<BTreeMap<_, _>>().into();
        let mut inventory = Inventory::default();
        inventory.nodes = entries(world.nodes.clone());
        inventory.pods = entries(world.pods.clone());
        let mut simulation = Simulation::new(inventory, SimulationOptions::default()).expect("valid");
        let explained = simulation.explain("default", "p", None).expect("the pod exists");
        let budget = WorkBudget::unlimited();
        simulation.repairs("default", "p", None, &explained.explanation, &budget);
        assert_eq!(explained.core.len(), 1, "one rule excludes all nodes");
        budget.n_spent()
    };
    let (once, twice) = (spent(100), spent(200));
    assert!(twice <= 5 * once / 2, "{once} {twice}");
}
