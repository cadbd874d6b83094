//! Sets of nodes: which pools overlap, which are empty, which no pod selects or can use.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use berth_engine::Settings;
use berth_input::config::{Plugin, SchedulerConfig};
use berth_input::inventory::Inventory;
use berth_rules::SetRelation;
use berth_simulate::sets::nodes::{NodeGroup, NodeRuleRole, NodeSetComparison, NodeSets};
use berth_simulate::{Simulation, SimulationOptions};

fn simulation(inventory: Inventory) -> Simulation {
    let documents: Vec<_> = inventory.scheduler_configurations.iter().map(|c| &c.value).collect();
    let config = documents.first().map_or_else(SchedulerConfig::default, |document| {
        SchedulerConfig::read(document).expect("the configuration is valid").0
    });
    let settings = Settings { config, ..Settings::default() };
    Simulation::new(inventory, SimulationOptions { settings, ..SimulationOptions::default() }).expect("valid")
}

fn compared(text: &str) -> NodeSetComparison {
    let inventory = Inventory::from_text(text).expect("valid");
    let sets = NodeSets::new(&inventory).expect("valid");
    sets.compare(&simulation(inventory), |_| true)
}

fn node(name: &str, labels: &str, rest: &str) -> String {
    format!("---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {{{labels}}}}}, {rest}}}\n")
}

fn pod(name: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: default}}, \
         spec: {{containers: [{{name: c, image: i}}], {spec}}}}}\n"
    )
}

const POOLS: [(&str, &str); 4] =
    [("a1", "pool: a, disk: ssd"), ("a2", "pool: a"), ("b1", "pool: b, disk: ssd"), ("c1", "pool: c")];

fn pools() -> String {
    POOLS.map(|(name, labels)| node(name, labels, "spec: {}")).concat()
}

/// The names of the nodes of a rule.
fn nodes_of(comparison: &NodeSetComparison, rule: &str) -> Vec<String> {
    let set = comparison.sets.iter().find(|set| set.rules.iter().any(|r| r.rule == rule));
    let id = set.map(|set| set.id);
    let members = comparison.intersections.iter().filter(|i| id.is_some_and(|id| i.sets.contains(&id)));
    let mut nodes: Vec<_> = members.flat_map(|i| i.nodes.iter().cloned()).collect();
    nodes.sort_unstable();
    nodes
}

fn names(groups: &[NodeGroup]) -> Vec<&str> {
    let names: BTreeSet<_> = groups.iter().flat_map(|group| group.nodes.iter().map(String::as_str)).collect();
    names.into_iter().collect()
}

#[test]
fn pools_overlap_contain_each_other_or_are_equal_by_their_nodes() {
    let terms = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
        {matchExpressions: [{key: pool, operator: In, values: [a, b]}]}, {matchExpressions: [{key: pool, operator: In, values: [c]}]}]}}}";
    let text = [
        pools(),
        pod("a", "nodeSelector: {pool: a}"),
        pod("ssd", "nodeSelector: {disk: ssd}"),
        pod("ssd-too", "nodeSelector: {disk: ssd}"),
        pod("a-ssd", "nodeSelector: {pool: a, disk: ssd}"),
        pod("all", terms),
    ];
    let comparison = compared(&text.concat());
    let sets: Vec<_> = comparison
        .sets
        .iter()
        .map(|set| (set.n_nodes, set.rules[0].rule.as_str(), set.rules[0].n_pods))
        .collect();
    let all = "pool in (a, b) or pool=c";
    assert_eq!(sets, [(4, all, 1), (2, "pool=a", 1), (2, "disk=ssd", 2), (1, "disk=ssd, pool=a", 1)]);
    let relations: Vec<_> =
        comparison.relations.iter().map(|r| (r.set, r.relation, r.other, r.n_nodes)).collect();
    use SetRelation::{Contains, Overlaps};
    let expected = [
        (1, Contains, 2, 2),
        (1, Contains, 3, 2),
        (1, Contains, 4, 1),
        (2, Overlaps, 3, 1),
        (2, Contains, 4, 1),
        (3, Contains, 4, 1),
    ];
    assert_eq!(relations, expected);
    let summary = &comparison.summary;
    assert_eq!((summary.n_contained, summary.n_overlapping, summary.n_disjoint), (5, 1, 0));
    // The nodes with a disk are those of both pools.
    let equal = compared(&[pools(), pod("b", "nodeSelector: {pool: b}"), pod("c", "nodeSelector: {pool: c}"),
        node("b2", "rack: r", "spec: {}"), pod("r", "nodeSelector: {rack: r}"),
        pod("same", "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [b2]}]}]}}}")].concat());
    let both = equal.sets.iter().find(|set| set.rules.len() == 2).expect("equal sets are one");
    let rules: Vec<_> = both.rules.iter().map(|rule| rule.rule.as_str()).collect();
    assert_eq!(rules, ["rack=r", "metadata.name=b2"]);
}

#[test]
fn pools_that_are_empty_or_that_no_pod_selects_are_listed() {
    let text = [
        pools(),
        pod("a", "nodeSelector: {pool: a}"),
        pod("gone", "nodeSelector: {pool: gone}"),
        pod("anywhere", ""),
    ];
    let comparison = compared(&text.concat());
    let empty: Vec<_> = comparison.empty.iter().map(|rule| rule.rule.as_str()).collect();
    assert_eq!(empty, ["pool=gone"]);
    assert_eq!(names(&comparison.unselected), ["b1", "c1"]);
    let labels: Vec<_> = comparison.unselected.iter().map(|group| group.labels["pool"].as_str()).collect();
    assert_eq!(labels, ["b", "c"]);
    // The pod without a node selector can use them.
    assert_eq!(names(&comparison.unusable), [""; 0]);
    let without = compared(&text[..3].concat());
    assert_eq!(names(&without.unusable), ["b1", "c1"]);
}

#[test]
fn taints_are_sets_with_the_pods_that_tolerate_them() {
    let text = [
        pools(),
        node("g1", "pool: g", "spec: {taints: [{key: gpu, value: big, effect: NoSchedule}]}"),
        node(
            "g2",
            "pool: g",
            "spec: {taints: [{key: gpu, value: big, effect: NoSchedule}, {key: old, effect: NoExecute}]}",
        ),
        node("p1", "pool: p", "spec: {taints: [{key: slow, effect: PreferNoSchedule}]}"),
        node("cordoned", "pool: a", "spec: {unschedulable: true}"),
        pod("train", "tolerations: [{key: gpu, operator: Exists, effect: NoSchedule}]"),
        pod("exact", "tolerations: [{key: gpu, value: small}]"),
    ];
    let comparison = compared(&text.concat());
    let taints: BTreeMap<_, _> = comparison
        .sets
        .iter()
        .flat_map(|set| &set.rules)
        .filter(|rule| rule.role == NodeRuleRole::Taint)
        .map(|rule| {
            (rule.rule.as_str(), rule.workloads.iter().map(|w| w.object.as_str()).collect::<Vec<_>>())
        })
        .collect();
    let expected = BTreeMap::from([
        ("gpu=big:NoSchedule", vec!["Pod train"]),
        ("old:NoExecute", vec![]),
        ("slow:PreferNoSchedule", vec![]),
        ("node.kubernetes.io/unschedulable:NoSchedule", vec![]),
    ]);
    assert_eq!(taints, expected);
    assert_eq!(nodes_of(&comparison, "gpu=big:NoSchedule"), ["g1", "g2"]);
    assert_eq!(names(&comparison.unusable), ["cordoned", "g2"]);
    assert_eq!(comparison.summary.n_taints_not_tolerated, 2);
}

#[test]
fn added_affinity_is_a_set_of_the_profile() {
    let config = "---
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: ssd
  pluginConfig:
  - name: NodeAffinity
    args: {addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: Exists}]}]}}}
";
    let comparison =
        compared(&[&pools(), config, &pod("a", "schedulerName: ssd, nodeSelector: {pool: a}")].concat());
    let added =
        comparison.sets.iter().flat_map(|set| &set.rules).find(|r| r.role == NodeRuleRole::AddedAffinity);
    let added = added.expect("the added affinity is a rule");
    assert_eq!(
        (added.rule.as_str(), added.profiles.as_slice(), added.n_pods),
        ("disk", ["ssd".to_owned()].as_slice(), 1)
    );
    assert_eq!(nodes_of(&comparison, "disk"), ["a1", "b1"]);
    // Pool a, without the node that has no disk.
    assert_eq!(names(&comparison.unusable), ["a2", "b1", "c1"]);
}

#[test]
fn pods_of_daemon_sets_do_not_count_as_users_and_are_one_rule() {
    let daemon = "---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: log, namespace: default}
spec:
  selector: {matchLabels: {app: log}}
  template:
    metadata: {labels: {app: log}}
    spec:
      nodeSelector: {pool: a}
      tolerations: [{operator: Exists}]
      containers: [{name: c, image: i}]
";
    let tainted = node("a3", "pool: a", "spec: {taints: [{key: old, effect: NoSchedule}]}");
    let comparison = compared(&[pools(), tainted, daemon.to_owned(), pod("anywhere", "")].concat());
    assert_eq!(nodes_of(&comparison, "pool=a"), ["a1", "a2", "a3"]);
    assert_eq!(comparison.summary.n_node_selectors, 1, "{:?}", comparison.sets);
    assert_eq!((comparison.summary.n_unselected, comparison.summary.n_pods), (5, 1));
    assert_eq!(names(&comparison.unusable), ["a3"]);
}

/// Rules of both dialects: the nodes are those that the engine does not reject for node affinity.
#[test]
fn sets_of_nodes_are_those_of_the_engine() {
    let v1 = |terms: &str| {
        format!(
            "affinity: {{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{terms}]}}}}}}"
        )
    };
    let mut text = String::new();
    for i in 0..12 {
        let annotations = if i % 3 == 0 { format!("annotations: {{rack: r{i}}}, ") } else { String::new() };
        let disk = if i % 2 == 0 { "disk: ssd, " } else { "" };
        write!(
            text,
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{i}, {annotations}labels: {{{disk}pool: p{}, num: '{i}'}}}}, \
             status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 50}}, nodeInfo: {{kernelVersion: 5.{i}.0}}}}}}\n",
            i % 4
        )
        .expect("a string takes all");
    }
    let specs = [
        v1(
            "{matchExpressions: [{key: pool, operator: In, values: [p0, p2, none]}, {key: num, operator: Gt, values: ['3']}]}",
        ),
        v1(
            "{matchExpressions: [{key: disk, operator: DoesNotExist}]}, {matchFields: [{key: metadata.name, operator: In, values: [n4]}]}",
        ),
        v1(
            "{matchFields: [{key: metadata.name, operator: NotIn, values: [n4]}], matchExpressions: [{key: pool, operator: NotIn, values: [p1]}]}",
        ),
        format!(
            "nodeSelector: {{disk: ssd}}, {}",
            v1("{matchExpressions: [{key: num, operator: Lt, values: ['7']}]}")
        ),
        v1(
            "{matchExpressions: [{key: pool, operator: In, values: [p1]}, {key: pool, operator: In, values: [p2]}]}, {matchExpressions: [{key: pool, operator: Exists}, {key: disk, operator: Exists}]}",
        ),
    ];
    for (i, spec) in specs.iter().enumerate() {
        text.push_str(&pod(&format!("v1-{i}"), spec));
    }
    for (i, terms) in [
        "{}",
        "{matchAnnotations: [{key: rack, operator: Exists}]}",
        "{matchAnnotations: [{key: rack, operator: In, values: [r0]}]}, {matchExpressions: [{key: pool, operator: In, values: [p2]}]}",
        "{matchFields: [{key: status.nodeInfo.kernelVersion, operator: VersionGt, values: [5.7.0]}]}",
    ]
    .into_iter()
    .enumerate()
    {
        write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: proposal-{i}\n  namespace: default\n  annotations:\n    \
             scheduling.berth.dev/affinity: '{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{}]}}}}}}'\n\
             spec: {{nodeSelector: {{disk: ssd}}, containers: [{{name: c, image: i}}]}}\n",
            terms.replace('\'', "''")
        )
        .expect("a string takes all");
    }
    let inventory = Inventory::from_text(&text).expect("valid");
    let sets = NodeSets::new(&inventory).expect("valid");
    let mut simulation = simulation(inventory);
    let comparison = sets.compare(&simulation, |_| true);
    let pods: Vec<_> = simulation.pods().iter().map(|pod| pod.pod.clone()).collect();
    assert_eq!(pods.len(), 9);
    let node_names: Vec<_> = simulation.nodes().map(|node| node.metadata.name.clone()).collect();
    for pod in pods {
        let cluster = simulation.cluster();
        let prepared = cluster.prepare(&pod);
        let rejects = |node: &&String| {
            cluster.verdicts_on(&prepared, node).iter().any(|verdict| verdict.plugin == Plugin::NodeAffinity)
        };
        let mut expected: Vec<_> = node_names.iter().filter(|node| !rejects(node)).cloned().collect();
        expected.sort_unstable();
        let object = format!("Pod {}", pod.metadata.name);
        let of_pod = |rule: &&berth_simulate::sets::nodes::NodeRule| {
            rule.role == NodeRuleRole::NodeSelector && rule.workloads.iter().any(|w| w.object == object)
        };
        let rule = comparison.sets.iter().flat_map(|set| &set.rules).find(of_pod).expect("a set of the pod");
        assert_eq!(nodes_of(&comparison, &rule.rule), expected, "{object}: {}", rule.rule);
        assert!(!expected.is_empty() && expected.len() < 12, "{object}");
    }
}

#[test]
fn too_many_sets_of_nodes_are_compared_in_part() {
    const N: usize = 1500;
    let taints: Vec<_> = (0..N).map(|i| format!("{{key: k{i}, effect: NoSchedule}}")).collect();
    let mut text = node("common", "", &format!("spec: {{taints: [{}]}}", taints.join(", ")));
    for (i, taint) in taints.iter().enumerate() {
        text.push_str(&node(&format!("n{i}"), "", &format!("spec: {{taints: [{taint}]}}")));
    }
    let comparison = compared(&text);
    let summary = &comparison.summary;
    assert_eq!(summary.n_sets, N);
    assert!((1..N).contains(&summary.n_not_compared), "{summary:?}");
    let n_compared = summary.n_sets - summary.n_not_compared;
    assert_eq!(comparison.relations.len(), n_compared * (n_compared - 1) / 2);
    assert_eq!((summary.n_overlapping, summary.n_disjoint), (comparison.relations.len(), 0));
}

#[test]
fn jobs_that_have_finished_and_pods_that_are_deleted_use_no_nodes() {
    let job = "---\n{apiVersion: batch/v1, kind: Job, metadata: {name: old, namespace: default}, \
               spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}], \
               nodeSelector: {pool: gone}, tolerations: [{operator: Exists}]}}}, \
               status: {conditions: [{type: Complete, status: 'True'}]}}\n";
    let deleted = "---\n{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: default, \
                   deletionTimestamp: '2026-01-31T12:00:00Z'}, spec: {containers: [{name: c, image: i}], nodeName: a1, nodeSelector: {pool: a}}}\n";
    let comparison = compared(&[&pools(), job, deleted].concat());
    assert!(comparison.empty.is_empty(), "{:?}", comparison.empty);
    assert_eq!((comparison.summary.n_node_selectors, comparison.summary.n_pods), (0, 0));
    assert_eq!(names(&comparison.unselected), ["a1", "a2", "b1", "c1"]);
}

#[test]
fn a_pod_that_names_its_node_uses_this_node_alone() {
    let deployment = "---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: default}, \
                      spec: {replicas: 1, selector: {matchLabels: {app: d}}, template: {metadata: {labels: {app: d}}, \
                      spec: {nodeName: b1, containers: [{name: c, image: i}]}}}}\n";
    let nodes = [
        node("a1", "pool: a", "spec: {}"),
        node("b1", "pool: b", "spec: {taints: [{key: own, effect: NoSchedule}]}"),
    ];
    let comparison = compared(&[&nodes.concat(), deployment].concat());
    assert_eq!(names(&comparison.unusable), ["a1"]);
}
