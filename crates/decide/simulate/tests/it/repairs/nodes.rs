//! Changes of nodes, and new nodes and replicas.

use super::*;

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
