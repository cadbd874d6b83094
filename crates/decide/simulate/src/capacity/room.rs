//! The room that replicas are placed in.

use std::collections::BTreeMap;

use berth_api::object::Pod;
use berth_engine::{DeviceModel, Outcome, PreparedPod};
use berth_rebalance::{Move, Request};

use crate::simulation::{Simulation, Unadmitted};

/// The domain of nodes without the label.
pub(super) const NO_DOMAIN: &str = "<none>";

/// A cluster with the next replicas of a pod.
pub(super) struct Room {
    pub simulation: Simulation,
    /// The next replicas; if they have no own claims, one stands for all.
    pub replicas: Vec<Pod>,
    pub prepared: Vec<PreparedPod>,
    pub has_claims: bool,
    /// Replicas that may need devices, by their numbers: each has its own claims.
    pub with_devices: BTreeMap<usize, Pod>,
    /// The node that the replicas name (`spec.nodeName`): no scheduler places them.
    pub node: Option<String>,
    /// The pods of DaemonSets that run on a new node of each domain.
    pub daemons: Vec<Vec<PreparedPod>>,
    /// Number of replicas that run.
    pub n_running: usize,
}

impl Room {
    /// The replica of this number.
    pub fn replica(&mut self, i: usize) -> Option<PreparedPod> {
        let model = self.replicas.get(if self.has_claims { i } else { 0 })?;
        if self.simulation.may_need_devices(model) {
            let pod = self.with_devices.entry(i).or_insert_with(|| {
                let mut pod = model.clone();
                if !self.has_claims {
                    pod.metadata.name = format!("{}-{i}", pod.metadata.name);
                    pod.metadata.uid.clear();
                    pod.status.resource_claim_statuses.clear();
                }
                self.simulation.make_claims(&mut pod);
                pod
            });
            return Some(self.simulation.cluster().prepare(pod));
        }
        match self.prepared.as_slice() {
            [first, ..] if !self.has_claims => Some(first.named(&format!("{}-{i}", first.name()))),
            all => all.get(i).cloned(),
        }
    }

    /// The devices by model, if replicas may need some.
    pub fn device_models(&mut self) -> Vec<DeviceModel> {
        let needs_devices = self.replicas.first().is_some_and(|pod| self.simulation.may_need_devices(pod));
        if needs_devices { self.simulation.cluster().device_models() } else { Vec::new() }
    }

    /// Why the node that the replicas name does not run another one.
    pub fn unadmitted(&self, pod: &PreparedPod) -> Option<Unadmitted> {
        let (node, model) = (self.node.as_deref()?, self.replicas.first()?);
        self.simulation.unadmitted(model, pod, node)
    }

    /// Places a replica. The node that it names may not admit it.
    fn place(&mut self, i: usize, pod: &PreparedPod) -> Outcome {
        let model = self.replicas.get(if self.has_claims { i } else { 0 });
        let refused = model.and_then(|model| self.simulation.refusal_of(model));
        if let Some(why) = refused.or_else(|| self.unadmitted(pod)) {
            return Outcome::Failed { error: why.to_string() };
        }
        let cluster = self.simulation.cluster();
        let outcome = match &self.node {
            Some(node) => {
                cluster.assume(pod, node);
                Outcome::on(node.clone())
            }
            None => cluster.place(pod),
        };
        if let Some(pod) = self.with_devices.get_mut(&i) {
            self.simulation.write_claims(pod, &outcome);
        }
        if let Some(model) = model.filter(|_| outcome.node().is_some()) {
            self.simulation.creation.charge(model).ok();
        }
        outcome
    }

    /// Places replicas from this number on, until one is unschedulable.
    pub fn fill(&mut self, first: usize, limit: usize) -> Vec<Outcome> {
        let mut placed = Vec::new();
        while placed.len() < limit
            && let Some(pod) = self.replica(first + placed.len())
        {
            let outcome = self.place(first + placed.len(), &pod);
            if outcome.node().is_none() {
                break;
            }
            placed.push(outcome);
        }
        placed
    }

    /// Places replicas until one is unschedulable whatever pods move elsewhere. Also returns the moves.
    pub fn fill_by_moves(&mut self, request: &Request, limit: usize) -> (Vec<Outcome>, Vec<Move>) {
        let (mut placed, mut moves) = (self.fill(0, limit), Vec::new());
        while self.node.is_none()
            && placed.len() < limit
            && let Some(pod) = self.replicas.get(if self.has_claims { placed.len() } else { 0 })
        {
            let plan = self.simulation.plan_with(request, vec![pod.into()]);
            self.simulation.move_pods(&plan.moves);
            let more = self.fill(placed.len(), limit - placed.len());
            if more.is_empty() {
                break;
            }
            moves.extend(plan.moves);
            placed.extend(more);
        }
        (placed, moves)
    }

    /// Takes back the placements of all replicas.
    pub fn take_back(&mut self, placed: &[Outcome]) {
        for (i, outcome) in placed.iter().enumerate().rev() {
            let Some(pod) = self.replica(i) else { continue };
            if let Some(model) = self.replicas.get(if self.has_claims { i } else { 0 }) {
                self.simulation.creation.release(model);
            }
            let cluster = self.simulation.cluster();
            cluster.forget(&pod);
            if let Outcome::Placed { volumes: Some(volumes), .. } = outcome {
                cluster.restore_volumes(&pod, volumes);
            }
            if let Some(pod) = self.with_devices.get(&i) {
                self.simulation.release_claims(pod);
            }
        }
    }

    pub fn domain(&self, node: &str, key: &str) -> String {
        self.simulation.node_label(node, key).unwrap_or(NO_DOMAIN).to_owned()
    }
}
