//! Small fixed scenarios in which the scheduler or the enforcer is killed at each of its writes in turn.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::group::{GROUP_ANNOTATION, GROUP_MIN_ANNOTATION};
use berth_api::syntax::labels::{HOSTNAME, ZONE};
use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, ENFORCERS, SCHEDULERS};
use crate::host::HostId;
use crate::plan::Kills;
use crate::run::{self, RunReport};
use crate::workload::Workload;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
/// The last kill is not later.
const END: Duration = Duration::from_secs(20);

/// What happens, who is killed, and what must come of it.
pub struct Scenario {
    pub name: &'static str,
    killed: HostId,
    workload: fn(&mut Workload),
    has_devices: bool,
    across_nodes: bool,
    /// Pods that are bound in the end.
    n_bound: usize,
    /// Pods that the killed host deletes or evicts.
    n_evicted: usize,
}

/// All scenarios. Each of the two nodes has two CPUs.
pub const ALL: [Scenario; 6] = [
    Scenario {
        name: "volumes",
        killed: SCHEDULERS[0],
        workload: volumes,
        has_devices: false,
        across_nodes: false,
        n_bound: 2,
        n_evicted: 0,
    },
    Scenario {
        name: "preemption",
        killed: SCHEDULERS[0],
        workload: preemption,
        has_devices: false,
        across_nodes: false,
        n_bound: 2,
        n_evicted: 4,
    },
    Scenario {
        name: "group-preemption",
        killed: SCHEDULERS[0],
        workload: group_preemption,
        has_devices: false,
        across_nodes: false,
        n_bound: 2,
        n_evicted: 4,
    },
    Scenario {
        name: "preemption-across-nodes",
        killed: SCHEDULERS[0],
        workload: preemption_across_nodes,
        has_devices: false,
        across_nodes: true,
        n_bound: 2,
        n_evicted: 2,
    },
    Scenario {
        name: "devices",
        killed: SCHEDULERS[0],
        workload: Workload::few_device_pods,
        has_devices: true,
        across_nodes: false,
        n_bound: 3,
        n_evicted: 0,
    },
    Scenario {
        name: "enforcement",
        killed: ENFORCERS[0],
        workload: enforcement,
        has_devices: false,
        across_nodes: false,
        n_bound: 2,
        n_evicted: 2,
    },
];

impl Scenario {
    /// Runs it once the platform simulates. `kill`: the write at which the host is killed, and whether the server makes it.
    pub fn run(&self, kill: Option<(u64, bool)>) -> RunReport {
        let mut workload = Workload { n_nodes: [1, 1], n_zones: 1, cpus: 2, actions: Vec::new() };
        workload.classes();
        (self.workload)(&mut workload);
        let writes = kill.iter().map(|(write, _)| *write).collect();
        let kills = Kills { client: self.killed, writes, is_made: kill.map(|(_, is_made)| is_made) };
        let mut cluster =
            Cluster::with_kills(run::start(0), &workload, self.has_devices, self.across_nodes, kills);
        let mut report = run::settle(&mut cluster, END, Duration::ZERO);
        let (mut bound, mut evicted) = (BTreeSet::new(), BTreeSet::new());
        for change in cluster.history.changes().into_values().filter(|change| change.kind == "Pod") {
            let uid = change.object["metadata"]["uid"].to_string();
            match change.deleted || change.object["spec"]["nodeName"].is_null() {
                true => bound.remove(&uid),
                false => bound.insert(uid),
            };
        }
        for write in cluster.network.accepted().iter().filter(|write| write.client == self.killed) {
            let is_of_pod = write.path.contains("/pods/");
            let evicts = is_of_pod && write.method == Method::DELETE || write.path.ends_with("/eviction");
            if evicts && !evicted.insert(write.path.clone()) {
                report.findings.push(format!("{} is deleted or evicted twice", write.path));
            }
        }
        for (what, n, expected) in
            [("bound", bound.len(), self.n_bound), ("evicted", evicted.len(), self.n_evicted)]
        {
            if n != expected {
                report.findings.push(format!("{n} pods are {what}, {expected} should be"));
            }
        }
        report
    }
}

fn pod(name: &str, class: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"schedulerName": "berth", "priorityClassName": class, "terminationGracePeriodSeconds": 2,
            "containers": [{"name": "c", "image": "registry.example/i:1",
                "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]}})
}

/// A pod with a local volume of one node and a volume to be provisioned there, and one with the latter kind.
fn volumes(workload: &mut Workload) {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"});
    workload.post(1_000, "/apis/storage.k8s.io/v1/storageclasses", class);
    let node = json!([{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["b-1"]}]}]);
    let disk = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "local": {"path": "/disk"}, "nodeAffinity": {"required": {"nodeSelectorTerms": node}}}});
    workload.post(1_000, "/api/v1/persistentvolumes", disk);
    for (name, class) in [("local", "local"), ("first", "standard"), ("second", "standard")] {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": {
            "storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}});
        workload.post(2_000, "/api/v1/namespaces/default/persistentvolumeclaims", claim);
    }
    for (name, claims) in [("both", &["local", "first"][..]), ("one", &["second"])] {
        let mut pod = pod(name, "low", "100m");
        let volume = |claim: &&str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
        pod["spec"]["volumes"] = claims.iter().map(volume).collect();
        workload.post(5_000, PODS, pod);
    }
}

fn preemption(workload: &mut Workload) {
    preempt(workload, &json!({}));
}

/// The pods of high priority are placed together or not at all.
fn group_preemption(workload: &mut Workload) {
    preempt(workload, &json!({GROUP_ANNOTATION: "g", GROUP_MIN_ANNOTATION: "2"}));
}

/// A pod of high priority must not share the zone with either of two pods, on different nodes. A third pod is not in its way.
fn preemption_across_nodes(workload: &mut Workload) {
    for (name, app, node) in [("low-0", "low", "a-1"), ("low-1", "low", "b-1"), ("other", "other", "a-1")] {
        let mut low = pod(name, "low", "100m");
        low["metadata"]["labels"] = json!({"app": app});
        low["spec"]["nodeSelector"] = json!({HOSTNAME: node});
        workload.post(3_000, PODS, low);
    }
    let mut high = pod("high", "high", "100m");
    let term = json!({"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "low"}}});
    high["spec"]["affinity"] =
        json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    workload.post(8_000, PODS, high);
}

/// Pods of low priority fill the nodes; then come pods of high priority, each as large as two of them.
fn preempt(workload: &mut Workload, annotations: &Value) {
    for i in 0..4 {
        workload.post(3_000, PODS, pod(&format!("low-{i}"), "low", "900m"));
    }
    for i in 0..2 {
        let mut high = pod(&format!("high-{i}"), "high", "1800m");
        high["metadata"]["annotations"] = annotations.clone();
        workload.post(8_000, PODS, high);
    }
}

/// The nodes change a label that two running pods require. The enforcer evicts one pod of a workload at a time.
fn enforcement(workload: &mut Workload) {
    let label = |value| json!({"metadata": {"labels": {"disk": value}}});
    workload.patch(2_000, &format!("{NODES}/a-1"), label(json!("ssd")));
    for name in ["web", "api"] {
        let mut template = pod(name, "low", "100m");
        let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]);
        template["spec"]["affinity"] = json!({"nodeAffinity":
            {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": terms}}});
        let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}});
        workload.post(3_000, "/apis/apps/v1/namespaces/default/deployments", object);
    }
    workload.patch(8_000, &format!("{NODES}/b-1"), label(json!("ssd")));
    workload.patch(8_000, &format!("{NODES}/a-1"), label(Value::Null));
}
