//! An API server with the objects of `deploy/kustomize`, and the requests it received.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_api::feature_gates::{FeatureGates, GateSetting, KubernetesVersion};
use berth_api::read::{ReadError, read_manifests};
use berth_apiserver::{ApiServer, ServerOptions};
use berth_client::call;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::process::DEADLINE;

pub const NAMESPACE: &str = "berth-system";

/// A permission: granted by a role, or needed by a request. `pods/status` is a separate resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    pub group: String,
    pub resource: String,
    pub verb: String,
}

pub fn right(group: &str, resource: &str, verb: &str) -> Right {
    Right { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() }
}

pub struct World {
    server: ApiServer,
    admin: Client,
}

impl World {
    /// A server without controllers and nodes, with these files of the kustomize base. It has no Deployments and webhooks,
    /// because no component would run them.
    pub async fn with(files: &[&str]) -> World {
        let setting = GateSetting::parse("GenericWorkload=true").unwrap();
        let feature_gates = FeatureGates::new(KubernetesVersion::default(), &[setting]);
        let options = ServerOptions { feature_gates, ..ServerOptions::default() };
        let server = ApiServer::start(options).await.unwrap();
        let admin = Client::try_from(server.admin_config()).unwrap();
        let world = World { server, admin };
        for file in ["namespace.yaml"].iter().chain(files) {
            for object in objects(file) {
                world.apply(object).await;
            }
        }
        world
    }

    async fn apply(&self, object: Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let namespace = text("/metadata/namespace");
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let path = match text("/kind") {
            "Namespace" => "/api/v1/namespaces".to_owned(),
            "CustomResourceDefinition" => {
                "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned()
            }
            "ServiceAccount" => format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            "ClusterRole" => format!("{rbac}/clusterroles"),
            "ClusterRoleBinding" => format!("{rbac}/clusterrolebindings"),
            "Role" => format!("{rbac}/namespaces/{namespace}/roles"),
            "RoleBinding" => format!("{rbac}/namespaces/{namespace}/rolebindings"),
            _ => return,
        };
        if let Err(error) = self.try_create(&path, &object).await {
            // The server has some roles of Kubernetes by itself.
            let present = self.get(&format!("{path}/{}", text("/metadata/name"))).await;
            let rights = |object: &Value| object["rules"].is_array().then(|| rights_of_role(object));
            assert_eq!(rights(&present), rights(&object), "{error}");
        }
    }

    /// Creates an object as the admin.
    pub async fn create(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, "application/json", &object).await
    }

    /// As [`World::create`]; the error is the server's.
    pub async fn try_create(&self, path: &str, object: &Value) -> Result<(), String> {
        let body = object.to_string().into_bytes();
        let request = call::with_body(Method::POST, path, "application/json", body);
        call::json::<Value>(&self.admin, request, DEADLINE).await.map(drop).map_err(|error| error.to_string())
    }

    /// Changes an object as the admin, by a merge patch.
    pub async fn patch(&self, path: &str, patch: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", &patch).await
    }

    async fn send(&self, method: Method, path: &str, content_type: &'static str, body: &Value) -> Value {
        let request = call::with_body(method, path, content_type, body.to_string().into_bytes());
        call::json(&self.admin, request, DEADLINE).await.unwrap()
    }

    async fn token_of(&self, account: &str) -> String {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        self.create(&path, request).await["status"]["token"].as_str().unwrap().to_owned()
    }

    /// A kubeconfig file of a user without groups.
    pub fn kubeconfig_as(&self, user: &str) -> Value {
        let text = std::fs::read_to_string(self.server.kubeconfig_path()).unwrap();
        let mut config: Value = serde_saphyr::from_str(&text).unwrap();
        config["users"][0]["user"]["as"] = user.into();
        config
    }

    /// A client configuration with a token of a service account.
    pub async fn config_of(&self, account: &str) -> kube::Config {
        let mut config = self.server.admin_config();
        config.auth_info.token = Some(self.token_of(account).await.into());
        config
    }

    /// The same as a kubeconfig file.
    pub async fn kubeconfig_of(&self, account: &str) -> Value {
        let config = self.server.admin_config();
        let der = STANDARD.encode(&config.root_cert.unwrap()[0]);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{der}\n-----END CERTIFICATE-----\n");
        let cluster = json!({"server": config.cluster_url.to_string(),
            "certificate-authority-data": STANDARD.encode(pem)});
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": self.token_of(account).await}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        })
    }

    /// A ready node.
    pub async fn node(&self, name: &str, cpu: &str, labels: Value) {
        let resources = json!({"cpu": cpu, "memory": "8Gi", "pods": "110"});
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
            "status": {"capacity": resources, "allocatable": resources,
                       "conditions": [{"type": "Ready", "status": "True"}]}});
        self.create("/api/v1/nodes", node).await;
    }

    /// A pod with a CPU request and without a grace period for termination.
    pub async fn pod(&self, name: &str, scheduler: &str, spec: Value, cpu: &str) {
        self.labelled_pod(name, json!({}), scheduler, spec, cpu).await;
    }

    pub async fn labelled_pod(&self, name: &str, labels: Value, scheduler: &str, spec: Value, cpu: &str) {
        let metadata = json!({"name": name, "labels": labels});
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        pod["spec"]["schedulerName"] = scheduler.into();
        pod["spec"]["terminationGracePeriodSeconds"] = 0.into();
        pod["spec"]["containers"] =
            json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
        self.create("/api/v1/namespaces/default/pods", pod).await;
    }

    pub async fn priority_class(&self, name: &str, value: i32) {
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value});
        self.create("/apis/scheduling.k8s.io/v1/priorityclasses", class).await;
    }

    /// Installs the definition of PodGroups of `scheduling.x-k8s.io`.
    pub async fn define_pod_groups(&self) {
        for definition in objects("../components/pod-groups/pod-group.yaml") {
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        }
    }

    /// Defines the resources of the Prometheus operator.
    pub async fn define_monitors(&self) {
        for (kind, plural) in [("PodMonitor", "podmonitors"), ("ServiceMonitor", "servicemonitors")] {
            let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.monitoring.coreos.com")},
                "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "schema": {"openAPIV3Schema": schema}}]}});
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await;
        }
    }

    /// All permissions of a service account.
    pub async fn granted(&self, account: &str) -> Vec<Right> {
        let mut rights = BTreeSet::new();
        for path in self.role_paths(account).await {
            rights.extend(rights_of_role(&self.get(&path).await));
        }
        rights.into_iter().collect()
    }

    /// The roles that bindings give a service account, but for those of Kubernetes itself.
    async fn role_paths(&self, account: &str) -> Vec<String> {
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let mut paths = Vec::new();
        for resource in ["clusterrolebindings", "rolebindings"] {
            let bindings = self.get(&format!("{rbac}/{resource}")).await;
            for binding in bindings["items"].as_array().unwrap() {
                let subjects = binding["subjects"].as_array().into_iter().flatten();
                let is_bound =
                    subjects.into_iter().any(|s| s["kind"] == "ServiceAccount" && s["name"] == account);
                let role = binding["roleRef"]["name"].as_str().unwrap();
                if is_bound && role.starts_with("berth-") {
                    paths.push(match binding["roleRef"]["kind"].as_str() {
                        Some("ClusterRole") => format!("{rbac}/clusterroles/{role}"),
                        _ => format!("{rbac}/namespaces/{NAMESPACE}/roles/{role}"),
                    });
                }
            }
        }
        paths
    }

    /// Removes a permission from the roles.
    pub async fn take_away(&self, account: &str, right: &Right) {
        self.restrict(account, |r| r != right).await;
    }

    /// Leaves these permissions in the roles. Returns the rules before, for [`World::set_rules`].
    pub async fn restrict(&self, account: &str, keeps: impl Fn(&Right) -> bool) -> Vec<Value> {
        let mut before = Vec::new();
        for path in self.role_paths(account).await {
            let rules = self.get(&path).await["rules"].clone();
            let all = rules.as_array().unwrap().iter();
            let kept = all.flat_map(|rule| rights_of(rule).into_iter().map(move |r| (rule, r)));
            let one = |(rule, r): (&Value, Right)| {
                let mut rule = rule.clone();
                (rule["apiGroups"], rule["resources"]) = (json!([r.group]), json!([r.resource]));
                rule["verbs"] = json!([r.verb]);
                rule
            };
            let kept: Vec<_> = kept.filter(|(_, r)| keeps(r)).map(one).collect();
            self.patch(&path, json!({"rules": kept})).await;
            before.push(rules);
        }
        before
    }

    pub async fn set_rules(&self, account: &str, rules: &[Value]) {
        for (path, rules) in self.role_paths(account).await.iter().zip(rules) {
            self.patch(path, json!({"rules": rules})).await;
        }
    }

    pub async fn get(&self, path: &str) -> Value {
        call::json(&self.admin, call::get(path), DEADLINE).await.unwrap()
    }

    /// Whether a pod does not exist.
    pub async fn is_gone(&self, pod: &str) -> Result<(), String> {
        let path = format!("/api/v1/namespaces/default/pods/{pod}");
        match call::json::<Value>(&self.admin, call::get(&path), DEADLINE).await {
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error.to_string()),
            Ok(pod) => Err(pod["status"].to_string()),
        }
    }

    /// All requests so far.
    pub async fn requests(&self) -> Requests {
        let text = call::send(&self.admin, call::get("/metrics"), DEADLINE, 16 << 20).await.unwrap();
        let text = String::from_utf8(text.to_vec()).unwrap();
        Requests(text.lines().filter_map(request).collect())
    }
}

/// The permissions of a role, each once.
pub fn rights_of_role(role: &Value) -> BTreeSet<Right> {
    role["rules"].as_array().unwrap().iter().flat_map(rights_of).collect()
}

fn rights_of(rule: &Value) -> Vec<Right> {
    let words = |field: &str| rule[field].as_array().unwrap().iter().map(|v| v.as_str().unwrap().to_owned());
    let mut rights = Vec::new();
    for group in words("apiGroups") {
        for resource in words("resources") {
            for verb in words("verbs") {
                rights.push(right(&group, &resource, &verb));
            }
        }
    }
    rights
}

pub fn objects(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/kustomize/base").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let mut objects = Vec::new();
    read_manifests::<ReadError>(text.as_bytes(), file, &mut |manifest| {
        objects.push(manifest.value);
        Ok(())
    })
    .unwrap();
    objects
}

/// Numbers of requests by permission and response code.
#[derive(Debug)]
pub struct Requests(BTreeMap<(Right, u16), u64>);

impl Requests {
    /// The requests after `before`.
    pub fn since(&self, before: &Requests) -> Requests {
        let grown = |(key, count): (&(Right, u16), &u64)| {
            let count = count - before.0.get(key).unwrap_or(&0);
            (count > 0).then(|| (key.clone(), count))
        };
        Requests(self.0.iter().filter_map(grown).collect())
    }

    /// The rejected requests.
    pub fn refused(&self) -> Vec<Right> {
        self.0.keys().filter(|(_, code)| *code == 403).map(|(right, _)| right.clone()).collect()
    }

    /// Whether all of these were requested; else the missing ones.
    pub fn has_all(&self, rights: &[Right]) -> Result<(), String> {
        let is_missing = |right: &&Right| !self.0.keys().any(|(asked, _)| asked == *right);
        let missing: Vec<_> = rights.iter().filter(is_missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("not asked for: {missing:?}")) }
    }
}

/// A line such as `apiserver_request_total{verb="LIST",group="",...,code="200"} 3`.
fn request(line: &str) -> Option<((Right, u16), u64)> {
    let (labels, count) = line.strip_prefix("apiserver_request_total{")?.split_once("} ")?;
    let label = |name: &str| {
        labels.split(',').find_map(|l| l.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
    };
    let verb = match label("verb")? {
        "POST" => "create".to_owned(),
        "PUT" => "update".to_owned(),
        verb => verb.to_lowercase(),
    };
    let resource = match (label("resource")?, label("subresource")?) {
        (resource, "") => resource.to_owned(),
        (resource, subresource) => format!("{resource}/{subresource}"),
    };
    let right = Right { group: label("group")?.to_owned(), resource, verb };
    Some(((right, label("code")?.parse().ok()?), count.parse().ok()?))
}
