//! Decisions about pending pods that change nothing.

use core::time::Duration;
use std::collections::HashMap;

use berth_api::work::WorkBudget;
use berth_engine::{Outcome, PreparedPod, Verdict};

use super::pod::SimulatedPod;
use super::preemption::{PodPreemption, preempt};
use super::state::Simulation;

/// Steps of work of the bottlenecks of all pending pods: about a tenth of a second.
const BOTTLENECK_STEPS: u64 = 1_000_000;

/// What is decided about a pending pod.
#[derive(Clone, Debug)]
pub struct PendingDecision {
    /// The decision, without preemption.
    pub outcome: Outcome,
    /// The preemption that makes it fit.
    pub preemption: Option<PodPreemption>,
    /// What keeps an unschedulable pod off most of the nodes that are nearest to feasible, if that is known.
    pub bottleneck: Option<Verdict>,
}

impl Simulation {
    /// What is decided about each of these pending pods in the current state, on its own: no pod is placed. Takes and yields
    /// positions in [`Simulation::pods`]; pods that are being deleted, and those that name their node, are left out.
    pub fn decide_pending(
        &mut self,
        pending: impl IntoIterator<Item = usize>,
    ) -> Vec<(usize, PendingDecision)> {
        let is_decided = |pod: &SimulatedPod| !pod.pod.metadata.is_deleting() && pod.unadmitted.is_none();
        let pending = pending.into_iter().filter(|i| is_decided(&self.pods[*i]));
        let prepared: Vec<_> = pending.map(|i| (i, self.cluster.prepare(&self.pods[i].pod))).collect();
        let mut decided: HashMap<_, PendingDecision> = HashMap::new();
        let budget = WorkBudget::new(BOTTLENECK_STEPS);
        let mut decisions = Vec::with_capacity(prepared.len());
        for (i, pod) in prepared {
            let equivalence = self.cluster.equivalence(&pod);
            let pending = self.pending_for.of(&self.pods[i].pod);
            let may_be_relaxed = !self.cluster.relaxable(&pod, pending).is_empty();
            let known = decided.get(&equivalence).filter(|_| !may_be_relaxed).cloned();
            let decision = known.unwrap_or_else(|| self.decide_alone(pod, pending, &budget));
            if !may_be_relaxed {
                decided.insert(equivalence, decision.clone());
            }
            decisions.push((i, decision));
        }
        decisions
    }

    fn decide_alone(
        &mut self,
        mut pod: PreparedPod,
        pending: Duration,
        budget: &WorkBudget,
    ) -> PendingDecision {
        let mut outcome = self.cluster.decide(&pod);
        if matches!(outcome, Outcome::Unschedulable { .. })
            && let Some((decided, relaxed)) = self.cluster.decide_relaxed(&pod, pending)
        {
            (outcome, pod) = (decided, relaxed.pod);
        }
        let budgets = self.budgets.as_slice();
        let victims =
            self.preempts.then(|| preempt(&mut self.cluster, budgets, &pod, &mut outcome)).flatten();
        let is_unschedulable = matches!(outcome, Outcome::Unschedulable { .. });
        let bottleneck = is_unschedulable.then(|| self.cluster.bottleneck_verdict(&pod, budget)).flatten();
        PendingDecision { outcome, preemption: victims.map(Into::into), bottleneck }
    }
}
