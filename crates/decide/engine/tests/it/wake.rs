//! Wake-up conditions: which changes wake an unschedulable pod, and which let it sleep.

use berth_api::feature_gates::FeatureGates;
use berth_engine::{Cluster, Settings, WakeConditions};
use berth_testkit::text;

use crate::common::{admitted, cluster, with_gates};

/// A cluster in which the last pod of the text waits.
struct Waiting {
    cluster: Cluster,
    conditions: WakeConditions,
}

impl Waiting {
    fn new(text: &str) -> Waiting {
        Waiting::with(FeatureGates::default(), text)
    }

    fn with(gates: FeatureGates, text: &str) -> Waiting {
        let mut world = text::world(text);
        let pod = admitted(&world.pods.pop().expect("a pod waits"), true);
        let mut cluster = cluster(&world, with_gates(gates));
        let prepared = cluster.prepare(&pod);
        assert!(!cluster.fits_anywhere(&prepared), "{text}: the pod fits already");
        let conditions = cluster.wake_conditions(&prepared);
        cluster.record_changes(true);
        Waiting { cluster, conditions }
    }

    /// Makes a change in the text form (`-NAME` removes a node, `-NAMESPACE/NAME` a pod); tells whether it wakes
    /// the pod.
    fn wakes(&mut self, change: &str) -> bool {
        match change.strip_prefix('-').map(|name| name.split_once('/').ok_or(name)) {
            Some(Ok((namespace, name))) => self.cluster.remove_pod(namespace, name),
            Some(Err(name)) => self.cluster.remove_node(name),
            None => {
                let world = text::world(change);
                world.namespaces.iter().for_each(|n| self.cluster.set_namespace(n));
                world.services.iter().for_each(|s| self.cluster.set_service(s));
                world.nodes.iter().for_each(|n| self.cluster.set_node(n));
                world.storage.objects().for_each(|o| self.cluster.set_volume_object(o));
                for pod in &world.pods {
                    self.cluster.set_pod(&admitted(pod, true));
                }
            }
        }
        let changes = self.cluster.take_changes();
        assert!(!changes.is_empty(), "{change}: nothing was noted");
        changes.iter().any(|change| self.cluster.could_help(&self.conditions, change))
    }
}

/// Each change is made to a fresh cluster.
fn check(text: &str, wake: &[&str], sleep: &[&str]) {
    for change in wake {
        assert!(Waiting::new(text).wakes(change), "{text}\ndoes not wake for: {change}");
    }
    for change in sleep {
        assert!(!Waiting::new(text).wakes(change), "{text}\nwakes for: {change}");
    }
}

#[test]
fn a_pod_that_lacks_room_wakes_when_there_is_some() {
    check(
        "node a cpu=2 zone=z1\nnode b cpu=2
         pod default/x on a cpu=1\npod default/y on a cpu=1\npod default/z on b cpu=1
         pod default/p cpu=2",
        &["-default/z", "node a cpu=4 zone=z1", "node c cpu=2", "pod default/z on b cpu=0"],
        &[
            // Not enough of it.
            "-default/x",
            "node a cpu=3 zone=z1",
            "node c cpu=1",
            "node c cpu=2 taint:dedicated=db:NoSchedule",
            // Labels, namespaces, services and other pods make no room.
            "node a cpu=2 zone=z2",
            "pod default/w on b app=w",
            "pod default/z on b cpu=1 priority:1",
            "ns default team=data",
            "svc default/web app=web",
            "-a",
        ],
    );
}

#[test]
fn labels_that_no_rule_sees_are_no_change() {
    let mut waiting = Waiting::new("node a cpu=2\npod default/z on a cpu=1\npod default/p cpu=2");
    waiting.cluster.set_pod(&admitted(&text::world("pod default/z on a cpu=1 app=z").pods[0], true));
    assert!(waiting.cluster.take_changes().is_empty());
}

#[test]
fn a_pod_that_seeks_company_wakes_for_pods_that_match_where_it_may_go() {
    check(
        "node a1 zone=a\nnode a2 zone=a\nnode b1 zone=b\nnode c
         pod default/p select:zone=a aff(app=db @zone)",
        &["pod default/db on a1 app=db", "pod default/db on a2 app=db"],
        &[
            "pod default/web on a1 app=web",
            "pod other/db on a1 app=db",
            // Zones that it may not go to, and nodes in none.
            "pod default/db on b1 app=db",
            "pod default/db on c app=db",
            "node a1 zone=a disk=ssd",
            "node d zone=d",
            "ns default team=data",
        ],
    );
}

#[test]
fn a_pod_kept_out_by_a_nominated_one_wakes_when_the_last_running_pod_with_anti_affinity_goes() {
    check(
        "node a cpu=1\nnode b cpu=1\npod default/full on b cpu=1\npod default/x on b anti(app=p @hostname)
         pod default/n nominated a priority:5 anti(app=p @hostname)\npod default/p app=p cpu=1",
        &["-default/x"],
        &["-default/full", "pod default/y on b anti(app=p @hostname)"],
    );
}

#[test]
fn a_pod_kept_out_by_others_wakes_when_the_last_of_them_goes() {
    let zones = "node a1 zone=a\nnode a2 zone=a\nnode b1 zone=b";
    check(
        &format!(
            "{zones}\npod default/x on a1 app=x\npod default/y on b1 app=x\npod default/z on b1 app=x
             pod default/other on a2 app=other\npod default/p anti(app=x @zone)"
        ),
        &["-default/x", "pod default/x on a1 app=other", "node c"],
        &["-default/other", "-default/y", "pod default/w on a2 app=w", "node a2 zone=a cpu=100"],
    );
    // It moves: its pods count elsewhere now.
    let mut waiting = Waiting::new(&format!(
        "{zones}\npod default/x on a1 app=x\npod default/y on b1 app=x\npod default/p anti(app=x @zone)"
    ));
    assert!(waiting.wakes("node a1 zone=b"));
    // Others that must not be with it.
    check(
        &format!(
            "{zones}\npod default/x on a1 anti(app=p @zone)\npod default/y on b1 anti(app=p @zone)
             pod default/z on b1 anti(app=p @zone)\npod default/p app=p"
        ),
        &["-default/x", "-a1"],
        &["-default/y", "pod default/w on a2 app=w"],
    );
}

#[test]
fn the_first_of_a_group_wakes_when_the_group_has_gone() {
    check(
        "node a zone=a cpu=1\nnode b zone=b\npod default/x on a app=p cpu=1
         pod default/p app=p cpu=1 aff(app=p @zone)",
        &["-default/x", "pod default/y on b app=p"],
        &["pod default/y on b app=other"],
    );
}

#[test]
fn spreading_wakes_for_pods_that_count() {
    check(
        "node a zone=a\nnode b zone=b cpu=1\npod default/x on a app=p\npod default/full on b cpu=1
         pod default/p app=p cpu=1 spread(1 app=p @zone)",
        &["-default/x", "pod default/y on b app=p", "-b", "-default/full"],
        &["pod default/y on a app=other", "pod other/y on a app=p", "ns default team=data"],
    );
}

#[test]
fn namespaces_wake_pods_whose_terms_look_at_them() {
    check(
        "ns default\nns team-a\nnode a zone=a\npod team-a/x on a app=x\npod default/p aff(app=x @zone ns:team=data)",
        &["ns team-a team=data"],
        &["pod default/x on a app=x", "svc default/s app=x"],
    );
}

#[test]
fn some_pods_never_wake() {
    for pod in ["gate:wait", "node(metadata.name=a metadata.name=b)"] {
        let mut waiting = Waiting::new(&format!("node a\npod default/x on a\npod default/p {pod}"));
        assert!(!waiting.wakes("-default/x") && !waiting.wakes("node b"), "{pod}");
    }
    let named = "node a cpu=1\npod default/x on a cpu=1\npod default/p cpu=1 node(metadata.name=a)";
    check(named, &["-default/x", "node a cpu=2"], &["node b cpu=2"]);
}

#[test]
fn a_pod_set_again_unchanged_is_no_change() {
    let world = text::world("node a\npod default/x on a app=x");
    let mut cluster = cluster(&world, Settings::default());
    cluster.record_changes(true);
    assert!(cluster.set_pod(&admitted(&world.pods[0], true)));
    cluster.set_node(&world.nodes[0]);
    assert!(cluster.take_changes().is_empty());
    cluster.record_changes(false);
    cluster.remove_pod("default", "x");
    assert!(cluster.take_changes().is_empty());
}

#[test]
fn a_pod_wakes_when_a_running_pod_is_resized_to_less() {
    check(
        "node a cpu=2\npod default/x on a cpu=1 allocated:cpu=2\npod default/p cpu=1",
        &["pod default/x on a cpu=1 allocated:cpu=1", "pod default/x on a cpu=2 allocated:cpu=1 infeasible"],
        &["pod default/x on a cpu=1 allocated:cpu=1500m", "pod default/x on a cpu=3 allocated:cpu=1"],
    );
}

#[test]
fn a_pod_wakes_when_a_node_declares_the_feature_that_it_requires() {
    let feature = "feature:RestartAllContainersOnContainerExits";
    check(
        "node a cpu=2\npod default/p restarts-all",
        &[&format!("node a cpu=2 {feature}"), &format!("node b {feature}")],
        &["node a cpu=4", "node b feature:UserNamespacesHostNetworkSupport"],
    );
}

#[test]
fn a_pod_with_volumes_wakes_when_a_node_has_room_for_them_or_attaches_them_already() {
    let full = "node a\ncsinode a csi.example.com=1\nclass wait waits";
    check(
        &format!(
            "{full}\npv v csi:h claim:d/own\npvc d/own volume:v\npv w csi:h claim:d/theirs\npv x csi:i claim:d/theirs
             pvc d/theirs class:wait\npod d/running on a claim:theirs\npod d/p claim:own"
        ),
        &["pvc d/theirs class:wait volume:w", "csinode a csi.example.com=2", "-d/running"],
        &["pvc d/theirs class:wait volume:x"],
    );
    check(
        &format!(
            "{full}\nnode b\ncsinode b csi.example.com=0\npv v csi:h claim:d/own\npvc d/own volume:v\npv w csi:i
             attachment t node:a volume:w\npod d/p claim:own"
        ),
        &["attachment t node:b volume:w"],
        &[],
    );
    check(
        "node a zone=a\nclass cap waits provisioner:cap\ncsidriver cap capacity\ncapacity d/k class:cap size:9Gi zone=b
         pvc d/c class:cap\npod d/p claim:c",
        &["capacity d/k class:cap size:9Gi zone=a"],
        &[],
    );
}

#[test]
fn a_pod_wakes_for_the_annotations_and_fields_of_nodes_that_it_mentions() {
    check(
        "node a annotation:slot=1 kernel:5.15.0-91-generic
         pod default/p note-node(annotation:slot=2 | status.nodeInfo.kernelVersion>v6)",
        &["node a annotation:slot=2 kernel:5.15.0-91-generic", "node a annotation:slot=1 kernel:6.1"],
        &["node a annotation:slot=3 kernel:5.15.0-91-generic", "node a annotation:slot=1 kernel:5.16"],
    );
}

#[test]
fn a_pod_wakes_when_an_attached_volume_becomes_one_that_its_driver_does_not_count() {
    check(
        "node a\ncsinode a csi.example.com=1\npv old csi:h1\nattachment at node:a volume:old
         pv new csi:h2 claim:d/c\npvc d/c volume:new\npod d/p claim:c",
        &["pv old gce:disk"],
        &[],
    );
}

#[test]
fn pods_with_feature_gates_wake_where_the_feature_helps() {
    let gates = FeatureGates {
        taint_toleration_comparison_operators: true,
        volume_limit_scaling: true,
        ..FeatureGates::default()
    };
    let wakes = |text: &str, change: &str| Waiting::with(gates, text).wakes(change);

    let tainted = "node a taint:sla=900:NoSchedule\npod default/p tolerate:sla>950";
    assert!(wakes(tainted, "node a taint:sla=951:NoSchedule"));
    assert!(!wakes(tainted, "node a taint:sla=950:NoSchedule"));

    let missing = "node a\ncsinode a other\ncsidriver drv required\nclass c provisioner:drv waits\npvc default/c class:c
        pod default/p claim:c";
    assert!(wakes(missing, "csinode a drv"));
    assert!(wakes(missing, "csidriver drv"));
    assert!(!wakes(missing, "csinode a another"));

    // Enhancement 5381: the node affinity of a volume changes, with or without the gate.
    let elsewhere = "node a zone=z1\npv v node(zone=z2) claim:default/c\npvc default/c volume:v
        pod default/p claim:c";
    assert!(wakes(elsewhere, "pv v node(zone=z1) claim:default/c"));
}
