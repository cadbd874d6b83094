//! Hints for unschedulable pods.

use berth_simulate::{Simulation, SimulationOptions};
use berth_testkit::text;

use crate::worlds::inventory;

/// The first hint for the last pod of the text.
fn first_hint(text: &str) -> String {
    let world = text::world(text);
    let pod = world.pods.last().expect("a pod is pending").metadata.clone();
    let inventory = inventory(world);
    let mut simulation =
        Simulation::new(inventory, SimulationOptions::default()).expect("the pods are valid");
    let explained = simulation.explain(&pod.namespace, &pod.name, None).expect("the pod exists");
    assert_eq!(explained.explanation.outcome.node(), None, "{text}");
    explained.hints.into_iter().next().unwrap_or_default()
}

#[test]
fn a_rolling_update_that_blocks_itself_is_reported_as_one() {
    let nodes = "node a\nnode b";
    let old = "pod default/o1 on a app=web pod-template-hash=1 anti(app=web @hostname)
        pod default/o2 on b app=web pod-template-hash=1 anti(app=web @hostname)";
    let hint = first_hint(&format!(
        "{nodes}\n{old}\npod default/n app=web pod-template-hash=2 anti(app=web @hostname)"
    ));
    assert!(hint.starts_with("the rolling update blocks itself: on 2 nodes"), "{hint}");
    assert!(hint.contains("keeps later updates from blocking themselves"), "{hint}");

    // Only the rule of the new pod excludes nodes: changing it helps at once. The binding has added the zone.
    let old = "pod default/o1 on a app=web pod-template-hash=1 topology.kubernetes.io/zone=z\npod default/o2 on b app=x cpu=64";
    let hint = first_hint(&format!(
        "{nodes}\n{old}\npod default/n app=web pod-template-hash=2 cpu=1 anti(app=web @hostname)"
    ));
    assert!(hint.starts_with("the rolling update blocks itself: on 1 node "), "{hint}");
    assert!(hint.contains("or add matchLabelKeys: [pod-template-hash] to spec.affinity"), "{hint}");
}

#[test]
fn other_conflicts_are_not_reported_as_rolling_updates() {
    for old in [
        // Another workload, another namespace, the same revision, pods without revisions.
        "pod default/o on a app=web tier=x pod-template-hash=1",
        "pod other/o on a app=web pod-template-hash=1",
        "pod default/o on a app=web pod-template-hash=2",
        "pod default/o on a app=web",
        // Two pods exclude the pod, and one of them is another workload's.
        "pod default/o on a app=web pod-template-hash=1\npod default/p on a app=web tier=x",
        // Something else excludes the pod as well.
        "pod default/o on a app=web pod-template-hash=1 cpu=64",
    ] {
        let pod = "pod default/n app=web pod-template-hash=2 cpu=1 anti(app=web @hostname ns=default,other)";
        let hint = first_hint(&format!("node a\n{old}\n{pod}"));
        assert_eq!(hint, "", "{old}");
    }
}

#[test]
fn a_pod_with_too_many_rules_is_explained_on_a_part_of_the_nodes() {
    // 12 million comparisons, and no two nodes are alike.
    let (n_nodes, n_keys) = (1_500, 8_000);
    let nodes: Vec<_> = (0..n_nodes).map(|i| format!("node n{i} own=v{i}")).collect();
    let mut world = text::world(&format!("{}\npod default/p", nodes.join("\n")));
    let selector = &mut world.pods[0].spec.node_selector;
    selector.extend((0..n_keys).map(|i| (format!("key-{i}"), "v".to_owned())));
    let mut simulation =
        Simulation::new(inventory(world), SimulationOptions::default()).expect("the pod is valid");
    let explained = simulation.explain("default", "p", None).expect("the pod exists");
    let n = explained.explanation.n_not_evaluated;
    assert!((1..n_nodes).contains(&n), "{n}");
    let part = format!("on {} of {n_nodes} nodes only", n_nodes - n);
    assert!(explained.hints.iter().any(|hint| hint.contains(&part)), "{:?}", explained.hints);
}
