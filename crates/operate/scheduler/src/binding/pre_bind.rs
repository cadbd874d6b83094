//! What is written before a pod is bound (PreBind): first for its volumes, then for its claims of devices.

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::VolumeDecision;
use berth_engine::Cluster;
use tokio::time::Instant;

use super::devices::DeviceBindings;
use super::volumes::VolumeBindings;
use crate::completion::Binding;
use crate::pending::QueuedPods;
use crate::queue::PodId;

pub(crate) struct PreBind {
    pub(crate) volumes: VolumeBindings,
    pub(crate) devices: DeviceBindings,
}

/// How the wait of a pod ended.
pub(crate) enum PreBindOutcome {
    /// Its volumes or its claims are bound.
    Bound(Binding),
    /// They are not, for this reason.
    Failed(Binding, String),
    /// Nothing more may be sent. The pod goes back to the queue as if nothing had been tried.
    NotSent(Binding),
}

impl PreBind {
    /// Starts the requests for a pod that is assumed on a node. Gives the binding back if there are none.
    pub(crate) fn start(
        &mut self,
        binding: Binding,
        volumes: Option<(Arc<VolumeDecision>, Duration)>,
        now: Instant,
    ) -> Option<Binding> {
        match volumes {
            Some((decision, timeout)) => {
                self.volumes.start(binding, decision, timeout, now);
                None
            }
            None => self.devices.start(binding, now),
        }
    }

    /// Ends the wait of a pod that can be bound now, or will not be.
    pub(crate) fn check(
        &mut self,
        id: PodId,
        pods: &QueuedPods,
        cluster: &Cluster,
        now: Instant,
    ) -> Option<PreBindOutcome> {
        match self.volumes.check(id, pods, cluster) {
            Some(PreBindOutcome::Bound(binding)) => {
                self.devices.start(binding, now).map(PreBindOutcome::Bound)
            }
            Some(outcome) => Some(outcome),
            None => self.devices.check(id, pods),
        }
    }

    /// Ends a wait whose time is over, or one that a process without leadership must not continue. Called until there is
    /// none: what happens to one pod may end the waits of others.
    pub(crate) fn expire(&mut self, now: Instant, leads: bool) -> Option<PreBindOutcome> {
        self.volumes.expire(now, leads).or_else(|| self.devices.expire(now))
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        [self.volumes.next_due(), self.devices.next_due()].into_iter().flatten().min()
    }

    /// The pods that wait for what is written for a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<PodId> {
        [self.volumes.on_node(node), self.devices.on_node(node)].concat()
    }

    /// The node of a pod was deleted.
    pub(crate) fn abandon(&mut self, id: PodId) -> Option<PreBindOutcome> {
        self.volumes.abandon(id).or_else(|| self.devices.fail_without_node(id))
    }

    /// A pod is not bound: what was written for its devices is taken back.
    pub(crate) fn roll_back(&mut self, cluster: &mut Cluster, id: PodId) {
        self.volumes.forget(id);
        self.devices.roll_back(cluster, id);
    }
}
