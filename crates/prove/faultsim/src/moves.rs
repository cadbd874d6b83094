//! Runs in which the enforcers rebalance: what users do before the cluster is left to them, and how the plans are made.

use std::time::Duration;

use berth_api::syntax::labels::{HOSTNAME, ZONE};
use berth_enforcer::RebalanceOptions;
use berth_rebalance::{Goal, Movable, Request};
use fastrand::Rng;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::workload::{APPS, Workload};

/// How long a pod must have been running to be moved.
pub const SETTLE: SignedDuration = SignedDuration::from_secs(20);

pub fn options() -> RebalanceOptions {
    let request = Request {
        movable: Movable { settle: SETTLE, ..Movable::default() },
        ..Request::new(vec![Goal::Spread], Timestamp::UNIX_EPOCH)
    };
    RebalanceOptions {
        interval: Duration::from_secs(15),
        step_timeout: Duration::from_secs(60),
        ..RebalanceOptions::new(request)
    }
}

/// Workloads whose pods are to spread are created while some nodes are cordoned; then the nodes are open, and nobody does anything.
pub fn workload(rng: &mut Rng) -> Workload {
    let mut workload = Workload {
        n_nodes: [rng.usize(2..5), rng.usize(1..4)],
        n_zones: rng.usize(2..4),
        cpus: rng.i64(2..5),
        actions: Vec::new(),
    };
    workload.classes();
    let mut nodes = workload.nodes();
    rng.shuffle(&mut nodes);
    let n_cordoned = rng.usize(1..nodes.len());
    for node in &nodes[..n_cordoned] {
        let path = format!("/api/v1/nodes/{node}");
        workload.patch(2_000, &path, json!({"spec": {"unschedulable": true}}));
        workload.patch(rng.u64(25_000..35_000), &path, json!({"spec": {"unschedulable": null}}));
    }
    for app in &APPS[..rng.usize(1..4)] {
        create(rng, &mut workload, app);
    }
    workload.actions.sort_by_key(|(at, _)| *at);
    workload
}

fn create(rng: &mut Rng, workload: &mut Workload, app: &str) {
    let replicas = rng.u32(3..10);
    let selector = json!({"matchLabels": {"app": app}});
    let whatever = if rng.u32(..4) == 0 { "DoNotSchedule" } else { "ScheduleAnyway" };
    let constraint = |key: &str| json!({"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": whatever, "labelSelector": selector});
    let keys: &[&str] = [&[ZONE][..], &[HOSTNAME], &[ZONE, HOSTNAME]][rng.usize(..3)];
    let constraints: Vec<Value> = keys.iter().map(|key| constraint(key)).collect();
    let cpu = ["50m", "100m"][rng.usize(..2)];
    let spec = json!({"schedulerName": "berth", "terminationGracePeriodSeconds": rng.u32(..10),
        "topologySpreadConstraints": constraints,
        "containers": [{"name": "c", "image": "registry.example/i:1",
            "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]});
    let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app}, "spec": {
        "replicas": replicas, "selector": selector,
        "template": {"metadata": {"labels": {"app": app}}, "spec": spec}}});
    let mut path = "/apis/apps/v1/namespaces/default/deployments";
    if rng.u32(..3) == 0 {
        object["kind"] = json!("StatefulSet");
        object["spec"]["serviceName"] = json!(app);
        object["spec"]["podManagementPolicy"] = json!("Parallel");
        path = "/apis/apps/v1/namespaces/default/statefulsets";
    }
    let created = 5_000 + rng.u64(..10_000);
    workload.post(created, path, object);
    if rng.bool() {
        let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
            "spec": {"maxUnavailable": rng.u32(1..3), "selector": selector}});
        workload.post(created, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget);
    }
}
