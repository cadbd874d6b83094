//! The rules of volumes, each with a small cluster.

use berth_input::config::Profile;
use berth_testkit::naive::{NodeResult, Options, World, evaluate, preempt};
use berth_testkit::text;

const NODES: &str = "
    node a zone=z1
    node b zone=z2
    class wait waits zone=z2
    class local waits static
    class now
";

fn world(lines: &str) -> World {
    text::world(&format!("{NODES}{lines}"))
}

/// The feasible nodes and what is decided about claims, or the reasons against all nodes.
fn decide(lines: &str, pod: &str) -> String {
    let decision = evaluate(&world(lines), &text::pod(pod), &Profile::default(), &Options::strict_v1());
    if let Some(message) = decision.message {
        return message;
    }
    let feasible = decision.nodes.iter().filter(|(_, r)| matches!(r, NodeResult::Feasible { .. }));
    let mut text: Vec<String> = feasible.map(|(node, _)| node.clone()).collect();
    let volumes = decision.volumes.unwrap_or_default();
    text.extend(volumes.bind.iter().map(|(claim, volume)| format!("{claim}={volume}")));
    text.extend(volumes.provision.iter().map(|claim| format!("{claim}=new")));
    text.join(" ")
}

#[test]
fn a_bound_volume_holds_its_pod_where_it_can_be_reached() {
    let affinity = "pv v node(zone=z1) claim:d/c\n pvc d/c volume:v";
    assert_eq!(decide(affinity, "pod d/p claim:c"), "a");
    assert_eq!(decide("pv v zone=z2 claim:d/c\n pvc d/c volume:v", "pod d/p claim:c"), "b");
    let gone = decide("pvc d/c volume:v", "pod d/p claim:c");
    assert_eq!(gone, "0/2 nodes are available: persistentvolume \"v\" not found.");
}

#[test]
fn a_waiting_claim_gets_the_smallest_volume_or_a_new_one() {
    let volumes = "
        pv small size:1Gi class:local
        pv fits size:5Gi class:local node(zone=z2)
        pv large size:9Gi class:local node(zone=z1)
        pvc d/c size:3Gi class:local
        pvc d/new class:wait
    ";
    assert_eq!(decide(volumes, "pod d/p claim:c"), "a b c=large");
    assert_eq!(decide(volumes, "pod d/p claim:c select:zone=z2"), "b c=fits");
    assert_eq!(decide(volumes, "pod d/p claim:new"), "b new=new");
    assert_eq!(decide(volumes, "pod d/p claim:c claim:new"), "b c=fits new=new");
    assert_eq!(
        decide("pv v class:local block\n pvc d/c class:local", "pod d/p claim:c"),
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    );
}

#[test]
fn reserved_volumes_and_selected_nodes_are_kept() {
    let reserved = "
        pv small size:2Gi class:local
        pv kept size:5Gi class:local reserved:d/c node(zone=z2)
        pvc d/c class:local
        pvc d/selected class:wait selected:b
    ";
    assert_eq!(decide(reserved, "pod d/p claim:c"), "b c=kept");
    assert_eq!(decide(reserved, "pod d/p claim:selected"), "b selected=new");
}

#[test]
fn a_decision_is_assumed_until_it_is_taken_back_or_the_object_changes() {
    let mut world = world("pv v class:local\n pvc d/c class:local\n pvc d/other class:local");
    let ask = |world: &World, claim: &str| {
        let pod = text::pod(&format!("pod d/p claim:{claim}"));
        evaluate(world, &pod, &Profile::default(), &Options::strict_v1())
    };
    let decision = ask(&world, "c").volumes.expect("a volume");
    world.storage.assume("d", "a", &decision);
    assert_eq!(ask(&world, "c").volumes, Some(decision.clone()));
    assert_eq!(ask(&world, "other").chosen, None);
    let mut restored = world.clone();
    restored.storage.restore("d", &decision);
    assert!(ask(&restored, "other").chosen.is_some());
    world
        .storage
        .set(berth_api::object::VolumeObject::PersistentVolume(Box::new(world.storage.volumes[0].clone())));
    assert!(ask(&world, "other").chosen.is_some());
}

#[test]
fn claims_that_cannot_be_used_reject_the_pod() {
    for (claims, volume, reason) in [
        ("", "claim:c", "persistentvolumeclaim \"c\" not found"),
        (
            "pvc d/c lost asks:v",
            "claim:c",
            "persistentvolumeclaim \"c\" bound to non-existent persistentvolume \"v\"",
        ),
        ("pvc d/c deleting class:wait", "claim:c", "persistentvolumeclaim \"c\" is being deleted"),
        ("pvc d/c class:now", "claim:c", "pod has unbound immediate PersistentVolumeClaims"),
        (
            "",
            "ephemeral:e",
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-e\"",
        ),
        (
            "pvc d/p-e class:wait of:q",
            "ephemeral:e",
            "PVC d/p-e was not created for pod d/p (pod is not owner)",
        ),
    ] {
        assert_eq!(
            decide(claims, &format!("pod d/p {volume}")),
            format!("0/2 nodes are available: {reason}.")
        );
    }
    assert_eq!(decide("pvc d/p-e class:wait of:p", "pod d/p ephemeral:e"), "b p-e=new");
}

#[test]
fn capacity_is_where_a_driver_publishes_it() {
    let capacity = |capacity: &str| {
        let lines = format!("csidriver csi.example.com capacity\n pvc d/c size:5Gi class:wait\n {capacity}");
        decide(&lines, "pod d/p claim:c")
    };
    let short = "0/2 nodes are available: 1 node(s) did not have enough free storage, 1 node(s) didn't find available \
                 persistent volumes to bind.";
    assert_eq!(capacity("capacity d/k class:wait size:10Gi zone=z2"), "b c=new");
    assert_eq!(capacity("capacity d/k class:wait size:10Gi max:4Gi"), short);
    assert_eq!(capacity("capacity d/k class:wait size:10Gi nowhere"), short);
}

#[test]
fn attached_volumes_count_once() {
    let lines = |limit: usize| {
        format!(
            "csinode a csi.example.com={limit}
             csinode b csi.example.com=0
             pv v csi:1 claim:d/c
             pv w csi:2 claim:d/other
             pvc d/c volume:v
             pvc d/other volume:w
             pod d/x on a claim:other
             attachment at node:a volume:w"
        )
    };
    assert_eq!(decide(&lines(2), "pod d/p claim:c"), "a");
    assert_eq!(decide(&lines(1), "pod d/p claim:other"), "a");
    let full = "0/2 nodes are available: 2 node(s) exceed max volume count.";
    assert_eq!(decide(&lines(1), "pod d/p claim:c"), full);
}

#[test]
fn a_disk_is_shared_only_by_readers() {
    let shared = "pod d/x on a gce:disk:ro ebs:vol-1:ro iscsi:iqn:ro rbd:image@m1,m2:ro";
    for (volume, nodes) in [
        ("gce:disk", "b"),
        ("gce:disk:ro", "a b"),
        ("ebs:vol-1:ro", "b"),
        ("iscsi:iqn", "b"),
        ("iscsi:iqn:ro", "a b"),
        ("rbd:image@m2", "b"),
        ("rbd:image@m3", "a b"),
        ("rbd:image@m2:ro", "a b"),
    ] {
        assert_eq!(decide(shared, &format!("pod d/p {volume}")), nodes, "{volume}");
    }
}

#[test]
fn a_claim_for_one_pod_is_preempted() {
    let lines = "pv v claim:d/c access:RWOP\n pvc d/c volume:v access:RWOP\n pod d/x on a claim:c";
    let in_use = "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                  access mode already in-use by another pod.";
    assert_eq!(decide(lines, "pod d/p claim:c"), in_use);
    let pod = text::pod("pod d/p claim:c priority:5");
    let victims = preempt(&world(lines), &pod, &Profile::default(), &Options::strict_v1()).expect("victims");
    assert_eq!((victims.node.as_str(), victims.victims[0].name()), ("a", "x"));
}

#[test]
fn migrated_disks_have_the_zone_and_the_limit_of_their_driver() {
    let lines = "
        node c zone=z3 topology.gke.io/zone=z3
        csinode a pd.csi.storage.gke.io=0
        csinode b
        csinode c migrated:kubernetes.io/gce-pd
        pv v gce:disk claim:d/c node(zone=z3|zone=z1|zone=z2)
        pvc d/c volume:v
    ";
    assert_eq!(decide(lines, "pod d/p claim:c"), "b c");
    assert_eq!(decide(lines, "pod d/p gce:disk"), "b c");
    let unlabelled = lines.replace("topology.gke.io/zone=z3", "");
    assert_eq!(decide(&unlabelled, "pod d/p claim:c"), "b");
}
