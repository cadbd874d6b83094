//! An independent check of the final state: the naive evaluator verifies the placement of every pod.

use berth_api::object::{Namespace, Node, Pod};
use berth_client::{WatchOptions, list};
use berth_input::config::Profile;
use berth_testkit::naive::{NodeResult, Options, World as NaiveWorld, evaluate};

use super::World;

/// Every pod of the scheduler is bound to an existing node that satisfies all of its required rules in the
/// current state, and no pod was bound twice.
pub async fn all_is_well(world: &World, n_pods: usize) {
    no_rule_is_broken(world, n_pods, &[]).await;
}

/// The same as [`all_is_well`], except for pods on deleted nodes.
pub async fn no_rule_is_broken(world: &World, n_pods: usize, gone: &[&str]) {
    let nodes: Vec<Node> = list(&world.client, &WatchOptions::new("/api/v1/nodes")).await.unwrap();
    let namespaces: Vec<Namespace> =
        list(&world.client, &WatchOptions::new("/api/v1/namespaces")).await.unwrap();
    let pods: Vec<Pod> = world.pods().await;
    assert_eq!(pods.len(), n_pods, "no pod is lost");
    let unbound: Vec<_> = pods.iter().filter(|p| p.spec.node_name.is_empty()).map(|p| p.key()).collect();
    assert!(unbound.is_empty(), "not bound: {unbound:?}");
    let naive = NaiveWorld { nodes, namespaces, pods, ..NaiveWorld::default() };
    for (i, pod) in naive.pods.iter().enumerate() {
        if gone.contains(&pod.spec.node_name.as_str()) {
            continue;
        }
        let mut others = naive.clone();
        let mut pod = others.pods.remove(i);
        let node = std::mem::take(&mut pod.spec.node_name);
        let decision = evaluate(&others, &pod, &Profile::default(), &Options::default());
        match decision.nodes.get(&node) {
            Some(NodeResult::Feasible { .. } | NodeResult::Unscored) => {}
            other => panic!("{} is on {node}, which its rules do not allow: {other:?}", pod.key()),
        }
    }
    world.journal.nothing_was_bound_twice();
}
