//! Workloads, services and the smaller kinds: defaults, rules, scale.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}})
}

fn causes(status: &Value) -> Vec<&str> {
    status["details"]["causes"].as_array().unwrap().iter().map(|c| c["field"].as_str().unwrap()).collect()
}

/// As kube-apiserver 1.37.2 answered: it warns of the pods of a template when the object is created and when its generation grows.
#[tokio::test]
async fn templates_of_some_kinds_and_scaling_caused_no_warnings() {
    let server = server().await;
    let client = admin(&server);
    let template = |restart: &str| {
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": restart,
            "nodeSelector": {"beta.kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "i"}]}})
    };
    let job = json!({"spec": {"template": template("Never")}});
    let (pods, selector) = (template("Always"), json!({"matchLabels": {"a": "b"}}));
    for (collection, path, fields, change) in [
        (
            "api/v1",
            "podtemplates",
            json!({"template": pods}),
            json!({"template": {"metadata": {"labels": {"c": "d"}}}}),
        ),
        (
            "api/v1",
            "replicationcontrollers",
            json!({"spec": {"template": pods}}),
            json!({"spec": {"replicas": 2}}),
        ),
        (
            "apis/batch/v1",
            "cronjobs",
            json!({"spec": {"schedule": "0 0 1 1 *", "jobTemplate": job}}),
            json!({"spec": {"suspend": true}}),
        ),
        (
            "apis/apps/v1",
            "deployments",
            json!({"spec": {"selector": selector, "template": pods}}),
            json!({"spec": {"paused": true}}),
        ),
    ] {
        let collection = format!("/{collection}/namespaces/default/{path}");
        let mut object = fields;
        object["metadata"] = json!({"name": "w"});
        let created = warnings(&client, Method::POST, &collection, &object).await;
        assert!(created.len() == 1 && created[0].contains("template.spec.nodeSelector[beta."), "{created:?}");
        let path = format!("{collection}/w");
        let (_, labelled) =
            merge(&client, &format!("{path}?dryRun=All"), &json!({"metadata": {"labels": {"x": "y"}}})).await;
        assert_eq!(warnings(&client, Method::PUT, &path, &labelled).await, [""; 0]);
        let (_, changed) = merge(&client, &format!("{path}?dryRun=All"), &change).await;
        assert_eq!(warnings(&client, Method::PUT, &path, &changed).await, created);
        if path.contains("deployments") {
            let (_, mut scale) = get(&client, &format!("{path}/scale")).await;
            scale["spec"]["replicas"] = 3.into();
            assert_eq!(warnings(&client, Method::PUT, &format!("{path}/scale"), &scale).await, created);
        }
    }
}

#[tokio::test]
async fn deployments_are_defaulted_validated_and_scaled() {
    let server = server().await;
    let client = admin(&server);
    let (code, created) = post(&client, DEPLOYMENTS, &deployment("web")).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    assert_eq!(created["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    assert_eq!((&created["spec"]["replicas"], &created["metadata"]["generation"]), (&json!(1), &json!(1)));

    let scale = format!("{DEPLOYMENTS}/web/scale");
    let (_, read) = get(&client, &scale).await;
    assert_eq!((&read["kind"], &read["status"]["selector"]), (&json!("Scale"), &json!("app=web")));
    let (code, scaled) = merge(&client, &scale, &json!({"spec": {"replicas": 3}})).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (StatusCode::OK, &json!(3)));
    let (code, _) = put(&client, &scale, &read).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(
        merge(&client, &scale, &json!({"spec": {"replicas": -1}})).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let (_, now) = get(&client, &format!("{DEPLOYMENTS}/web")).await;
    assert_eq!((&now["spec"]["replicas"], &now["metadata"]["generation"]), (&json!(3), &json!(2)));

    let mut other = deployment("other");
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "x"});
    other["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}});
    let (code, refused) = post(&client, DEPLOYMENTS, &other).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        causes(&refused),
        ["spec.template.metadata.labels", "spec.strategy.rollingUpdate.maxUnavailable"]
    );
    assert!(refused["message"].as_str().unwrap().starts_with("Deployment.apps \"other\" is invalid: ["));
    let selector = json!({"spec": {"selector": {"matchLabels": {"app": "web", "more": "y"}},
        "template": {"metadata": {"labels": {"more": "y"}}}}});
    let (code, refused) = merge(&client, &format!("{DEPLOYMENTS}/web"), &selector).await;
    assert_eq!((code, causes(&refused)), (StatusCode::UNPROCESSABLE_ENTITY, vec!["spec.selector"]));
}

#[tokio::test]
async fn jobs_select_their_pods() {
    let server = server().await;
    let client = admin(&server);
    let job = json!({"metadata": {"name": "once"}, "spec": {"template": {"spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}}}});
    let (code, created) = post(&client, "/apis/batch/v1/namespaces/default/jobs", &job).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let uid = &created["metadata"]["uid"];
    assert_eq!(created["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], *uid);
    assert_eq!(created["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"], "once");
    assert_eq!(created["spec"]["backoffLimit"], 6);
    let mut always = job.clone();
    always["spec"]["template"]["spec"]["restartPolicy"] = json!("Always");
    always["metadata"]["name"] = json!("always");
    let (code, _) = post(&client, "/apis/batch/v1/namespaces/default/jobs", &always).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let mut policies = job.clone();
    policies["spec"]["template"]["spec"]["restartPolicy"] = json!("OnFailure");
    policies["spec"]["maxFailedIndexes"] = json!(1);
    policies["spec"]["podFailurePolicy"] = json!({"rules": [{"action": "FailIndex",
        "onExitCodes": {"operator": "In", "values": [0]}}]});
    policies["spec"]["successPolicy"] = json!({"rules": [{}]});
    let (code, refused) = post(&client, "/apis/batch/v1/namespaces/default/jobs", &policies).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        causes(&refused),
        [
            "spec.backoffLimitPerIndex",
            "spec.maxFailedIndexes",
            "spec.podFailurePolicy.rules[0].action",
            "spec.podFailurePolicy.rules[0].onExitCodes.values[0]",
            "spec.successPolicy",
            "spec.template.spec.restartPolicy",
        ]
    );
}

#[tokio::test]
async fn other_kinds_are_validated() {
    let server = server().await;
    let client = admin(&server);
    let (_, secret) = post(
        &client,
        "/api/v1/namespaces/default/secrets",
        &json!({"metadata": {"name": "s"}, "stringData": {"k": "v"}}),
    )
    .await;
    assert_eq!((&secret["data"]["k"], &secret["type"]), (&json!("dg=="), &json!("Opaque")));
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let (_, list) = get(&client, classes).await;
    assert_eq!(names(&list), ["system-cluster-critical", "system-node-critical"]);
    let high = json!({"metadata": {"name": "high"}, "value": 2_000_000_000});
    assert_eq!(post(&client, classes, &high).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    for (path, body, field) in [
        ("/api/v1/namespaces", json!({"metadata": {"name": "A"}}), "metadata.name"),
        ("/api/v1/namespaces/default/configmaps", json!({"metadata": {}}), "metadata.name"),
        (
            "/api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "c", "labels": {"a b": ""}}}),
            "metadata.labels",
        ),
        (
            "/api/v1/nodes",
            json!({"metadata": {"name": "n"}, "spec": {"taints": [{"key": "a", "effect": "No"}]}}),
            "metadata.taints[0].effect",
        ),
    ] {
        let (code, refused) = post(&client, path, &body).await;
        assert_eq!((code, causes(&refused)), (StatusCode::UNPROCESSABLE_ENTITY, vec![field]), "{body}");
    }
}
