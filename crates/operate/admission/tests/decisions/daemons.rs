//! Toleration of anti-affinity by daemons.

use berth_admission::Endpoint;
use serde_json::json;

use crate::world::{World, check, creation, one_pod, policy};

const PATH: &str = "metadata.annotations[scheduling.berth.dev/tolerates-anti-affinity]";

#[test]
fn only_pods_of_daemon_namespaces_may_tolerate_anti_affinity() {
    let policy = policy(r#""daemonNamespaces": ["monitoring"]"#);
    check(&policy, "pod monitoring/p tolerate-anti:finance,team-a", &[]);
    check(&policy, "pod default/plain", &[]);
    let refused = format!(
        "pods \"p\" is forbidden: {PATH}: pods of namespace \"default\" may not run beside pods that reject them; remove the \
         annotation, or add the namespace to daemonNamespaces of the admission policy"
    );
    check(&policy, "pod default/p tolerate-anti:*", &[&refused]);
    let invalid = format!(
        "Pod \"p\" is invalid: {PATH}: Invalid value: \"Team_A\": must be \"*\" or names of namespaces, separated by commas"
    );
    check(&policy, "pod monitoring/p tolerate-anti:*,Team_A", &[&invalid]);
}

#[test]
fn pods_of_daemon_sets_in_daemon_namespaces_tolerate_anti_affinity() {
    let world = World::new(policy(r#""daemonNamespaces": ["monitoring"]"#), "");
    let patch = |pod: &str| world.ask(Endpoint::MutatePods, &creation(&one_pod(pod))).unwrap().patch;
    let path = "/metadata/annotations/scheduling.berth.dev~1tolerates-anti-affinity";
    let annotation = json!({"scheduling.berth.dev/tolerates-anti-affinity": "*"});
    assert_eq!(
        patch("pod monitoring/p owner:DaemonSet/d"),
        [json!({"op": "add", "path": "/metadata/annotations", "value": annotation})]
    );
    let with_annotations = "pod monitoring/p owner:DaemonSet/d note-node(zone=z1)";
    assert_eq!(patch(with_annotations), [json!({"op": "add", "path": path, "value": "*"})]);
    for other in [
        "pod monitoring/p owner:DaemonSet/d tolerate-anti:finance",
        "pod monitoring/p owner:ReplicaSet/d",
        "pod monitoring/p",
        "pod default/p owner:DaemonSet/d",
    ] {
        assert!(patch(other).is_empty(), "{other}");
    }
}
