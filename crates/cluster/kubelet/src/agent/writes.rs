//! Writes of pods: their status and their removal.

use berth_api::resource::PODS;
use berth_client::call::CallError;
use bytes::Bytes;
use serde_json::{Value, json};

use super::request_queue::{Completion, Job, RequestKind, retry_after};
use super::state::Agent;
use super::store::{NodeState, PodId, PodState};
use crate::event::Progress;
use crate::pod::resize::RESIZE_CONDITIONS;
use crate::pod::status::Addresses;
use crate::request::{self, STRATEGIC_MERGE};

impl Agent {
    pub(super) fn start_pod_write(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let node = self.nodes.get(entry.node);
        let PodState::Decided(lifecycle) = &entry.state else { return };
        let path = PODS.object_path(entry.key.namespace(), entry.key.name());
        let (kind, request) = if node.state != NodeState::Running {
            entry.busy = false;
            return;
        } else if lifecycle.version() > entry.written {
            let status = lifecycle.status(&entry.uid, Addresses { host: node.ip, pod: entry.ip });
            // The uid is a precondition: a new pod of the same name must not get this status.
            let mut body = json!({ "metadata": { "uid": entry.uid }, "status": status });
            if lifecycle.was_resized() {
                remove_resize_conditions(&mut body["status"]["conditions"]);
            }
            let request = request::patch(&format!("{path}/status"), STRATEGIC_MERGE, &body);
            (RequestKind::PodStatus(lifecycle.version()), request)
        } else if lifecycle.is_removable() && !entry.removed {
            (RequestKind::PodRemoval, request::delete_now(&path, &entry.uid))
        } else {
            entry.busy = false;
            return;
        };
        let (caller, name) = (self.caller.clone(), node.name.clone());
        self.work.start(async move {
            let result = caller.send(&name, request).await.map(|_| Vec::new());
            Completion { job: Job::Pod(id), kind, result }
        });
    }

    pub(super) fn pod_written(
        &mut self,
        id: PodId,
        kind: RequestKind,
        result: Result<Vec<Bytes>, CallError>,
    ) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        match result {
            Ok(_) => {
                match kind {
                    RequestKind::PodStatus(version) => entry.written = version,
                    _ => entry.removed = true,
                }
                entry.busy = false;
                entry.failures = 0;
                if let PodState::Decided(lifecycle) = &entry.state {
                    let unchanged = Progress::of(lifecycle);
                    self.pod_advanced(id, unchanged);
                }
            }
            // The pod is deleted. It stays busy until the watch reports that.
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let wait = retry_after(entry.failures, &error, fastrand::f64());
                entry.failures += 1;
                let key = &entry.key;
                self.failure_log.record(|| format!("pod {key} was not written: {error}"));
                self.retry(Job::Pod(id), wait);
            }
        }
    }
}

/// Removes the conditions of a resize that has ended: a merge keeps them otherwise.
fn remove_resize_conditions(conditions: &mut Value) {
    let Some(list) = conditions.as_array_mut() else { return };
    for gone in RESIZE_CONDITIONS {
        if !list.iter().any(|condition| condition["type"] == gone) {
            list.push(json!({ "$patch": "delete", "type": gone }));
        }
    }
}
