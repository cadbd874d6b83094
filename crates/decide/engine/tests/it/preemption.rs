//! Preemption, scenario by scenario: who has to go, and where.

use berth_api::object::SelectorRequirement;
use berth_engine::{Cluster, DisruptionBudget, Preemption, Settings};
use berth_testkit::naive::World;
use berth_testkit::text;

use crate::common::{admitted, cluster};

/// The waiting pod's preemption: `node: victims`, with `!` for each budget violated, or the message.
fn preemption(text: &str) -> String {
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    preempt(&mut cluster, &world)
}

fn preempt(cluster: &mut Cluster, world: &World) -> String {
    let budgets: Vec<_> = world.budgets.iter().map(DisruptionBudget::from).collect();
    let mut waiting = world.pods.iter().filter(|p| p.spec.node_name.is_empty());
    let pod = waiting.next().expect("a pod waits");
    let prepared = cluster.prepare(&admitted(pod, true));
    match cluster.preempt(&prepared, &budgets) {
        Preemption::Victims(found) => {
            let victims: Vec<_> = found.victims.into_iter().map(|pod| pod.name().to_owned()).collect();
            let nominations: Vec<_> =
                found.nominations.into_iter().map(|pod| pod.name().to_owned()).collect();
            let mut text = format!("{}: {}", found.node, victims.join(" "));
            text += &"!".repeat(found.n_pdb_violations);
            if !nominations.is_empty() {
                text += &format!(" (nominated: {})", nominations.join(" "));
            }
            text
        }
        other => other.message().unwrap_or_default(),
    }
}

#[test]
fn the_cheapest_victims_go() {
    let nodes = "node a cpu=2\nnode b cpu=2\n";
    for (pods, expected) in [
        // The lowest of the highest priorities.
        ("pod default/x on a cpu=2 priority:5\npod default/y on b cpu=2 priority:4", "b: y"),
        // Then the lowest sum: one pod rather than two of its priority.
        ("pod default/x on b cpu=2\npod default/y on a cpu=1\npod default/z on a cpu=1", "b: x"),
        // Two of low priority rather than one that is higher.
        ("pod default/x on b cpu=2 priority:1\npod default/y on a cpu=1\npod default/z on a cpu=1", "a: y z"),
        // Then the latest start, and a pod that has not started is later than all.
        ("pod default/x on a cpu=2 started:10\npod default/y on b cpu=2 started:20", "b: y"),
        ("pod default/x on a cpu=2 started:10\npod default/y on b cpu=2", "b: y"),
        // Then the name of the node.
        ("pod default/x on a cpu=2 started:10\npod default/y on b cpu=2 started:10", "a: x"),
        // As many stay as fit, the most important first.
        ("pod default/x on a cpu=500m priority:3\npod default/y on a cpu=500m\npod default/z on a cpu=1 priority:9
          pod default/full on b cpu=2 priority:10", "a: z y"),
    ] {
        let incoming = "pod default/p cpu=1500m priority:10";
        assert_eq!(preemption(&format!("{nodes}{pods}\n{incoming}")), expected, "{pods}");
    }
}

#[test]
fn budgets_are_respected_where_possible() {
    let two = "node a cpu=1\nnode b cpu=1\npod default/x on a cpu=1 app=x\npod default/y on b cpu=1 app=y priority:5";
    let pod = "pod default/p cpu=1 priority:10";
    for (budgets, expected) in [
        ("", "a: x"),
        ("pdb default/x app=x", "b: y"),
        ("pdb default/x app=x allowed:1", "a: x"),
        ("pdb default/x app=x disrupted:x", "a: x"),
        ("pdb other/x app=x", "a: x"),
        // One without requirements protects nothing.
        ("pdb default/x", "a: x"),
        ("pdb default/x app=x\npdb default/y app=y", "a: x!"),
    ] {
        assert_eq!(preemption(&format!("{two}\n{budgets}\n{pod}")), expected, "{budgets}");
    }
    // No budget protects a pod without labels, whatever it selects.
    let unlabelled =
        "node a cpu=1\nnode b cpu=1\npod default/x on a cpu=1\npod default/y on b cpu=1 priority:5";
    let mut world = text::world(&format!("{unlabelled}\npdb default/x app=x\n{pod}"));
    let selector = world.budgets[0].spec.selector.get_or_insert_default();
    selector.match_labels.clear();
    let operator = "DoesNotExist".to_owned();
    selector.match_expressions.push(SelectorRequirement {
        key: "app".to_owned(),
        operator,
        values: Vec::new(),
    });
    assert_eq!(preempt(&mut cluster(&world, Settings::default()), &world), "a: x");
    // Of three pods that a budget protects one may go. Counted from the most important one on, that is the one.
    let one = "node a cpu=3\npod default/x on a cpu=1 app=x priority:2\npod default/y on a cpu=1 app=x
        pod default/z on a cpu=1 app=x priority:1\npdb default/x app=x allowed:1";
    assert_eq!(preemption(&format!("{one}\n{pod}")), "a: x");
}

#[test]
fn a_budget_protects_a_pod_from_when_it_has_the_label() {
    let text = "node a cpu=1\nnode b cpu=1\npod default/x on a cpu=1\npod default/y on b cpu=1 priority:5
        pdb default/z tier=z\npod default/p cpu=1 priority:10";
    let world = text::world(text);
    let mut cluster = cluster(&world, Settings::default());
    assert_eq!(preempt(&mut cluster, &world), "a: x");
    cluster.add_pod_labels("default", "x", &[("tier".to_owned(), "z".to_owned())]);
    assert_eq!(preempt(&mut cluster, &world), "b: y");
}

#[test]
fn rules_between_pods_are_asked_without_the_victims() {
    let zones = "node a1 zone=a cpu=2\nnode a2 zone=a cpu=2\nnode b1 zone=b cpu=2";
    for (pods, expected) in [
        // The pod that it must not be with goes, although there is room.
        ("pod default/x on a1 app=x\npod default/y on b1 app=x priority:10", "a1: x"),
        // Two of them in the zone, but only those on one node can go.
        (
            "pod default/x on a1 app=x\npod default/y on a2 app=x\npod default/z on b1 app=x priority:10",
            "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, \
          2 node(s) didn't match pod anti-affinity rules.",
        ),
        // A pod that must not be with it.
        ("pod default/x on a1 anti(app=p @zone)\npod default/y on b1 app=x priority:10", "a1: x"),
    ] {
        let incoming = "pod default/p app=p cpu=1 priority:10 anti(app=x @zone)";
        assert_eq!(preemption(&format!("{zones}\n{pods}\n{incoming}")), expected, "{pods}");
    }
    // One pod fewer in the zone with two lets the third in there.
    let spread =
        "pod default/x on a1 app=p\npod default/y on a2 app=p\npod default/z on b1 app=p cpu=2 priority:10
        pod default/p app=p cpu=1 priority:10 spread(1 app=p @zone)";
    assert_eq!(preemption(&format!("{zones}\n{spread}")), "a1: x");
    // A pod that is being deleted is not counted, but its removal in the trial is: kube-scheduler also finds room.
    let deleted = "node a zone=a cpu=2\nnode b zone=b cpu=2\npod default/x on a app=p\npod default/y on a app=p cpu=2 terminating
        pod default/z on b app=q cpu=2 priority:10\npod default/p app=p cpu=1 priority:10 spread(1 app=p @zone)";
    assert_eq!(preemption(deleted), "a: y");
    // Nodes that affinity excludes are not candidates: removing pods never helps there.
    let near = "pod default/x on a1 cpu=1\npod default/p cpu=1 priority:10 aff(app=db @zone)";
    assert_eq!(
        preemption(&format!("{zones}\n{near}")),
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
}

#[test]
fn who_may_preempt() {
    let full = "node a cpu=1\nnode b taint:dedicated=db:NoSchedule\npod default/x on a cpu=1 priority:5";
    for (pod, expected) in [
        (
            "priority:5",
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, \
             1 Preemption is not helpful for scheduling.",
        ),
        ("priority:6", "a: x"),
        ("priority:6 never-preempts", "preemption: not eligible due to preemptionPolicy=Never."),
    ] {
        assert_eq!(preemption(&format!("{full}\npod default/p cpu=1 {pod}")), expected, "{pod}");
    }
    assert_eq!(preemption("pod default/p priority:6"), "", "kube-scheduler says nothing without nodes");
}

#[test]
fn a_nominated_pod_waits_for_its_victims() {
    let nodes = "node a cpu=1\nnode b cpu=1\npod default/y on b cpu=1";
    let nominated = "pod default/p nominated a cpu=1 priority:5\npod default/p cpu=1 priority:5";
    let waiting = "preemption: not eligible due to a terminating pod on the nominated node.";
    for (pods, expected) in [
        ("pod default/x on a cpu=1 preempted", waiting),
        // A pod that is deleted for another reason is no victim of the pod's.
        ("pod default/x on a cpu=1 terminating", "a: x"),
        ("pod default/x on a cpu=1 preempted priority:5", "b: y"),
    ] {
        assert_eq!(preemption(&format!("{nodes}\n{pods}\n{nominated}")), expected, "{pods}");
    }
}

#[test]
fn room_is_left_for_nominated_pods() {
    let nodes = "node a cpu=2\nnode b cpu=1";
    let nominated = "pod default/n nominated a cpu=2 priority:5";
    let placed = |pod: &str| crate::common::placed(&format!("{nodes}\n{nominated}\npod default/p {pod}"));
    assert_eq!(placed("cpu=1 priority:5"), "p=b");
    assert_eq!(placed("cpu=2 priority:5"), "p=-");
    assert_eq!(placed("cpu=2 priority:6"), "p=a", "nominations of lower priority do not count");
    // A pod that needs the nominated one must also fit without it.
    let near = "node a\npod default/n nominated a app=db priority:5\npod default/p aff(app=db @hostname)";
    assert_eq!(crate::common::placed(near), "p=-");
    // It counts for spreading, also where it raises the fewest of all domains: with it the zones are even.
    let spread = "node a zone=a\nnode b zone=b\npod default/x on b app=p\npod default/n nominated a app=p
        pod default/p app=p spread(1 app=p @zone)";
    assert_eq!(crate::common::placed(spread), "p=a");
    // Its anti-affinity counts only where that of a running pod, wherever it runs, concerns the pod as well.
    let apart = "node a\nnode b\npod default/n nominated a priority:5 anti(app=p @hostname)
        pod default/p app=p select:hostname=a";
    assert_eq!(crate::common::placed(apart), "p=a");
    assert_eq!(crate::common::placed(&format!("pod default/x on b anti(app=p @hostname)\n{apart}")), "p=-");
    // Preempting on the node: the nominated pod of lower priority has to be decided again.
    let victims = "node a cpu=2\npod default/x on a cpu=2\npod default/n nominated a cpu=2 priority:5
        pod default/p cpu=2 priority:6";
    assert_eq!(preemption(victims), "a: x (nominated: n)");
    let higher = "node a cpu=2\npod default/x on a cpu=1\npod default/n nominated a cpu=1 priority:5
        pod default/p cpu=2 priority:5";
    assert_eq!(preemption(higher), "preemption: 0/1 nodes are available: 1 Insufficient cpu.");
}

#[test]
fn clearing_a_nomination_makes_room() {
    let world = text::world("node a cpu=1\npod default/n nominated a cpu=1\npod default/p cpu=1");
    let mut cluster = cluster(&world, Settings::default());
    let prepared = cluster.prepare(&admitted(&world.pods[0], true));
    assert_eq!((cluster.nomination("default", "n"), cluster.n_nominations()), (Some("a"), 1));
    assert!(!cluster.fits_anywhere(&prepared) && !cluster.fits_on(&prepared, "a"));
    cluster.record_changes(true);
    let conditions = cluster.wake_conditions(&prepared);
    assert!(cluster.clear_nomination("default", "n") && !cluster.clear_nomination("default", "n"));
    let changes = cluster.take_changes();
    assert!(changes.iter().any(|change| cluster.could_help(&conditions, change)));
    assert!(cluster.fits_anywhere(&prepared) && cluster.fits_on(&prepared, "a"));
}
