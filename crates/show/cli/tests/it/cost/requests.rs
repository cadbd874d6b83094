//! Requests to the API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_client::call;
use berth_testkit::programs::TempDir;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use super::pages::cost_of;
use super::scenes::DIMENSIONS;
use super::{FACTOR, NOISE, is_even, report};
use crate::client::{connect, create, send};
use crate::process::{Berth, DEADLINE};

pub const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server process, with the admin of it and a user who may create pods, evictions and roles.
pub struct Server {
    pub process: Berth,
    pub admin: Client,
    pub user: Client,
}

impl Server {
    pub async fn start(directory: &TempDir, name: &str) -> Server {
        let process = Berth::start(directory, name, &["apiserver", "--controllers=false"]);
        let kubeconfig = PathBuf::from(process.line_after("export KUBECONFIG="));
        let admin = connect(&kubeconfig).await;
        let account = json!({"metadata": {"name": "user"}});
        create(&admin, "/api/v1/namespaces/default/serviceaccounts", account).await;
        let groups = ["", "policy", "rbac.authorization.k8s.io"];
        let resources = ["pods", "pods/eviction", "roles"];
        let rule = json!({"apiGroups": groups, "resources": resources, "verbs": ["create", "get"]});
        bind(&admin, "user", &json!([rule])).await;
        let token = "/api/v1/namespaces/default/serviceaccounts/user/token";
        let token = create(&admin, token, json!({"spec": {}})).await;
        let user = with_token(&kubeconfig, &token["status"]["token"]).await;
        Server { process, admin, user }
    }

    /// What a request of the user costs the server.
    async fn cost(&self, method: Method, path: &str, body: &Value) -> Option<Duration> {
        let (content_type, body) = match method {
            Method::GET => ("", vec![]),
            Method::PATCH => ("application/json-patch+json", body.to_string().into_bytes()),
            _ => ("application/json", body.to_string().into_bytes()),
        };
        let request = call::with_body(method, path, content_type, body);
        // A request that is refused has its costs as well.
        let sent = call::send(&self.user, request, DEADLINE, call::MAX_OBJECT_BYTES);
        cost_of(&self.process, async { drop(sent.await) }).await
    }
}

/// A client for the server of a kubeconfig, with a token.
async fn with_token(kubeconfig: &Path, token: &Value) -> Client {
    let text = std::fs::read_to_string(kubeconfig).unwrap();
    let mut config: Value = serde_saphyr::from_str(&text).unwrap();
    config["users"][0]["user"] = json!({"token": token});
    let file = kubeconfig.with_extension("user");
    std::fs::write(&file, config.to_string()).unwrap();
    connect(&file).await
}

/// Gives the user a role with rules.
pub async fn bind(admin: &Client, name: &str, rules: &Value) {
    create(admin, &format!("{RBAC}/roles"), json!({"metadata": {"name": name}, "rules": rules})).await;
    let subject = json!({"kind": "ServiceAccount", "name": "user", "namespace": "default"});
    let role = json!({"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({"metadata": {"name": name}, "subjects": [subject], "roleRef": role});
    create(admin, &format!("{RBAC}/rolebindings"), binding).await;
}

pub fn texts(n: usize, prefix: &str) -> Value {
    (0..n).map(|i| Value::from(format!("{prefix}{i}"))).collect()
}

pub fn budget(i: usize, n: usize) -> Value {
    let labels: serde_json::Map<_, _> = (0..n).map(|j| (format!("key-{j}"), "v".into())).collect();
    json!({"metadata": {"name": format!("budget-{i}")}, "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}}})
}

#[tokio::test]
async fn a_pod_costs_the_server_no_more_than_its_size() {
    let directory = TempDir::new("pods");
    let server = Server::start(&directory, "server").await;
    let mut failures = Vec::new();
    for dimension in DIMENSIONS {
        let mut costs = [None; 3];
        for (cost, n) in costs.iter_mut().zip([1, dimension.size, dimension.size * FACTOR]) {
            let pod: Value = serde_json::from_str(&dimension.objects(n).pending).unwrap();
            *cost = server.cost(Method::POST, &format!("{PODS}?dryRun=All"), &pod).await;
        }
        let line = report("a new pod", dimension.name, costs);
        if !is_even(costs) {
            failures.push(line);
        }
    }
    assert!(failures.is_empty(), "costs grow faster than the request:\n{}", failures.join("\n"));
}

/// What a list of this length is made of.
fn items(n: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..n).map(item).collect()
}

#[tokio::test]
async fn lists_without_repetitions_cost_the_server_no_more_than_their_size() {
    let topologies = |n| {
        let term = |i| json!({"matchLabelExpressions": [{"key": "zone", "values": [format!("z{i}")]}]});
        json!({"metadata": {"name": "c"}, "provisioner": "example.com/p", "allowedTopologies": items(n, term)})
    };
    let keys = |n| {
        let driver = json!({"name": "example.com", "nodeID": "n", "topologyKeys": texts(n, "k")});
        json!({"metadata": {"name": "n"}, "spec": {"drivers": [driver]}})
    };
    let exit_codes = |n| {
        let codes = json!({"operator": "In", "values": items(n, |i| (i + 1).into())});
        let policy = json!({"rules": [{"action": "FailJob", "onExitCodes": codes}]});
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"metadata": {"name": "j"}, "spec": {"podFailurePolicy": policy, "template": {"spec": pod}}})
    };
    let lists = [
        ("topologies", "/apis/storage.k8s.io/v1/storageclasses", topologies as fn(usize) -> Value),
        ("keys of a driver", "/apis/storage.k8s.io/v1/csinodes", keys),
        ("exit codes", "/apis/batch/v1/namespaces/default/jobs", exit_codes),
    ];
    let directory = TempDir::new("lists");
    let server = Server::start(&directory, "server").await;
    for (what, path, object) in lists {
        let mut costs = [None; 3];
        for (cost, n) in costs.iter_mut().zip([1, 4_000, 4_000 * FACTOR]) {
            let path = format!("{path}?dryRun=All");
            let create = send(&server.admin, Method::POST, &path, Some(object(n)));
            *cost = cost_of(&server.process, async { drop(create.await) }).await;
        }
        let line = report("a new object", what, costs);
        assert!(is_even(costs), "{line}");
    }
}

#[tokio::test]
async fn a_role_costs_the_server_no_more_than_its_size() {
    let directory = TempDir::new("roles");
    let server = Server::start(&directory, "server").await;
    let mut costs = [None; 3];
    for (cost, n) in costs.iter_mut().zip([1, 38, 38 * FACTOR]) {
        let rule = json!({"apiGroups": [""], "resources": texts(n, "r"), "verbs": texts(n, "v")});
        // The user has the permissions of the new role, from the last of many rules.
        let others =
            (0..10 * n).map(|i| json!({"apiGroups": [""], "resources": [format!("r{i}")], "verbs": [""]}));
        bind(&server.admin, &format!("large-{n}"), &others.chain([rule.clone()]).collect()).await;
        let role = json!({"metadata": {"name": "new"}, "rules": [rule]});
        *cost = server.cost(Method::POST, &format!("{RBAC}/roles?dryRun=All"), &role).await;
    }
    let line = report("a new role", "verbs and resources of a rule", costs);
    assert!(is_even(costs), "{line}");
}

#[tokio::test]
async fn an_eviction_costs_the_same_whatever_the_budgets_select_by() {
    let directory = TempDir::new("budgets");
    let server = Server::start(&directory, "server").await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let mut pod = create(&server.admin, PODS, pod).await;
    pod["status"]["phase"] = "Running".into();
    send(&server.admin, Method::PUT, &format!("{PODS}/p/status"), Some(pod)).await.unwrap();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"dryRun": ["All"]}});
    let mut costs = [Duration::ZERO; 2];
    for (cost, n) in costs.iter_mut().zip([1, 10_000]) {
        for i in 0..10 {
            create(&server.admin, budgets, budget(i, n)).await;
        }
        for _ in 0..20 {
            *cost += server.cost(Method::POST, &format!("{PODS}/p/eviction"), &eviction).await.unwrap();
        }
        for i in 0..10 {
            send(&server.admin, Method::DELETE, &format!("{budgets}/budget-{i}"), None).await.unwrap();
        }
    }
    let [small, large] = costs;
    println!("{costs:?}");
    assert!(large <= small.max(NOISE) * 4, "twenty evictions: {costs:?}");
}
