//! Drift detection: the state is compared with full lists from time to time.
//!
//! A difference between a list and the state may be a change whose event has not arrived yet. A difference that two lists
//! in a row show, some seconds apart, is drift: it is logged, counted and repaired. There should be none, ever. A list is
//! compared object by object as it arrives; only differences are kept.

use std::collections::HashSet;
use std::time::Duration;

use berth_api::object::{NamespacedName, Node, Pod};
use berth_client::KubeObject;
use berth_engine::Cluster;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::cache::CacheSync;
use crate::change::DriftReport;
use crate::pod_entries::Placement;

/// How many objects a log message names.
const MAX_NAMED: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DriftKind {
    Node,
    Pod,
    /// The component does not have a pod that it should have.
    Missing,
}

/// An object that is not in the state as it was listed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Drift {
    pub(crate) kind: DriftKind,
    pub(crate) key: NamespacedName,
    /// Fingerprint in the state; none if it is not there.
    known: Option<u64>,
    /// Fingerprint in the list; none if it is not there.
    listed: Option<u64>,
}

/// When to check, and what the last check found.
pub(crate) struct DriftCheck {
    interval: Duration,
    grace: Duration,
    /// None before the state is complete.
    next_at: Option<Instant>,
    /// The running check. Objects of earlier ones are out of date.
    pub(crate) number: u32,
    task: Option<AbortHandle>,
    /// What the last check found, to be confirmed by this one.
    suspects: Option<HashSet<Drift>>,
    found: HashSet<Drift>,
    report: DriftReport,
    named: Vec<String>,
}

impl DriftCheck {
    pub(crate) fn new(interval: Duration, grace: Duration) -> DriftCheck {
        DriftCheck {
            interval,
            grace,
            next_at: None,
            number: 0,
            task: None,
            suspects: None,
            found: HashSet::new(),
            report: DriftReport::default(),
            named: Vec::new(),
        }
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_at.is_some_and(|at| at <= now)
    }

    /// The next check is an interval from now.
    pub(crate) fn postpone(&mut self) {
        self.next_at = Some(Instant::now() + self.interval);
    }

    pub(crate) fn started(&mut self, task: AbortHandle) {
        self.postpone();
        self.task = Some(task);
    }

    /// A list is replacing the state: a comparison with another list is meaningless now.
    pub(crate) fn cancel(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        self.number += 1;
        self.suspects = None;
        self.found.clear();
    }

    /// Whether a difference is confirmed, and so to be repaired.
    pub(crate) fn is_confirmed(&mut self, drift: &Drift) -> bool {
        let Some(suspects) = &self.suspects else {
            self.found.insert(drift.clone());
            return false;
        };
        let is_confirmed = suspects.contains(drift);
        if is_confirmed {
            *match drift.kind {
                DriftKind::Node => &mut self.report.n_nodes,
                DriftKind::Pod => &mut self.report.n_pods,
                DriftKind::Missing => &mut self.report.n_missing,
            } += 1;
            if self.named.len() < MAX_NAMED {
                self.named.push(drift.key.to_string());
            }
        }
        is_confirmed
    }

    /// The lists are complete. Returns what was repaired, if anything.
    pub(crate) fn finish(&mut self) -> Option<DriftReport> {
        self.task = None;
        self.suspects = match self.suspects.take() {
            None if !self.found.is_empty() => {
                self.next_at = Some(Instant::now() + self.grace);
                Some(std::mem::take(&mut self.found))
            }
            _ => None,
        };
        let (report, named) = (std::mem::take(&mut self.report), std::mem::take(&mut self.named));
        if report == DriftReport::default() {
            return None;
        }
        tracing::error!(
            nodes = report.n_nodes,
            pods = report.n_pods,
            missing = report.n_missing,
            first = named.join(", "),
            "the state differed from the API server and was repaired"
        );
        Some(report)
    }
}

impl CacheSync {
    pub(crate) fn node_drift(&mut self, cluster: &Cluster, node: &Node) -> Option<Drift> {
        let key = NamespacedName::new("", node.key().1);
        self.nodes.mark_listed(&key);
        let known = self.nodes.get(&key).map(|known| known.bits());
        let listed = Some(self.fingerprints.of_node(node, cluster).bits());
        (known != listed).then_some(Drift { kind: DriftKind::Node, key, known, listed })
    }

    /// `is_missing`: whether the component does not have the pod, and should.
    pub(crate) fn pod_drift(&mut self, cluster: &Cluster, pod: &Pod, is_missing: bool) -> Option<Drift> {
        let (namespace, name) = KubeObject::key(pod);
        let key = NamespacedName::new(namespace, name);
        self.pods.entries.mark_listed(&key);
        if self.pods.entries.get(&key).is_some_and(|known| known.placement == Placement::Assumed) {
            return None;
        }
        let known = self.known_pod(cluster, &key);
        let fingerprint = (!pod.is_terminal()).then(|| self.fingerprints.of_pod(pod));
        let listed = fingerprint.map(|fingerprint| {
            self.fingerprints.of(&(&pod.metadata.uid, fingerprint.bits(), &pod.spec.node_name)).bits()
        });
        if known != listed {
            return Some(Drift { kind: DriftKind::Pod, key, known, listed });
        }
        is_missing.then_some(Drift { kind: DriftKind::Missing, key, known, listed })
    }

    fn known_pod(&self, cluster: &Cluster, key: &NamespacedName) -> Option<u64> {
        let known = self.pods.entries.get(key)?;
        let node = match known.placement {
            Placement::Pending => "",
            Placement::Assumed | Placement::Assigned => {
                cluster.node_of(key.namespace(), key.name()).unwrap_or_default()
            }
        };
        Some(self.fingerprints.of(&(known.uid.to_string(), known.fingerprint.bits(), node)).bits())
    }

    /// Nodes and pods in the state that the lists did not have.
    pub(crate) fn unlisted(&self, cluster: &Cluster) -> Vec<Drift> {
        let nodes = self.nodes.unlisted().into_iter().map(|key| {
            let known = self.nodes.get(&key).map(|known| known.bits());
            Drift { kind: DriftKind::Node, key, known, listed: None }
        });
        let is_reported = |key: &NamespacedName| {
            self.pods.entries.get(key).is_some_and(|known| known.placement != Placement::Assumed)
        };
        let pods = self.pods.entries.unlisted().into_iter().filter(is_reported).map(|key| {
            let known = self.known_pod(cluster, &key);
            Drift { kind: DriftKind::Pod, key, known, listed: None }
        });
        nodes.chain(pods).collect()
    }
}
