//! Pods. `STATUS` summarizes the phase, the containers' states and the deletion.

use std::collections::HashSet;

use jiff::Timestamp;

use crate::kinds::prelude::*;
use crate::table::duration::since;

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::together("Ready", "Containers that are ready, of all.", summary, 0),
    Column::together("Status", "What the pod is doing, or what keeps it from it.", summary, 1),
    Column::together("Restarts", "How often containers were restarted, and when last.", summary, 2),
    AGE,
    Column::text("IP", "Address of the pod.", |row| {
        row.text("/status/podIPs/0/ip").or_else(|| row.text("/status/podIP")).unwrap_or(NONE).into()
    })
    .wide(),
    Column::field("Node", "Node the pod is bound to.", "/spec/nodeName").or(NONE).wide(),
    Column::field(
        "Nominated Node",
        "Node that room is being made on for the pod.",
        "/status/nominatedNodeName",
    )
    .or(NONE)
    .wide(),
    Column::text("Readiness Gates", "Readiness gates that are true, of all.", readiness_gates).wide(),
];

/// Ready, status and restarts.
fn summary(row: &Row<'_>) -> Vec<Value> {
    let Summary { status, ready, containers, restarts, last_restart } = Summary::of(row);
    let restarts = match last_restart {
        Some(last) if restarts != 0 => {
            format!("{restarts} ({} ago)", since(Some(&last.to_string()), row.now))
        }
        _ => restarts.to_string(),
    };
    vec![format!("{ready}/{containers}").into(), status.into(), restarts.into()]
}

fn readiness_gates(row: &Row<'_>) -> Value {
    let gates = row.list("/spec/readinessGates");
    if gates.is_empty() {
        return NONE.into();
    }
    let conditions = row.list("/status/conditions").iter().filter(|c| c["status"] == "True");
    let true_ones: HashSet<_> = conditions.filter_map(|c| c["type"].as_str()).collect();
    let is_true = |gate: &&Value| gate["conditionType"].as_str().is_some_and(|name| true_ones.contains(name));
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len()).into()
}

/// Pods that ended are marked, so that clients can leave them out.
pub fn conditions(row: &Row<'_>) -> Option<Value> {
    let (reason, message) = match row.text("/status/phase")? {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

struct Summary {
    status: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += status["restartCount"].as_i64().unwrap_or(0);
        let finished = status["lastState"]["terminated"]["finishedAt"].as_str();
        self.last = self.last.max(finished.and_then(|time| time.parse().ok()));
    }
}

fn text<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value[field].as_str().filter(|text| !text.is_empty())
}

/// `Signal:9` or `ExitCode:1`, where a state gives no reason.
fn exit(terminated: &Value) -> String {
    match terminated["signal"].as_i64().unwrap_or(0) {
        0 => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        signal => format!("Signal:{signal}"),
    }
}

impl Summary {
    fn of(row: &Row<'_>) -> Summary {
        let phase = row.text("/status/phase").unwrap_or_default();
        let gated = row
            .list("/status/conditions")
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated");
        let status = match row.text("/status/reason") {
            _ if gated => "SchedulingGated",
            Some(reason) => reason,
            None => phase,
        };
        let sidecars =
            row.list("/spec/initContainers").iter().filter(|c| c["restartPolicy"] == "Always").count();
        let mut summary = Summary {
            status: status.to_owned(),
            ready: 0,
            containers: row.list("/spec/containers").len() + sidecars,
            restarts: 0,
            last_restart: None,
        };
        let sidecar_restarts = summary.initialize(row);
        if let Some(restarts) = sidecar_restarts {
            summary.run(row, restarts);
        }
        let unreachable = row.text("/status/reason") == Some("NodeLost");
        if row.is_deleted() && unreachable {
            "Unknown".clone_into(&mut summary.status);
        } else if row.is_deleted() && !["Succeeded", "Failed"].contains(&phase) {
            "Terminating".clone_into(&mut summary.status);
        }
        summary
    }

    /// Reads the init containers. Returns the restarts of those that keep running, if the pod has finished
    /// the other ones.
    fn initialize(&mut self, row: &Row<'_>) -> Option<Restarts> {
        let specs = row.list("/spec/initContainers");
        let sidecar_names: HashSet<&Value> =
            specs.iter().filter(|c| c["restartPolicy"] == "Always").map(|c| &c["name"]).collect();
        let (mut all, mut sidecars) = (Restarts::default(), Restarts::default());
        let mut initializing = None;
        for (index, status) in row.list("/status/initContainerStatuses").iter().enumerate() {
            all.add(status);
            let is_sidecar = sidecar_names.contains(&status["name"]);
            if is_sidecar {
                sidecars.add(status);
            }
            let terminated = &status["state"]["terminated"];
            if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
                continue;
            }
            if is_sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = text(&status["state"]["waiting"], "reason").filter(|r| *r != "PodInitializing");
            initializing = Some(match (terminated.is_object(), waiting) {
                (true, _) => text(terminated, "reason").map_or_else(|| exit(terminated), str::to_owned),
                (false, Some(reason)) => reason.to_owned(),
                (false, None) => format!("{index}/{}", specs.len()),
            });
            break;
        }
        if let Some(what) = initializing {
            self.status = format!("Init:{what}");
            (self.restarts, self.last_restart) = (all.count, all.last);
            if row.condition("Initialized") != Some("True") {
                return None;
            }
        }
        Some(sidecars)
    }

    /// Reads the main containers in reverse order, so that the first one takes precedence.
    fn run(&mut self, row: &Row<'_>, mut restarts: Restarts) {
        let mut has_running = false;
        for status in row.list("/status/containerStatuses").iter().rev() {
            restarts.add(status);
            let (waiting, terminated) = (&status["state"]["waiting"], &status["state"]["terminated"]);
            if let Some(reason) = text(waiting, "reason").or_else(|| text(terminated, "reason")) {
                reason.clone_into(&mut self.status);
            } else if terminated.is_object() {
                self.status = exit(terminated);
            } else if status["ready"] == true && status["state"]["running"].is_object() {
                has_running = true;
                self.ready += 1;
            }
        }
        (self.restarts, self.last_restart) = (restarts.count, restarts.last);
        if self.status == "Completed" && has_running {
            let ready = row.condition("Ready") == Some("True");
            self.status = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
}
