//! What is to be done next: the rest of the plan, or a new one.

use std::sync::Arc;

use berth_api::object::{NamespacedName, Pod};
use berth_engine::{Cluster, DeviceWork};
use berth_rebalance::{Immovable, Move, NextStep, Obstacle, Plan, Request, next_step, plan};

use super::objects::{Exceptions, Objects, is_of, key};

/// Plans whose first pod has a scheduler that would put it elsewhere.
const ATTEMPTS: usize = 32;

/// A question about a copy of the cluster.
pub(crate) struct Question {
    pub(crate) objects: Arc<Objects>,
    pub(crate) cluster: Cluster,
    pub(crate) request: Request,
    /// What is left of the plan.
    pub(crate) rest: Vec<Move>,
    pub(crate) exceptions: Exceptions,
    pub(crate) following_schedulers: Vec<String>,
}

/// What is to be done.
pub(crate) struct Answer {
    /// Another plan; none: the rest of the last one goes on.
    pub(crate) plan: Option<Plan>,
    /// The next step: the first move of the plan. None: nothing is to be moved.
    pub(crate) step: Option<NextStep>,
    /// The pods that stay because their scheduler would put their replacements elsewhere.
    pub(crate) held: Vec<Immovable>,
}

/// Steps of the searches for devices of one decision, and of a plan: about 5 s.
const DECISION_STEPS: u64 = 60_000_000;
const PLAN_STEPS: u64 = 300_000_000;

impl Question {
    pub(crate) fn answer(mut self) -> Answer {
        self.cluster.set_device_work(DeviceWork::new(DECISION_STEPS, PLAN_STEPS));
        if !self.rest.is_empty()
            && let Ok(step) = self.next_step(&self.rest)
        {
            return Answer { plan: None, step: Some(step), held: Vec::new() };
        }
        // Another plan leaves those alone that the last one has moved.
        self.exceptions.settled.clear();
        let mut held = Vec::new();
        for _ in 0..ATTEMPTS {
            let ask = |input: berth_rebalance::Input<'_>| plan(input, &self.request);
            let plan = self.objects.ask(self.cluster.clone(), &self.exceptions, ask);
            let step = match plan.moves.first() {
                None => return Answer { plan: Some(plan), step: None, held },
                Some(_) => self.next_step(&plan.moves),
            };
            match step {
                Ok(step) => return Answer { plan: Some(plan), step: Some(step), held },
                Err(Obstacle::Elsewhere(nodes)) => self.hold(&plan.moves[0], &nodes, &mut held),
                Err(Obstacle::Outdated) => break,
            }
        }
        Answer { plan: None, step: None, held }
    }

    fn next_step(&self, rest: &[Move]) -> Result<NextStep, Obstacle> {
        let chooses = |pod: &Pod| !is_of(pod, &self.following_schedulers);
        let ask = |input: berth_rebalance::Input<'_>| next_step(input, &self.request, rest, chooses);
        self.objects.ask(self.cluster.clone(), &self.exceptions, ask)
    }

    /// The pods of the same controller on the same node stay too: their replacements are equal.
    fn hold(&mut self, first: &Move, nodes: &[String], held: &mut Vec<Immovable>) {
        let name = NamespacedName::new(&first.namespace, &first.name);
        let Some(pod) = self.objects.pod(&name) else { return };
        let reason = match nodes {
            [] => format!("its scheduler {} would find no node for it", pod.spec.scheduler_name),
            nodes => format!(
                "its scheduler {} might put it on {} instead of {}",
                pod.spec.scheduler_name,
                nodes.join(" or "),
                first.to
            ),
        };
        let owner = pod.metadata.controller().map_or("", |owner| owner.uid.as_str());
        let alike = self.objects.pods_of(owner).filter(|other| other.spec.node_name == first.from);
        for other in alike {
            self.exceptions.stays.insert(key(other), reason.clone());
            held.push(Immovable {
                namespace: other.metadata.namespace.clone(),
                name: other.metadata.name.clone(),
                reason: reason.clone(),
            });
        }
    }
}
