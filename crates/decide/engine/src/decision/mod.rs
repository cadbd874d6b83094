//! The decision: the node of a pod, or why it is unschedulable.

mod device_post_filter;
mod outcome;
pub(crate) mod timing;

use std::borrow::Cow;
use std::collections::BTreeMap;

use berth_api::object::VolumeDecision;
use berth_api::object::device::DeviceDecision;
use berth_input::config::Plugin;

pub use device_post_filter::DevicePostFilter;
pub(crate) use device_post_filter::device_post_filter;
pub use outcome::{Evaluation, NodeEvaluation, NodeScore, Outcome};

use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::nomination::Nominations;
use crate::cycle::what_if::RelevantMatchers;
use crate::device::{AvoidedDevices, CycleDevices, DevicesInUse, WORK_SPENT, device_decision};
use crate::plugins::{self, Filters, PreFilter, Scorer, Weighted};
use crate::state::State;
use crate::state::device::Meter;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::verdict::{Rejection, Status};
use crate::view::rejections::{RejectionViews, fit_error};
use crate::view::{SharedObjects, Views};
use crate::volume::volume_decision;

/// So many nodes are evaluated one by one; among more, a view is faster.
const MAX_EVALUATED: usize = 64;

/// Filters and scores of all nodes.
pub(crate) struct Run<'a> {
    pub(crate) context: Context<'a>,
    pub(crate) pre_filter: PreFilter,
    pub(crate) filters: Filters<'a>,
    pub(crate) rejected: Vec<NodeId>,
    /// Nodes that were excluded before the filters ran.
    pub(crate) not_considered: Vec<NodeId>,
    n_nodes: usize,
    pub(crate) feasible: Vec<NodeId>,
    /// A rule could not be evaluated: the pod is not placed.
    pub(crate) error: Option<String>,
    pub(crate) scorers: Result<Vec<Scored<'a>>, String>,
    /// Parallel to `feasible`.
    pub(crate) totals: Vec<i64>,
}

/// A scorer and its weighted scores, parallel to [`Run::feasible`].
pub(crate) struct Scored<'a> {
    pub(crate) plugin: Plugin,
    pub(crate) weight: i64,
    pub(crate) scorer: Box<dyn Scorer + 'a>,
    pub(crate) scores: Vec<i64>,
}

/// Decides on the node of a pod: by the view of its rule set, or by evaluating every rule on every node. It also
/// follows why the pod fits on none.
pub(crate) fn decide<T: Default>(
    state: &State,
    views: &mut Views,
    rejections: &mut RejectionViews<T>,
    nominations: &Nominations,
    pod: &PreparedPod,
) -> Outcome {
    if let Some(outcome) = pod.held_back() {
        return outcome;
    }
    if pod.volumes.is_some() || pod.devices.as_ref().is_some_and(|devices| devices.concern(state)) {
        return decide_with_objects(state, views, rejections, nominations, pod);
    }
    if let Some((node, score)) = views.best(state, nominations, pod, None) {
        let node = state.node_name(node).to_owned();
        return Outcome::Placed { node, score: Some(score), volumes: None, devices: None };
    }
    let cycle = CycleState::new(state, nominations, pod);
    let Some(context) = Context::new(state, &cycle) else { return pod.no_profile() };
    unschedulable(context, rejections, nominations, pod)
}

/// The outcome of a pod that no node seems to admit: by the rejections that are followed, or by every rule on every node.
fn unschedulable<T: Default>(
    context: Context<'_>,
    rejections: &mut RejectionViews<T>,
    nominations: &Nominations,
    pod: &PreparedPod,
) -> Outcome {
    match rejections.message(context, nominations, pod) {
        Some((message, plugins)) => Outcome::Unschedulable { message, plugins },
        None => Run::new(context).outcome(),
    }
}

/// The same for a pod with volumes or claims of devices: by a view if others have the same rules, or on the nodes that the volumes
/// name.
fn decide_with_objects<T: Default>(
    state: &State,
    views: &mut Views,
    rejections: &mut RejectionViews<T>,
    nominations: &Nominations,
    pod: &PreparedPod,
) -> Outcome {
    let cycle = CycleState::new(state, nominations, pod);
    let Some(context) = Context::new(state, &cycle) else { return pod.no_profile() };
    let (volumes, devices) = (cycle.volumes.as_ref(), cycle.devices.as_ref());
    if context.allocates_devices()
        && state.settings.device_work.left() == 0
        && devices.is_some_and(|devices| devices.needs_search())
    {
        state.settings.device_work.cut();
        let reasons = [(WORK_SPENT, state.nodes.len())].into_iter();
        return Outcome::Unschedulable {
            message: fit_error(state.nodes.len(), reasons),
            plugins: vec![Plugin::DynamicResources],
        };
    }
    let named = volumes.and_then(|volumes| volumes.named_nodes(state)).filter(|_| context.binds_volumes());
    let of_devices = || devices.filter(|_| context.allocates_devices())?.named_nodes(state);
    match named.or_else(of_devices) {
        Some(nodes) => {
            let run = Run::on(context, Some(&nodes));
            if !run.feasible.is_empty() {
                return run.outcome();
            }
        }
        None => {
            let fits = volumes.is_none_or(|volumes| volumes.fit_a_view())
                && devices.is_none_or(|devices| devices.fit_a_view());
            let objects = Some(SharedObjects { volumes, devices }).filter(|_| fits);
            let best = objects.and_then(|_| views.best(state, nominations, pod, objects));
            if let Some((node, score)) = best {
                return context.placed(node, Some(score));
            }
        }
    }
    unschedulable(context, rejections, nominations, pod)
}

impl Context<'_> {
    /// The outcome of a pod that goes to a node.
    fn placed(self, node: NodeId, score: Option<i64>) -> Outcome {
        let devices = self.cycle.devices.as_deref().filter(|_| self.allocates_devices());
        let decide = |devices| {
            let again = self.state.settings.device_work.again();
            let found = self.device_decision(devices, node, &AvoidedDevices::new(), again);
            found.unwrap_or_else(|| Err(WORK_SPENT.to_owned()))
        };
        let devices = devices.map(decide).transpose();
        let (node, volumes) = (self.state.node_name(node).to_owned(), self.volume_decision(node));
        match devices {
            Ok(devices) => Outcome::Placed { node, score, volumes, devices },
            Err(error) => Outcome::Failed { error },
        }
    }

    /// What is to be written to the claims of a pod that goes to a node, without some devices; none if it does not fit.
    fn device_decision(
        self,
        devices: &CycleDevices,
        node: NodeId,
        avoided: &AvoidedDevices,
        meter: Meter<'_>,
    ) -> Option<Result<Box<DeviceDecision>, String>> {
        let in_use = self.devices_in_use(devices, node).avoiding(avoided);
        device_decision(self.state, devices, self.state.nodes.get(node), &in_use, meter)
    }

    /// With the devices that are reserved for nominated pods.
    fn devices_in_use(self, devices: &CycleDevices, node: NodeId) -> DevicesInUse {
        if !self.preempts_for_devices() || self.cycle.nominated.on(self.state, node).is_empty() {
            return DevicesInUse::default();
        }
        let relevant = RelevantMatchers::new(self);
        let mut node = relevant.on(node);
        node.change_nominated(1);
        let node = node.node();
        DevicesInUse::on(self.state, node.record, node.device_delta(), devices)
    }

    fn volume_decision(self, node: NodeId) -> Option<Box<VolumeDecision>> {
        let volumes = self.cycle.volumes.as_ref()?;
        let decision = volume_decision(self.state, volumes, self.state.nodes.get(node));
        decision.filter(|_| self.binds_volumes())
    }
}

/// Decides among some nodes, as if there were no others.
pub(crate) fn decide_among(
    state: &State,
    views: &mut Views,
    nominations: &Nominations,
    pod: &PreparedPod,
    nodes: &[NodeId],
) -> Outcome {
    if let Some(outcome) = pod.held_back() {
        return outcome;
    }
    let has_objects =
        pod.volumes.is_some() || pod.devices.as_ref().is_some_and(|devices| devices.concern(state));
    if nodes.len() > MAX_EVALUATED
        && !has_objects
        && let Some((node, score)) = views.best(state, nominations, pod, None)
    {
        let node = state.node_name(node).to_owned();
        return Outcome::Placed { node, score: Some(score), volumes: None, devices: None };
    }
    let cycle = CycleState::new(state, nominations, pod);
    match Context::new(state, &cycle) {
        Some(context) => Run::on(context, Some(nodes)).outcome(),
        None => pod.no_profile(),
    }
}

/// Decides about one node; none if the pod does not fit there.
pub(crate) fn decide_on(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    node: NodeId,
) -> Option<Outcome> {
    let cycle = CycleState::new(state, nominations, pod);
    let context = Context::new(state, &cycle).filter(|context| context.admits(node))?;
    Some(context.placed(node, None))
}

/// The same for a pod that fits, without some devices.
pub(crate) fn decide_on_without(
    state: &State,
    nominations: &Nominations,
    pod: &PreparedPod,
    node: NodeId,
    avoided: &AvoidedDevices,
) -> Option<Outcome> {
    let cycle = CycleState::new(state, nominations, pod);
    let context = Context::new(state, &cycle)?;
    let devices = cycle.devices.as_deref().filter(|_| context.allocates_devices())?;
    let devices =
        context.device_decision(devices, node, avoided, state.settings.device_work.meter())?.ok()?;
    let volumes = context.volume_decision(node);
    Some(Outcome::Placed {
        node: state.node_name(node).to_owned(),
        score: None,
        volumes,
        devices: Some(devices),
    })
}

/// Decides, and returns the results of every node.
pub(crate) fn evaluate(state: &State, nominations: &Nominations, pod: &PreparedPod) -> Evaluation {
    let blank = |outcome| Evaluation { outcome, pre_filter: None, nodes: BTreeMap::new(), best: Vec::new() };
    if let Some(outcome) = pod.held_back() {
        return blank(outcome);
    }
    let cycle = CycleState::new(state, nominations, pod);
    let context = Context::new(state, &cycle);
    context.map_or_else(|| blank(pod.no_profile()), |context| Run::new(context).evaluation())
}

impl PreparedPod {
    /// The outcome of a pod with scheduling gates.
    pub(crate) fn held_back(&self) -> Option<Outcome> {
        (!self.gates.is_empty()).then(|| Outcome::Gated { gates: self.gates.clone() })
    }

    /// The outcome of a pod whose scheduler name has no profile.
    pub(crate) fn no_profile(&self) -> Outcome {
        let name = self.unknown_scheduler.as_deref().unwrap_or_default();
        let error = format!(
            "no scheduling profile is named {name:?}: add one to the configuration, or change spec.schedulerName"
        );
        Outcome::Failed { error }
    }
}

impl<'a> Run<'a> {
    /// Evaluates every rule of a profile on every node.
    pub(crate) fn new(context: Context<'a>) -> Run<'a> {
        Run::on(context, None)
    }

    /// Evaluates every rule on some nodes, as if there were no others.
    pub(crate) fn on(context: Context<'a>, nodes: Option<&[NodeId]>) -> Run<'a> {
        let pre_filter = plugins::pre_filter(context);
        let mut run = Run {
            context,
            pre_filter,
            filters: Vec::new(),
            rejected: Vec::new(),
            not_considered: Vec::new(),
            n_nodes: nodes.map_or_else(|| context.state.nodes.len(), <[NodeId]>::len),
            feasible: Vec::new(),
            error: None,
            scorers: Ok(Vec::new()),
            totals: Vec::new(),
        };
        if !matches!(run.pre_filter, PreFilter::Rejected(_)) {
            run.filters = plugins::filters(context);
            run.filter(nodes);
            run.score();
        }
        run
    }

    fn filter(&mut self, nodes: Option<&[NodeId]>) {
        let state = self.context.state;
        let considered: Option<Vec<_>> = match &self.pre_filter {
            PreFilter::Nodes(_, names) => Some(names.iter().filter_map(|n| state.symbols.get(n)).collect()),
            _ => None,
        };
        let some = nodes.into_iter().flatten().map(|id| (*id, state.nodes.get(*id)));
        let all = nodes.is_none().then(|| state.nodes.iter());
        for (id, record) in some.chain(all.into_iter().flatten()) {
            if considered.as_ref().is_some_and(|names| !names.contains(&record.name)) {
                self.not_considered.push(id);
                continue;
            }
            let node = NodeRef::new(id, record);
            let is_feasible = self.filters.iter().all(|(_, filter)| filter.admits(node))
                && self.context.rejection_with_nominated(&self.filters, id).is_none();
            if is_feasible { &mut self.feasible } else { &mut self.rejected }.push(id);
            if !is_feasible
                && self.error.is_none()
                && self.filters.iter().any(|(_, filter)| filter.can_fail())
            {
                let rejection = self.context.rejection(&self.filters, id);
                let error = rejection.filter(|rejection| rejection.status == Status::Error);
                self.error = error.and_then(|error| error.reasons.first().map(ToString::to_string));
            }
        }
    }

    /// The first rejection of each rejected node. The words are made here and not while filtering: most decisions find
    /// a node and need no words.
    pub(crate) fn rejections(&self) -> impl Iterator<Item = (NodeId, Rejection)> {
        self.rejected.iter().filter_map(|id| Some((*id, self.context.rejection(&self.filters, *id)?)))
    }

    fn score(&mut self) {
        self.totals = vec![0; self.feasible.len()];
        if self.feasible.is_empty() || self.error.is_some() {
            return;
        }
        let state = self.context.state;
        self.scorers = plugins::scorers(self.context, &self.feasible).map(|scorers| {
            let scored = scorers.into_iter().map(|weighted| {
                let mut scores = weighted.scores(state, &self.feasible);
                let Weighted { plugin, weight, scorer, .. } = weighted;
                for (score, total) in scores.iter_mut().zip(&mut self.totals) {
                    *score *= weight;
                    *total += *score;
                }
                Scored { plugin, weight, scorer, scores }
            });
            scored.collect()
        });
    }

    pub(crate) fn node_name(&self, id: NodeId) -> &'a str {
        self.context.state.node_name(id)
    }

    /// Names of the nodes with the highest total, sorted.
    pub(crate) fn best(&self) -> Vec<&'a str> {
        let Some(highest) = self.totals.iter().max().filter(|_| self.scorers.is_ok() && self.error.is_none())
        else {
            return Vec::new();
        };
        let best = self.feasible.iter().zip(&self.totals).filter(|(_, total)| *total == highest);
        let mut names: Vec<_> = best.map(|(id, _)| self.node_name(*id)).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn outcome(&self) -> Outcome {
        if let Some(error) = self.error.as_ref().or(self.scorers.as_ref().err()) {
            return Outcome::Failed { error: error.clone() };
        }
        match self.best().first() {
            Some(node) => match self.context.state.find_node(node) {
                Some(id) => self.context.placed(id, self.totals.iter().max().copied()),
                None => self.unschedulable(),
            },
            None => self.unschedulable(),
        }
    }

    /// An unschedulable pod, with kube-scheduler's message.
    fn unschedulable(&self) -> Outcome {
        let n_nodes = self.n_nodes;
        let mut plugins = Vec::new();
        if n_nodes == 0 {
            let message = "no nodes available to schedule pods".to_owned();
            return Outcome::Unschedulable { message, plugins };
        }
        if let PreFilter::Rejected(rejection) = &self.pre_filter {
            plugins.push(rejection.plugin);
            let message = format!("0/{n_nodes} nodes are available: {}.", rejection.reasons.join(", "));
            return Outcome::Unschedulable { message, plugins };
        }
        let mut histogram: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
        for (_, rejection) in self.rejections() {
            if !plugins.contains(&rejection.plugin) {
                plugins.push(rejection.plugin);
            }
            for reason in rejection.reasons {
                *histogram.entry(reason).or_default() += 1;
            }
        }
        if let PreFilter::Nodes(plugin, _) = &self.pre_filter
            && !self.not_considered.is_empty()
        {
            if !plugins.contains(plugin) {
                plugins.push(*plugin);
            }
            let reason = format!("node(s) didn't satisfy plugin(s) [{}]", plugin.name());
            *histogram.entry(reason.into()).or_default() += self.not_considered.len();
        }
        let message = fit_error(n_nodes, histogram.into_iter());
        plugins.sort_unstable();
        Outcome::Unschedulable { message, plugins }
    }

    fn evaluation(&self) -> Evaluation {
        let name = |id: &NodeId| self.node_name(*id).to_owned();
        let rejected = self.rejections().map(|(id, r)| (name(&id), NodeEvaluation::Rejected(r)));
        let mut nodes: BTreeMap<_, _> = rejected.collect();
        if let PreFilter::Nodes(plugin, _) = &self.pre_filter {
            nodes.extend(
                self.not_considered.iter().map(|id| (name(id), NodeEvaluation::NotConsidered(*plugin))),
            );
        }
        for (i, id) in self.feasible.iter().enumerate() {
            let scored = self.scorers.iter().flatten();
            let by_plugin = scored.map(|s| (s.plugin, s.scores[i])).collect();
            nodes.insert(name(id), NodeEvaluation::Feasible(NodeScore { by_plugin, total: self.totals[i] }));
        }
        let pre_filter = match &self.pre_filter {
            // A pod is rejected beforehand only where there are nodes.
            PreFilter::Rejected(rejection) if self.context.state.nodes.len() > 0 => Some(rejection.clone()),
            _ => None,
        };
        let best = self.best().into_iter().map(str::to_owned).collect();
        Evaluation { outcome: self.outcome(), pre_filter, nodes, best }
    }
}
