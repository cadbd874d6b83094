//! The scene of a seed against Kubernetes' own API server, controllers and scheduler. They have no kubelets: the part of these is played
//! here, in real time.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::time::Duration;

use berth_api::resource;
use berth_client::connect::Options;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::scene::{Scene, SceneWorkload, Step};
use super::user::{Pace, User};
use berth_simulate::what_if::Change;

/// Between two rounds of the kubelets.
const ROUND: Duration = Duration::from_millis(300);
/// In rounds: between two signs of life of each node.
const HEARTBEAT: u32 = 30;

/// Plays a seed on the cluster of `KUBECONFIG`, which is empty. Prints what differs.
pub fn run(seed: u64) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let findings = match runtime {
        Ok(runtime) => runtime.block_on(compare(seed)),
        Err(error) => vec![error.to_string()],
    };
    println!("{}", json!({"seed": seed, "findings": findings}));
    ExitCode::from(u8::from(!findings.is_empty()))
}

async fn compare(seed: u64) -> Vec<String> {
    let client = match Options::default().client().await {
        Ok(client) => client,
        Err(error) => return vec![error.to_string()],
    };
    let mut scene = Scene::new(&mut fastrand::Rng::with_seed(seed));
    // Nothing provisions volumes, no kubelet rejects pods, and lost nodes are not waited for.
    scene.objects.retain(|object| {
        object["spec"]["volumeClaimTemplates"].is_null() && object["spec"]["nodeName"].is_null()
    });
    let objects = &scene.objects;
    // Budgets and autoscalers have the names of their workloads.
    scene.workloads.retain(|SceneWorkload { kind, name }| {
        objects.iter().any(|o| o["kind"] == kind.name() && o["metadata"]["name"] == name.name())
    });
    let left: BTreeSet<_> = scene.workloads.iter().map(|workload| workload.name.clone()).collect();
    scene.steps.retain(|step| match step {
        Step::Change(Change::LoseContact { .. }) => false,
        Step::Change(Change::Scale { name, .. }) | Step::NewTemplate(_, name) => left.contains(name),
        Step::Change(_) | Step::EvictOneOf(..) => true,
    });
    let user = User::new(client.clone(), Default::default(), Pace::Real);
    let kubelets = Kubelets(User::new(client, Default::default(), Pace::Real));
    tokio::select! {
        findings = user.compare(&scene) => findings,
        error = kubelets.run() => vec![error],
    }
}

/// Kubelets whose pods run as soon as they are bound, and are gone as soon as they are deleted.
struct Kubelets(User);

impl Kubelets {
    /// Returns only an error.
    async fn run(&self) -> String {
        for round in 0.. {
            if let Err(error) = self.round(round).await {
                return format!("kubelets: {error}");
            }
            tokio::time::sleep(ROUND).await;
        }
        String::new()
    }

    async fn round(&self, round: u32) -> Result<(), String> {
        let nodes = self.0.items(&resource::NODES).await?;
        let now = Timestamp::now().to_string();
        for node in nodes {
            let conditions = node["status"]["conditions"].as_array();
            let is_ready =
                conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True");
            if !is_ready || round.is_multiple_of(HEARTBEAT) {
                let ready = json!([{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}]);
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                let path = format!("{}/status", resource::NODES.object_path("", name));
                self.try_patch(&path, json!({"status": {"conditions": ready}})).await?;
            }
        }
        for pod in self.0.items(&resource::PODS).await? {
            let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
            let path = resource::PODS.object_path(text("namespace"), text("name"));
            match pod["status"]["phase"].as_str() {
                _ if pod["spec"]["nodeName"].is_null() => {}
                _ if !pod["metadata"]["deletionTimestamp"].is_null() => {
                    let body = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": text("uid")}});
                    accept_gone(self.0.try_send(Method::DELETE, &path, &body).await)?;
                }
                Some("Pending") => {
                    let conditions = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
                        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now}));
                    let status = json!({"phase": "Running", "startTime": now, "conditions": conditions});
                    self.try_patch(&format!("{path}/status"), json!({"status": status})).await?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn try_patch(&self, path: &str, patch: Value) -> Result<(), String> {
        accept_gone(self.0.try_send(Method::PATCH, path, &patch).await)
    }
}

/// Others delete objects and create them again meanwhile.
fn accept_gone(result: Result<Value, berth_client::call::CallError>) -> Result<(), String> {
    match result {
        Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error.to_string()),
        _ => Ok(()),
    }
}
