//! Creating, reading, changing, deleting.

use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn objects_are_created_changed_and_deleted() {
    let server = server().await;
    let client = admin(&server);
    let (code, created) = post(&client, PODS, &pod("a")).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    assert_eq!(created["status"]["phase"], "Pending");
    let (code, again) = post(&client, PODS, &pod("a")).await;
    assert_eq!((code, &again["reason"]), (StatusCode::CONFLICT, &json!("AlreadyExists")));
    assert_eq!(again["message"], "pods \"a\" already exists");

    let path = format!("{PODS}/a");
    let (code, patched) = merge(&client, &path, &json!({"metadata": {"labels": {"x": "y"}}})).await;
    assert_eq!((code, &patched["metadata"]["labels"]["x"]), (StatusCode::OK, &json!("y")));
    let (code, stale) = put(&client, &path, &created).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(
        stale["message"],
        "Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the \
         latest version and try again"
    );

    let (code, _) = bind(&client, "a", "n1").await;
    assert_eq!(code, StatusCode::CREATED);
    let (code, twice) = bind(&client, "a", "n2").await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(
        twice["message"],
        "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
    );
    let (_, bound) = get(&client, &path).await;
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");

    let (code, ending) = delete(&client, &path, &Value::Null).await;
    assert_eq!((code, &ending["metadata"]["deletionGracePeriodSeconds"]), (StatusCode::OK, &json!(30)));
    let (code, _) = delete(&client, &path, &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(code, StatusCode::OK);
    let (code, gone) = get(&client, &path).await;
    assert_eq!((code, &gone["message"]), (StatusCode::NOT_FOUND, &json!("pods \"a\" not found")));
    server.shutdown().await;
}

#[tokio::test]
async fn unauthenticated_requests_are_forbidden() {
    let server = server().await;
    let mut config = server.admin_config();
    config.auth_info.token = None;
    let stranger = client(config.clone());
    let (code, status) = get(&stranger, "/api/v1/pods").await;
    let why = "pods is forbidden: User \"system:anonymous\" cannot list resource \"pods\" in API group \"\" at the cluster scope";
    assert_eq!((code, &status["message"]), (StatusCode::FORBIDDEN, &json!(why)));
    for path in ["/healthz", "/readyz", "/livez", "/version"] {
        assert_eq!(get(&stranger, path).await.0, StatusCode::OK, "{path}");
    }
    config.auth_info.token = Some("admin.x.y".to_owned().into());
    let liar = client(config);
    assert_eq!(get(&liar, "/version").await.0, StatusCode::UNAUTHORIZED);
    let (code, _) = call(&stranger, Method::POST, "/api/v1/nodes", &json!({})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
}
