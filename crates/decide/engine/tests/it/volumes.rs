//! Volumes: what the random histories have found.

use berth_api::object::{VolumeDecision, VolumeObject};
use berth_engine::{Outcome, Settings};
use berth_testkit::text;

use crate::common::{admitted, cluster};

/// Decides about a pod: the node and what is done about its claims, or the message.
fn decide(lines: &str, pod: &str) -> (String, VolumeDecision) {
    let mut cluster = cluster(&text::world(lines), Settings::default());
    let prepared = cluster.prepare(&admitted(&text::pod(pod), true));
    match cluster.decide(&prepared) {
        Outcome::Placed { node, volumes, .. } => (node, volumes.map(|v| *v).unwrap_or_default()),
        other => (other.message().into_owned(), VolumeDecision::default()),
    }
}

#[test]
fn a_claim_that_a_pod_names_twice_is_bound_once() {
    let lines = "node a\n class local waits static\n pv v class:local\n pv w size:20Gi class:local\n pvc d/c class:local";
    let (node, decision) = decide(lines, "pod d/p claim:c claim:c");
    assert_eq!((node.as_str(), decision.bind), ("a", vec![("c".to_owned(), "v".to_owned())]));
}

#[test]
fn a_class_without_binding_mode_binds_immediately() {
    let (message, _) = decide("node a\n class now\n pvc d/c class:now", "pod d/p claim:c");
    assert_eq!(message, "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.");
}

#[test]
fn a_volume_that_changes_while_it_is_assumed_leaves_nothing_behind() {
    let world = text::world("node a\n class local waits static\n pv v class:local\n pvc d/c class:local");
    let mut cluster = cluster(&world, Settings::default());
    let sizes = cluster.table_sizes();
    let pod = admitted(&text::pod("pod d/p claim:c"), true);
    let prepared = cluster.prepare(&pod);
    assert_eq!(cluster.place(&prepared).node(), Some("a"));
    let mut volume = world.storage.volumes[0].clone();
    volume.metadata.resource_version = "2".to_owned();
    cluster.set_volume_object(VolumeObject::PersistentVolume(Box::new(volume)));
    cluster.forget(&prepared);
    drop(prepared);
    cluster.remove_node("unknown");
    let mut now = cluster.table_sizes();
    for table in ["views", "signatures"] {
        now.insert(table, sizes[table]);
    }
    assert_eq!(now, sizes);
}

#[test]
fn a_volume_that_pods_name_as_an_in_tree_disk_is_attached_once() {
    let lines = "node a\nnode b\ncsinode a ebs.csi.aws.com=1\ncsinode b ebs.csi.aws.com=0
        pod d/running on a ebs:vol-0\npv v csi:ebs.csi.aws.com/vol-0 claim:d/c\npvc d/c volume:v";
    assert_eq!(decide(lines, "pod d/p claim:c").0, "a");
}
