//! Refused pods are judged a second time, against what the API server has then.

use berth_api::object::Namespace;
use berth_api::resource::{NAMESPACES, NODES};
use berth_client::call::{self, CallError};
use bytes::Bytes;

use super::lane::{Done, Job, Sent, retry_after};
use super::pods::subject;
use super::store::{NodeId, NodeState, PodId, PodState};
use super::{Agent, now};
use crate::event::Progress;
use crate::node::NodeView;
use crate::pod::life::{Life, Refusal};

/// More bytes of namespaces than this are not read for a second look.
const MAX_NAMESPACES_BYTES: usize = 64 << 20;

impl Agent {
    /// Reads the node and the namespaces as they are now.
    pub(super) fn start_second_look(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id) else { return };
        let (caller, name) = (self.caller.clone(), self.nodes.get(entry.node).name.clone());
        self.work.start(async move {
            let node = caller.send(&name, call::get(&NODES.object_path("", &name))).await;
            let namespaces = caller.send_own(call::get(&NAMESPACES.path("")), MAX_NAMESPACES_BYTES).await;
            let result = node.and_then(|node| Ok(vec![node, namespaces?]));
            Done { job: Job::SecondLook(id), sent: Sent::Plain, result }
        });
    }

    pub(super) fn second_look(&mut self, id: PodId, result: Result<Vec<Bytes>, CallError>) {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct NamespaceList {
            items: Vec<Namespace>,
        }
        let Some(entry) = self.pods.get_mut(id) else { return };
        let node = entry.node;
        if let PodState::Decided(life) = &entry.state {
            // Something else took the refusal back meanwhile.
            let unchanged = Progress::of(life);
            entry.busy = false;
            entry.failures = 0;
            return self.pod_advanced(id, unchanged);
        }
        match result {
            // The node is gone, and the watch will tell.
            Err(error) if error.is_not_found() => return self.forget_pod(id),
            Err(error) => {
                let wait = retry_after(entry.failures, &error, fastrand::f64());
                entry.failures += 1;
                let key = &entry.key;
                self.complaints.tell(|| format!("pod {key} could not be judged: {error}"));
                return self.retry(Job::SecondLook(id), wait);
            }
            Ok(answers) => {
                entry.busy = false;
                entry.failures = 0;
                let view = answers.first().and_then(|bytes| serde_json::from_slice::<NodeView>(bytes).ok());
                if let Some(view) = view
                    && self.nodes.get(node).state == NodeState::Up
                {
                    self.admission.set_node(&view.to_node());
                    self.nodes.get_mut(node).view = Some(view);
                }
                let list =
                    answers.get(1).and_then(|bytes| serde_json::from_slice::<NamespaceList>(bytes).ok());
                list.unwrap_or_default().items.iter().for_each(|n| self.admission.set_namespace(n));
            }
        }
        self.judge_for_good(id);
    }

    /// Something about a node has changed: pods it refused once may be welcome now.
    pub(super) fn look_again(&mut self, node: NodeId) {
        if self.doubtful.is_empty() || self.nodes.get(node).state != NodeState::Up {
            return;
        }
        let ids: Vec<_> = self.doubtful.iter().filter(|(at, _)| *at == node).map(|(_, id)| *id).collect();
        for id in ids {
            // The one before it may have changed everything.
            let Some(PodState::Doubtful(pod)) = self.pods.get(id).map(|entry| &entry.state) else { continue };
            if self.admission.judge(pod).is_ok() {
                let pod = pod.clone();
                let life = Life::accept(self.plan(&pod), now());
                self.decide(id, life, &pod);
            }
        }
    }

    fn judge_for_good(&mut self, id: PodId) {
        let Some(entry) = self.pods.get(id) else { return };
        let PodState::Doubtful(pod) = &entry.state else { return };
        let pod = pod.clone();
        let plan = self.plan(&pod);
        let life = match self.admission.judge(&pod) {
            Ok(()) => Life::accept(plan, now()),
            Err(Refusal { reason, message }) => {
                let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
                tracing::info!(%namespace, pod = %name, node = %pod.spec.node_name, %reason, "refused: {message}");
                let refusal = Refusal { reason, message: format!("Pod was rejected: {message}") };
                if let Some(events) = &self.events {
                    events.refused(subject(entry), &refusal);
                }
                Life::reject(plan, refusal, now())
            }
        };
        self.decide(id, life, &pod);
    }
}
