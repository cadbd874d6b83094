//! Speculation: pods are removed and placed hypothetically. The state is changed, and restored at the end.
//!
//! Every step is undone in the opposite order, so that even the ids of pods are the same again. No change is recorded
//! for pending pods, and a violation tracker has nothing to report afterwards.

use std::sync::Arc;

use berth_api::object::group::TopologyLevel;
use rustc_hash::FxHashMap;

use super::super::tracker::{Evaluated, ViolationTracker};
use super::super::types::Target;
use crate::cycle::context::{Context, CycleState};
use crate::cycle::nomination::Nominations;
use crate::decision::{Outcome, Run};
use crate::group::{self, Deciding, DomainTables, Group, GroupLevel, GroupOutcome};
use crate::plugins;
use crate::state::State;
use crate::state::change::Change;
use crate::state::node::NodeId;
use crate::state::pod::PodId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::RuleSetId;
use crate::view::Views;
use crate::view::rejections::RejectionViews;

/// Why a pod that fits on some node has no target.
const WOULD_BREAK: &str =
    "on every node where it fits, it would break a rule of another pod that is required during execution";

pub(super) struct Speculation<'a> {
    state: &'a mut State,
    views: &'a mut Views,
    nominations: &'a Nominations,
    /// Where the tracker is kept that was attached before, if any.
    attached: &'a mut Option<Box<ViolationTracker>>,
    was_attached: bool,
    tracker: Box<ViolationTracker>,
    done: Vec<Done>,
    /// What the state had recorded before.
    recorded: Option<Vec<Change>>,
    /// Why pods are unschedulable, in the scheduler's words: once for pods alike, since it takes a look at every node.
    why: FxHashMap<(RuleSetId, SignatureId), String>,
}

enum Done {
    Removed(PreparedPod, Arc<str>),
    Placed(PreparedPod),
}

/// How much had been done at some moment.
#[derive(Clone, Copy)]
pub(super) struct Savepoint(usize);

impl<'a> Speculation<'a> {
    pub(super) fn new(
        state: &'a mut State,
        views: &'a mut Views,
        nominations: &'a Nominations,
        attached: &'a mut Option<Box<ViolationTracker>>,
    ) -> Speculation<'a> {
        let recorded = state.replace_recorded(None);
        let tracker = attached.take();
        let was_attached = tracker.is_some();
        let mut tracker = tracker.unwrap_or_else(|| Box::new(ViolationTracker::attach(state)));
        tracker.refresh(state);
        let (done, why) = Default::default();
        Speculation { state, views, nominations, attached, was_attached, tracker, done, recorded, why }
    }

    pub(super) fn state(&self) -> &State {
        self.state
    }

    pub(super) fn savepoint(&self) -> Savepoint {
        Savepoint(self.done.len())
    }

    /// Undoes what was done since.
    pub(super) fn undo_to(&mut self, savepoint: Savepoint) {
        while self.done.len() > savepoint.0 {
            match self.done.pop() {
                Some(Done::Removed(pod, node)) => _ = self.state.assign(&pod, &node),
                Some(Done::Placed(pod)) => self.state.forget(&pod),
                None => break,
            }
        }
    }

    /// Which rules hold or are broken now, that were not at the last call.
    pub(super) fn evaluate(&mut self) -> Evaluated {
        self.tracker.refresh(self.state)
    }

    /// Removes a pod. Returns it with its node, and what its controller would make in its place: the same pod
    /// without a node.
    pub(super) fn remove(&mut self, id: PodId) -> (PreparedPod, Arc<str>, PreparedPod) {
        let pod = self.state.as_pending(id);
        let node = self.state.symbols.shared_text(self.state.pods.get(id).node_name);
        self.state.remove_record(id);
        self.done.push(Done::Removed(pod.clone(), node.clone()));
        let replacement = pod.replacement();
        (pod, node, replacement)
    }

    pub(super) fn place(&mut self, pod: &PreparedPod, node: &str) {
        self.state.assign(pod, node);
        self.done.push(Done::Placed(pod.clone()));
    }

    /// Whether all rules admit a pod to a node.
    pub(super) fn fits_on(&self, pod: &PreparedPod, node: &str) -> bool {
        let cycle = CycleState::new(self.state, self.nominations, pod);
        let (state, node) = (&*self.state, self.state.find_node(node));
        node.is_some_and(|node| Context::with_any_profile(state, &cycle).is_some_and(|c| c.admits(node)))
    }

    /// Looks for the best node where a pod fits with all rules and breaks none that is required during execution,
    /// and places it there.
    pub(super) fn seek(&mut self, pod: &PreparedPod) -> (Target, Evaluated) {
        let first = match self.first_choice(pod) {
            Ok(first) => first,
            Err(why) => return (Target::Nowhere(why), Evaluated::default()),
        };
        if let Some(found) = self.try_on(pod, first) {
            return found;
        }
        let others = self.by_score(pod).into_iter().filter(|node| *node != first);
        let found = others.into_iter().find_map(|node| self.try_on(pod, node));
        let nowhere = || (Target::Nowhere(WOULD_BREAK.to_owned()), Evaluated::default());
        found.unwrap_or_else(nowhere)
    }

    /// Looks for nodes for pods that are placed as a group, in the domains of its topologies, and places them there: with all rules, and
    /// without breaking one that is required during execution.
    ///
    /// # Errors
    /// Why they are not placed.
    pub(super) fn seek_all(
        &mut self,
        pods: &[PreparedPod],
        levels: &[TopologyLevel],
    ) -> Result<(Vec<String>, Evaluated), String> {
        let levels: Vec<GroupLevel<'_>> =
            levels.iter().map(|rule| GroupLevel { rule, value: None }).collect();
        let members: Vec<_> = pods.iter().map(|pod| self.state.with_any_profile(pod)).collect();
        let group = Group { members: &members, min: pods.len(), levels: &levels, composite: None };
        let by = Deciding {
            state: &mut *self.state,
            views: &mut *self.views,
            rejections: &mut RejectionViews::default(),
            nominations: self.nominations,
            domains: &mut DomainTables::default(),
        };
        let members = match group::decide(by, &group) {
            GroupOutcome::Placed { members, .. } => members,
            GroupOutcome::Unplaced(failure) => return Err(failure.message(&group)),
        };
        let savepoint = self.savepoint();
        let nodes: Vec<String> = members.iter().filter_map(Outcome::node).map(str::to_owned).collect();
        pods.iter().zip(&nodes).for_each(|(pod, node)| self.place(pod, node));
        let evaluated = self.evaluate();
        if evaluated.began.is_empty() {
            return Ok((nodes, evaluated));
        }
        self.undo_to(savepoint);
        self.evaluate();
        Err(WOULD_BREAK.to_owned())
    }

    /// The node that the scheduler would choose.
    fn first_choice(&mut self, pod: &PreparedPod) -> Result<NodeId, String> {
        let signature = self.state.decided_signature(pod);
        let alike = (pod.rule_set, signature);
        let rule_set = self.state.rule_sets.get(pod.rule_set);
        // Claims belong to single pods: what is found out about one says nothing of others.
        let has_claims =
            pod.volumes.is_some() || pod.devices.as_ref().is_some_and(|of| of.concern(self.state));
        if plugins::fit_a_view(self.state, rule_set) && !has_claims {
            if let Some((node, _)) = self.views.best(self.state, self.nominations, pod, None) {
                return Ok(node);
            }
            if let Some(why) = self.why.get(&alike) {
                return Err(why.clone());
            }
        }
        let cycle = CycleState::new(self.state, self.nominations, pod);
        let context = Context::with_any_profile(self.state, &cycle);
        match context.map(|context| Run::new(context).outcome()) {
            Some(Outcome::Placed { node, .. }) => {
                self.state.find_node(&node).ok_or_else(|| "no node is known".to_owned())
            }
            Some(other) => {
                let why = other.message().into_owned();
                if !has_claims {
                    self.why.insert(alike, why.clone());
                }
                Err(why)
            }
            None => Err("there is no scheduling profile".to_owned()),
        }
    }

    /// All nodes on which a pod fits, the best first.
    fn by_score(&mut self, pod: &PreparedPod) -> Vec<NodeId> {
        let cycle = CycleState::new(self.state, self.nominations, pod);
        let Some(context) = Context::with_any_profile(self.state, &cycle) else { return Vec::new() };
        let run = Run::new(context);
        let mut nodes: Vec<_> = run.totals.iter().zip(&run.feasible).collect();
        nodes.sort_by(|(a, x), (b, y)| b.cmp(a).then_with(|| run.node_name(**x).cmp(run.node_name(**y))));
        nodes.into_iter().map(|(_, node)| *node).collect()
    }

    /// Places a pod on a node, unless that breaks a rule.
    fn try_on(&mut self, pod: &PreparedPod, node: NodeId) -> Option<(Target, Evaluated)> {
        let savepoint = self.savepoint();
        let name = self.state.node_name(node).to_owned();
        self.place(pod, &name);
        let evaluated = self.evaluate();
        if evaluated.began.is_empty() {
            return Some((Target::Node(name), evaluated));
        }
        self.undo_to(savepoint);
        self.evaluate();
        None
    }
}

impl Drop for Speculation<'_> {
    fn drop(&mut self) {
        self.undo_to(Savepoint(0));
        self.state.replace_recorded(self.recorded.take());
        if self.was_attached {
            *self.attached = Some(std::mem::take(&mut self.tracker));
        } else {
            self.state.track_changes(false);
        }
    }
}
