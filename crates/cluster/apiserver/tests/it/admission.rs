//! Admission of HTTP requests: registered webhooks and the in-process plugin.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use berth_apiserver::admission::{Operation, Phase};
use berth_apiserver::{Admission, ApiServer, Limits, ServerOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::responder::Responder;
use crate::support::*;

const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// The plugin's response to a request in a phase.
type Behaviour = Box<dyn Fn(Phase, &Value) -> Value + Send + Sync>;

/// An admission plugin with a behaviour that the test defines. It records its requests.
struct Reviewer {
    behaviour: Behaviour,
    seen: Mutex<Vec<(Phase, Value)>>,
}

impl Reviewer {
    fn new(behaviour: impl Fn(Phase, &Value) -> Value + Send + Sync + 'static) -> Arc<Reviewer> {
        Arc::new(Reviewer { behaviour: Box::new(behaviour), seen: Mutex::default() })
    }

    /// Phase, operation and object of each request, oldest first.
    fn seen(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |(phase, request): &(Phase, Value)| {
            let resource = text(&request["resource"]["resource"]);
            let (operation, sub) = (text(&request["operation"]), text(&request["subResource"]));
            format!("{phase:?} {operation} {resource}/{sub} {}", text(&request["name"]))
        };
        seen.iter().map(line).collect()
    }
}

impl Admission for Reviewer {
    fn review(&self, phase: Phase, request: Value) -> BoxFuture<'_, Value> {
        let mut response = (self.behaviour)(phase, &request);
        response["uid"] = request["uid"].clone();
        self.seen.lock().unwrap().push((phase, request));
        async move { response }.boxed()
    }
}

async fn server_with(admission: Arc<Reviewer>) -> ApiServer {
    ApiServer::start(ServerOptions { admission: Some(admission), ..ServerOptions::default() }).await.unwrap()
}

fn patch(operations: Value) -> Value {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    json!({"allowed": true, "patchType": "JSONPatch", "patch": patch})
}

#[tokio::test]
async fn the_plugin_reviews_matching_requests_in_both_phases() {
    let reviewer = Reviewer::new(|_, _| json!({"allowed": true}));
    let server = server_with(reviewer.clone()).await;
    let admin = admin(&server);
    post(&admin, "/api/v1/nodes", &json!({"metadata": {"name": "n"}})).await;
    post(&admin, PODS, &pod("p")).await;
    assert_eq!(bind(&admin, "p", "n").await.0, StatusCode::CREATED);
    merge(&admin, &format!("{PODS}/p"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    merge(&admin, &format!("{PODS}/p/status"), &json!({"status": {"phase": "Running"}})).await;
    post(&admin, "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "c"}})).await;
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    assert_eq!(post(&admin, &format!("{PODS}/p/eviction"), &eviction).await.0, StatusCode::CREATED);
    delete(&admin, &format!("{PODS}/p"), &json!({"gracePeriodSeconds": 0})).await;
    let wanted: Vec<String> = [
        "CREATE nodes/ n",
        "CREATE pods/ p",
        "CREATE pods/binding p",
        "UPDATE pods/ p",
        "CREATE pods/eviction p",
        "DELETE pods/ p",
    ]
    .iter()
    .flat_map(|what| [format!("Mutating {what}"), format!("Validating {what}")])
    .collect();
    assert_eq!(reviewer.seen(), wanted);
    let seen = reviewer.seen.lock().unwrap();
    let binding = &seen[4].1;
    assert_eq!(binding["kind"], json!({"group": "", "version": "v1", "kind": "Binding"}));
    assert_eq!(binding["object"]["target"]["name"], "n");
    assert_eq!(binding["object"]["metadata"]["namespace"], "default");
    assert_eq!((&binding["namespace"], &binding["oldObject"]), (&json!("default"), &Value::Null));
    assert_eq!(binding["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(seen[8].1["kind"], json!({"group": "policy", "version": "v1", "kind": "Eviction"}));
    assert_eq!(seen[10].1["oldObject"]["metadata"]["name"], "p");
}

#[tokio::test]
async fn the_plugin_denies_warns_and_changes() {
    let reviewer = Reviewer::new(|phase, request| {
        match (phase, request["name"].as_str().unwrap_or_default()) {
            (Phase::Mutating, "changed") => {
                patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]))
            }
            (Phase::Validating, "changed") => json!({"allowed": true, "warnings": ["hm"]}),
            (Phase::Validating, "denied") => json!({"allowed": false, "status": {"message": "too far"}}),
            (Phase::Validating, "later") => {
                json!({"allowed": false, "status": {"message": "later", "code": 429, "reason": "TooManyRequests"}})
            }
            (Phase::Mutating, "broken") => json!({"allowed": true, "patch": "%", "patchType": "JSONPatch"}),
            _ => json!({"allowed": true}),
        }
    });
    let server = server_with(reviewer.clone()).await;
    let admin = admin(&server);
    let (code, created) = post(&admin, PODS, &pod("changed")).await;
    assert_eq!((code, &created["metadata"]["labels"]), (StatusCode::CREATED, &json!({"a": "b"})));
    assert_eq!(warnings(&admin, Method::POST, PODS, &pod("warned")).await, [""; 0]);
    delete(&admin, &format!("{PODS}/changed"), &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(warnings(&admin, Method::POST, PODS, &pod("changed")).await, ["299 - \"hm\""]);
    let (code, refused) = post(&admin, PODS, &pod("denied")).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(refused["message"], "pods \"denied\" is forbidden: too far");
    let (code, refused) = post(&admin, PODS, &pod("later")).await;
    assert_eq!((code, &refused["message"]), (StatusCode::TOO_MANY_REQUESTS, &json!("later")));
    assert_eq!(post(&admin, PODS, &pod("broken")).await.0, StatusCode::INTERNAL_SERVER_ERROR);
}

#[tokio::test]
async fn a_webhook_set_what_no_client_may_set_in_a_new_object() {
    let reviewer = Reviewer::new(|phase, request| {
        let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
        match (phase, request["resource"]["resource"].as_str().unwrap_or_default()) {
            (Phase::Mutating, "pods") => patch(json!([
                add("/status", json!({"phase": "Running", "podIP": "10.0.0.1"})),
                add("/metadata/generation", json!(7)),
                add("/metadata/resourceVersion", json!("5")),
                add("/metadata/deletionGracePeriodSeconds", json!(0)),
                add("/spec/containers/0/resources", json!({"requests": {"cpu": "1"}})),
            ])),
            (Phase::Mutating, "certificatesigningrequests") => patch(json!([
                add("/spec/username", json!("system:node:other")),
                add("/spec/groups", json!(["system:masters"])),
                add("/status", json!({"conditions": [{"type": "Approved", "status": "True"}]})),
            ])),
            (Phase::Mutating, "jobs") => patch(json!([add("/metadata/uid", json!("mine"))])),
            (Phase::Mutating, "namespaces") => patch(json!([{"op": "remove", "path": "/metadata"}])),
            _ => json!({"allowed": true}),
        }
    });
    let server = server_with(reviewer).await;
    let admin = admin(&server);
    let (code, created) = post(&admin, PODS, &pod("p")).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    // The status belongs to the specification as the webhook left it.
    assert_eq!(created["status"], json!({"phase": "Pending", "qosClass": "Burstable"}));
    let metadata = &created["metadata"];
    assert_eq!((&metadata["generation"], &metadata["deletionGracePeriodSeconds"]), (&json!(1), &Value::Null));
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({"metadata": {"name": "r"}, "spec": {"request": SIGNING_REQUEST, "signerName": "example.com/s", "usages": ["any"]}});
    let (code, created) = post(&admin, requests, &request).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let spec = &created["spec"];
    assert_eq!(
        (&spec["username"], &created["status"]),
        (&json!("kubernetes-admin"), &json!({})),
        "{created}"
    );
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let (code, created) = post(&admin, "/apis/batch/v1/namespaces/default/jobs", &job).await;
    assert_eq!(code, StatusCode::CREATED, "{created}");
    let uid = &created["metadata"]["uid"];
    assert_eq!(created["spec"]["selector"]["matchLabels"]["batch.kubernetes.io/controller-uid"], *uid);
    let (code, created) = post(&admin, "/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await;
    assert_eq!((code, &created["metadata"]["name"]), (StatusCode::CREATED, &json!("n")), "{created}");
}

/// The answers of kube-apiserver 1.37.
#[tokio::test]
async fn an_object_that_a_webhook_renamed_or_moved_was_stored_as_if_it_had_not() {
    let reviewer = Reviewer::new(|phase, request| {
        let name = request["name"].as_str().unwrap_or_default();
        let replace =
            |path: &str, value: &str| patch(json!([{"op": "replace", "path": path, "value": value}]));
        match (phase, name) {
            (Phase::Mutating, "name") => replace("/metadata/name", "renamed"),
            (Phase::Mutating, "renamed") => replace("/metadata/name", "name"),
            (Phase::Mutating, "namespace") => replace("/metadata/namespace", "kube-system"),
            (Phase::Mutating, "kind") => replace("/kind", "Secret"),
            _ => json!({"allowed": true}),
        }
    });
    let server = server_with(reviewer).await;
    let admin = admin(&server);
    for (name, code, expected) in [
        ("name", StatusCode::CREATED, "renamed"),
        (
            "namespace",
            StatusCode::BAD_REQUEST,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("kind", StatusCode::INTERNAL_SERVER_ERROR, "no kind \"Secret\" is registered for version \"v1\""),
    ] {
        let (found, answer) = post(&admin, PODS, &pod(name)).await;
        let shown = answer["metadata"]["name"].as_str().or(answer["message"].as_str()).unwrap();
        assert!(found == code && shown.contains(expected), "{name}: {answer}");
    }
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    let (code, answer) = merge(&admin, &format!("{PODS}/renamed"), &labels).await;
    let expected = "Pod \"name\" is invalid: metadata.name: Invalid value: \"name\": field is immutable";
    assert_eq!((code, &answer["message"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!(expected)));
}

#[tokio::test]
async fn the_plugin_runs_after_the_webhooks_of_its_phase() {
    let responder = Responder::start(|_, request| match request["object"]["metadata"]["labels"] {
        Value::Null => {
            Some(patch(json!([{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}])))
        }
        _ => Some(json!({"allowed": true})),
    })
    .await;
    let reviewer = Reviewer::new(|_, _| json!({"allowed": true}));
    let server = server_with(reviewer.clone()).await;
    let admin = admin(&server);
    configure(&admin, MUTATING, responder.webhook("first.example.com", json!({}))).await;
    post(&admin, PODS, &pod("p")).await;
    let seen = reviewer.seen.lock().unwrap();
    assert_eq!(seen[0].1["object"]["metadata"]["labels"], json!({"by": "hook"}));
}

/// Registers a webhook.
async fn configure(admin: &kube::Client, path: &str, webhook: Value) {
    let name = webhook["name"].as_str().unwrap().to_owned();
    let configuration = json!({"metadata": {"name": name}, "webhooks": [webhook]});
    let (code, answer) = post(admin, path, &configuration).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

#[tokio::test]
async fn webhooks_review_bindings_and_evictions() {
    let responder = Responder::start(|_, request| {
        let (name, node) = (request["name"].as_str(), request["object"]["target"]["name"].as_str());
        let denied = name == Some("stays") || node == Some("full");
        Some(json!({"allowed": !denied, "warnings": ["asked"], "status": {"message": "no"}}))
    })
    .await;
    let server = server().await;
    let admin = admin(&server);
    let rules = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["pods/binding", "pods/eviction"]}]);
    configure(&admin, VALIDATING, responder.webhook("guard.example.com", json!({"rules": rules}))).await;
    for name in ["stays", "goes"] {
        post(&admin, PODS, &pod(name)).await;
    }
    assert_eq!(responder.called(), [""; 0], "nobody asked to see pods");
    let (code, refused) = bind(&admin, "goes", "full").await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert_eq!(refused["message"], "admission webhook \"guard.example.com\" denied the request: no");
    assert_eq!(get(&admin, &format!("{PODS}/goes")).await.1["spec"]["nodeName"], Value::Null);
    assert_eq!(bind(&admin, "goes", "free").await.0, StatusCode::CREATED);
    let eviction = |name: &str| json!({"metadata": {"name": name}});
    let path = |name: &str| format!("{PODS}/{name}/eviction");
    assert_eq!(post(&admin, &path("stays"), &eviction("stays")).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(warnings(&admin, Method::POST, &path("goes"), &eviction("goes")).await, ["299 - \"asked\""]);
    let seen = responder.seen.lock().unwrap();
    assert_eq!(seen[1]["subResource"], "binding");
    assert_eq!(seen[1]["resource"], json!({"group": "", "version": "v1", "resource": "pods"}));
    assert_eq!(seen[1]["object"]["kind"], "Binding");
    assert_eq!(seen[3]["object"]["apiVersion"], "policy/v1");
}

#[tokio::test]
async fn warnings_about_a_deletion_reach_the_client() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": true, "warnings": ["gone soon"]}))).await;
    let server = server().await;
    let admin = admin(&server);
    post(&admin, PODS, &pod("p")).await;
    configure(&admin, VALIDATING, responder.webhook("w.example.com", json!({}))).await;
    let told = warnings(&admin, Method::DELETE, &format!("{PODS}/p"), &Value::Null).await;
    assert_eq!(told, ["299 - \"gone soon\""]);
}

#[tokio::test]
async fn a_webhook_receives_events_in_the_form_of_its_rules() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": true}))).await;
    let server = server().await;
    let admin = admin(&server);
    for (name, policy) in [("any.example.com", "Equivalent"), ("exact.example.com", "Exact")] {
        let rules = json!([{"operations": ["*"], "apiGroups": ["events.k8s.io"], "apiVersions": ["v1"],
            "resources": ["events"]}]);
        let more = json!({"rules": rules, "matchPolicy": policy});
        configure(&admin, VALIDATING, responder.webhook(name, more)).await;
    }
    let event = json!({"metadata": {"name": "e"}, "reason": "R", "message": "m",
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    let (code, answer) = post(&admin, "/api/v1/namespaces/default/events", &event).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    assert_eq!(responder.called(), ["any.example.com"]);
    let seen = responder.seen.lock().unwrap();
    assert_eq!(seen[0]["kind"]["group"], "events.k8s.io");
    assert_eq!(seen[0]["requestKind"]["group"], "");
    assert_eq!(seen[0]["object"]["note"], "m");
    assert_eq!(seen[0]["object"]["apiVersion"], "events.k8s.io/v1");
}

#[tokio::test]
async fn webhook_connections_are_reused_and_certificates_may_change() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": true}))).await;
    let server = server().await;
    let admin = admin(&server);
    configure(&admin, VALIDATING, responder.webhook("w.example.com", json!({}))).await;
    for name in ["a", "b", "c"] {
        assert_eq!(post(&admin, PODS, &pod(name)).await.0, StatusCode::CREATED);
    }
    assert_eq!(responder.connections(), 1);
    let old = responder.webhook("w.example.com", json!({}))["clientConfig"]["caBundle"].clone();
    responder.rotate();
    assert_eq!(post(&admin, PODS, &pod("d")).await.0, StatusCode::CREATED, "over the old connection");
    let webhook = responder.webhook("w.example.com", json!({}));
    assert_ne!(webhook["clientConfig"]["caBundle"], old);
    let path = format!("{VALIDATING}/w.example.com");
    let (code, answer) = merge(&admin, &path, &json!({"webhooks": [webhook]})).await;
    assert_eq!(code, StatusCode::OK, "{answer}");
    assert_eq!(post(&admin, PODS, &pod("e")).await.0, StatusCode::CREATED);
    assert_eq!(responder.connections(), 2);
    let stranger = Responder::start(|_, _| None).await.webhook("w.example.com", json!({}));
    let mut distrustful = webhook;
    distrustful["clientConfig"]["caBundle"] = stranger["clientConfig"]["caBundle"].clone();
    merge(&admin, &path, &json!({"webhooks": [distrustful]})).await;
    let (code, refused) = post(&admin, PODS, &pod("f")).await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("failed calling webhook \"w.example.com\": failed to call webhook: Post"),
        "{message}"
    );
    // The cause was not in the message.
    assert!(message.contains("invalid peer certificate"), "{message}");
}

#[tokio::test]
async fn requests_that_waited_for_a_slow_webhook_kept_the_turns_of_others() {
    let responder = Responder::start(|_, _| None).await;
    let server = server().await;
    let admin = admin(&server);
    let subjects = ["a", "b", "c"].map(|user| json!({"kind": "User", "name": user}));
    let role =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"});
    let binding = json!({"metadata": {"name": "users"}, "roleRef": role, "subjects": subjects});
    post(&admin, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
        "resources": ["roles"]}]);
    let of_others = json!({"rules": rules, "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}});
    for (path, name) in [(MUTATING, "m.example.com"), (VALIDATING, "v.example.com")] {
        configure(&admin, path, responder.webhook(name, of_others.clone())).await;
    }
    let roles = |namespace: &str| format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles");
    let mut waiting = tokio::task::JoinSet::new();
    // More than are worked on at once.
    for i in 0..16 {
        let (client, path) = (acting_as(&server, ["a", "b"][i % 2], &[]), roles("default"));
        waiting
            .spawn(async move { post(&client, &path, &json!({"metadata": {"name": i.to_string()}})).await });
    }
    let all_wait = async {
        while responder.called().len() < 16 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(9), all_wait).await.expect("all wait for the webhook");
    let (client, path, role) =
        (acting_as(&server, "c", &[]), roles("kube-system"), json!({"metadata": {"name": "c"}}));
    let answer = post(&client, &path, &role);
    let (code, answer) =
        tokio::time::timeout(Duration::from_secs(9), answer).await.expect("another user is answered");
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

#[tokio::test]
async fn a_webhook_may_be_an_external_name_service() {
    let responder = Responder::start(|_, _| Some(json!({"allowed": true, "warnings": ["reached"]}))).await;
    let server = server().await;
    let admin = admin(&server);
    let mut webhook = responder.service("w.example.com");
    webhook["clientConfig"]["service"]["port"] = json!(responder.address().port());
    configure(&admin, VALIDATING, webhook).await;
    let url = format!("https://hook.default.svc:{}/w.example.com?timeout=10s", responder.address().port());
    let refused = async |why: &str| {
        let (code, refused) = post(&admin, PODS, &pod("p")).await;
        assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
        let call =
            format!("failed calling webhook \"w.example.com\": failed to call webhook: Post \"{url}\"");
        assert_eq!(refused["message"], format!("Internal error occurred: {call}: {why}"));
    };
    refused("service \"hook\" not found").await;
    let services = "/api/v1/namespaces/default/services";
    let spec = json!({"selector": {"app": "hook"}, "ports": [{"port": responder.address().port()}]});
    post(&admin, services, &json!({"metadata": {"name": "hook"}, "spec": spec})).await;
    refused("no endpoints available for service \"hook\"").await;
    delete(&admin, &format!("{services}/hook"), &Value::Null).await;
    let spec = json!({"type": "ExternalName", "externalName": "127.0.0.1"});
    let (code, answer) = post(&admin, services, &json!({"metadata": {"name": "hook"}, "spec": spec})).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
    assert_eq!(warnings(&admin, Method::POST, PODS, &pod("p")).await, ["299 - \"reached\""]);
}

#[tokio::test]
async fn a_webhook_for_scale_receives_and_changes_the_scale() {
    let responder = Responder::start(|name, _| match name {
        "caps.example.com" => Some(patch(json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]))),
        _ => Some(json!({"allowed": true})),
    })
    .await;
    let server = server().await;
    let admin = admin(&server);
    let rules = json!([{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["v1"],
        "resources": ["deployments/scale"]}]);
    for (path, name) in [(MUTATING, "caps.example.com"), (VALIDATING, "sees.example.com")] {
        configure(&admin, path, responder.webhook(name, json!({"rules": rules}))).await;
    }
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    post(&admin, deployments, &deployment).await;
    let (code, scaled) =
        merge(&admin, &format!("{deployments}/web/scale"), &json!({"spec": {"replicas": 9}})).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (StatusCode::OK, &json!(5)), "{scaled}");
    let seen = responder.seen.lock().unwrap();
    assert_eq!(seen[0]["kind"], json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}));
    assert_eq!(
        (&seen[0]["object"]["kind"], &seen[0]["object"]["spec"]),
        (&json!("Scale"), &json!({"replicas": 9}))
    );
    assert_eq!(seen[0]["oldObject"]["spec"], json!({"replicas": 1}));
    assert_eq!(seen[1]["object"]["spec"], json!({"replicas": 5}));
    assert_eq!(seen[1]["resource"]["resource"], "deployments");
}

/// Changes the object that is under change, by a request of its own.
#[derive(Default)]
struct Meddler {
    client: OnceLock<kube::Client>,
    n_left: AtomicUsize,
    is_own: AtomicBool,
    n_calls: AtomicUsize,
}

impl Admission for Meddler {
    fn concerns(&self, phase: Phase, _: Operation, resource: &str, _: &str) -> bool {
        phase == Phase::Mutating && resource == "pods"
    }

    fn review(&self, _: Phase, request: Value) -> BoxFuture<'_, Value> {
        async move {
            if let Some(client) = self.client.get().filter(|_| !self.is_own.load(Ordering::SeqCst)) {
                let n_calls = self.n_calls.fetch_add(1, Ordering::SeqCst) + 1;
                if n_calls <= self.n_left.load(Ordering::SeqCst) {
                    self.is_own.store(true, Ordering::SeqCst);
                    let change = json!({"metadata": {"annotations": {"calls": n_calls.to_string()}}});
                    assert_eq!(merge(client, &format!("{PODS}/p"), &change).await.0, StatusCode::OK);
                    self.is_own.store(false, Ordering::SeqCst);
                }
            }
            json!({"uid": request["uid"], "allowed": true})
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_webhook_that_changes_the_object_under_change_loses_no_update_and_is_not_called_without_end() {
    let meddler = Arc::new(Meddler::default());
    let options = ServerOptions { admission: Some(meddler.clone()), ..ServerOptions::default() };
    let server = ApiServer::start(options).await.unwrap();
    let admin = admin(&server);
    let path = format!("{PODS}/p");
    post(&admin, PODS, &pod("p")).await;
    assert!(meddler.client.set(admin.clone()).is_ok());
    for (n_changes, code, label) in
        [(3, StatusCode::OK, json!("3")), (1000, StatusCode::CONFLICT, json!("3"))]
    {
        meddler.n_left.store(n_changes, Ordering::SeqCst);
        meddler.n_calls.store(0, Ordering::SeqCst);
        let change = json!({"metadata": {"labels": {"a": n_changes.to_string()}}});
        assert_eq!(merge(&admin, &path, &change).await.0, code);
        let n_calls = meddler.n_calls.load(Ordering::SeqCst);
        assert!(n_calls <= 64, "{n_calls}");
        let metadata = get(&admin, &path).await.1["metadata"].take();
        assert_eq!(metadata["annotations"]["calls"], n_calls.min(n_changes).to_string());
        assert_eq!(metadata["labels"]["a"], label);
    }
    // One that names its version is refused at once.
    let mut old = get(&admin, &path).await.1;
    meddler.n_calls.store(0, Ordering::SeqCst);
    old["metadata"]["labels"]["a"] = "put".into();
    assert_eq!(put(&admin, &path, &old).await.0, StatusCode::CONFLICT);
    assert_eq!(meddler.n_calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn requests_that_waited_for_a_slow_webhook_kept_the_seats_of_others() {
    let responder = Responder::start(|_, _| None).await;
    let limits = Limits { in_flight: 1, queue: Duration::from_secs(2), ..Limits::default() };
    let server = ApiServer::start(ServerOptions { limits, ..ServerOptions::default() }).await.unwrap();
    let admin = admin(&server);
    configure(&admin, VALIDATING, responder.webhook("slow.example.com", json!({}))).await;
    let waiting = tokio::spawn({
        let admin = admin.clone();
        async move { post(&admin, PODS, &pod("p")).await }
    });
    while responder.called().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let map = json!({"metadata": {"name": "c"}});
    assert_eq!(post(&admin, "/api/v1/namespaces/default/configmaps", &map).await.0, StatusCode::CREATED);
    assert_eq!(get(&admin, PODS).await.0, StatusCode::OK);
    assert!(!waiting.is_finished());
}
