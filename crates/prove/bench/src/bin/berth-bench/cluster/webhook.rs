//! `berth-bench webhook`: reviews per second of CPU time, over persistent TLS connections.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_bench::count;
use berth_bench::measure::Figures;
use berth_client::call;
use berth_client::connect::Options;
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};

use super::child::{Server, temporary_dir};
use super::load::{TIMEOUT, create, each, node_objects};
use crate::error::BenchError;

const N_CREATORS: usize = 16;
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Reviews before the measurement.
const N_WARM_UP: usize = 500;
const POLICY: &str = "apiVersion: admission.berth.dev/v1alpha1\nkind: AdmissionPolicy\nbudgets:\n- namespaces: [budgeted]\n  \
                      blastRadius: {nodes: 1000000}\n";

/// Parameters of the benchmark.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct WebhookBench {
    /// Number of nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = count(0..=99_999))]
    pub nodes: usize,
    /// Number of reviews of each kind
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count(1..=9_999_999))]
    pub reviews: usize,
    /// Number of concurrent connections
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = count(1..=1_000))]
    pub connections: usize,
}

/// The results.
#[derive(Debug, Serialize)]
pub struct WebhookReport {
    pub nodes: usize,
    pub connections: usize,
    /// By kind of review, and all kinds in turn.
    pub kinds: Vec<WebhookKind>,
}

/// Reviews of one kind.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookKind {
    /// Description of the reviewed pod.
    pub what: &'static str,
    pub reviews: usize,
    /// Reviews per second of elapsed time, with the client on the same machine.
    pub per_second: f64,
    /// Reviews per second of the webhook's CPU time: the rate of a dedicated core.
    pub per_cpu_second: Option<f64>,
    /// Latency of a review.
    pub latency: Figures,
}

/// A request with its expected answer.
struct ReviewRequest {
    path: &'static str,
    body: String,
    allowed: bool,
}

/// Starts an API server and a webhook as processes, and sends reviews.
///
/// # Errors
/// A process does not start, or an answer is wrong.
pub async fn run(bench: WebhookBench) -> Result<WebhookReport, BenchError> {
    let io =
        |error: std::io::Error| BenchError::Other(format!("cannot write to a temporary directory: {error}"));
    let directory = temporary_dir()?;
    fs::write(directory.path().join("policy.yaml"), POLICY).map_err(io)?;
    let (_api, options) = Server::start(&["apiserver", "--controllers=false"], &directory)?;
    create(&options.client().await?, node_objects(1, bench.nodes), N_CREATORS).await?;

    let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).map_err(io)?;
    let path = |file: &str| directory.path().join(file).display().to_string();
    let (listen, kubeconfig, ca_file, policy) =
        (address.to_string(), path("kubeconfig"), path("ca.crt"), path("policy.yaml"));
    let webhook = Server::spawn(&[
        "webhook",
        "--listen",
        &listen,
        "--kubeconfig",
        &kubeconfig,
        "--write-ca",
        &ca_file,
        "--config",
        &policy,
    ])?;
    let trusting = directory.path().join("webhook-kubeconfig");
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: w\nclusters:\n- name: w\n  cluster:\n    server: https://{address}\n    \
         certificate-authority: {ca_file}\nusers:\n- name: w\n  user: {{}}\ncontexts:\n- name: w\n  context: {{cluster: w, \
         user: w}}\n"
    );
    fs::write(&trusting, config).map_err(io)?;
    let options = Options { kubeconfig: Some(trusting), ..Options::default() };
    is_ready(&options).await?;
    let mut clients = Vec::new();
    for _ in 0..bench.connections {
        clients.push(options.client().await?);
    }

    let mut kinds = Vec::new();
    let mut all: Vec<ReviewRequest> = Vec::new();
    for (what, make) in requests() {
        let of_kind = |n: usize| (0..n).map(|_| make()).collect::<Vec<_>>();
        send_reviews(&clients, of_kind(N_WARM_UP)).await?;
        kinds.push(measure(what, &webhook, &clients, of_kind(bench.reviews)).await?);
    }
    for _ in 0..bench.reviews {
        all.extend(requests().map(|(_, make)| make()));
    }
    kinds.push(measure("all of these in turn", &webhook, &clients, all).await?);
    Ok(WebhookReport { nodes: bench.nodes, connections: bench.connections, kinds })
}

async fn is_ready(options: &Options) -> Result<(), BenchError> {
    let begin = Instant::now();
    loop {
        if let Ok(client) = options.client().await
            && call::send(&client, call::get("/readyz"), TIMEOUT, call::MAX_OBJECT_BYTES).await.is_ok()
        {
            return Ok(());
        }
        if begin.elapsed() > READY_TIMEOUT {
            let what = "the webhook is ready".to_owned();
            return Err(BenchError::Timeout { what, seconds: READY_TIMEOUT.as_secs() });
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn measure(
    what: &'static str,
    webhook: &Server,
    clients: &[Client],
    requests: Vec<ReviewRequest>,
) -> Result<WebhookKind, BenchError> {
    let reviews = requests.len();
    let (before, begin) = (webhook.cpu_time(), Instant::now());
    let latency = send_reviews(clients, requests).await?;
    let seconds = begin.elapsed().as_secs_f64();
    let used = webhook.cpu_time().zip(before).map(|(after, before)| (after - before).as_secs_f64());
    let per_cpu_second = used.filter(|used| *used > 0.0).map(|used| reviews as f64 / used);
    Ok(WebhookKind { what, reviews, per_second: reviews as f64 / seconds, per_cpu_second, latency })
}

/// Sends the reviews over all connections concurrently and checks every answer.
async fn send_reviews(clients: &[Client], requests: Vec<ReviewRequest>) -> Result<Figures, BenchError> {
    let clients = clients.to_vec();
    let n_connections = clients.len();
    let samples = each(requests, n_connections, move |worker, requests, i| {
        let client = clients[worker].clone();
        async move {
            let ReviewRequest { path, body, allowed } = &requests[i];
            let request =
                call::with_body(http::Method::POST, path, "application/json", body.clone().into_bytes());
            let review: Value = call::json(&client, request, TIMEOUT).await?;
            if review["response"]["allowed"] == *allowed {
                return Ok(());
            }
            Err(BenchError::Other(format!("{path} answered {review}; expected allowed: {allowed}")))
        }
    });
    Ok(samples.await?.figures())
}

type Make = fn() -> ReviewRequest;

/// The kinds of reviews.
fn requests() -> [(&'static str, Make); 5] {
    [
        ("pod without rules", || review("/validate-pods", "default", json!({}), json!({}), true)),
        ("annotation with a dialect warning", || {
            let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "web"}}, "namespaces": [], "topologyKey": HOSTNAME}]}});
            let annotations = json!({"scheduling.berth.dev/affinity": affinity.to_string()});
            review("/validate-pods", "default", json!({"annotations": annotations}), json!({}), true)
        }),
        ("anti-affinity denied by the policy", || {
            let term = json!({"labelSelector": {}, "namespaceSelector": {}, "topologyKey": ZONE});
            review("/validate-pods", "default", json!({}), anti_affinity(term), false)
        }),
        ("zone anti-affinity with a budget", || {
            let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE});
            review("/validate-pods", "budgeted", json!({}), anti_affinity(term), true)
        }),
        ("merge of matchLabelKeys", || {
            let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": HOSTNAME,
                "matchLabelKeys": ["pod-template-hash"]});
            review("/mutate-pods", "default", json!({}), anti_affinity(term), true)
        }),
    ]
}

fn anti_affinity(term: Value) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

/// The creation of a pod by a ReplicaSet, about 3 kB.
fn review(path: &'static str, namespace: &str, metadata: Value, spec: Value, allowed: bool) -> ReviewRequest {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-6d4cf56db6-x7k2p", "generateName": "web-6d4cf56db6-", "namespace": namespace,
            "uid": "b6d1b1f5-6393-11e8-b7cc-42010a800002", "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6", "app.kubernetes.io/part-of": "shop"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6d4cf56db6",
                "uid": "a6d1b1f5-6393-11e8-b7cc-42010a800002", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "time": "2026-01-31T12:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": {
                    "f:generateName": {}, "f:labels": {".": {}, "f:app": {}, "f:pod-template-hash": {}}},
                    "f:spec": {"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:image": {}, "f:name": {},
                        "f:resources": {}, "f:ports": {}}}, "f:dnsPolicy": {}, "f:restartPolicy": {}}}}],
        },
        "spec": {
            "containers": [{
                "name": "web", "image": "registry.example.com/shop/web:1.27.3", "imagePullPolicy": "IfNotPresent",
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10,
                    "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3},
                "volumeMounts": [{"name": "kube-api-access-2x9fz", "readOnly": true,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            }],
            "volumes": [{"name": "kube-api-access-2x9fz", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}]}}],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "web", "schedulerName": "default-scheduler", "priority": 0,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    });
    for (part, more) in [("metadata", metadata), ("spec", spec)] {
        for (field, value) in more.as_object().into_iter().flatten() {
            pod[part][field] = value.clone();
        }
    }
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "resource": resource,
        "requestKind": kind, "requestResource": resource, "name": "web-6d4cf56db6-x7k2p", "namespace": namespace,
        "operation": "CREATE", "object": pod, "oldObject": null, "dryRun": false,
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": [
            "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]},
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }});
    ReviewRequest { path, body: body.to_string(), allowed }
}
