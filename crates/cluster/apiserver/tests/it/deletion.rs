//! Deletion: graceful, held by finalizers, with preconditions, of collections and namespaces; and dry runs.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn pods_end_gracefully() {
    let server = server().await;
    let client = admin(&server);
    let path = format!("{PODS}/a");
    post(&client, PODS, &pod("a")).await;
    bind(&client, "a", "n1").await;
    let (_, ending) = delete(&client, &path, &json!({"gracePeriodSeconds": 20})).await;
    let metadata = &ending["metadata"];
    assert_eq!(metadata["deletionGracePeriodSeconds"], 20);
    assert!(
        metadata["deletionTimestamp"].as_str().unwrap() > metadata["creationTimestamp"].as_str().unwrap()
    );
    let (_, same) = delete(&client, &path, &Value::Null).await;
    assert_eq!(version(&same), version(&ending));
    let (_, sooner) = delete(&client, &path, &json!({"gracePeriodSeconds": 5})).await;
    assert_eq!(sooner["metadata"]["deletionGracePeriodSeconds"], 5);
    // A terminating pod accepts no binding but accepts status updates.
    let (code, status) =
        merge(&client, &format!("{path}/status"), &json!({"status": {"phase": "Succeeded"}})).await;
    assert_eq!((code, &status["status"]["phase"]), (StatusCode::OK, &json!("Succeeded")));
    let other = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": "other"}});
    let (code, conflict) = delete(&client, &path, &other).await;
    assert_eq!((code, &conflict["reason"]), (StatusCode::CONFLICT, &json!("Conflict")));
    let uid = metadata["uid"].clone();
    let (code, _) =
        delete(&client, &path, &json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(get(&client, &path).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn finalizers_delay_deletion() {
    let server = server().await;
    let client = admin(&server);
    let path = "/api/v1/namespaces/default/configmaps";
    let object = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    post(&client, path, &object).await;
    let held = format!("{path}/held");
    let (code, ending) = delete(&client, &held, &Value::Null).await;
    assert_eq!((code, ending["metadata"]["deletionTimestamp"].is_string()), (StatusCode::OK, true));
    let more = json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}});
    let (code, status) = merge(&client, &held, &more).await;
    assert_eq!((code, &status["reason"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("Invalid")));
    merge(&client, &held, &json!({"metadata": {"finalizers": null}})).await;
    assert_eq!(get(&client, &held).await.0, StatusCode::NOT_FOUND);

    post(&client, path, &json!({"metadata": {"name": "fg"}})).await;
    let (_, ending) =
        delete(&client, &format!("{path}/fg"), &json!({"propagationPolicy": "Foreground"})).await;
    assert_eq!(ending["metadata"]["finalizers"], json!(["foregroundDeletion"]));
}

#[tokio::test]
async fn collections_are_deleted_by_selector() {
    let server = server().await;
    let client = admin(&server);
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let mut pod = pod(name);
        pod["metadata"]["labels"] = json!({"app": app});
        post(&client, PODS, &pod).await;
    }
    let (code, deleted) = delete(&client, &format!("{PODS}?labelSelector=app%3Dx"), &Value::Null).await;
    assert_eq!((code, names(&deleted)), (StatusCode::OK, vec!["a", "c"]));
    assert_eq!(names(&get(&client, PODS).await.1), ["b"]);
}

#[tokio::test]
async fn namespaces_are_removed_after_finalization() {
    let server = server().await;
    let client = admin(&server);
    let (_, created) = post(&client, "/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    assert_eq!(created["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(created["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
    assert_eq!(get(&client, "/api/v1/namespaces/team/serviceaccounts/default").await.0, StatusCode::OK);
    let (_, ending) = delete(&client, "/api/v1/namespaces/team", &Value::Null).await;
    assert_eq!(ending["status"]["phase"], "Terminating");
    let (code, refused) = post(&client, "/api/v1/namespaces/team/pods", &pod("a")).await;
    assert_eq!(
        (code, &refused["details"]["causes"][0]["reason"]),
        (StatusCode::FORBIDDEN, &json!("NamespaceTerminating"))
    );
    let mut finalized = ending.clone();
    finalized["spec"]["finalizers"] = json!([]);
    let (code, _) = put(&client, "/api/v1/namespaces/team/finalize", &finalized).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(get(&client, "/api/v1/namespaces/team").await.0, StatusCode::NOT_FOUND);
    let (code, _) = delete(&client, "/api/v1/namespaces/default", &Value::Null).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    let (code, missing) = post(&client, "/api/v1/namespaces/none/pods", &pod("a")).await;
    assert_eq!((code, &missing["message"]), (StatusCode::NOT_FOUND, &json!("namespaces \"none\" not found")));
}

#[tokio::test]
async fn a_namespace_keeps_its_finalizer_in_every_write_except_finalize() {
    let server = server().await;
    let client = admin(&server);
    let path = "/api/v1/namespaces/team";
    let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let with = |spec: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}, "spec": spec});
    post(&client, "/api/v1/namespaces", &with(Value::Null)).await;
    let apply = format!("{path}?fieldManager=me&force=true");
    let writes = [
        (Method::PUT, path, "application/json", bare.clone()),
        (Method::PUT, path, "application/json", with(Value::Null)),
        (Method::PUT, path, "application/json", with(json!({"finalizers": []}))),
        (
            Method::PATCH,
            apply.as_str(),
            "application/apply-patch+yaml",
            with(json!({"finalizers": ["kubernetes"]})),
        ),
        (Method::PATCH, apply.as_str(), "application/apply-patch+yaml", bare),
        (Method::PATCH, path, "application/merge-patch+json", json!({"spec": null})),
        (Method::PATCH, path, "application/json-patch+json", json!([{"op": "remove", "path": "/spec"}])),
        (Method::PUT, "/api/v1/namespaces/team/status", "application/json", with(Value::Null)),
    ];
    for (method, path, content, body) in writes {
        let (code, written) = send(&client, method, path, content, body.to_string()).await;
        assert_eq!(code, StatusCode::OK, "{content} {body}: {written}");
        assert_eq!(written["spec"]["finalizers"], json!(["kubernetes"]), "{content} {body}");
    }
    let (_, ending) = delete(&client, path, &Value::Null).await;
    assert_eq!(ending["status"]["phase"], "Terminating");
    assert_eq!(get(&client, path).await.0, StatusCode::OK, "its contents are deleted before it is");
}

#[tokio::test]
async fn dry_runs_change_nothing() {
    let server = server().await;
    let client = admin(&server);
    let (code, tried) = post(&client, &format!("{PODS}?dryRun=All"), &pod("a")).await;
    assert_eq!((code, &tried["metadata"]["resourceVersion"]), (StatusCode::CREATED, &Value::Null));
    assert_eq!(get(&client, &format!("{PODS}/a")).await.0, StatusCode::NOT_FOUND);
    let (_, created) = post(&client, PODS, &pod("a")).await;
    let path = format!("{PODS}/a");
    let (_, patched) =
        merge(&client, &format!("{path}?dryRun=All"), &json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!(patched["metadata"]["labels"]["x"], "y");
    delete(&client, &format!("{path}?dryRun=All"), &Value::Null).await;
    delete(&client, &path, &json!({"dryRun": ["All"]})).await;
    let binding = json!({"metadata": {"name": "a"}, "target": {"name": "n1"}});
    call(&client, Method::POST, &format!("{path}/binding?dryRun=All"), &binding).await;
    assert_eq!(get(&client, &path).await.1, created);
    assert_eq!(
        post(&client, &format!("{PODS}?dryRun=Some"), &pod("b")).await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}
