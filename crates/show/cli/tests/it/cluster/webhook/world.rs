//! An API server, a webhook process, and webhook configurations.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_apiserver::{ApiServer, ServerOptions};
use berth_testkit::programs::TempDir;
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::client::{connect, eventually};
use crate::process::Berth;

pub const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1";

/// A response.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub object: Value,
    pub warnings: Vec<String>,
}

impl Reply {
    pub fn message(&self) -> &str {
        self.object["message"].as_str().unwrap_or_default()
    }
}

/// Sends one request without a retry. The error means that there was no response.
pub async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: impl Into<Vec<u8>>,
) -> Result<Reply, String> {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.body(Body::from(body.into())).unwrap();
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    let code = response.status().as_u16();
    let warnings = response.headers().get_all("warning").iter();
    let warnings = warnings.map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned()).collect();
    let bytes = response.into_body().collect_bytes().await.map_err(|error| error.to_string())?;
    let text = || Value::from(String::from_utf8_lossy(&bytes).into_owned());
    Ok(Reply { code, object: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()), warnings })
}

pub async fn post(client: &Client, path: &str, object: &Value) -> Reply {
    ask(client, Method::POST, path, "application/json", object.to_string()).await.unwrap()
}

/// The API server, in this process.
pub struct World {
    pub directory: TempDir,
    pub server: ApiServer,
    pub admin: Client,
}

impl World {
    /// `extensions`: whether the server stores proposal fields. A standard API server does not.
    pub async fn new(name: &str, extensions: bool) -> World {
        let directory = TempDir::new(name);
        let kubeconfig = Some(directory.file("kubeconfig"));
        let options = ServerOptions { extensions, kubeconfig, ..ServerOptions::default() };
        let server = ApiServer::start(options).await.unwrap();
        let admin = connect(&directory.file("kubeconfig")).await;
        World { directory, server, admin }
    }

    /// Starts a ready webhook with a policy and additional arguments.
    pub async fn webhook(&self, policy: &str, args: &[&str]) -> Webhook {
        self.replica("webhook", policy, args).await
    }

    /// One of several webhooks, each with its own name.
    pub async fn replica(&self, name: &str, policy: &str, args: &[&str]) -> Webhook {
        let file = self.directory.file(&format!("{name}-policy.yaml"));
        let head = "apiVersion: admission.berth.dev/v1alpha1\nkind: AdmissionPolicy\n";
        fs::write(&file, format!("{head}{policy}")).unwrap();
        let (kubeconfig, ca) =
            (self.directory.file("kubeconfig"), self.directory.file(&format!("{name}-ca.crt")));
        let path = |path: &PathBuf| path.display().to_string();
        let mut all =
            vec!["webhook", "--listen", "127.0.0.1:0"].into_iter().map(str::to_owned).collect::<Vec<_>>();
        all.extend(["--kubeconfig".to_owned(), path(&kubeconfig), "--config".to_owned(), path(&file)]);
        if !args.contains(&"--cert-file") {
            all.extend(["--write-ca".to_owned(), path(&ca)]);
        }
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let process = Berth::start(&self.directory, name, &all);
        let url = crate::process::eventually("the webhook serves", || {
            let stderr = process.stderr();
            let line = stderr.lines().find_map(|line| line.split_once("serving webhooks at "));
            line.map(|(_, url)| url.to_owned()).ok_or(stderr)
        });
        let ca = fs::read_to_string(ca).unwrap_or_default();
        let webhook = Webhook { process, url, ca };
        if !webhook.ca.is_empty() {
            webhook.is_ready(&self.directory).await;
        }
        webhook
    }

    /// Registers a webhook with these rules.
    pub async fn register(&self, kind: &str, name: &str, webhook: Value) {
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": name},
            "webhooks": [webhook],
        });
        let path = format!("{CONFIGURATIONS}/{}webhookconfigurations", kind.to_lowercase());
        let reply = post(&self.admin, &path, &object).await;
        assert_eq!(reply.code, 201, "{reply:?}");
    }

    /// Creates an object at a path.
    pub async fn make(&self, path: &str, object: &Value) {
        let reply = post(&self.admin, path, object).await;
        assert_eq!(reply.code, 201, "{reply:?}");
    }
}

/// A running `berth webhook`.
pub struct Webhook {
    pub process: Berth,
    pub url: String,
    pub ca: String,
}

impl Webhook {
    /// An entry for a webhook configuration.
    pub fn entry(&self, name: &str, path: &str, failure_policy: &str, rules: Value) -> Value {
        entry(name, &format!("{}{path}", self.url), &self.ca, failure_policy, rules)
    }

    /// A client that trusts these authorities (PEM).
    pub async fn client(&self, directory: &TempDir, ca: &str) -> Client {
        client(directory, &self.url, ca).await
    }

    async fn is_ready(&self, directory: &TempDir) {
        let client = self.client(directory, &self.ca).await;
        eventually("the webhook is ready", async || {
            match ask(&client, Method::GET, "/readyz", "", "").await? {
                Reply { code: 200, .. } => Ok(()),
                reply => Err(format!("{reply:?}")),
            }
        })
        .await;
    }
}

/// A client for an address that trusts these authorities (PEM). It has its own connections.
pub async fn client(directory: &TempDir, url: &str, ca: &str) -> Client {
    let mut hasher = DefaultHasher::new();
    (url, ca).hash(&mut hasher);
    let file = directory.file(&format!("kubeconfig-{}", hasher.finish()));
    let ca = STANDARD.encode(ca);
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: w\nclusters:\n- name: w\n  cluster:\n    server: {url}\n    \
         certificate-authority-data: {ca}\nusers:\n- name: w\n  user: {{}}\ncontexts:\n- name: w\n  context: {{cluster: w, \
         user: w}}\n"
    );
    if !file.exists() {
        fs::write(&file, text).unwrap();
    }
    connect(&file).await
}

pub fn entry(name: &str, url: &str, ca: &str, failure_policy: &str, rules: Value) -> Value {
    json!({
        "name": name,
        "clientConfig": {"url": url, "caBundle": STANDARD.encode(ca)},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "NoneOnDryRun",
        "failurePolicy": failure_policy,
        "timeoutSeconds": 10,
        "rules": rules,
    })
}

pub fn rules(group: &str, resources: &[&str], operations: &[&str]) -> Value {
    json!([{"apiGroups": [group], "apiVersions": ["v1"], "resources": resources, "operations": operations}])
}

/// A pod with additional metadata and spec fields.
pub fn pod(name: &str, metadata: Value, spec: Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0},
    });
    for (part, more) in [("metadata", metadata), ("spec", spec)] {
        for (field, value) in more.as_object().into_iter().flatten() {
            pod[part][field] = value.clone();
        }
    }
    pod
}
