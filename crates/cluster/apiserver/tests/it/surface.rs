//! Forms of answers, checks of fields, server-side apply and webhooks over HTTP.

use std::collections::BTreeSet;

use berth_apiserver::{ApiServer, ServerOptions};
use futures::StreamExt as _;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::responder::Responder;
use crate::support::{PODS, admin, call, get, merge, pod, post, put, send, server};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// Reads with an `Accept` header.
async fn get_as(client: &kube::Client, path: &str, accept: &str) -> Value {
    let request = Request::get(path).header("accept", accept).body(kube::client::Body::empty()).unwrap();
    let bytes = client.send(request).await.unwrap().into_body().collect_bytes().await.unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn deployment(replicas: i32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    })
}

async fn apply(client: &kube::Client, manager: &str, object: &Value) -> (StatusCode, Value) {
    let path = format!("{DEPLOYMENTS}/web?fieldManager={manager}");
    send(client, Method::PATCH, &path, "application/apply-patch+yaml", object.to_string()).await
}

#[tokio::test]
async fn tables_are_served_for_lists_and_objects() {
    let server = server().await;
    let client = admin(&server);
    assert_eq!(post(&client, PODS, &pod("a")).await.0, StatusCode::CREATED);
    for (path, rows) in [(PODS.to_owned(), 1), (format!("{PODS}/a"), 1), (format!("{PODS}?limit=1"), 1)] {
        let table = get_as(&client, &path, TABLE).await;
        assert_eq!(table["kind"], "Table", "{path}");
        assert_eq!(table["columnDefinitions"][2]["name"], "Status");
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(rows));
        assert_eq!(table["rows"][0]["cells"][0], "a");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert!(table["metadata"]["resourceVersion"].is_string());
    }
    let table = get_as(&client, &format!("{PODS}?includeObject=Object"), TABLE).await;
    assert_eq!(table["rows"][0]["object"]["kind"], "Pod");
    assert_eq!(get(&client, &format!("{PODS}?includeObject=All")).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn pages_of_a_long_table_grow() {
    let server = server().await;
    let client = admin(&server);
    let configmaps = "/api/v1/namespaces/kube-system/configmaps";
    const N_ROWS: usize = 1100;
    let create = async |i: usize| {
        let object = json!({"metadata": {"name": format!("c-{i:04}")}});
        assert_eq!(post(&client, configmaps, &object).await.0, StatusCode::CREATED);
    };
    futures::stream::iter(0..N_ROWS).for_each_concurrent(16, create).await;
    let rows_of_pages = async |limit: usize, accept: &str, rows: &str| {
        let (mut pages, mut names, mut token) = (Vec::new(), BTreeSet::new(), String::new());
        loop {
            let path = format!("{configmaps}?limit={limit}&continue={token}");
            let page = get_as(&client, &path, accept).await;
            let page_rows = page[rows].as_array().unwrap();
            let name =
                |row: &Value| row.pointer("/object/metadata/name").or(row.pointer("/metadata/name")).cloned();
            names.extend(
                page_rows
                    .iter()
                    .map(|row| name(row).unwrap().to_string())
                    .filter(|name| name.starts_with("\"c-")),
            );
            pages.push(page_rows.len());
            match page["metadata"]["continue"].as_str() {
                Some(next) => token = next.to_owned(),
                None => break,
            }
        }
        assert_eq!(names.len(), N_ROWS, "each row once");
        pages
    };
    let table = rows_of_pages(500, TABLE, "rows").await;
    assert!(table.len() == 2 && table[0] == 500, "{table:?}");
    assert_eq!(rows_of_pages(499, TABLE, "rows").await[..2], [499, 499], "a smaller limit holds");
    assert_eq!(
        rows_of_pages(500, "application/json", "items").await[..2],
        [500, 500],
        "objects are not rows"
    );
}

#[tokio::test]
async fn unknown_fields_are_refused_under_strict_validation() {
    let server = server().await;
    let client = admin(&server);
    let mut object = pod("a");
    object["spec"]["color"] = "red".into();
    let (code, status) = post(&client, &format!("{PODS}?fieldValidation=Strict"), &object).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert_eq!(
        status["message"],
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.color\""
    );
    let (code, created) = post(&client, PODS, &object).await;
    assert_eq!((code, created["spec"].get("color")), (StatusCode::CREATED, None));
    let wrong = json!({"spec": {"containers": 5}});
    assert_eq!(merge(&client, &format!("{PODS}/a"), &wrong).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn server_side_apply_creates_nodes_with_their_status() {
    let server = server().await;
    let client = admin(&server);
    let patch = "application/apply-patch+yaml";
    let node = |cpu: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "status": {"allocatable": {"cpu": cpu}}})
    };
    let path = "/api/v1/nodes/a?fieldManager=one";
    let (code, created) = send(&client, Method::PATCH, path, patch, node("8").to_string()).await;
    assert_eq!((code, &created["status"]["allocatable"]["cpu"]), (StatusCode::CREATED, &json!("8")));
    assert_eq!(created["metadata"].get("managedFields"), None, "the manager does not own the status");
    let (code, again) = send(&client, Method::PATCH, path, patch, node("4").to_string()).await;
    assert_eq!((code, &again["status"]["allocatable"]["cpu"]), (StatusCode::OK, &json!("8")));
    let mut object = deployment(1);
    object["status"] = json!({"readyReplicas": 1});
    let (code, created) = apply(&client, "one", &object).await;
    assert_eq!((code, created["status"].get("readyReplicas")), (StatusCode::CREATED, None));
}

#[tokio::test]
async fn server_side_apply_creates_conflicts_and_takes_over() {
    let server = server().await;
    let client = admin(&server);
    let (code, created) = apply(&client, "one", &deployment(1)).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    assert_eq!(created["metadata"]["managedFields"][0]["operation"], "Apply");
    assert_eq!(created["spec"]["progressDeadlineSeconds"], 600, "defaults are nobody's");

    let (code, again) = apply(&client, "one", &deployment(1)).await;
    assert_eq!((code, &again["metadata"]), (StatusCode::OK, &created["metadata"]), "nothing changed");

    let (code, status) = apply(&client, "two", &deployment(2)).await;
    assert_eq!(code, StatusCode::CONFLICT);
    assert_eq!(status["message"], "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    assert_eq!(status["details"]["causes"][0]["reason"], "FieldManagerConflict");
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.replicas");

    let (code, forced) = apply(&client, "two&force=true", &deployment(2)).await;
    assert_eq!((code, &forced["spec"]["replicas"]), (StatusCode::OK, &json!(2)));
    let scale = json!({"spec": {"replicas": 3}});
    let path = format!("{DEPLOYMENTS}/web/scale?fieldManager=hpa");
    assert_eq!(merge(&client, &path, &scale).await.0, StatusCode::OK);
    let (_, object) = get(&client, &format!("{DEPLOYMENTS}/web")).await;
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let hpa = managers.iter().find(|entry| entry["manager"] == "hpa").unwrap();
    assert_eq!(hpa["subresource"], "scale");
    assert_eq!(hpa["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));

    let applied = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"},
        "spec": {"replicas": 4}});
    let of = |manager: &str| format!("{DEPLOYMENTS}/web/scale?fieldManager={manager}");
    let patch = "application/apply-patch+yaml";
    let (code, status) = send(&client, Method::PATCH, &of("other"), patch, applied.to_string()).await;
    assert_eq!(code, StatusCode::CONFLICT, "{status}");
    assert_eq!(status["details"]["causes"][0]["field"], ".spec.replicas");
    let (code, _) = send(&client, Method::PATCH, &of("other"), patch, "just text").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    let forced = of("other&force=true");
    let (code, scale) = send(&client, Method::PATCH, &forced, patch, applied.to_string()).await;
    assert_eq!(
        (code, &scale["kind"], &scale["spec"]["replicas"]),
        (StatusCode::OK, &json!("Scale"), &json!(4))
    );
    let (_, object) = get(&client, &format!("{DEPLOYMENTS}/web")).await;
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let other = managers.iter().find(|entry| entry["manager"] == "other").unwrap();
    assert_eq!((&other["subresource"], &other["operation"]), (&json!("scale"), &json!("Apply")));

    let path = format!("{DEPLOYMENTS}/web");
    let (code, status) =
        send(&client, Method::PATCH, &path, "application/apply-patch+yaml", deployment(1).to_string()).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "a manager is required: {status}");
    // As kube-apiserver 1.37.2 answers.
    for force in ["true", "false"] {
        let path = format!("{path}?force={force}");
        let (code, status) =
            send(&client, Method::PATCH, &path, "application/merge-patch+json", "{}".to_owned()).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        let why = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
        assert_eq!(status["message"], why);
    }
}

#[tokio::test]
async fn webhooks_change_and_deny_requests() {
    let server = server().await;
    let client = admin(&server);
    let responder = Responder::start(|name, request| match name {
        "adds.example.com" => Some(json!({
            "allowed": true, "patchType": "JSONPatch",
            // [{"op":"add","path":"/metadata/labels","value":{"added":"yes"}}]
            "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscyIsInZhbHVlIjp7ImFkZGVkIjoieWVzIn19XQ==",
        })),
        _ => Some(json!({
            "allowed": request["name"] != "bad" && request["operation"] != "DELETE",
            "status": {"message": format!("{} of {}", request["operation"], request["object"]["metadata"]["labels"])},
        })),
    })
    .await;
    for (kind, plural, name) in [
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "adds.example.com"),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "judges.example.com"),
    ] {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "webhooks": [responder.webhook(name, json!({}))],
        });
        let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
        let (code, answer) = post(&client, &path, &configuration).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    let (code, created) = post(&client, PODS, &pod("good")).await;
    assert_eq!((code, &created["metadata"]["labels"]), (StatusCode::CREATED, &json!({"added": "yes"})));
    let (code, status) = post(&client, PODS, &pod("bad")).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert_eq!(
        status["message"],
        "admission webhook \"judges.example.com\" denied the request: \"CREATE\" of {\"added\":\"yes\"}"
    );
    let (code, _) = call(&client, Method::DELETE, &format!("{PODS}/good"), &Value::Null).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn duplicate_fields_are_reported() {
    let server = server().await;
    let client = admin(&server);
    let text = r#"{"metadata": {"name": "p", "name": "q"},
        "spec": {"containers": [{"name": "c", "image": "i", "image": "j"}], "nonsense": 1}}"#;
    let strict = format!("{PODS}?fieldValidation=Strict");
    let (code, refused) = send(&client, Method::POST, &strict, "application/json", text).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert_eq!(
        refused["message"],
        "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: duplicate field \"metadata.name\", \
         duplicate field \"spec.containers[0].image\", unknown field \"spec.nonsense\""
    );
    let request = Request::post(PODS).header("content-type", "application/json");
    let request = request.body(kube::client::Body::from(text.as_bytes().to_vec())).unwrap();
    let response = client.send(request).await.unwrap();
    let told: Vec<&str> =
        response.headers().get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    assert_eq!(told[0], "299 - \"duplicate field \\\"metadata.name\\\"\"");
    assert_eq!(told.len(), 3);
    let (_, created) = get(&client, &format!("{PODS}/q")).await;
    assert_eq!(created["spec"]["containers"][0]["image"], "j", "the last one counts");
}

#[tokio::test]
async fn an_update_creates_objects_of_some_resources() {
    let server = server().await;
    let client = admin(&server);
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let lease = |uid: &str| json!({"metadata": {"name": "l", "uid": uid, "resourceVersion": "7"}, "spec": {"holderIdentity": "me"}});
    let path = format!("{leases}/l");
    let (code, refused) = put(&client, &path, &lease("gone")).await;
    assert_eq!(code, StatusCode::CONFLICT, "{refused}");
    let (code, created) = put(&client, &path, &lease("")).await;
    assert_eq!((code, &created["spec"]["holderIdentity"]), (StatusCode::CREATED, &json!("me")), "{created}");
    let mut same = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "you"}});
    let (code, refused) = put(&client, &path, &same).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        refused["message"],
        "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    );
    same["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"].clone();
    assert_eq!(put(&client, &path, &same).await.0, StatusCode::OK);
    assert_eq!(put(&client, &format!("{PODS}/p"), &pod("p")).await.0, StatusCode::NOT_FOUND);
    let configmap = json!({"metadata": {"name": "c"}});
    let (code, _) = put(&client, "/api/v1/namespaces/default/configmaps/c", &configmap).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn without_extensions_the_schema_matches_kubernetes() {
    let options = ServerOptions { extensions: false, ..ServerOptions::default() };
    let server = ApiServer::start(options).await.unwrap();
    let (_, document) = get(&admin(&server), "/openapi/v3/api/v1").await;
    let affinity = &document["components"]["schemas"]["io.k8s.api.core.v1.PodAffinity"]["properties"];
    let mut fields: Vec<&String> = affinity.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(
        fields,
        ["preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution"]
    );
}
