//! The bottleneck of an unschedulable pod, as text for events.

use std::collections::BTreeMap;

use berth_api::object::{Affinity, Pod};
use berth_api::work::WorkBudget;
use berth_engine::{Cluster, MAX_BOTTLENECK, PreparedPod, Settings};
use berth_testkit::text;

use crate::common::{admitted, cluster};

#[test]
fn a_bottleneck_in_short_names_the_term_and_its_witnesses() {
    let bottleneck = |text: &str| {
        let mut world = text::world(text);
        let pod = admitted(&world.pods.pop().expect("a pod waits"), true);
        let mut cluster = cluster(&world, Settings::default());
        let prepared = cluster.prepare(&pod);
        cluster
            .decide(&prepared)
            .node()
            .is_none()
            .then(|| cluster.bottleneck(&prepared, &WorkBudget::unlimited()))
            .flatten()
    };
    let nodes = "node a zone=z\nnode b zone=z\nnode c zone=y unschedulable";
    let pods: String = (0..9).map(|i| format!("\npod default/w{i} on a app=web")).collect();
    assert_eq!(
        bottleneck(&format!("{nodes}{pods}\npod default/n anti(app=web @zone)")).as_deref(),
        Some(
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0] excludes 2/3 nodes \
             (2 by this rule alone) because of default/w0 on a, default/w1 on a, default/w2 on a and 6 more: \
             rejects pods with `app=web` in namespace default in the same topology.kubernetes.io/zone"
        )
    );
    assert_eq!(bottleneck(&format!("{nodes}\npod default/n")), None, "it fits");
    // It named the rule that excludes most nodes, although others exclude the nearest node.
    let far: String = ["a", "b", "c"].map(|name| format!("node {name} cpu=1 taint:x:NoSchedule\n")).concat();
    let near = "node g cpu=8 disk=ssd taint:y:NoSchedule unschedulable";
    let text = bottleneck(&format!("{far}{near}\npod default/n cpu=4 select:disk=ssd"))
        .expect("a rule excludes the nodes");
    assert!(text.starts_with("spec.tolerations excludes 1/4 nodes: taint y"), "{text}");
    let control_plane = "taint:node-role.kubernetes.io/control-plane:NoSchedule";
    let masters: String = ["a", "b", "c"].map(|name| format!("node {name} {control_plane}\n")).concat();
    let text = bottleneck(&format!("{masters}node w cpu=1\npod default/n cpu=4"))
        .expect("a rule excludes the nodes");
    assert!(text.ends_with("requests 4 cpu"), "{text}");
    let long = "x".repeat(60);
    let values: String = (0..20).map(|i| format!("{i}{long},")).collect();
    let values = values.trim_end_matches(',');
    let text =
        bottleneck(&format!("{nodes}\npod default/n aff(app={values} @zone)")).expect("nothing matches");
    assert!(text.len() <= MAX_BOTTLENECK && text.ends_with("..."), "{text}");
}

/// A cluster of nodes with a pod that selects labels that they lack.
fn selecting(n_nodes: usize, n_keys: usize) -> (Cluster, Pod, PreparedPod) {
    let nodes: String = (0..n_nodes).map(|i| format!("node n{i} zone=z\n")).collect();
    let mut world = text::world(&format!("{nodes}pod default/p"));
    let mut pod = admitted(&world.pods.pop().expect("a pod waits"), true);
    let keys = (0..n_keys).map(|i| (format!("key-{i}"), "v".to_owned()));
    pod.spec.node_selector = keys.collect::<BTreeMap<_, _>>().into();
    let mut cluster = cluster(&world, Settings::default());
    let prepared = cluster.prepare(&pod);
    (cluster, pod, prepared)
}

#[test]
fn a_bottleneck_that_is_too_much_work_is_that_of_the_nodes_before() {
    let (cluster, _, prepared) = selecting(20, 30);
    let bottleneck = |steps| {
        let budget = WorkBudget::new(steps);
        let text = cluster.bottleneck(&prepared, &budget);
        assert!(budget.n_spent() <= steps);
        text
    };
    let all = "spec.nodeSelector[key-0] excludes 20/20 nodes: the node must have the label key-0=v";
    assert_eq!(bottleneck(1_000_000).as_deref(), Some(all));
    let some = bottleneck(2000).expect("some nodes are evaluated");
    assert!(
        some.contains(" of 20 nodes: ") && some.starts_with("spec.nodeSelector[key-0] excludes "),
        "{some}"
    );
    assert_eq!(bottleneck(10), None);
}

#[test]
fn a_bottleneck_of_many_nodes_is_that_of_a_sample() {
    let (cluster, _, prepared) = selecting(2500, 1);
    let text = cluster.bottleneck(&prepared, &WorkBudget::unlimited()).expect("nothing matches");
    assert!(text.contains("excludes 834/834 of 2500 nodes (834 by this rule alone)"), "{text}");
}

#[test]
fn the_work_of_an_explanation_grows_with_nodes_times_rules_and_ends_with_the_budget() {
    let spent = |n_nodes, n_keys| {
        let (cluster, pod, prepared) = selecting(n_nodes, n_keys);
        let budget = WorkBudget::unlimited();
        let explanation = cluster.explain(&pod, &prepared, None, &budget);
        assert_eq!((explanation.n_not_evaluated, explanation.terms[0].excludes), (0, n_nodes));
        budget.n_spent()
    };
    let once = spent(10, 50);
    assert!(spent(20, 50) <= 2 * once && spent(10, 100) <= 2 * once + 100);

    let (cluster, pod, prepared) = selecting(10, 50);
    let explanation = cluster.explain(&pod, &prepared, None, &WorkBudget::new(once / 2));
    let n = explanation.n_not_evaluated;
    assert!((1..10).contains(&n), "{n}");
    assert_eq!(explanation.excluded[0].nodes.len(), 10 - n);
    assert!(explanation.outcome.node().is_none(), "the decision itself is about all nodes");
}

#[test]
fn the_text_about_a_large_term_is_cut() {
    let mut world = text::world("node a zone=z\npod default/p");
    let mut pod = admitted(&world.pods.pop().expect("a pod waits"), true);
    let values: Vec<_> = (0..1000).map(|i| format!("value-{i}")).collect();
    let expression = serde_json::json!({"key": "k", "operator": "In", "values": values});
    pod.spec.affinity = Some(
        serde_json::from_value::<Affinity>(serde_json::json!({"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}))
        .expect("valid")
        .into(),
    );
    let mut cluster = cluster(&world, Settings::default());
    let prepared = cluster.prepare(&pod);
    let explanation = cluster.explain(&pod, &prepared, None, &WorkBudget::unlimited());
    let detail = &explanation.terms[0].detail;
    assert!(detail.len() < 2100 && detail.ends_with("..."), "{detail}");
    assert!(detail.starts_with("the node must match `k in (value-0, value-1, value-10, "), "{detail}");
}
