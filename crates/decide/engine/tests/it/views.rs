//! Views of nodes that are added and removed.

use berth_api::object::{Node, Pod};
use berth_engine::{Cluster, Settings};
use berth_testkit::text;

use crate::common::admitted;

fn node(name: &str) -> Node {
    text::node(&format!("node {name} cpu=4"))
}

fn decide(cluster: &mut Cluster, pod: &Pod) -> String {
    let prepared = cluster.prepare(pod);
    cluster.decide(&prepared).node().unwrap_or("-").to_owned()
}

#[test]
fn a_node_with_the_id_of_a_removed_one_has_its_own_place_in_the_order_of_names() {
    let pod = admitted(&text::world("pod default/a cpu=1").pods[0], true);
    let mut cluster = Cluster::new(Settings::default());
    (0..3).for_each(|i| cluster.set_node(&node(&format!("n{i}"))));
    assert_eq!(decide(&mut cluster, &pod), "n0");
    for i in 0..200 {
        cluster.remove_node(&format!("n{i}"));
        cluster.set_node(&node(&format!("n{}", i + 3)));
        let mut names: Vec<_> = (i + 1..i + 4).map(|i| format!("n{i}")).collect();
        names.sort_unstable();
        assert_eq!(decide(&mut cluster, &pod), names[0]);
    }
}

#[test]
fn the_plugins_that_reject_a_pod_do_not_depend_on_what_was_decided_before() {
    let pod = admitted(&text::world("pod default/a cpu=1").pods[0], true);
    let mut cluster = Cluster::new(Settings::default());
    let (cordoned, tainted) = ("unschedulable", "taint:dedicated=db:NoSchedule");
    for (a, b) in [(tainted, cordoned), (cordoned, tainted), (tainted, cordoned)] {
        cluster.set_node(&text::node(&format!("node a {a}")));
        cluster.set_node(&text::node(&format!("node b {b}")));
        let prepared = cluster.prepare(&pod);
        assert_eq!(cluster.decide(&prepared), cluster.evaluate(&prepared).outcome);
    }
}
