//! Rules that see other objects or permissions, in a cluster in memory.

use std::collections::HashSet;

use berth_schema::resource::{
    CERTIFICATE_SIGNING_REQUESTS, PERSISTENT_VOLUME_CLAIMS, PODS, ROLES, Resource, SERVICES,
};
use serde_json::{Value, json};

use super::*;
use crate::request::{ApiResult, User};
use crate::store::Claim;
use crate::strategy::fake_cluster::FakeCluster;

fn namespace(name: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": phase}})
}

/// A cluster with the namespace `default`.
fn cluster() -> FakeCluster {
    FakeCluster::default().with(namespace("default", "Active"))
}

fn user() -> User {
    User { name: "anna".into(), ..User::default() }
}

/// Creates an object as a user without special permissions.
fn create(cluster: &FakeCluster, resource: &Resource, mut value: Value) -> ApiResult<Value> {
    let user = user();
    let context = cluster.context(&user);
    prepare(&context, resource, &mut value, None)?;
    admit(&context, resource, &mut value, None, &mut Vec::new())?;
    Ok(value)
}

fn in_default(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

fn pod(spec: Value) -> Value {
    let mut pod = in_default("p", spec);
    pod["spec"]["containers"] = json!([{"name": "c", "image": "i"}]);
    pod
}

#[test]
fn objects_are_created_in_active_namespaces_only() {
    let cluster = cluster().with(namespace("ending", "Terminating"));
    let in_namespace = |name: &str| {
        let mut pod = pod(json!({}));
        pod["metadata"]["namespace"] = name.into();
        create(&cluster, &PODS, pod).map(drop).map_err(|status| status.message)
    };
    assert_eq!(in_namespace("default"), Ok(()));
    assert_eq!(in_namespace("none").unwrap_err(), "namespaces \"none\" not found");
    assert_eq!(
        in_namespace("ending").unwrap_err(),
        "pods \"p\" is forbidden: unable to create new content in namespace ending because it is being terminated"
    );
}

#[test]
fn a_pod_gets_its_priority_and_the_labels_of_its_node() {
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"},
        "value": 1000, "preemptionPolicy": "Never"});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n",
        "labels": {"topology.kubernetes.io/zone": "z", "other": "o"}}});
    let cluster = cluster().with(class).with(node);
    let created =
        create(&cluster, &PODS, pod(json!({"priorityClassName": "high", "nodeName": "n"}))).unwrap();
    assert_eq!(
        (&created["spec"]["priority"], &created["spec"]["preemptionPolicy"]),
        (&json!(1000), &json!("Never"))
    );
    assert_eq!(created["metadata"]["labels"], json!({"topology.kubernetes.io/zone": "z"}));
    let refused = create(&cluster, &PODS, pod(json!({"priorityClassName": "low"}))).unwrap_err();
    assert!(refused.message.contains("no PriorityClass with name low was found"), "{}", refused.message);
}

#[test]
fn limit_ranges_complete_and_bound_pods() {
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l", "namespace": "default"},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1"}, "default": {"cpu": "2"},
            "max": {"cpu": "3"}}]}});
    let cluster = cluster().with(limits);
    let created = create(&cluster, &PODS, pod(json!({}))).unwrap();
    let resources = &created["spec"]["containers"][0]["resources"];
    assert_eq!(*resources, json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}));
    let mut large = pod(json!({}));
    large["spec"]["containers"][0]["resources"] = json!({"limits": {"cpu": "4"}});
    let refused = create(&cluster, &PODS, large).unwrap_err();
    assert!(refused.message.contains("maximum cpu usage per Container is 3"), "{}", refused.message);
}

#[test]
fn a_claim_gets_the_newest_default_class() {
    let class = |name: &str, created: &str, is_default: &str| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name,
            "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": is_default}}})
    };
    let cluster = cluster()
        .with(class("old", "2026-01-01T00:00:00Z", "true"))
        .with(class("new", "2026-02-01T00:00:00Z", "true"))
        .with(class("newest", "2026-03-01T00:00:00Z", "false"));
    let claim = in_default(
        "c",
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),
    );
    let created = create(&cluster, &PERSISTENT_VOLUME_CLAIMS, claim).unwrap();
    assert_eq!(created["spec"]["storageClassName"], "new");
}

#[test]
fn a_role_has_only_permissions_that_its_author_holds() {
    let role = || {
        json!({"metadata": {"name": "r", "namespace": "default"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
    };
    let refused = create(&cluster(), &ROLES, role()).unwrap_err();
    assert!(refused.message.contains("attempting to grant RBAC permissions not currently held"));
    let may_escalate = cluster().allow("escalate", "roles", "r");
    assert!(create(&may_escalate, &ROLES, role()).is_ok());
}

#[test]
fn signing_needs_a_permission_for_the_signer() {
    let request = |status: Value| {
        json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "r", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"request": "", "signerName": "example.com/s", "usages": ["client auth"]}, "status": status})
    };
    let (old, new) = (request(json!({})), request(json!({"certificate": "Yw=="})));
    let sign = |cluster: FakeCluster| {
        let user = user();
        let context = cluster.context(&user);
        admit(
            &Context { subresource: "status", ..context },
            &CERTIFICATE_SIGNING_REQUESTS,
            &mut new.clone(),
            Some(&old),
            &mut Vec::new(),
        )
        .map_err(|status| status.message)
    };
    assert!(sign(cluster()).unwrap_err().contains("user not permitted to sign requests with signerName"));
    assert_eq!(sign(cluster().allow("sign", "signers", "example.com/s")), Ok(()));
    assert_eq!(sign(cluster().allow("sign", "signers", "example.com/*")), Ok(()));
}

#[test]
fn services_get_addresses_and_ports_that_are_free() {
    let service = |name: &str, spec: Value| {
        let mut service = in_default(name, spec);
        service["apiVersion"] = "v1".into();
        service["kind"] = "Service".into();
        service
    };
    let ports = |numbers: &[u16]| -> Value {
        numbers.iter().map(|number| json!({"port": number, "name": format!("p{number}")})).collect()
    };
    let mut cluster = cluster();
    let mut taken = HashSet::new();
    for i in 0..20 {
        let spec = json!({"type": "NodePort", "ports": ports(&[80, 443])});
        let created = create(&cluster, &SERVICES, service(&format!("s{i}"), spec)).unwrap();
        assert!(taken.insert(created["spec"]["clusterIP"].clone()), "{created}");
        for port in created["spec"]["ports"].as_array().unwrap() {
            assert!(taken.insert(port["nodePort"].clone()), "{created}");
        }
        cluster = cluster.with(created);
    }
    let asks = service(
        "asks",
        json!({"type": "NodePort", "clusterIP": "10.96.7.7", "ports": [{"port": 80}, {"port": 81, "nodePort": 30007}]}),
    );
    let message = |claim: Claim| refuse_claimed(&SERVICES, &asks, &claim).map_err(|status| status.message);
    assert_eq!(
        message(Claim::ClusterIp([10, 96, 7, 7].into())).unwrap_err(),
        "Service \"asks\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.7.7\"]: failed to allocate IP \
         10.96.7.7: provided IP is already allocated"
    );
    assert_eq!(
        message(Claim::NodePort(30007)).unwrap_err(),
        "Service \"asks\" is invalid: spec.ports[1].nodePort: Invalid value: 30007: provided port is already allocated"
    );
    assert_eq!(message(Claim::NodePort(30008)), Ok(()), "an allocated port is allocated again");
}
