//! One user's requests that are small and could be much work, beside those of another user.

use std::sync::{Arc, Mutex};

use berth_apiserver::admission::{Operation, Phase};
use berth_apiserver::{Admission, ApiServer, Limits, ServerOptions};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Notes the threads on which requests are handled.
#[derive(Default)]
struct Threads(Mutex<Vec<(String, bool)>>);

impl Threads {
    /// Whether all requests for a resource since the last call were handled on the threads for heavy ones.
    fn were_heavy(&self, resource: &str) -> bool {
        let noted = std::mem::take(&mut *self.0.lock().unwrap());
        let mut of_resource = noted.iter().filter(|(of, _)| of == resource).peekable();
        assert!(of_resource.peek().is_some(), "no request for {resource}");
        of_resource.all(|(_, heavy)| *heavy)
    }
}

impl Admission for Threads {
    fn concerns(&self, _: Phase, _: Operation, resource: &str, _: &str) -> bool {
        let heavy = std::thread::current().name() == Some("heavy-requests");
        self.0.lock().unwrap().push((resource.to_owned(), heavy));
        false
    }

    fn review(&self, _: Phase, request: Value) -> BoxFuture<'_, Value> {
        async move { json!({"uid": request["uid"], "allowed": true}) }.boxed()
    }
}

async fn server_with_threads(limits: Limits) -> (ApiServer, Arc<Threads>) {
    let threads = Arc::new(Threads::default());
    let options = ServerOptions { limits, admission: Some(threads.clone()), ..ServerOptions::default() };
    (ApiServer::start(options).await.unwrap(), threads)
}

fn texts(prefix: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{prefix}{i}")).collect()
}

/// A user with rules in the namespace `default`.
async fn user_with(server: &ApiServer, user: &str, roles: &[Value]) -> Client {
    let admin = admin(server);
    for (i, rules) in roles.iter().enumerate() {
        let name = format!("{user}-{i}");
        let (code, answer) = post(&admin, ROLES, &json!({"metadata": {"name": name}, "rules": rules})).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
        let subject = json!({"kind": "User", "name": user});
        let binding = json!({"metadata": {"name": name}, "roleRef": {"kind": "Role", "name": name},
            "subjects": [subject]});
        assert_eq!(post(&admin, BINDINGS, &binding).await.0, StatusCode::CREATED);
    }
    acting_as(server, user, &[])
}

/// The rules of an administrator of the namespace, who may write roles and budgets and read what others write.
fn own_rules() -> Value {
    json!({"apiGroups": ["", "rbac.authorization.k8s.io", "policy"], "verbs": ["create", "get", "list", "watch"],
        "resources": ["roles", "pods/eviction", "poddisruptionbudgets", "configmaps"]})
}

/// Requests of another user: all are answered.
async fn probe(client: &Client) {
    for _ in 0..3 {
        assert_eq!(get(client, MAPS).await.0, StatusCode::OK);
    }
}

#[tokio::test]
async fn small_requests_for_roles_with_many_combinations_are_answered() {
    let (server, threads) = server_with_threads(Limits::default()).await;
    let other = user_with(&server, "other", &[json!([own_rules()])]).await;
    let many = |from: usize| -> Value {
        let rule = |i| json!({"verbs": [format!("v{}", i % 300)], "apiGroups": [""], "resources": [format!("r{}", i / 300)]});
        (from..from + 5000).map(rule).chain([own_rules()]).collect()
    };
    let eve = user_with(&server, "eve", &[many(0), many(5000)]).await;
    assert!(threads.were_heavy("roles"));
    let role = |resources: usize| {
        json!({"metadata": {"name": "all"}, "rules":
            [{"verbs": texts("v", 300), "apiGroups": [""], "resources": texts("r", resources)}]})
    };
    let dry = format!("{ROLES}?dryRun=All");
    let (held, beyond) = (role(33), role(330));
    assert!(beyond.to_string().len() < 5000);
    let attack = async {
        tokio::join!(
            post(&eve, &dry, &held),
            post(&eve, &dry, &beyond),
            post(&eve, &dry, &held),
            post(&eve, &dry, &beyond)
        )
    };
    let (answers, ()) = tokio::join!(attack, probe(&other));
    let codes = [answers.0.0, answers.1.0, answers.2.0, answers.3.0].map(|code| code.as_u16());
    assert_eq!(codes, [201, 403, 201, 403], "{}", answers.0.1);
    assert!(threads.were_heavy("roles"), "small requests are not light");
    server.shutdown().await;
}

#[tokio::test]
async fn a_rule_that_takes_too_much_work_to_compare_is_refused_by_its_field() {
    let server = server().await;
    let other = user_with(&server, "other", &[json!([own_rules()])]).await;
    let (verbs, resources) = (texts("v", 1200), texts("r", 1200));
    let all = json!({"verbs": verbs, "apiGroups": [""], "resources": resources});
    // Each verb and each resource is in a separate set of rules.
    let of_verb = verbs.iter().map(|verb| json!({"verbs": [verb], "apiGroups": [""], "resources": ["x"]}));
    let of_resource =
        resources.iter().map(|resource| json!({"verbs": ["x"], "apiGroups": [""], "resources": [resource]}));
    let rules: Value = of_verb.chain(of_resource).chain([own_rules(), all.clone()]).collect();
    let eve = user_with(&server, "eve", &[rules]).await;
    let role = json!({"metadata": {"name": "all"}, "rules": [own_rules(), all]});
    let ((code, refused), ()) = tokio::join!(post(&eve, ROLES, &role), probe(&other));
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE, "{refused}");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("\"all\": rules[1]: ") && message.contains("steps of work"), "{message}");
    server.shutdown().await;
}

#[tokio::test]
async fn permissions_follow_every_change_of_roles_and_bindings() {
    let server = server().await;
    let admin = admin(&server);
    let user = user_with(&server, "u", &[json!([own_rules()]), json!([own_rules()])]).await;
    let lists = async || get(&user, MAPS).await.0 == StatusCode::OK;
    assert!(lists().await);
    let nothing = json!({"rules": []});
    merge(&admin, &format!("{ROLES}/u-0"), &nothing).await;
    assert!(lists().await, "the other role");
    delete(&admin, &format!("{BINDINGS}/u-1"), &Value::Null).await;
    assert!(!lists().await);
    merge(&admin, &format!("{ROLES}/u-0"), &json!({"rules": [own_rules()]})).await;
    assert!(lists().await);
    delete(&admin, &format!("{ROLES}/u-0"), &Value::Null).await;
    assert!(!lists().await, "the binding names a role that is gone");
    post(&admin, ROLES, &json!({"metadata": {"name": "u-0"}, "rules": [own_rules()]})).await;
    assert!(lists().await, "and is there again");
    let others = json!({"subjects": [{"kind": "Group", "name": "system:authenticated"}]});
    let (_, changed) = merge(&admin, &format!("{BINDINGS}/u-0"), &others).await;
    assert!(lists().await, "{changed}");
    merge(&admin, &format!("{BINDINGS}/u-0"), &json!({"subjects": []})).await;
    assert!(!lists().await);
    server.shutdown().await;
}

#[tokio::test]
async fn the_rules_of_large_roles_are_listed_in_part() {
    let server = server().await;
    let large = |i: usize| json!([{"verbs": [format!("v{i}").repeat(300_000)], "apiGroups": [""], "resources": ["x"]}]);
    let user = user_with(&server, "u", &(0..8).map(large).collect::<Vec<_>>()).await;
    let review = json!({"spec": {"namespace": "default"}});
    let (_, answer) = post(&user, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &review).await;
    assert_eq!(answer["status"]["incomplete"], true);
    let why = answer["status"]["evaluationError"].as_str().unwrap();
    assert!(why.contains("left out: the roles have more than"), "{why}");
    assert!(answer.to_string().len() < 5 << 20);
    server.shutdown().await;
}

#[tokio::test]
async fn an_eviction_beside_large_budgets_is_not_light() {
    let (server, threads) = server_with_threads(Limits::default()).await;
    let admin = admin(&server);
    let other = user_with(&server, "other", &[json!([own_rules()])]).await;
    let eve = user_with(&server, "eve", &[json!([own_rules()])]).await;
    let eviction =
        |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    for name in ["a", "b"] {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = "n".into();
        post(&admin, PODS, &pod).await;
        merge(&admin, &format!("{PODS}/{name}/status"), &json!({"status": {"phase": "Running"}})).await;
    }
    assert_eq!(post(&eve, &format!("{PODS}/a/eviction"), &eviction("a")).await.0, StatusCode::CREATED);
    assert!(!threads.were_heavy("pods"));
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    for name in ["x", "y"] {
        let absent =
            texts("key-", 2000).into_iter().map(|key| json!({"key": key, "operator": "DoesNotExist"}));
        let here = json!({"key": name, "operator": if name == "x" { "Exists" } else { "DoesNotExist" }});
        let expressions: Vec<Value> = absent.chain([here]).collect();
        let budget =
            json!({"metadata": {"name": name}, "spec": {"selector": {"matchExpressions": expressions}}});
        assert_eq!(post(&eve, budgets, &budget).await.0, StatusCode::CREATED);
    }
    let path = format!("{PODS}/b/eviction");
    let eviction = eviction("b");
    let ((code, refused), ()) = tokio::join!(post(&eve, &path, &eviction), probe(&other));
    assert_eq!(code, StatusCode::TOO_MANY_REQUESTS, "{refused}");
    let why = &refused["details"]["causes"][0]["message"];
    assert_eq!(why, "The disruption budget y is still being processed by the server.");
    assert!(threads.were_heavy("pods"));
    server.shutdown().await;
}

#[tokio::test]
async fn requests_are_heavy_by_what_they_do_not_by_their_length() {
    let (server, threads) = server_with_threads(Limits::default()).await;
    let admin = admin(&server);
    let map = json!({"metadata": {"name": "m"}, "data": {"k": "x".repeat(10_000)}});
    assert_eq!(post(&admin, MAPS, &map).await.0, StatusCode::CREATED);
    assert!(!threads.were_heavy("configmaps"));
    let patch = async |n_copies: usize| {
        let copy = |i| json!({"op": "copy", "from": "/data/k", "path": format!("/data/k{i}")});
        let operations: Value = (0..n_copies).map(copy).collect();
        let path = format!("{MAPS}/m");
        let body = operations.to_string();
        assert!(body.len() < 300);
        send(&admin, Method::PATCH, &path, "application/json-patch+json", body).await.0
    };
    assert_eq!(patch(1).await, StatusCode::OK);
    assert!(!threads.were_heavy("configmaps"));
    // If each operation copied the whole object into itself, 20 kB would become 1 MB.
    assert_eq!(patch(5).await, StatusCode::OK);
    assert!(threads.were_heavy("configmaps"));

    assert_eq!(post(&admin, PODS, &pod("a")).await.0, StatusCode::CREATED);
    assert!(!threads.were_heavy("pods"));
    for i in 0..4 {
        let notes = json!({"a": "x".repeat(20_000)});
        let range =
            json!({"metadata": {"name": format!("l{i}"), "annotations": notes}, "spec": {"limits": []}});
        let ranges = "/api/v1/namespaces/default/limitranges";
        let (code, answer) = post(&admin, ranges, &range).await;
        assert_eq!(code, StatusCode::CREATED, "{answer}");
    }
    // The pod is small; what its creation reads is not.
    assert_eq!(post(&admin, PODS, &pod("b")).await.0, StatusCode::CREATED);
    assert!(threads.were_heavy("pods"));
    server.shutdown().await;
}

#[tokio::test]
async fn the_selectors_of_one_users_watches_leave_room_for_those_of_others() {
    let limits = Limits { watch_selector_bytes: 200 << 10, ..Limits::default() };
    let (server, _) = server_with_threads(limits).await;
    let other = user_with(&server, "other", &[json!([own_rules()])]).await;
    let eve = user_with(&server, "eve", &[json!([own_rules()])]).await;
    let selector = texts("k", 3000).join(",");
    let path = format!("{MAPS}?watch=true&labelSelector={selector}");
    let mut open = Vec::new();
    let refused = loop {
        match watch(&eve, &path).await {
            Ok(lines) => open.push(lines),
            Err(status) => break status,
        }
    };
    assert!(!open.is_empty());
    assert_eq!(refused["code"], 429);
    let why = refused["message"].as_str().unwrap();
    assert!(why.contains("the selectors of the open watches are too large"), "{why}");
    assert!(watch(&other, &path).await.is_ok(), "the other user's part");
    assert!(watch(&eve, &format!("{MAPS}?watch=true")).await.is_ok(), "a watch without selector");
    probe(&other).await;
    server.shutdown().await;
}

#[tokio::test]
async fn long_selectors_are_refused_where_there_are_many_objects() {
    let server = server().await;
    let admin = admin(&server);
    let other = user_with(&server, "other", &[json!([own_rules()])]).await;
    for i in 0..600 {
        post(&admin, MAPS, &json!({"metadata": {"name": format!("m{i}")}})).await;
    }
    let path = |n: usize| format!("{MAPS}?labelSelector=!{}", texts("", n).join(",!"));
    for method in [Method::GET, Method::DELETE] {
        let path = path(9000);
        let ((code, refused), ()) = tokio::join!(call(&admin, method, &path, &Value::Null), probe(&other));
        assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
        let why = refused["message"].as_str().unwrap();
        assert!(why.contains("9000 requirements on ") && why.contains("use fewer requirements"), "{why}");
    }
    let (code, all) = get(&admin, &path(5000)).await;
    assert_eq!((code, names(&all).len() >= 600), (StatusCode::OK, true));
    server.shutdown().await;
}

#[tokio::test]
async fn a_user_without_permission_does_not_learn_whether_a_resource_exists() {
    let server = server().await;
    let eve = acting_as(&server, "eve", &[]);
    for path in ["/apis/none.example.com/v1/things", "/api/v1/namespaces/default/gadgets/g"] {
        let (code, refused) = get(&eve, path).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");
        assert_eq!(get(&admin(&server), path).await.0, StatusCode::NOT_FOUND);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn the_proxy_of_a_node_is_authorized_before_it_is_not_implemented() {
    let server = server().await;
    let eve = acting_as(&server, "eve", &[]);
    for path in ["/api/v1/nodes/n/proxy/metrics".to_owned(), format!("{PODS}/p/exec?command=x")] {
        let (code, refused) = get(&eve, &path).await;
        assert_eq!(code, StatusCode::FORBIDDEN, "{refused}");
        assert_eq!(get(&admin(&server), &path).await.0, StatusCode::NOT_IMPLEMENTED);
    }
    server.shutdown().await;
}
