//! NodeRestriction, with the messages of kube-apiserver.

use berth_admission::{Endpoint, ReviewError};
use serde_json::{Value, json};

use crate::world::{World, policy, request};

fn world() -> World {
    World::new(policy(""), "node a\nnode b\npod default/mine on a\npod default/theirs on b")
}

/// The message that denies a request of node `a`, if any.
fn told(fields: Value) -> Option<String> {
    answered(&world(), fields).unwrap()
}

fn answered(world: &World, fields: Value) -> Result<Option<String>, ReviewError> {
    let mut all = json!({
        "userInfo": {"username": "system:node:a", "groups": ["system:nodes", "system:authenticated"]},
    });
    for (name, value) in fields.as_object().unwrap() {
        all[name] = value.clone();
    }
    Ok(world.ask(Endpoint::ValidateNodes, &request(all))?.denied.map(|denial| denial.text()))
}

fn core(resource: &str) -> Value {
    json!({"group": "", "version": "v1", "resource": resource})
}

fn node(operation: &str, name: &str, new: Value, old: Value) -> Value {
    json!({"resource": core("nodes"), "operation": operation, "name": name, "object": new, "oldObject": old})
}

fn labelled(labels: Value) -> Value {
    json!({"metadata": {"name": "a", "labels": labels}, "spec": {}})
}

#[test]
fn a_node_may_change_only_parts_of_its_own_object() {
    let plain = labelled(json!({}));
    let tainted =
        json!({"metadata": {"name": "a"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    for (request, expected) in [
        (node("UPDATE", "a", plain.clone(), plain.clone()), None),
        (
            node("UPDATE", "b", plain.clone(), plain.clone()),
            Some("nodes \"b\" is forbidden: node \"a\" is not allowed to modify node \"b\""),
        ),
        (
            node("DELETE", "b", Value::Null, plain.clone()),
            Some("nodes \"b\" is forbidden: node \"a\" is not allowed to modify node \"b\""),
        ),
        (
            node(
                "UPDATE",
                "a",
                labelled(json!({"node-restriction.kubernetes.io/tier": "gold"})),
                plain.clone(),
            ),
            Some(
                "nodes \"a\" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/tier",
            ),
        ),
        (
            node(
                "CREATE",
                "a",
                labelled(json!({"node-restriction.kubernetes.io/tier": "gold", "x.k8s.io/y": ""})),
                Value::Null,
            ),
            Some(
                "nodes \"a\" is forbidden: node \"a\" is not allowed to set the following labels: \
                 node-restriction.kubernetes.io/tier, x.k8s.io/y",
            ),
        ),
        // Existing values may stay, and unrestricted labels may change.
        (
            node(
                "UPDATE",
                "a",
                labelled(json!({"node-restriction.kubernetes.io/tier": "gold", "color": "red"})),
                labelled(json!({"node-restriction.kubernetes.io/tier": "gold"})),
            ),
            None,
        ),
        (
            node("UPDATE", "a", plain.clone(), tainted.clone()),
            Some("nodes \"a\" is forbidden: node \"a\" is not allowed to modify taints"),
        ),
        (node("CREATE", "a", tainted, Value::Null), None),
    ] {
        assert_eq!(told(request.clone()).as_deref(), expected, "{request}");
    }
}

#[test]
fn users_other_than_nodes_are_not_restricted() {
    let change = node("UPDATE", "b", labelled(json!({"node-restriction.kubernetes.io/x": ""})), json!({}));
    for user in [
        json!({"username": "kubernetes-admin", "groups": ["system:masters"]}),
        json!({"username": "system:node:a", "groups": ["system:authenticated"]}),
        json!({"username": "kubelet", "groups": ["system:nodes"]}),
    ] {
        let mut change = change.clone();
        change["userInfo"] = user;
        assert_eq!(told(change), None);
    }
    let mut nameless = change.clone();
    nameless["userInfo"] = json!({"username": "system:node:", "groups": ["system:nodes"]});
    assert_eq!(
        told(nameless).unwrap(),
        "nodes \"b\" is forbidden: could not determine node from user \"system:node:\""
    );
    let off = World::new(policy(r#""nodeRestriction": false"#), "node a");
    assert_eq!(answered(&off, change), Ok(None));
}

#[test]
fn a_node_may_change_only_pods_bound_to_it() {
    let on =
        |node: &str| json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"nodeName": node}});
    let status = |new: Value, old: Value| json!({"operation": "UPDATE", "subResource": "status", "name": "p", "object": new, "oldObject": old});
    let delete = |old: Value| json!({"operation": "DELETE", "name": "p", "oldObject": old});
    let evict = |name: &str| {
        json!({"subResource": "eviction", "name": name, "namespace": "default",
            "object": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}})
    };
    let mut relabelled = on("a");
    relabelled["metadata"]["labels"]["a"] = "c".into();
    let annotated = |annotations: Value| {
        let mut pod = on("a");
        pod["metadata"]["annotations"] = annotations;
        pod
    };
    let held = || annotated(json!({"scheduling.berth.dev/without-target": "hold", "example.com/b": "1"}));
    let affinity = json!({"scheduling.berth.dev/affinity": "{}"});
    for (request, expected) in [
        (status(on("a"), on("a")), None),
        (
            status(on("b"), on("b")),
            Some("node \"a\" can only update pod status for pods with spec.nodeName set to itself"),
        ),
        (status(relabelled, on("a")), Some("node \"a\" cannot update labels through pod status")),
        (status(held(), held()), None),
        (status(annotated(json!({"example.com/b": "2"})), on("a")), None),
        (
            status(held(), on("a")),
            Some(
                "node \"a\" cannot set, change or remove the annotation scheduling.berth.dev/without-target of a pod",
            ),
        ),
        (
            status(on("a"), annotated(affinity.clone())),
            Some(
                "node \"a\" cannot set, change or remove the annotation scheduling.berth.dev/affinity of a pod",
            ),
        ),
        (delete(annotated(affinity)), None),
        (delete(on("a")), None),
        (delete(on("b")), Some("node \"a\" can only delete pods with spec.nodeName set to itself")),
        (evict("mine"), None),
        (evict("theirs"), Some("node a can only evict pods with spec.nodeName set to itself")),
        (
            json!({"operation": "UPDATE", "name": "p", "object": on("a"), "oldObject": on("a")}),
            Some("unexpected operation \"UPDATE\", node \"a\" can only create and delete mirror pods"),
        ),
        (
            json!({"subResource": "binding", "name": "p", "object": {}}),
            Some("unexpected pod subresource \"binding\", only 'status' and 'eviction' are allowed"),
        ),
    ] {
        let said = told(request.clone());
        let said = said.as_deref().map(|text| text.split_once(" is forbidden: ").unwrap().1);
        assert_eq!(said, expected, "{request}");
    }
    // An API server has a plugin that does not know the annotations: the webhook for pods checks them as well.
    let mut change = status(held(), on("a"));
    change["userInfo"] = json!({"username": "system:node:a", "groups": ["system:nodes"]});
    let denied = world().ask(Endpoint::ValidatePods, &request(change)).unwrap().denied;
    assert!(denied.unwrap().message.ends_with("the annotation scheduling.berth.dev/without-target of a pod"));
    assert!(matches!(answered(&world(), evict("absent")), Err(ReviewError::Unseen(_))));
}

#[test]
fn a_node_may_create_only_its_own_mirror_pods() {
    let mirror = |change: fn(&mut Value)| {
        let mut pod = json!({
            "metadata": {
                "name": "static-a", "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "", "controller": true}],
            },
            "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        });
        change(&mut pod);
        let said = told(json!({"name": "static-a", "namespace": "default", "object": pod}));
        said.map(|text| text.split_once(" is forbidden: ").unwrap().1.to_owned())
    };
    assert_eq!(mirror(|_| ()), None);
    type Case = (fn(&mut Value), &'static str);
    let cases: [Case; 9] = [
        (
            |pod| pod["metadata"]["annotations"] = json!({}),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"a\" can only create mirror pods",
        ),
        (
            |pod| pod["spec"]["nodeName"] = "b".into(),
            "node \"a\" can only create pods with spec.nodeName set to itself",
        ),
        (
            |pod| pod["metadata"]["ownerReferences"] = json!([]),
            "node \"a\" can only create pods with an owner reference set to itself",
        ),
        (
            |pod| pod["metadata"]["ownerReferences"][0]["uid"] = "other".into(),
            "node a UID mismatch: expected other got ",
        ),
        (
            |pod| pod["metadata"]["ownerReferences"][0]["controller"] = false.into(),
            "node \"a\" can only create pods with a controller owner reference set to itself",
        ),
        (
            |pod| pod["spec"]["serviceAccountName"] = "default".into(),
            "node \"a\" can not create pods that reference a service account",
        ),
        (
            |pod| pod["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]),
            "node \"a\" can not create pods that reference secrets",
        ),
        (
            |pod| pod["spec"]["containers"][0]["envFrom"] = json!([{"configMapRef": {"name": "s"}}]),
            "node \"a\" can not create pods that reference configmaps",
        ),
        (
            |pod| {
                pod["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "s"}}])
            },
            "node \"a\" can not create pods that reference persistentvolumeclaims",
        ),
    ];
    for (change, expected) in cases {
        assert_eq!(mirror(change).as_deref(), Some(expected));
    }
}

#[test]
fn a_node_may_change_only_its_own_leases_csinodes_and_tokens() {
    let lease = |namespace: &str, name: &str| {
        json!({"resource": {"group": "coordination.k8s.io", "version": "v1", "resource": "leases"},
            "namespace": namespace, "object": {"metadata": {"name": name}}})
    };
    let csi = |name: &str| {
        json!({"resource": {"group": "storage.k8s.io", "version": "v1", "resource": "csinodes"},
            "object": {"metadata": {"name": name}}})
    };
    let token = |bound: Value| {
        json!({"resource": core("serviceaccounts"), "subResource": "token", "name": "default",
            "namespace": "default", "object": {"spec": {"boundObjectRef": bound}}})
    };
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": "u"});
    for (request, expected) in [
        (lease("kube-node-lease", "a"), None),
        (
            lease("default", "a"),
            Some(
                "leases.coordination.k8s.io \"a\" is forbidden: can only access leases in the \"kube-node-lease\" system \
                 namespace",
            ),
        ),
        (
            lease("kube-node-lease", "b"),
            Some(
                "leases.coordination.k8s.io \"b\" is forbidden: can only access node lease with the same name as the \
                 requesting node",
            ),
        ),
        (csi("a"), None),
        (
            csi("b"),
            Some(
                "csinodes.storage.k8s.io \"b\" is forbidden: can only access CSINode with the same name as the requesting \
                 node",
            ),
        ),
        (token(pod("mine")), None),
        (
            token(Value::Null),
            Some("serviceaccounts \"default\" is forbidden: node requested token not bound to a pod"),
        ),
        (
            token(pod("theirs")),
            Some(
                "serviceaccounts \"default\" is forbidden: node requested token bound to a pod scheduled on a different \
                 node",
            ),
        ),
    ] {
        assert_eq!(told(request.clone()).as_deref(), expected, "{request}");
    }
}

#[test]
fn a_node_gets_no_more_taints_than_the_limit() {
    let tainted = |n: usize| {
        let taints: Vec<_> =
            (0..n).map(|i| json!({"key": format!("k{i}"), "effect": "NoSchedule"})).collect();
        json!({"metadata": {"name": "a"}, "spec": {"taints": taints}})
    };
    let answer = |limits: &str, fields: Value| {
        let world = World::new(policy(limits), "node a");
        let answer = world.ask(Endpoint::ValidateNodes, &request(fields)).unwrap();
        (answer.denied.map(|denial| denial.text()), answer.warnings)
    };
    let because = |n: usize, most: usize| {
        format!(
            "spec.taints has {n} entries, more than {most} (ruleLimits.maxTaints of the AdmissionPolicy): each decision \
             about a pod reads them; use fewer taints, or raise the limit"
        )
    };
    let none = (None, Vec::new());
    assert_eq!(answer("", node("CREATE", "a", tainted(1000), Value::Null)), none);
    assert_eq!(
        answer("", node("CREATE", "a", tainted(1001), Value::Null)),
        (None, vec![because(1001, 1000)])
    );
    let reject = r#""ruleLimits": {"action": "Reject", "maxTaints": 5}"#;
    let refused = (Some(format!("nodes \"a\" is forbidden: {}", because(6, 5))), Vec::new());
    assert_eq!(answer(reject, node("CREATE", "a", tainted(6), Value::Null)), refused);
    assert_eq!(answer(reject, node("UPDATE", "a", tainted(6), tainted(5))), refused);
    // A node from before the policy loses its taints one by one.
    assert_eq!(answer(reject, node("UPDATE", "a", tainted(6), tainted(7))), none);
    assert_eq!(answer(reject, node("DELETE", "a", Value::Null, tainted(6))), none);
}
