//! Values that kube-apiserver refuses.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::*;

/// The first cause of a refused request: the field and the message.
fn cause(status: &Value) -> (&str, &str) {
    let cause = &status["details"]["causes"][0];
    (cause["field"].as_str().unwrap_or_default(), cause["message"].as_str().unwrap_or_default())
}

#[tokio::test]
async fn percentages_of_a_budget_are_validated() {
    let server = server().await;
    let client = admin(&server);
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    for (value, message) in [
        (json!("-5%"), "a valid percent string must be"),
        (json!("5"), "a valid percent string must be"),
        (json!("+5%"), "a valid percent string must be"),
        (json!("101%"), "must not be greater than 100%"),
        (json!(-1), "must be greater than or equal to 0"),
        (json!("50%"), ""),
        (json!(1), ""),
    ] {
        let budget = json!({"metadata": {"generateName": "b"}, "spec": {"minAvailable": value}});
        let (code, status) = post(&client, path, &budget).await;
        assert_eq!(code == StatusCode::CREATED, message.is_empty(), "{value}: {status}");
        assert!(cause(&status).1.contains(message), "{value}: {status}");
    }
}

#[tokio::test]
async fn selectors_that_are_not_of_pod_terms_accepted_gt_and_lt() {
    let server = server().await;
    let client = admin(&server);
    let claim = |selector: &Value| json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "selector": selector});
    for operator in ["Gt", "Lt"] {
        let selector = json!({"matchExpressions": [{"key": "a", "operator": operator, "values": ["1"]}]});
        let mut with_volume = pod("p");
        with_volume["spec"]["volumes"] =
            json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": claim(&selector)}}}]);
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let labels = json!({"matchLabels": {"a": "b"}});
        for (path, object, field) in [
            (
                "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                json!({"aggregationRule": {"clusterRoleSelectors": [labels, selector]}}),
                "aggregationRule.clusterRoleSelectors[1].matchExpressions[0].operator",
            ),
            (
                "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
                json!({"spec": {"minAvailable": 1, "selector": selector}}),
                "spec.selector.matchExpressions[0].operator",
            ),
            (
                "/api/v1/namespaces/default/persistentvolumeclaims",
                json!({"spec": claim(&selector)}),
                "spec.selector.matchExpressions[0].operator",
            ),
            (
                "/apis/apps/v1/namespaces/default/statefulsets",
                json!({"spec": {"selector": labels, "template": template,
                    "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": claim(&selector)}]}}),
                "spec.volumeClaimTemplates[0].spec.selector.matchExpressions[0].operator",
            ),
            (
                PODS,
                with_volume,
                "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.selector.matchExpressions[0].operator",
            ),
            (
                "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities",
                json!({"storageClassName": "s", "nodeTopology": selector}),
                "nodeTopology.matchExpressions[0].operator",
            ),
            (
                "/apis/apps/v1/namespaces/default/replicasets",
                json!({"spec": {"selector": selector, "template": template}}),
                "spec.selector.matchExpressions[0].operator",
            ),
        ] {
            let mut object = object;
            object["metadata"]["name"] = "s".into();
            let (code, refused) = post(&client, path, &object).await;
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {refused}");
            assert_eq!(cause(&refused).0, field, "{path}: {refused}");
        }
    }
}

#[tokio::test]
async fn nodes_are_validated() {
    let server = server().await;
    let client = admin(&server);
    let taint = |key: &str, value: &str, effect: &str| json!({"key": key, "value": value, "effect": effect});
    let spec = |taints: Value| json!({"spec": {"taints": taints}});
    let good = taint("a.b/c", "v", "NoSchedule");
    for (node, field) in [
        (spec(json!([good, taint("a.b/c", "w", "NoExecute")])), ""),
        (spec(json!([taint("a b", "v", "NoSchedule")])), "metadata.taints[0].key"),
        (spec(json!([taint("", "v", "NoSchedule")])), "metadata.taints[0].key"),
        (spec(json!([taint("a", "v v", "NoSchedule")])), "metadata.taints[0].value"),
        (spec(json!([taint("a", "v", "")])), "metadata.taints[0].effect"),
        (spec(json!([taint("a", "v", "Evict")])), "metadata.taints[0].effect"),
        (spec(json!([good, taint("a.b/c", "w", "NoSchedule")])), "metadata.taints[1]"),
        (json!({"metadata": {"labels": {"a b": "c"}}}), "metadata.labels"),
        (json!({"metadata": {"labels": {"a": "c d"}}}), "metadata.labels"),
        (json!({"status": {"allocatable": {"cpu": "-1"}}}), "status.allocatable.cpu"),
        (json!({"status": {"capacity": {"memory": "-1Gi"}}}), "status.capacity.memory"),
        (json!({"status": {"capacity": {"pods": "1.5"}}}), "status.capacity.pods"),
        (json!({"status": {"capacity": {"a.b/c": "500m"}}}), "status.capacity.a.b/c"),
        (json!({"status": {"capacity": {"cpu": "500m"}}}), ""),
    ] {
        let mut node = node;
        node["metadata"]["generateName"] = "n".into();
        let (code, status) = post(&client, "/api/v1/nodes", &node).await;
        assert_eq!(code == StatusCode::CREATED, field.is_empty(), "{node}: {status}");
        assert_eq!(cause(&status).0, field, "{node}: {status}");
    }
    assert_eq!(
        post(&client, "/api/v1/nodes", &json!({"metadata": {"name": "m"}})).await.0,
        StatusCode::CREATED
    );
    let negative = json!({"status": {"allocatable": {"cpu": "-1"}}});
    let (code, status) = merge(&client, "/api/v1/nodes/m/status", &negative).await;
    assert_eq!((code, cause(&status).0), (StatusCode::UNPROCESSABLE_ENTITY, "status.allocatable.cpu"));
}

#[tokio::test]
async fn service_ports_are_validated() {
    let server = server().await;
    let client = admin(&server);
    let path = "/api/v1/namespaces/default/services";
    for (ports, field) in [
        (json!([{"port": 80, "nodePort": 80}]), "spec.ports[0].nodePort"),
        (json!([{"port": 80, "targetPort": 70_000}]), "spec.ports[0].targetPort"),
        (json!([{"port": 80, "targetPort": "a_b"}]), "spec.ports[0].targetPort"),
        (json!([{"port": 80, "name": "a_b"}]), "spec.ports[0].name"),
        (json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b"}]), "spec.ports[1]"),
        (json!([{"port": 80, "name": "a"}, {"port": 80, "name": "b", "protocol": "UDP"}]), ""),
    ] {
        let service =
            json!({"metadata": {"generateName": "s"}, "spec": {"type": "NodePort", "ports": ports}});
        let (code, status) = post(&client, path, &service).await;
        assert_eq!((code == StatusCode::CREATED, cause(&status).0), (field.is_empty(), field), "{status}");
    }
}

#[tokio::test]
async fn a_patch_keeps_the_identity_of_its_object() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    let path = format!("{PODS}/a");
    let json_patch = |operation: Value| json!([operation]).to_string();
    for (content_type, patch) in [
        ("application/merge-patch+json", json!({"metadata": {"name": "b"}}).to_string()),
        ("application/strategic-merge-patch+json", json!({"metadata": {"name": "b"}}).to_string()),
        (
            "application/json-patch+json",
            json_patch(json!({"op": "replace", "path": "/metadata/name", "value": "b"})),
        ),
        ("application/json-patch+json", json_patch(json!({"op": "remove", "path": "/metadata/name"}))),
        ("application/merge-patch+json", json!({"metadata": {"namespace": "b"}}).to_string()),
    ] {
        let (code, status) = send(&client, Method::PATCH, &path, content_type, patch.clone()).await;
        assert_eq!((code.as_u16(), &status["reason"]), (400, &json!("BadRequest")), "{patch}: {status}");
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let (code, status) =
            merge(&client, &path, &json!({"metadata": {field: "2020-01-01T00:00:00Z"}})).await;
        let expected = format!("metadata.{field}");
        assert_eq!((code.as_u16(), cause(&status).0), (422, expected.as_str()), "{status}");
    }
    assert_eq!(
        merge(&client, &path, &json!({"metadata": {"name": "a", "labels": {"x": "y"}}})).await.0,
        StatusCode::OK
    );
}

#[tokio::test]
async fn what_is_not_supported_says_so() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    for (method, path) in [
        (Method::POST, format!("{PODS}/a/exec?command=ls")),
        (Method::POST, format!("{PODS}/a/attach")),
        (Method::POST, format!("{PODS}/a/portforward")),
        (Method::GET, format!("{PODS}/a/proxy")),
    ] {
        let (code, status) = call(&client, method, &path, &Value::Null).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(
            code.as_u16() == 501 && message.starts_with("this API server does not support "),
            "{path}: {status}"
        );
    }
    let future = "resourceVersion=99999999999999";
    for path in [
        format!("{PODS}/a?{future}"),
        format!("{PODS}?{future}"),
        format!(
            "{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&{future}"
        ),
    ] {
        let (code, status) = get(&client, &path).await;
        assert_eq!((code.as_u16(), &status["reason"]), (504, &json!("Timeout")), "{path}: {status}");
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge", "{path}");
        assert!(
            status["message"]
                .as_str()
                .unwrap()
                .starts_with("Timeout: Too large resource version: 99999999999999, current: ")
        );
    }
}

#[tokio::test]
async fn pod_templates_without_containers_and_bindings_to_no_node_were_stored() {
    let server = server().await;
    let client = admin(&server);
    let templates = "/api/v1/namespaces/default/podtemplates";
    for template in [Value::Null, json!({"spec": {"containers": []}})] {
        let object = json!({"metadata": {"name": "t"}, "template": template});
        let (code, status) = post(&client, templates, &object).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        assert_eq!(cause(&status), ("template.spec.containers", "Required value"));
    }
    post(&client, PODS, &pod("a")).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "Bad_Name!"}});
    let (code, status) = post(&client, &format!("{PODS}/a/binding"), &binding).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{status}");
    assert!(status["message"].as_str().unwrap().starts_with("target.name: Invalid value: \"Bad_Name!\""));
}
