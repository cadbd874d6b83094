//! The console: it writes what was confirmed, once and in its order, and reports what it has written.

use std::time::Duration;

use berth_api::resource::{NODES, PODS};
use berth_console::writes::{Write, WriteState};
use berth_testkit::check::history::{Changes, text};
use serde_json::Value;

use crate::cluster::CONSOLE;
use crate::console::List;
use crate::network::Accepted;

/// The history may show a write so much later, if the API server stands still.
const LAG: Duration = Duration::from_secs(60);

/// The number of writes, and what is wrong with them.
pub fn check(lists: &[List], changes: &Changes, accepted: &[Accepted]) -> (usize, Vec<String>) {
    let accepted: Vec<&Accepted> = accepted.iter().filter(|write| write.client == CONSOLE).collect();
    let mut findings = Vec::new();
    for (i, List { began, writes, report, .. }) in lists.iter().enumerate() {
        let next = lists.get(i + 1).map_or(Duration::MAX, |list| list.began);
        let ended = report.as_ref().map_or(next, |(at, _)| *at);
        let made: Vec<_> = accepted.iter().filter(|write| write.at >= *began && write.at < next).collect();
        let result = |i: usize| report.as_ref().map(|(_, progress)| &progress.states[i]);
        for write in &made {
            // A write is made once, if it may have been made.
            let may_be_made = |i: usize| match result(i) {
                None | Some(WriteState::Done) => true,
                Some(WriteState::Failed(error)) => error.contains("may have been written"),
                Some(WriteState::NotTried | WriteState::Refused(..)) => false,
            };
            let n_expected =
                (0..writes.len()).filter(|i| path(&writes[*i]) == write.path && may_be_made(*i)).count();
            let n_made = made.iter().filter(|other| other.path == write.path).count();
            if n_made > n_expected {
                findings.push(format!(
                    "{:?}: the console wrote {} {n_made} times, {n_expected} times at most by its report",
                    write.at, write.path
                ));
            }
        }
        for (i, write) in writes.iter().enumerate() {
            if result(i) == Some(&WriteState::Done) && !was_made(write, changes, *began, ended + LAG) {
                findings.push(format!("{ended:?}: the console reports as done: {write}"));
            }
        }
    }
    findings.dedup();
    // What a budget does not allow, or what is of an object that does not exist, may stay.
    let last =
        |(i, list): &(usize, &List)| lists[i + 1..].iter().all(|other| other.question != list.question);
    for (_, list) in lists.iter().enumerate().filter(last).filter(|(_, list)| !list.is_done()) {
        let errors: Vec<_> = list.errors().collect();
        if !list.is_blocked() && !errors.iter().any(|error| error.contains("404")) {
            findings.push(format!("{:?}: a viewer of the console gave up: {errors:?}", list.began));
        }
    }
    (accepted.len(), findings)
}

/// The path that a write is sent to.
fn path(write: &Write) -> String {
    match write {
        Write::SetLabel { node, .. }
        | Write::SetTaint { node, .. }
        | Write::RemoveTaints { node, .. }
        | Write::Cordon { node }
        | Write::Uncordon { node } => NODES.object_path("", node),
        Write::Evict { name, .. } => format!("{}/eviction", PODS.object_path(name.namespace(), name.name())),
        Write::Scale { kind, name, .. } => {
            let path = kind.resource().map(|resource| resource.object_path(name.namespace(), name.name()));
            format!("{}/scale", path.unwrap_or_default())
        }
        Write::Apply { manifest, .. } => unreachable!("no viewer applies {manifest}"),
    }
}

/// Whether the cluster was so at a moment.
fn was_made(write: &Write, changes: &Changes, from: Duration, until: Duration) -> bool {
    let mut before = false;
    for change in changes.values().filter(|change| change.at <= until) {
        let Some(is_so) = shows(write, &change.kind, &change.object, change.deleted) else { continue };
        if change.at < from {
            before = is_so;
        } else if is_so || before {
            return true;
        }
    }
    before
}

/// Whether an object shows a write as made; none if the write is of another one.
fn shows(write: &Write, kind: &str, object: &Value, is_deleted: bool) -> Option<bool> {
    let metadata = &object["metadata"];
    let is_node = |node: &str| (kind == "Node" && metadata["name"] == node).then_some(());
    Some(match write {
        Write::SetLabel { node, key, value, .. } => {
            is_node(node)?;
            metadata["labels"][key].as_str() == value.as_deref()
        }
        Write::SetTaint { node, taint } => {
            is_node(node)?;
            let mut taints = object["spec"]["taints"].as_array().into_iter().flatten();
            taints.any(|t| {
                t["key"] == taint.key && t["effect"] == taint.effect && text(&t["value"]) == taint.value
            })
        }
        Write::RemoveTaints { node, key, .. } => {
            is_node(node)?;
            !object["spec"]["taints"].as_array().into_iter().flatten().any(|taint| taint["key"] == *key)
        }
        Write::Cordon { node } => {
            is_node(node)?;
            object["spec"]["unschedulable"] == true
        }
        Write::Uncordon { node } => {
            is_node(node)?;
            object["spec"]["unschedulable"] != true
        }
        Write::Evict { uid, .. } => {
            (kind == "Pod" && metadata["uid"] == *uid).then_some(())?;
            is_deleted || !metadata["deletionTimestamp"].is_null()
        }
        Write::Scale { kind: workload, name, n_replicas, .. } => {
            (kind == workload.name() && metadata["name"] == name.name()).then_some(())?;
            object["spec"]["replicas"] == *n_replicas
        }
        Write::Apply { .. } => false,
    })
}
