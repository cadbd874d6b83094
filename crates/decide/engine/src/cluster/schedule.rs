//! Schedule: where a pod goes, why not elsewhere, and what could change that.

use core::time::Duration;
use std::sync::PoisonError;

use berth_api::object::{NamespacedName, Pod};
use berth_api::work::{TooMuchWork, WorkBudget};

use super::{Caches, Cluster};
use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::equivalence::Equivalence;
use crate::decision::timing::{self, StageTime};
use crate::decision::{self, DevicePostFilter, Evaluation, Outcome, device_post_filter};
use crate::device::WORK_SPENT;
use crate::explain::blast_radius::{BlastRadius, blast_radius, preferred_blast_radius};
use crate::explain::opportunity_cost::{OpportunityCost, opportunity_cost};
use crate::explain::terms::verdicts;
use crate::explain::{Explanation, bottleneck, bottleneck_verdict, explain};
use crate::group::{self, Deciding, Group, GroupOutcome, GroupVictims};
use crate::node_admission::{NodeRejection, node_admission};
use crate::plugins;
use crate::preemption::{
    DisruptionBudget, Leaving, Preemption, Victims, awaits_victims, candidates, preempt, preempt_for_resize,
};
use crate::state::DeviceWork;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::verdict::Verdict;
use crate::wake::{ClusterChange, WakeConditions};

impl Cluster {
    /// Prepares a pod: its rules are parsed and compiled, and those seen for the first time are registered.
    ///
    /// The result can be decided and placed any number of times, whatever happens to the cluster
    /// meanwhile.
    pub fn prepare(&mut self, pod: &Pod) -> PreparedPod {
        let prepared = self.state.prepare(pod);
        self.updated();
        prepared
    }

    /// An assigned pod as if it were pending, without parsing it again; none if it is not in the cluster's state. `preempts`
    /// tells whether lower-priority pods may be removed for it: the state does not keep the preemption policy of assigned pods.
    pub fn as_pending(&mut self, namespace: &str, name: &str, preempts: bool) -> Option<PreparedPod> {
        let pod = self.state.find_pod(namespace, name)?;
        let mut prepared = self.state.as_pending(pod);
        prepared.preempts = preempts;
        Some(prepared)
    }

    /// What a controller makes in place of a pod: the same pod, not started, without the labels of some keys.
    pub fn replacement(&mut self, pod: &PreparedPod, without: &[&str]) -> PreparedPod {
        self.state.replacement(pod, without)
    }

    /// The budget of what searches for devices may take; see [`DeviceWork`].
    pub fn device_work(&self) -> &DeviceWork {
        &self.state.settings.device_work
    }

    /// Gives it a budget of its own.
    pub fn set_device_work(&mut self, work: DeviceWork) {
        self.state.settings.device_work = work;
    }

    /// Decides where a pod goes. The cluster is not changed; what the decision learns about nodes is cached.
    pub fn decide(&self, pod: &PreparedPod) -> Outcome {
        self.device_work().begin();
        let Caches { views, rejections, .. } = &mut *self.caches();
        decision::decide(&self.state, views, rejections, &self.nominations, pod)
    }

    /// Decides, and if a node is found assigns the pod to it and assumes what was decided about its claims.
    pub fn place(&mut self, pod: &PreparedPod) -> Outcome {
        let outcome = self.decide(pod);
        self.take(pod, &outcome);
        outcome
    }

    /// Assigns a pod as it was decided, and assumes what was decided about its claims.
    pub fn take(&mut self, pod: &PreparedPod, outcome: &Outcome) {
        if let Outcome::Placed { node, volumes, devices, .. } = outcome {
            if let Some(volumes) = volumes {
                self.assume_volumes(pod, node, volumes);
            }
            self.assume(pod, node);
            if let Some(devices) = devices {
                self.assume_devices(&pod.assumed_devices(devices, false));
            }
        }
    }

    /// Decides about a group. The cluster is not changed. The nominations of its members do not count: they do not keep room from each
    /// other.
    pub fn decide_group(&mut self, group: &Group<'_>) -> GroupOutcome {
        self.device_work().begin();
        let own = self.nominations.set_aside(group.members);
        let outcome = self.trying(|by| group::decide(by, group));
        self.nominations.put_back(own);
        self.updated();
        outcome
    }

    /// Decides about a group, and if its members find nodes assigns them as [`Cluster::place`] does.
    pub fn place_group(&mut self, group: &Group<'_>) -> GroupOutcome {
        let outcome = self.decide_group(group);
        self.take_group(group.members, &outcome);
        outcome
    }

    /// Assigns the members of a group as they were decided.
    pub fn take_group<'p>(
        &mut self,
        members: impl IntoIterator<Item = &'p PreparedPod>,
        outcome: &GroupOutcome,
    ) {
        if let GroupOutcome::Placed { members: outcomes, .. } = outcome {
            members.into_iter().zip(outcomes).for_each(|(pod, outcome)| self.take(pod, outcome));
        }
    }

    /// Which pods have to be evicted so that a group fits that was not placed; none if that is not possible. As in
    /// [`Cluster::preempt`] the state is not changed.
    pub fn preempt_group(&mut self, group: &Group<'_>, budgets: &[DisruptionBudget]) -> Option<GroupVictims> {
        let found = self.trying(|by| group::preempt(by, group, budgets));
        self.updated();
        found.filter(|_| !self.device_work().is_cut())
    }

    /// Where a group that was not placed waits for room: as [`Cluster::preempt_group`], but the pods that leave are not
    /// evicted: they are those of lower or equal priority, without `staying`, that take the room now. The state is not
    /// changed.
    pub fn reserve_group(&mut self, group: &Group<'_>, staying: &[NamespacedName]) -> Option<GroupVictims> {
        let found = self.trying(|by| group::reserve(by, group, staying));
        self.updated();
        found.filter(|_| !self.device_work().is_cut())
    }

    /// For requests that assign pods and take that back: no change is recorded.
    fn trying<T>(&mut self, request: impl FnOnce(Deciding<'_>) -> T) -> T {
        let recorded = self.state.replace_recorded(None);
        let Caches { views, rejections, domains } =
            self.caches.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (state, nominations) = (&mut self.state, &self.nominations);
        let result = request(Deciding { state, views, rejections, nominations, domains });
        self.state.replace_recorded(recorded);
        result
    }

    /// Decides, and reports what was found on every node.
    pub fn evaluate(&self, pod: &PreparedPod) -> Evaluation {
        self.device_work().begin();
        decision::evaluate(&self.state, &self.nominations, pod)
    }

    /// The time of each plugin for a pod, by the clock that is passed in: the decision is made once more, by every rule on
    /// every node.
    pub fn stage_times(&self, pod: &PreparedPod, clock: &mut dyn FnMut() -> Duration) -> Vec<StageTime> {
        timing::stage_times(&self.state, &self.nominations, pod, clock)
    }

    /// Whether a pod fits on any node now. By the view of its rules this costs what changed since they were
    /// last decided; only pods that no view fits are checked node by node.
    pub fn fits_anywhere(&self, pod: &PreparedPod) -> bool {
        pod.gates.is_empty() && self.decide(pod).node().is_some()
    }

    /// Decides as kube-scheduler does: if the pod fits on the node that it is nominated to, other nodes are not considered,
    /// and the outcome has no score.
    pub fn decide_nominated_first(&self, pod: &PreparedPod) -> Outcome {
        let nominated =
            self.nominations.node(pod.namespace, pod.name()).and_then(|n| self.state.nodes.find(n));
        nominated.and_then(|node| self.decide_on_node(pod, node)).unwrap_or_else(|| self.decide(pod))
    }

    /// Decides about a pod on one node alone; none if it does not fit there.
    pub fn decide_on(&self, pod: &PreparedPod, node: &str) -> Option<Outcome> {
        self.decide_on_node(pod, self.state.find_node(node)?)
    }

    fn decide_on_node(&self, pod: &PreparedPod, node: NodeId) -> Option<Outcome> {
        self.device_work().begin();
        decision::decide_on(&self.state, &self.nominations, pod, node)
    }

    /// Whether a pod fits on one node now.
    pub fn fits_on(&self, pod: &PreparedPod, node: &str) -> bool {
        let Some(node) = self.state.find_node(node) else { return false };
        self.device_work().begin();
        let cycle = CycleState::new(&self.state, &self.nominations, pod);
        Context::new(&self.state, &cycle).is_some_and(|context| context.admits(node))
    }

    /// Every reason against a pod on one node now, in full; none if it fits there or the node is not known.
    pub fn verdicts_on(&self, pod: &PreparedPod, node: &str) -> Vec<Verdict> {
        let node = self.state.find_node(node);
        let found = self.verdicts_of(pod, node.into_iter(), &WorkBudget::unlimited());
        found.ok().and_then(|mut found| found.pop()).map(|(_, verdicts)| verdicts).unwrap_or_default()
    }

    /// Every reason against a pod on every node that rejects it now, by the name of the node.
    ///
    /// # Errors
    /// They are more work than the budget allows.
    pub fn rejecting_nodes(
        &self,
        pod: &PreparedPod,
        budget: &WorkBudget,
    ) -> Result<Vec<(String, Vec<Verdict>)>, TooMuchWork> {
        let mut rejecting = self.verdicts_of(pod, self.state.nodes.iter().map(|(id, _)| id), budget)?;
        rejecting.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Ok(rejecting)
    }

    fn verdicts_of(
        &self,
        pod: &PreparedPod,
        nodes: impl Iterator<Item = NodeId>,
        budget: &WorkBudget,
    ) -> Result<Vec<(String, Vec<Verdict>)>, TooMuchWork> {
        let cycle = CycleState::new(&self.state, &self.nominations, pod);
        let Some(context) = Context::new(&self.state, &cycle) else { return Ok(Vec::new()) };
        self.device_work().begin();
        let filters = plugins::filters(context);
        let mut rejecting = Vec::new();
        for id in nodes {
            let found = verdicts(&filters, NodeRef::new(id, self.state.nodes.get(id)), budget)?;
            if !found.is_empty() {
                rejecting.push((self.state.node_name(id).to_owned(), found));
            }
        }
        Ok(rejecting)
    }

    /// Whether a node admits a pod that is bound to it. The state is not changed; if the state has the pod already,
    /// the pod does not conflict with itself.
    ///
    /// What counts is what the cluster was given: the node with its labels, taints and allocatable, the pods that
    /// the node has admitted and that have not ended, and the namespaces with their labels, if terms select by them.
    /// A node agent may keep a cluster for its own node alone or one for many nodes. It makes one difference:
    /// a pod with required-during-execution affinity to its own kind may start where no pod of its kind runs on
    /// any node that is known, as the first of its group.
    ///
    /// # Errors
    /// The first reason against it.
    pub fn node_admission(&self, pod: &PreparedPod, node_name: &str) -> Result<(), NodeRejection> {
        node_admission(&self.state, pod, node_name)
    }

    /// Explains the decision about a pending pod. With a node, the groups of nodes hold that node alone; terms are
    /// evaluated on all nodes either way, until the budget is spent.
    pub fn explain(
        &self,
        pod: &Pod,
        prepared: &PreparedPod,
        node: Option<&str>,
        budget: &WorkBudget,
    ) -> Explanation {
        self.device_work().begin();
        explain(&self.state, &self.nominations, pod, prepared, node, budget)
    }

    /// What excludes most nodes of a pod whose decision found no node, in short: [`Cluster::explain`] says all. It is evaluated
    /// within a budget and on some of the nodes where there are many; none if that is not enough for one node.
    pub fn bottleneck(&self, pod: &PreparedPod, budget: &WorkBudget) -> Option<String> {
        bottleneck(&self.state, &self.nominations, pod, budget)
    }

    /// The same as a verdict about one of the nodes that are nearest to feasible.
    pub fn bottleneck_verdict(&self, pod: &PreparedPod, budget: &WorkBudget) -> Option<Verdict> {
        bottleneck_verdict(&self.state, &self.nominations, pod, budget)
    }

    /// As [`Cluster::explain`] for any pod: an assigned one is explained as if it were pending, and stays assigned.
    pub fn explain_assigned(&mut self, pod: &Pod, node: Option<&str>, budget: &WorkBudget) -> Explanation {
        let mut prepared = self.prepare(pod);
        prepared.node_name = None;
        // The pod is restored at the end: no change is recorded.
        let (recorded, journal) = (self.state.replace_recorded(None), self.journal.take());
        let assigned = self.node_of(&pod.metadata.namespace, &pod.metadata.name).map(str::to_owned);
        self.forget(&prepared);
        let explanation = self.explain(pod, &prepared, node, budget);
        if let Some(node) = assigned {
            self.assume(&prepared, &node);
        }
        self.state.replace_recorded(recorded);
        self.journal = journal;
        explanation
    }

    /// What required anti-affinity of a pod would block for others by symmetry: per term, the domains of nodes that
    /// the pod may go to. The state is not changed. A pod without such terms costs nothing; others cost a look at every
    /// node for each term.
    pub fn blast_radius(&self, pod: &PreparedPod) -> BlastRadius {
        if self.state.rule_sets.get(pod.rule_set).required_anti_affinity.is_empty() {
            return BlastRadius::default();
        }
        let outcome = self.decide(pod);
        blast_radius(&self.state, pod, outcome.node())
    }

    /// As [`Cluster::blast_radius`] for preferred anti-affinity, which makes nodes worse for the pods that match.
    pub fn preferred_blast_radius(&self, pod: &PreparedPod) -> BlastRadius {
        if self.state.rule_sets.get(pod.rule_set).rules().preferred_anti_affinity.is_empty() {
            return BlastRadius::default();
        }
        let outcome = self.decide(pod);
        preferred_blast_radius(&self.state, pod, outcome.node())
    }

    /// The nodes from which required anti-affinity of a pod excludes pods of other namespaces: the domain of `node`, or,
    /// if the pod has no node or it is unknown, of the nodes that it may go to. `None` if it excludes none by its rules. A
    /// term over all topologies costs the whole cluster until the pod has a node.
    pub fn opportunity_cost(&self, pod: &PreparedPod, node: Option<&str>) -> Option<OpportunityCost> {
        opportunity_cost(&self.state, pod, node)
    }

    /// What of a pod the decision depends on.
    pub fn equivalence(&self, pod: &PreparedPod) -> Equivalence {
        Equivalence::of(&self.state, pod)
    }

    /// Which pods have to be evicted so that this pod fits; for a pod whose decision found no node.
    ///
    /// Of the nodes that need the fewest violations of `budgets`, the victims' highest priority is to be lowest,
    /// then the sum of their priorities, then their number; then the one whose most important victims started
    /// last, then the first by name. If no node has victims that help, and the profile of the pod has `preempt_across_nodes`, those
    /// on several nodes are chosen in the same order ([`Victims::elsewhere`]). A pod that is nominated ([`Cluster::nominate`]) to a node where pods are
    /// already being removed does not preempt again. The state of the cluster is not changed.
    pub fn preempt(&self, pod: &PreparedPod, budgets: &[DisruptionBudget]) -> Preemption {
        let rejections = &mut self.caches().rejections;
        let found = preempt(&self.state, rejections, &self.nominations, pod, budgets, Leaving::Evicted);
        // A pod may have been kept only because devices were not looked for without it.
        match self.device_work().is_cut() {
            true => Preemption::NoCandidate { reason: WORK_SPENT.to_owned() },
            false => found,
        }
    }

    /// Which pods of lower priority have to leave the node of a running pod so that its requests fit there, by the rules about resources;
    /// none if they fit, or nothing helps. The state of the cluster is not changed.
    pub fn preempt_for_resize(&self, pod: &PreparedPod, budgets: &[DisruptionBudget]) -> Option<Victims> {
        preempt_for_resize(&self.state, &self.nominations, pod, budgets)
    }

    /// What can be done about the claims of devices of a pod that fits on no node.
    pub fn device_post_filter(&self, pod: &PreparedPod) -> DevicePostFilter {
        let found = device_post_filter(&self.state, &self.nominations, pod);
        if self.device_work().is_cut() { DevicePostFilter::NotHelpful } else { found }
    }

    /// Whether room is being made for a nominated pod: pods of lower priority are being preempted on its node, or their claims of
    /// devices are being deallocated. With preemption across nodes, also if they run elsewhere and keep the pod from its node.
    pub fn awaits_victims(&self, pod: &PreparedPod) -> bool {
        awaits_victims(&self.state, &self.nominations, pod)
    }

    /// What preemption would do on each node where it helps, by the name of the node, for a pod whose decision found
    /// no node. Every node is evaluated in full: [`Cluster::preempt`] returns the best of these at a lower cost.
    pub fn preemption_candidates(&self, pod: &PreparedPod, budgets: &[DisruptionBudget]) -> Vec<Victims> {
        candidates(&self.state, &self.nominations, pod, budgets)
    }

    /// What could make a pod schedulable, right after a decision that found no node for it. Looks at every
    /// node if the pod has rules about other pods.
    pub fn wake_conditions(&self, pod: &PreparedPod) -> WakeConditions {
        WakeConditions::of(&self.state, pod)
    }

    /// As [`Cluster::wake_conditions`] for the members of a group, without the rules that other members may satisfy.
    /// A change that could help one of them could help the group.
    pub fn wake_conditions_of_group(&mut self, members: &[PreparedPod]) -> Vec<WakeConditions> {
        let conditions = group::wake_conditions(&mut self.state, members);
        self.updated();
        conditions
    }

    /// Whether a change may have made a node feasible for a pod that was unschedulable when its conditions were
    /// taken; or, if a node changed, one on which the pod may preempt others. Never a false no; after a yes, decide
    /// again (or ask [`Cluster::fits_anywhere`]), and take new conditions if there still is no node.
    ///
    /// The cluster is read as it is now, so ask when the change has just been made: what the rules make of
    /// the node concerned is evaluated exactly, and beyond that node only changes of counts that the pod's rules read
    /// matter, in domains that its rules about nodes allow.
    pub fn could_help(&self, conditions: &WakeConditions, change: &ClusterChange) -> bool {
        conditions.could_be_met_by(&self.state, change)
    }
}
