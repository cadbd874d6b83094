//! What pods have to tell the API server: their status, and their removal.

use berth_api::resource::PODS;
use berth_client::call::CallError;
use bytes::Bytes;
use serde_json::json;

use super::Agent;
use super::lane::{Done, Job, Sent, retry_after};
use super::store::{NodeState, PodId, PodState};
use crate::event::Progress;
use crate::pod::status::Addresses;
use crate::request::{self, STRATEGIC_MERGE};

impl Agent {
    pub(super) fn start_pod_write(&mut self, id: PodId) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        let node = self.nodes.get(entry.node);
        let PodState::Decided(life) = &entry.state else { return };
        let path = PODS.object_path(entry.key.namespace(), entry.key.name());
        let (sent, request) = if node.state != NodeState::Up {
            entry.busy = false;
            return;
        } else if life.version() > entry.written {
            let status = life.status(&entry.uid, Addresses { host: node.ip, pod: entry.ip });
            // The uid is a precondition: a pod made anew under the same name is not this one.
            let body = json!({ "metadata": { "uid": entry.uid }, "status": status });
            let request = request::patch(&format!("{path}/status"), STRATEGIC_MERGE, &body);
            (Sent::PodStatus(life.version()), request)
        } else if life.is_removable() && !entry.removed {
            (Sent::PodRemoval, request::delete_now(&path, &entry.uid))
        } else {
            entry.busy = false;
            return;
        };
        let (caller, name) = (self.caller.clone(), node.name.clone());
        self.work.start(async move {
            let result = caller.send(&name, request).await.map(|_| Vec::new());
            Done { job: Job::Pod(id), sent, result }
        });
    }

    pub(super) fn pod_written(&mut self, id: PodId, sent: Sent, result: Result<Vec<Bytes>, CallError>) {
        let Some(entry) = self.pods.get_mut(id) else { return };
        match result {
            Ok(_) => {
                match sent {
                    Sent::PodStatus(version) => entry.written = version,
                    _ => entry.removed = true,
                }
                entry.busy = false;
                entry.failures = 0;
                if let PodState::Decided(life) = &entry.state {
                    let unchanged = Progress::of(life);
                    self.pod_advanced(id, unchanged);
                }
            }
            // The pod is gone, as the watch will tell: it stays busy until then.
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                let wait = retry_after(entry.failures, &error, fastrand::f64());
                entry.failures += 1;
                let key = &entry.key;
                self.complaints.tell(|| format!("pod {key} was not written: {error}"));
                self.retry(Job::Pod(id), wait);
            }
        }
    }
}
