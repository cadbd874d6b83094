//! Node admission: what a node refuses, whoever bound the pod to it.

use berth_api::object::PodOs;
use berth_engine::Settings;
use berth_testkit::text;

use crate::common::{admitted, cluster};

/// Whether node `a` admits the last pod of the text: `admitted`, or reason and message.
fn admission(text: &str) -> String {
    let mut world = text::world(text);
    let mut pod = world.pods.pop().expect("a pod arrives");
    let resources = &mut pod.spec.containers[0].resources;
    resources.limits = resources.requests.clone();
    let pod = admitted(&pod, true);
    let mut cluster = cluster(&world, Settings::default());
    let prepared = cluster.prepare(&pod);
    let ask = || match cluster.node_admission(&prepared, "a") {
        Ok(()) => "admitted".to_owned(),
        Err(rejection) => format!("{} | {}", rejection.reason, rejection.message),
    };
    let answer = ask();
    assert_eq!(ask(), answer, "asking changes nothing");
    answer
}

#[test]
fn a_node_checks_what_kubelets_check() {
    let node = "node a cpu=2 pods=2 disk=ssd taint:dedicated=db:NoSchedule taint:down:NoExecute
        pod default/x on a cpu=1 port:80";
    for (pod, expected) in [
        ("tolerate:down", "admitted"),
        ("", "TaintToleration | Predicate TaintToleration failed: node(s) had untolerated taint(s)"),
        // Taints that only keep pods from being scheduled, and cordons, do not matter once a pod is bound.
        (
            "cpu=1500m tolerate:*",
            "OutOfcpu | Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000",
        ),
        (
            "select:disk=hdd tolerate:*",
            "NodeAffinity | Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "rdrd-node(disk=hdd) tolerate:*",
            "NodeAffinity | Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "note-rdrd-node(disk=hdd) tolerate:*",
            "NodeAffinity | Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            "port:80 tolerate:*",
            "NodePorts | Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            "on b tolerate:*",
            "NodeName | Predicate NodeName failed: node(s) didn't match the requested node name",
        ),
        // Extended resources that the node does not have are allotted by something else.
        ("req:example.com/gpu=1 tolerate:*", "admitted"),
        // Rules that hold at scheduling only.
        ("anti(app=web @hostname) app=web spread(1 * @zone) tolerate:*", "admitted"),
    ] {
        assert_eq!(admission(&format!("{node}\npod default/p {pod}")), expected, "{pod}");
    }
    let full = "node a pods=1\npod default/x on a\npod default/p";
    assert_eq!(
        admission(full),
        "OutOfpods | Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"
    );
    assert_eq!(admission("node b\npod default/p"), "InvalidNodeInfo | Kubelet cannot get node info.");
    assert_eq!(admission("node a unschedulable\npod default/p"), "admitted");
}

#[test]
fn a_node_checks_rules_that_hold_during_execution() {
    for (running, pod, expected) in [
        ("pod default/x on a app=db", "rdrd-aff(app=db @hostname)", "admitted"),
        ("pod default/x on a app=db", "note-rdrd-aff(app=db @hostname)", "admitted"),
        ("pod default/x on b app=db", "rdrd-aff(app=db @hostname)", "PodAffinity"),
        ("pod default/x on b app=db", "note-rdrd-aff(app=db @hostname)", "PodAffinity"),
        // The first of its group may start, a second one must join it.
        ("", "app=db rdrd-aff(app=db @hostname)", "admitted"),
        ("pod default/x on b app=db", "app=db rdrd-aff(app=db @hostname)", "PodAffinity"),
        ("pod default/x on a app=db", "rdrd-anti(app=db @hostname)", "PodAntiAffinity"),
        ("pod default/x on a app=db", "rdrd-anti(app=db @*)", "PodAntiAffinity"),
        ("pod default/x on b app=db", "rdrd-anti(app=db @hostname)", "admitted"),
        // A node cannot see zones.
        ("pod default/x on b app=db", "rdrd-anti(app=db @zone)", "admitted"),
        ("pod default/x on b app=db", "rdrd-aff(app=db @zone)", "admitted"),
        // Anti-affinity of pods on the node.
        ("pod default/x on a rdrd-anti(app=web @hostname)", "app=web", "PodAntiAffinity"),
        ("pod default/x on a note-rdrd-anti(app=web @hostname)", "app=web", "PodAntiAffinity"),
        ("pod default/x on a anti(app=web @hostname)", "app=web", "admitted"),
        // Pods in exempt namespaces are not concerned.
        ("pod kube-system/x on a app=db", "rdrd-anti(app=db @hostname ns=kube-system)", "admitted"),
    ] {
        let text = format!("node a zone=z\nnode b zone=z\n{running}\npod default/p {pod}");
        let answer = admission(&text);
        assert_eq!(answer.split(" | ").next(), Some(expected), "{running} / {pod}: {answer}");
    }
    let answer = admission("node a\npod default/x on a app=db\npod default/p rdrd-anti(app=db @hostname)");
    assert!(answer.contains("requiredDuringSchedulingRequiredDuringExecution[0]"), "{answer}");
    assert!(answer.contains("default/x runs on the node"), "{answer}");
}

#[test]
fn a_pod_does_not_conflict_with_itself() {
    let pod = "pod default/p on a app=p cpu=2 port:80 rdrd-anti(app=p @hostname) rdrd-aff(app=p @hostname)";
    let text = format!("node a cpu=2 pods=1\n{pod}\n{pod}");
    assert_eq!(admission(&text), "admitted");
}

#[test]
fn a_kubelet_rejects_pods_of_another_operating_system_before_all_other_checks() {
    let field = "PodOSNotSupported | Failed to admit pod as the OS field doesn't match node OS";
    let label = "PodOSSelectorNodeLabelDoesNotMatch | Failed to admit pod as the `kubernetes.io/os` label doesn't match node \
                 label";
    let resources =
        "OutOfcpu | Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 1000";
    for (node, pod_label, os, expected) in [
        ("kubernetes.io/os=linux", "", Some("windows"), field),
        // Without the label, a node is Linux.
        ("", "", Some("windows"), field),
        ("kubernetes.io/os=windows", "", Some("linux"), field),
        ("kubernetes.io/os=linux", "kubernetes.io/os=windows", Some("windows"), label),
        ("kubernetes.io/os=linux", "kubernetes.io/os=windows", None, label),
        ("kubernetes.io/os=windows", "kubernetes.io/os=windows", Some("windows"), resources),
        ("", "kubernetes.io/os=linux", Some("linux"), resources),
        ("kubernetes.io/os=windows", "", None, resources),
    ] {
        let mut world = text::world(&format!("node a cpu=1 {node}\npod default/p cpu=9 {pod_label}"));
        let mut pod = world.pods.pop().expect("a pod arrives");
        pod.spec.os = os.map(|name| PodOs { name: name.to_owned() });
        let pod = admitted(&pod, true);
        let mut cluster = cluster(&world, Settings::default());
        let prepared = cluster.prepare(&pod);
        let rejection = cluster.node_admission(&prepared, "a").expect_err("the pod does not fit");
        let found = format!("{} | {}", rejection.reason, rejection.message);
        assert_eq!(found, expected, "{node}, {pod_label}, {os:?}");
    }
}
