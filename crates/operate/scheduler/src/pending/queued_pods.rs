//! The pods that are pending, by ID and by uid.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use berth_api::by_hash::ByHash;
use berth_api::object::{Pod, PodLimits, TooManyEntries, VolumeDecision};
use berth_engine::{PreparedPod, RelaxedPod};
use rustc_hash::FxHashMap;
use tokio::time::Instant;

use super::preemptions::Preemptions;
use crate::completion::Eviction;
use crate::pod_status::{ScheduledCondition, Victim};
use crate::queue::PodId;

/// A pod that is pending, or being bound. There can be a million: what few pods have is boxed.
pub(crate) struct QueuedPod {
    pub(crate) pod: Arc<Pod>,
    /// Of the pod: more than it may carry.
    pub(crate) excess: Option<TooManyEntries>,
    pub(crate) prepared: PreparedPod,
    /// The entry in the queue of the group that it is decided with.
    pub(crate) group: Option<PodId>,
    /// Its last decision, if it was without some of its required rules.
    pub(crate) relaxed: Option<Box<RelaxedPod>>,
    /// When it has one more rule to relax.
    pub(crate) relax_at: Option<Instant>,
    /// It changed while it was being bound: to be prepared again.
    pub(crate) is_stale: bool,
    pub(crate) attempts: u32,
    pub(crate) first_seen: Instant,
    pub(crate) decided_at: Instant,
    pub(crate) binding: Option<InFlightBinding>,
    /// What [`QueuedPod::written`] returns, if that is not empty.
    written: Option<Box<ScheduledCondition>>,
    /// The pod's resource version after the last write; 0 before the first.
    pub(crate) written_version: u64,
    /// Victims that are evicted for it; empty if others are being evicted from its node. It is decided again when they
    /// are gone.
    pub(crate) preemption: Option<Vec<Victim>>,
    pub(crate) preemptions: Preemptions,
    /// Victims that are not evicted yet.
    pub(crate) eviction: Option<Box<Eviction>>,
    /// The wanted status, if it differs.
    pub(crate) to_write: Option<Box<ScheduledCondition>>,
    pub(crate) is_write_queued: bool,
    pub(crate) is_write_in_flight: bool,
}

pub(crate) struct InFlightBinding {
    pub(crate) node: Arc<str>,
    /// Set when the node is deleted, so that the binding is not sent.
    pub(crate) abandoned: Arc<AtomicBool>,
    pub(crate) volumes: Option<Arc<VolumeDecision>>,
}

impl QueuedPod {
    pub(crate) fn new(
        pod: Arc<Pod>,
        prepared: PreparedPod,
        excess: Option<TooManyEntries>,
        now: Instant,
    ) -> QueuedPod {
        let mut queued = QueuedPod {
            prepared,
            group: None,
            relaxed: None,
            relax_at: None,
            is_stale: false,
            attempts: 0,
            first_seen: now,
            decided_at: now,
            binding: None,
            written: None,
            written_version: 0,
            preemption: None,
            preemptions: Preemptions::default(),
            eviction: None,
            to_write: None,
            is_write_queued: false,
            is_write_in_flight: false,
            excess,
            pod,
        };
        queued.set_written(ScheduledCondition::of(&queued.pod));
        queued
    }

    /// The pod's status, or the status after the write in flight.
    pub(crate) fn written(&self) -> &ScheduledCondition {
        self.written.as_deref().unwrap_or(ScheduledCondition::EMPTY)
    }

    pub(crate) fn set_written(&mut self, status: ScheduledCondition) {
        self.written = (status != *ScheduledCondition::EMPTY).then(|| Box::new(status));
    }

    pub(crate) fn set_pod(&mut self, pod: Arc<Pod>, limits: PodLimits) {
        self.excess = limits.excess(&pod);
        self.pod = pod;
    }

    /// The pod with the rules of its last decision.
    pub(crate) fn decided(&self) -> &PreparedPod {
        self.relaxed.as_ref().map_or(&self.prepared, |relaxed| &relaxed.pod)
    }

    /// Whether a write of its status is wanted or in flight.
    pub(crate) fn is_status_changing(&self) -> bool {
        self.to_write.is_some() || self.is_write_in_flight
    }
}

#[derive(Default)]
pub(crate) struct QueuedPods {
    /// Boxed: the table has up to twice as many places as pods.
    by_id: FxHashMap<PodId, Box<QueuedPod>>,
    by_uid: ByHash<PodId>,
    last_id: u64,
}

impl QueuedPods {
    /// An ID that no pod has.
    pub(crate) fn new_id(&mut self) -> PodId {
        self.last_id += 1;
        PodId(self.last_id)
    }

    pub(crate) fn add(&mut self, pod: QueuedPod) -> PodId {
        let id = self.new_id();
        self.by_uid.insert(&*pod.pod.metadata.uid, id);
        self.by_id.insert(id, Box::new(pod));
        id
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<QueuedPod> {
        let removed = self.by_id.remove(&id)?;
        self.by_uid.remove(&*removed.pod.metadata.uid, id);
        Some(*removed)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn id(&self, uid: &str) -> Option<PodId> {
        self.by_uid.find(uid, |id| self.get(id).is_some_and(|queued| *queued.pod.metadata.uid == *uid))
    }

    pub(crate) fn get(&self, id: PodId) -> Option<&QueuedPod> {
        self.by_id.get(&id).map(Box::as_ref)
    }

    pub(crate) fn get_mut(&mut self, id: PodId) -> Option<&mut QueuedPod> {
        self.by_id.get_mut(&id).map(Box::as_mut)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PodId> {
        self.by_id.keys().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PodId, &QueuedPod)> {
        self.by_id.iter().map(|(id, queued)| (*id, &**queued))
    }
}
