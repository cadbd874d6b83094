//! Fallbacks: what pods that have been pending for long do without.

use std::time::Duration;

use berth_engine::{Cluster, Group, GroupOutcome, Outcome, PreparedPod, Settings};
use berth_testkit::text;

use crate::common::{admitted, cluster};

const FIVE_MINUTES: Duration = Duration::from_secs(300);
const NODES: &str = "node a zone=z1\nnode b zone=z2\n";

fn prepared(cluster: &mut Cluster, pod: &str) -> PreparedPod {
    cluster.prepare(&admitted(&text::pod(pod), true))
}

/// The node of a pod that has been pending for five minutes, and the number of rules that were relaxed.
fn relaxed(running: &str, pod: &str) -> (Option<String>, usize) {
    let mut cluster = cluster(&text::world(&format!("{NODES}{running}")), Settings::default());
    let pod = prepared(&mut cluster, pod);
    assert!(matches!(cluster.decide(&pod), Outcome::Unschedulable { .. }));
    let Some((outcome, relaxed)) = cluster.decide_relaxed(&pod, FIVE_MINUTES) else { return (None, 0) };
    (outcome.node().map(str::to_owned), relaxed.paths.len())
}

#[test]
fn a_running_pod_rejects_those_that_have_not_relaxed_an_equal_term() {
    let replicas = |term: &str| {
        let replica = |name, node| format!("pod default/{name} on {node} app=web {term}\n");
        replica("x", "a") + &replica("y", "b")
    };
    let on = |node: &str, n| (Some(node.to_owned()), n);
    let own = "pod default/p app=web relax:5m anti(app=web @zone)";
    assert_eq!(relaxed(&replicas("relax:1h anti(app=web @zone)"), own), on("a", 1));
    // Their rule is not relaxable, is another one, or the pod has relaxed none.
    assert_eq!(relaxed(&replicas("anti(app=web @zone)"), own), (None, 1));
    assert_eq!(relaxed(&replicas("relax:1h anti(app=web @hostname)"), own), (None, 1));
    let other = "pod default/p app=web relax:5m anti(app=db @zone)";
    assert_eq!(relaxed(&replicas("relax:1h anti(app=web @zone)"), other), (None, 1));
    let none = "pod default/p app=web";
    assert_eq!(relaxed(&replicas("relax:1h anti(app=web @zone)"), none), (None, 0));
    // With a limit, the pods without a term count as before.
    let limited = |relax| format!("{relax} note-anti(app=web @zone limit:1)");
    let more =
        format!("{}pod default/z on a app=web\npod default/q on b app=web\n", replicas(&limited("relax:1h")));
    let own = format!("pod default/p app=web {}", limited("relax:5m"));
    assert_eq!(relaxed(&more, &own), on("a", 1));
}

#[test]
fn rules_required_during_execution_and_rules_of_kubelets_are_not_relaxed() {
    let running = "pod default/x on a app=web\npod default/y on b app=web\n";
    assert_eq!(relaxed(running, "pod default/p relax:5m rdrd-anti(app=web @zone)"), (None, 0));
    assert_eq!(relaxed(running, "pod default/p relax:5m select:disk=ssd"), (None, 0));
    assert_eq!(relaxed(running, "pod default/p relax:5m node(disk=ssd)"), (None, 0));
    assert_eq!(relaxed(running, "pod default/p relax:5m note-node(disk=ssd)"), (Some("a".to_owned()), 1));
}

#[test]
fn members_of_a_group_are_relaxed_together() {
    let world = text::world("node a zone=z1\nnode b zone=z1\n");
    let mut cluster = cluster(&world, Settings::default());
    let member = |name: &str| {
        format!("pod default/{name} app=web relax:5m anti(app=web @zone) anti(app=web @hostname)")
    };
    let members: Vec<_> = ["p", "q"].iter().map(|name| prepared(&mut cluster, &member(name))).collect();
    let group = Group { members: &members, min: 2, levels: &[], composite: None };
    assert!(matches!(cluster.decide_group(&group), GroupOutcome::Unplaced(_)));
    let one = [FIVE_MINUTES, FIVE_MINUTES - Duration::from_secs(1)];
    let (outcome, relaxed) = cluster.decide_group_relaxed(&group, &one).expect("a member may be relaxed");
    assert!(matches!(outcome, GroupOutcome::Unplaced(_)));
    assert_eq!(relaxed.iter().map(|relaxed| relaxed.paths.len()).collect::<Vec<_>>(), [2, 0]);
    let (outcome, relaxed) =
        cluster.decide_group_relaxed(&group, &[FIVE_MINUTES; 2]).expect("both may be relaxed");
    let GroupOutcome::Placed { members, .. } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(members.iter().map(Outcome::node).collect::<Vec<_>>(), [Some("a"), Some("b")]);
    assert_eq!(relaxed.iter().map(|relaxed| relaxed.paths.len()).collect::<Vec<_>>(), [1, 1]);
}
