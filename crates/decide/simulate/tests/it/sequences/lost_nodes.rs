//! Nodes that cannot be reached, or are out of service, and their pods.

use super::*;

#[test]
fn pods_leave_a_node_that_is_unreachable_for_longer_than_they_tolerate() {
    let text = [node("a", 2), node("b", 4), workload("Deployment", "web", 1, 2)].concat();
    let lose = |seconds| Change::LoseContact { key: "zone".to_owned(), value: "z-b".to_owned(), seconds };
    let state = |text: &str, seconds| {
        let changed = played(text, &[lose(seconds)]);
        let unplaced = changed.outcome.unplaced.first().map(|pod| pod.message.clone());
        (nodes(&changed).keys().map(|node| (*node).to_owned()).collect::<Vec<_>>(), unplaced)
    };
    let owned = |nodes: &[&str]| nodes.iter().map(|node| (*node).to_owned()).collect::<Vec<_>>();
    assert_eq!(state(&text, Some(600)), (owned(&["a"]), None));
    let (on, why) = state(&text, Some(299));
    assert_eq!(on, ["b"]);
    assert!(why.unwrap().starts_with("stays on its unreachable node"));
    let (on, why) = state(&text.replace("Deployment", "StatefulSet"), None);
    assert!(on == ["b"] && why.unwrap().starts_with("the StatefulSet creates no other pod"));
    let (_, why) = state(&text.replace("Deployment", "StatefulSet"), Some(299));
    assert!(why.unwrap().starts_with("stays on its unreachable node"), "it is not evicted in that time");
}

#[test]
fn a_removed_node_that_was_unreachable_did_not_give_its_pods_back() {
    let set = [node("a", 2), node("b", 2), workload("StatefulSet", "db", 1, 2)].concat();
    let lose = Change::LoseContact { key: "zone".to_owned(), value: "z-a".to_owned(), seconds: None };
    let lost = played(&set, std::slice::from_ref(&lose));
    assert_eq!(lost.outcome.unplaced.len() + lost.outcome.n_unmoved, 1);
    let back = |change: Change| played(&set, &[lose.clone(), change]).outcome;
    assert!(back(Change::RemoveNode("a".to_owned())).is_harmless());
    let (node, key) = ("a".to_owned(), "node.kubernetes.io/unreachable".to_owned());
    assert!(back(Change::RemoveTaint { node, key, effect: None }).is_harmless());
}

#[test]
fn a_node_like_an_unreachable_one_could_not_be_reached_either() {
    let zone = |name: &str| Change::LoseContact {
        key: "zone".to_owned(),
        value: format!("z-{name}"),
        seconds: None,
    };
    let add = Change::AddNodes { n_nodes: 1, like: "a".to_owned() };
    let changed = played(&full(1), &[zone("a"), add]);
    assert_eq!(nodes(&changed), BTreeMap::from([("a-new-1", 1), ("b", 1)]));
}

#[test]
fn pods_of_a_stateful_set_on_an_unreachable_node_were_replaced() {
    let set = workload("StatefulSet", "web", 2, 2)
        .replace("spec:\n  replicas", "spec:\n  podManagementPolicy: Parallel\n  replicas");
    let zone = Change::LoseContact { key: "zone".to_owned(), value: "z-a".to_owned(), seconds: None };
    let nodes = [node("a", 2), node("b", 2), node("c", 2)].concat() + &budget("none", 0);
    let new = set.replace("image: i", "image: new");
    for drains in [false, true] {
        let mut what_if = what_if(&(nodes.clone() + &set));
        let on_a = what_if.simulation().unwrap().pods().iter().find(|pod| pod.node() == Some("a")).cloned();
        let on_a = on_a.expect("a pod is on each of two nodes").pod.metadata.name;
        what_if.apply(&zone).expect("the zone exists");
        if drains {
            what_if.apply(&drain("a")).expect("the node exists");
        } else {
            let overlaid = what_if.overlay(|inventory| inventory.read(new.as_bytes(), "new").map(drop));
            overlaid.expect("the objects are valid").expect("the file is valid");
        }
        let changed = what_if.run(|_, _| ()).expect("the objects are valid");
        let pod = changed.simulation.pod("default", &on_a).expect("its name is not free");
        assert_eq!((pod.node(), pod.pod.metadata.is_deleting()), (Some("a"), true), "drains: {drains}");
    }
}

/// As an administrator ends them: <https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown>.
#[test]
fn pods_of_a_stateful_set_stayed_on_a_node_that_is_out_of_service() {
    let text = [node("a", 2), node("b", 4), node("c", 4), workload("StatefulSet", "web", 3, 2)].concat();
    let start = what_if(&text).simulation().unwrap();
    let on_a =
        start.pods().iter().find(|pod| pod.node() == Some("a")).expect("three pods fill the first node");
    let lose = Change::LoseContact { key: "zone".to_owned(), value: "z-a".to_owned(), seconds: None };
    let (key, value) = ("node.kubernetes.io/out-of-service".to_owned(), "nodeshutdown".to_owned());
    let out = |effect: &str| Change::SetTaint {
        node: "a".to_owned(),
        taint: Taint { key: key.clone(), value: value.clone(), effect: effect.to_owned() },
    };
    for changes in [
        vec![lose.clone(), out("NoExecute")],
        vec![lose.clone(), out("NoSchedule")],
        vec![lose, drain("a"), out("NoExecute")],
    ] {
        let changed = played(&text, &changes);
        let pod = changed.simulation.pod("default", &on_a.pod.metadata.name).expect("it is created again");
        assert_eq!(
            (pod.node().is_some_and(|node| node != "a"), pod.pod.metadata.is_deleting()),
            (true, false)
        );
        assert!(changed.outcome.is_harmless());
    }
}

/// kube-controller-manager 1.37.2: with three of four nodes of a zone lost, or all nodes of all zones, `unreachable:NoExecute` is not set.
#[test]
fn pods_left_nodes_of_which_too_many_cannot_be_reached() {
    let zoned = |name: &str, zone: &str| {
        let (labels, more) =
            (format!("zone: z-{name}"), format!("topology.kubernetes.io/zone: {zone}, rack: r-{zone}"));
        node(name, 2).replace(&labels, &format!("{labels}, {more}"))
    };
    let nodes = ["a", "b", "c", "d"]
        .map(|name| zoned(name, "one").replace("r-one", if name == "d" { "r" } else { "s" }));
    let workload = workload("Deployment", "web", 5, 2);
    let lose = |key: &str, value: &str| Change::LoseContact {
        key: key.to_owned(),
        value: value.to_owned(),
        seconds: None,
    };
    let rack = played(&[nodes.concat(), zoned("e", "two"), workload.clone()].concat(), &[lose("rack", "s")]);
    assert_eq!(rack.outcome.unplaced.len(), 3);
    assert!(
        rack.outcome.unplaced.iter().all(|pod| pod.message.contains("evicts no pods")),
        "{:?}",
        rack.outcome.unplaced
    );
    let key = "topology.kubernetes.io/zone";
    let text = [nodes.concat(), zoned("e", "two"), zoned("f", "two"), workload].concat();
    let zone = played(&text, &[lose(key, "one")]);
    assert!(
        zone.outcome.unplaced.iter().any(|pod| pod.message.contains("nodes are available")),
        "one zone is lost"
    );
    let both = played(&text, &[lose(key, "one"), lose(key, "two")]).outcome;
    assert_eq!(both.unplaced.iter().filter(|pod| pod.message.contains("evicts no pods")).count(), 5);
    // The same of each domain in turn.
    let mut all = played(&text, &[]);
    let losses = all.simulation.lose_each_domain("rack", |_, _| ());
    let stranded: Vec<_> = losses.domains.iter().map(|loss| loss.stranded_while_unreachable.len()).collect();
    assert_eq!(stranded.iter().filter(|n| **n > 0).count(), 1, "{losses:?}");
}

/// An unreachable kubelet ends no pod: the API server keeps it with its deletion timestamp.
#[test]
fn a_pod_without_controller_was_gone_from_an_unreachable_node() {
    let pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: alone, namespace: default}\n\
               spec: {nodeName: a, containers: [{name: c, image: i}]}\n";
    let lose = Change::LoseContact { key: "zone".to_owned(), value: "z-a".to_owned(), seconds: None };
    let text = [&node("a", 2), &node("b", 2), pod].concat();
    let changed = played(&text, &[lose.clone(), drain("a")]);
    assert_eq!(changed.simulation.pod("default", "alone").and_then(|pod| pod.node()), Some("a"));
    let removed = played(&text, &[lose, drain("a"), Change::RemoveNode("a".to_owned())]);
    assert!(removed.simulation.pod("default", "alone").is_none());
    assert!(!removed.outcome.is_harmless(), "the pod is lost");
}

/// In order, a StatefulSet deletes no pod while one of those that stay is not available.
#[test]
fn a_stateful_set_with_a_pod_on_an_unreachable_node_was_scaled_down() {
    let lose =
        |zone: &str| Change::LoseContact { key: "zone".to_owned(), value: zone.to_owned(), seconds: None };
    let text = [node("a", 2), node("b", 2), workload("StatefulSet", "db", 2, 2)].concat();
    let before = played(&text, &[]).simulation;
    let zone = format!("z-{}", before.pod("default", "db-0").and_then(|pod| pod.node()).expect("it runs"));
    let name = NamespacedName::new("default", "db");
    let scale = Change::Scale { kind: Kind::StatefulSet, name, n_replicas: 1 };
    for (changes, is_there) in [(vec![scale.clone()], false), (vec![lose(&zone), scale], true)] {
        let after = played(&text, &changes).simulation;
        assert_eq!(after.pod("default", "db-1").is_some(), is_there, "{changes:?}");
    }
}

#[test]
fn a_pod_of_a_daemon_set_was_gone_from_an_unreachable_node_that_it_may_not_use() {
    let set = workload("DaemonSet", "agent", 1, 1).replace("  replicas: 1\n", "");
    let text = [node("a", 2), set].concat();
    let lose = Change::LoseContact { key: "zone".to_owned(), value: "z-a".to_owned(), seconds: None };
    let taint = Taint { key: "k".to_owned(), value: String::new(), effect: "NoExecute".to_owned() };
    let taint = Change::SetTaint { node: "a".to_owned(), taint };
    let on_a = |changes: &[Change]| {
        let changed = played(&text, changes);
        changed.simulation.pods().iter().filter(|pod| pod.node() == Some("a")).count()
    };
    assert_eq!([on_a(std::slice::from_ref(&taint)), on_a(&[lose, taint])], [0, 1]);
}

/// The node controller evicts from one node every ten seconds: the first member has a new place while the second still counts.
#[test]
fn members_of_a_group_on_several_unreachable_nodes_were_evicted_at_once() {
    let group = "---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: g, namespace: default}, spec: \
                 {schedulingPolicy: {gang: {minCount: 2}}}}\n";
    let lost = [node("a", 2), node("b", 2)].concat().replace("pool: web", "pool: lost");
    let other = node("c", 2);
    let web = workload("Deployment", "web", 2, 2)
        .replace("spec: {containers", "spec: {schedulingGroup: {podGroupName: g}, containers");
    let mut what_if = what_if(&[lost.as_str(), group, &web].concat());
    what_if.overlay(|inventory| inventory.read(other.as_bytes(), "more")).unwrap().unwrap();
    let lose = Change::LoseContact { key: "pool".to_owned(), value: "lost".to_owned(), seconds: None };
    what_if.apply(&lose).expect("the nodes exist");
    let outcome = what_if.run(|_, _| ()).expect("valid").outcome;
    assert_eq!((outcome.moved.len(), outcome.unplaced.len()), (1, 1), "{:?}", outcome.unplaced);
}
