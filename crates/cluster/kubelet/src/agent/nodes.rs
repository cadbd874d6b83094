//! Nodes: registration, adoption, commands, deletion.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::object::{Node, ObjectMeta};
use berth_api::resource::{CSI_NODES, LEASES, NODES, PODS, percent_encoded};
use berth_client::Event;
use berth_client::call::{self, CallError};
use bytes::Bytes;
use http::Request;

use super::request_queue::{Completion, Job, RequestKind, retry_after};
use super::state::{Agent, now};
use super::store::{NodeEntry, NodeId, NodeState};
use crate::node::{
    LEASE_NAMESPACE, NodeTemplate, NodeView, heartbeat_status, may_set_own_labels, missing_labels,
    needs_status, new_csi_node, new_lease, new_node, renewal,
};
use crate::request::{self, MERGE, STRATEGIC_MERGE};

pub(super) type Answer = Result<Vec<Bytes>, CallError>;

impl Agent {
    pub(super) fn insert_node(&mut self, name: Arc<str>, template: Arc<Node>, state: NodeState) -> NodeId {
        self.counts.nodes.fetch_add(1, Ordering::Relaxed);
        self.nodes.insert(NodeEntry {
            name,
            template,
            state,
            view: None,
            ip: self.node_ips.take(),
            lease_exists: false,
            lease_busy: false,
            status_busy: false,
            is_registering: false,
            failures: 0,
            timer_epoch: 0,
        })
    }

    pub(super) fn node_event(&mut self, event: Event<NodeView>) {
        match event {
            Event::Restarted(nodes) => self.nodes_listed(nodes),
            Event::Applied(node) => self.node_applied(node),
            Event::Deleted(node) => {
                if let Some(id) = self.nodes.find(&node.metadata.name) {
                    self.node_deleted(id);
                }
            }
        }
    }

    fn nodes_listed(&mut self, nodes: Vec<NodeView>) {
        let mut seen = vec![false; self.nodes.ids().count()];
        for node in nodes {
            if let Some(id) = self.nodes.find(&node.metadata.name)
                && let Some(seen) = seen.get_mut(id.0 as usize)
            {
                *seen = true;
            }
            self.node_applied(node);
        }
        for (id, seen) in self.nodes.ids().zip(seen) {
            match self.nodes.get(id).state {
                _ if seen => {}
                // Only the first list finds nodes without a registration request.
                NodeState::Registering if !self.nodes.get(id).status_busy => {
                    let entry = self.nodes.get_mut(id);
                    entry.status_busy = true;
                    entry.is_registering = true;
                    self.n_registering += 1;
                    self.push(Job::Register(id));
                }
                NodeState::Running | NodeState::Stopped => self.node_deleted(id),
                NodeState::Registering | NodeState::Deleted => {}
            }
        }
    }

    fn node_applied(&mut self, view: NodeView) {
        let Some(id) = self.nodes.find(&view.metadata.name) else {
            if self.selection.matches(&view.metadata.name, &view.metadata.labels) {
                let template = Node {
                    metadata: ObjectMeta { name: view.metadata.name.clone(), ..ObjectMeta::default() },
                    status: self.default_status(),
                    ..Node::default()
                };
                let name = Arc::from(view.metadata.name.as_str());
                let id = self.insert_node(name, Arc::new(template), NodeState::Registering);
                self.node_registered(id, view);
            }
            return;
        };
        let entry = self.nodes.get_mut(id);
        match entry.state {
            NodeState::Registering => self.node_registered(id, view),
            // A user created the deleted node again: the agent adopts it. It never registers a deleted node again by
            // itself.
            NodeState::Deleted => {
                self.counts.nodes.fetch_add(1, Ordering::Relaxed);
                self.node_registered(id, view);
            }
            NodeState::Running | NodeState::Stopped if entry.uid() != view.metadata.uid => {
                self.node_deleted(id);
                self.node_applied(view);
            }
            NodeState::Running | NodeState::Stopped => {
                let changed = entry.view.as_ref().is_none_or(|before| before.to_node() != view.to_node());
                let lacks = entry.state == NodeState::Running && needs_status(&view);
                if changed {
                    self.admission.set_node(&view.to_node());
                }
                entry.view = Some(view);
                if changed {
                    self.recheck_pending(id);
                    self.retry_resizes(id);
                    self.retry_mounts_of(id);
                }
                if lacks {
                    self.correct_status(id);
                }
            }
        }
    }

    /// The status of adopted nodes without resources.
    fn default_status(&self) -> berth_api::object::Shared<berth_api::object::NodeStatus> {
        let template = self.options.templates.first().cloned().unwrap_or_else(|| NodeTemplate::new(1, 1));
        let one = NodeTemplate {
            nodes: berth_api::simulated_nodes::SimulatedNodes { n_nodes: 1, ..template.nodes },
            ..template
        };
        let node = one.nodes().ok().and_then(|mut nodes| nodes.pop());
        let mut status = node.map(|node| node.status).unwrap_or_default();
        status.node_info.kubelet_version = self.options.version();
        status
    }

    /// The node is in the API and belongs to this agent.
    fn node_registered(&mut self, id: NodeId, view: NodeView) {
        if let Some(ip) = view.internal_ip() {
            let given = std::mem::replace(&mut self.nodes.get_mut(id).ip, ip);
            if given != ip {
                self.node_ips.release(given);
                self.node_ips.reserve(ip);
            }
        }
        self.admission.set_node(&view.to_node());
        let lacks_status = needs_status(&view);
        let lacks_labels = missing_labels(&view).is_some();
        let entry = self.nodes.get_mut(id);
        entry.view = Some(view);
        entry.state = NodeState::Running;
        entry.failures = 0;
        self.counts.nodes_ready.fetch_add(1, Ordering::Relaxed);
        self.begin_heartbeats(id);
        if lacks_labels {
            self.push(Job::NodeLabels(id));
        }
        if lacks_status {
            self.report_status(id, Duration::ZERO);
        }
        if !self.options.csi_drivers.is_empty() {
            self.push(Job::CsiNode(id));
        }
        if self.follows_pods {
            self.push(Job::ListPods(id));
        }
    }

    /// The node is deleted. The agent stops acting for it; the pod garbage collector deletes its pods.
    fn node_deleted(&mut self, id: NodeId) {
        let entry = self.nodes.get_mut(id);
        let state = std::mem::replace(&mut entry.state, NodeState::Deleted);
        if state == NodeState::Deleted {
            return;
        }
        entry.view = None;
        entry.lease_exists = false;
        entry.timer_epoch += 1;
        let name = entry.name.clone();
        self.counts.nodes.fetch_sub(1, Ordering::Relaxed);
        if state == NodeState::Running {
            self.counts.nodes_ready.fetch_sub(1, Ordering::Relaxed);
        }
        for pod in self.pods.of_node(id) {
            self.forget_pod(pod);
        }
        self.admission.remove_node(&name);
    }

    pub(super) fn stop_node(&mut self, id: NodeId) {
        let entry = self.nodes.get_mut(id);
        if entry.state == NodeState::Running {
            entry.state = NodeState::Stopped;
            entry.timer_epoch += 1;
            self.counts.nodes_ready.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn start_node(&mut self, id: NodeId) {
        let entry = self.nodes.get_mut(id);
        if entry.state != NodeState::Stopped {
            return;
        }
        entry.state = NodeState::Running;
        self.counts.nodes_ready.fetch_add(1, Ordering::Relaxed);
        self.begin_heartbeats(id);
        self.renew_lease(id);
        self.report_status(id, Duration::ZERO);
        for pod in self.pods.of_node(id) {
            self.resume_pod(pod);
        }
        // The agent ignored pods that were bound while the node was stopped.
        self.push(Job::ListPods(id));
    }

    pub(super) fn start_node_job(&mut self, job: Job, id: NodeId) {
        let heartbeat = self.options.heartbeat;
        let entry = self.nodes.get(id);
        let name = entry.name.clone();
        let mut kind = RequestKind::Plain;
        let wanted: Option<Request<Vec<u8>>> = match (job, &entry.view) {
            (Job::Register(_), _) if entry.state == NodeState::Registering => {
                Some(request::create(&NODES.path(""), &new_node(&entry.template, entry.ip, now())))
            }
            (Job::NodeStatus(_), Some(view)) if entry.state == NodeState::Running => {
                let status = heartbeat_status(view, &entry.template, entry.ip, now());
                Some(request::patch(
                    &format!("{}/status", NODES.object_path("", &name)),
                    STRATEGIC_MERGE,
                    &status,
                ))
            }
            (Job::NodeLabels(_), Some(view)) if entry.state == NodeState::Running => {
                let path = NODES.object_path("", &name);
                missing_labels(view).map(|labels| request::patch(&path, MERGE, &labels))
            }
            (Job::CsiNode(_), _) if entry.state == NodeState::Running => {
                let csi_node = new_csi_node(&name, entry.uid(), &self.options.csi_drivers);
                Some(request::create(&CSI_NODES.path(""), &csi_node))
            }
            (Job::Lease(_), _) if entry.state == NodeState::Running && entry.lease_exists => {
                let renewal = renewal(&name, heartbeat.lease_duration, now());
                Some(request::patch(&LEASES.object_path(LEASE_NAMESPACE, &name), MERGE, &renewal))
            }
            (Job::Lease(_), _) if entry.state == NodeState::Running => {
                kind = RequestKind::NewLease;
                let lease = new_lease(&name, entry.uid(), heartbeat.lease_duration, now());
                Some(request::create(&LEASES.path(LEASE_NAMESPACE), &lease))
            }
            (Job::ListPods(_), _) if entry.state == NodeState::Running => {
                let selector = percent_encoded(&format!("spec.nodeName={name}")).to_string();
                Some(call::get(&format!("{}?fieldSelector={selector}", PODS.path(""))))
            }
            _ => None,
        };
        let Some(request) = wanted else {
            if let Job::Register(_) = job {
                self.registration_attempted(id);
            }
            let entry = self.nodes.get_mut(id);
            match job {
                Job::Lease(_) => entry.lease_busy = false,
                Job::NodeStatus(_) | Job::Register(_) => entry.status_busy = false,
                _ => {}
            }
            return;
        };
        let caller = self.caller.clone();
        let as_node = !matches!(job, Job::Register(_)) || may_set_own_labels(&entry.template.metadata.labels);
        let send = async move {
            let answer = match as_node {
                true => caller.send(&name, request).await,
                false => caller.send_own(request, call::MAX_OBJECT_BYTES).await,
            };
            let result = answer.map(|bytes| vec![bytes]);
            Completion { job, kind, result }
        };
        match job {
            Job::Lease(_) => self.leases.start(send),
            _ => self.work.start(send),
        }
    }

    /// The first attempt to register each node ends exactly once, also if other requests of the node fail: pods wait for it.
    fn registration_attempted(&mut self, id: NodeId) {
        if std::mem::take(&mut self.nodes.get_mut(id).is_registering) {
            self.n_registering -= 1;
        }
    }

    pub(super) fn registration_completed(&mut self, id: NodeId, result: Answer) {
        self.registration_attempted(id);
        let entry = self.nodes.get_mut(id);
        if entry.state != NodeState::Registering {
            // The watch event was faster.
            entry.status_busy = false;
            if entry.view.as_ref().is_some_and(needs_status) {
                self.report_status(id, Duration::ZERO);
            }
            return;
        }
        match result {
            Ok(answer) => {
                entry.status_busy = false;
                // If the answer cannot be read, the watch reports the node.
                if let Some(view) = answer.first().and_then(|bytes| serde_json::from_slice(bytes).ok()) {
                    self.node_registered(id, view);
                }
            }
            // The node already exists: the watch reports it.
            Err(error) if error.is_conflict() => entry.status_busy = false,
            Err(error) => self.node_request_failed(Job::Register(id), id, "register", &error),
        }
    }

    pub(super) fn labels_written(&mut self, id: NodeId, result: Answer) {
        if let Err(error) = result
            && !error.is_not_found()
        {
            self.node_request_failed(Job::NodeLabels(id), id, "label", &error);
        }
    }

    pub(super) fn csi_node_created(&mut self, id: NodeId, result: Answer) {
        if let Err(error) = result
            && !error.is_already_exists()
        {
            self.node_request_failed(Job::CsiNode(id), id, "create the CSINode of", &error);
        }
    }

    pub(super) fn pods_listed(&mut self, id: NodeId, result: Answer) {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct PodList {
            items: Vec<crate::pod::view::PodView>,
        }
        match result {
            Ok(answer) => {
                let list = answer.first().and_then(|bytes| serde_json::from_slice::<PodList>(bytes).ok());
                self.pods_found(list.unwrap_or_default().items);
            }
            Err(error) => self.node_request_failed(Job::ListPods(id), id, "list the pods of", &error),
        }
    }

    pub(super) fn node_request_failed(&mut self, job: Job, id: NodeId, what: &str, error: &CallError) {
        let entry = self.nodes.get_mut(id);
        let wait = retry_after(entry.failures, error, fastrand::f64());
        entry.failures += 1;
        self.failure_log.record(|| format!("could not {what} node {}: {error}", entry.name));
        self.retry(job, wait);
    }
}
