//! The second, final check of rejected pods, against the current state of the API server.

use berth_api::object::Namespace;
use berth_api::object::REJECTED;
use berth_api::resource::{NAMESPACES, NODES};
use berth_client::call::{self, CallError};
use bytes::Bytes;

use super::pods::pod_ref;
use super::request_queue::{Completion, Job, RequestKind, retry_after};
use super::state::{Agent, now};
use super::store::{NodeId, NodeState, PodId, PodState};
use crate::event::Progress;
use crate::node::NodeView;
use crate::pod::lifecycle::PodLifecycle;
use crate::pod::rejection::Rejection;

/// Size limit of the namespace list.
const MAX_NAMESPACES_BYTES: usize = 64 << 20;

impl Agent {
    /// Reads the current node and namespaces.
    pub(super) fn start_recheck(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id) else { return };
        let (caller, name) = (self.caller.clone(), self.nodes.get(entry.node).name.clone());
        self.work.start(async move {
            let node = caller.send(&name, call::get(&NODES.object_path("", &name))).await;
            let namespaces = caller.send_own(call::get(&NAMESPACES.path("")), MAX_NAMESPACES_BYTES).await;
            let result = node.and_then(|node| Ok(vec![node, namespaces?]));
            Completion { job: Job::Recheck(id), kind: RequestKind::Plain, result }
        });
    }

    pub(super) fn recheck(&mut self, id: PodId, result: Result<Vec<Bytes>, CallError>) {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct NamespaceList {
            items: Vec<Namespace>,
        }
        let Some(entry) = self.pods.get_mut(id) else { return };
        let node = entry.node;
        if let PodState::Decided(lifecycle) = &entry.state {
            // Another event has already led to the pod's acceptance.
            let unchanged = Progress::of(lifecycle);
            entry.busy = false;
            entry.failures = 0;
            return self.pod_advanced(id, unchanged);
        }
        match result {
            // The node is deleted; the watch reports it.
            Err(error) if error.is_not_found() => return self.forget_pod(id),
            Err(error) => {
                let wait = retry_after(entry.failures, &error, fastrand::f64());
                entry.failures += 1;
                let key = &entry.key;
                self.failure_log.record(|| format!("pod {key} could not be checked: {error}"));
                return self.retry(Job::Recheck(id), wait);
            }
            Ok(answers) => {
                entry.busy = false;
                entry.failures = 0;
                let view = answers.first().and_then(|bytes| serde_json::from_slice::<NodeView>(bytes).ok());
                if let Some(view) = view
                    && self.nodes.get(node).state == NodeState::Running
                {
                    self.admission.set_node(&view.to_node());
                    self.nodes.get_mut(node).view = Some(view);
                }
                let list =
                    answers.get(1).and_then(|bytes| serde_json::from_slice::<NamespaceList>(bytes).ok());
                list.unwrap_or_default().items.iter().for_each(|n| self.admission.set_namespace(n));
            }
        }
        self.decide_finally(id);
    }

    /// Checks the rejected pods of a node again, after a change of the node or its pods.
    pub(super) fn recheck_pending(&mut self, node: NodeId) {
        if self.pending_rechecks.is_empty() || self.nodes.get(node).state != NodeState::Running {
            return;
        }
        let ids: Vec<_> =
            self.pending_rechecks.iter().filter(|(at, _)| *at == node).map(|(_, id)| *id).collect();
        for id in ids {
            // The acceptance of an earlier pod may have changed this one's state.
            let Some(PodState::PendingRecheck(pod)) = self.pods.get(id).map(|entry| &entry.state) else {
                continue;
            };
            if self.admission.check(pod).is_ok() {
                let pod = pod.clone();
                let lifecycle = PodLifecycle::accept(self.plan(&pod), now());
                self.decide(id, lifecycle, &pod);
            }
        }
    }

    fn decide_finally(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id) else { return };
        let PodState::PendingRecheck(pod) = &entry.state else { return };
        let pod = pod.clone();
        let plan = self.plan(&pod);
        let lifecycle = match self.admission.check(&pod) {
            Ok(()) => PodLifecycle::accept(plan, now()),
            Err(Rejection { reason, message }) => {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                tracing::info!(%namespace, pod = %name, node = %pod.spec.node_name, %reason, "rejected: {message}");
                let rejection = Rejection { reason, message: format!("{REJECTED}{message}") };
                if let Some(events) = &self.events {
                    events.rejected(pod_ref(entry), &rejection);
                }
                PodLifecycle::reject(plan, rejection, now())
            }
        };
        self.decide(id, lifecycle, &pod);
    }
}
