//! A cluster whose components are processes.

use std::collections::HashSet;

use berth_testkit::programs::TempDir;
use kube::Client;
use serde_json::Value;

use crate::client::{connect, eventually, get, list, text};
use crate::process::Berth;

pub const PODS: &str = "/api/v1/namespaces/default/pods";

/// A replica that takes over within seconds.
pub const REPLICA: [&str; 7] = [
    "--leader-elect",
    "--leader-elect-lease-duration",
    "3s",
    "--leader-elect-renew-deadline",
    "2s",
    "--leader-elect-retry-period",
    "500ms",
];

/// The components of a cluster, each in a process.
pub struct Cluster {
    // Drop order.
    pub schedulers: Vec<Berth>,
    pub kubelets: Vec<Berth>,
    server: Berth,
    pub client: Client,
    pub directory: TempDir,
}

impl Cluster {
    /// Starts a server with controllers, a kubelet with this many nodes in three zones, and schedulers.
    pub async fn start(name: &str, n_nodes: usize, scheduler_args: &[&[&str]]) -> Cluster {
        let directory = TempDir::new(name);
        let kubeconfig = directory.file("kubeconfig");
        let server = start_server(&directory);
        let client = connect(&kubeconfig).await;
        let file = kubeconfig.display().to_string();
        let scheduler = |(i, more): (usize, &&[&str])| {
            let args = [&["scheduler", "--kubeconfig", &file][..], more].concat();
            Berth::start(&directory, &format!("scheduler-{i}"), &args)
        };
        let schedulers = scheduler_args.iter().enumerate().map(scheduler).collect();
        let mut cluster = Cluster { schedulers, kubelets: Vec::new(), server, client, directory };
        cluster.add_nodes(n_nodes, &[]).await;
        cluster
    }

    /// Starts a kubelet with this many more nodes, and waits for them.
    pub async fn add_nodes(&mut self, n_nodes: usize, args: &[&str]) {
        let n_before = self.n_nodes().await.unwrap();
        let (file, nodes) = (self.directory.file("kubeconfig").display().to_string(), n_nodes.to_string());
        let all = [
            "kubelet",
            "--kubeconfig",
            &file,
            "--nodes",
            &nodes,
            "--start-after",
            "0s",
            "--stop-after",
            "0s",
        ];
        let name = format!("kubelet-{}", self.kubelets.len());
        self.kubelets.push(Berth::start(&self.directory, &name, &[&all[..], args].concat()));
        eventually("nodes are ready", async || {
            let n_now = self.n_nodes().await?;
            if n_now == n_before + n_nodes { Ok(()) } else { Err(format!("{n_now} nodes")) }
        })
        .await;
    }

    async fn n_nodes(&self) -> Result<usize, String> {
        Ok(list(&self.client, "/api/v1/nodes").await.map_err(|e| e.to_string())?.len())
    }

    /// Waits until a scheduler leads, and returns its identity.
    pub async fn leader(&self) -> String {
        let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth";
        eventually("there is a leader", async || {
            let lease = get(&self.client, path).await.map_err(|e| e.to_string())?;
            let leader = text(&lease, "/spec/holderIdentity").to_owned();
            if leader.is_empty() { Err("none".to_owned()) } else { Ok(leader) }
        })
        .await
    }

    /// Kills the scheduler with this identity (SIGKILL).
    pub fn kill_scheduler(&mut self, identity: &str) {
        // The identity has the process ID.
        let is_it = |s: &&mut Berth| identity.split(['_', '-']).any(|part| part == s.id().to_string());
        let scheduler = self.schedulers.iter_mut().find(is_it);
        scheduler.unwrap_or_else(|| panic!("{identity} names no process")).kill();
    }

    /// Kills the server (SIGKILL) and restarts it with the same data.
    pub fn restart_server(&mut self) {
        self.server.kill();
        self.server = start_server(&self.directory);
    }

    /// Waits until exactly this many pods exist, all running on existing nodes.
    pub async fn all_running(&self, n_pods: usize) {
        eventually("all pods run on existing nodes", async || {
            let nodes = list(&self.client, "/api/v1/nodes").await.map_err(|e| e.to_string())?;
            let nodes: HashSet<_> = nodes.iter().map(|n| text(n, "/metadata/name")).collect();
            let pods = list(&self.client, PODS).await.map_err(|e| e.to_string())?;
            let runs = |pod: &&Value| {
                text(pod, "/status/phase") == "Running" && nodes.contains(text(pod, "/spec/nodeName"))
            };
            let n_running = pods.iter().filter(runs).count();
            let all = (pods.len(), n_running) == (n_pods, n_pods);
            if all { Ok(()) } else { Err(format!("{n_running} of {} run, of {n_pods}", pods.len())) }
        })
        .await;
    }
}

fn start_server(directory: &TempDir) -> Berth {
    let path = |name: &str| directory.file(name).display().to_string();
    let args = ["apiserver", "--data-dir", &path("data"), "--kubeconfig-out", &path("kubeconfig")];
    let server = Berth::start(directory, "apiserver", &args);
    assert_eq!(server.line_after("export KUBECONFIG="), path("kubeconfig"));
    server
}
