//! Rejections of unschedulable pods: why each node rejects the pods of one rule set, followed as the cluster changes.
//!
//! A node is evaluated again only if it or its pods changed, pods were nominated to it or no longer are, or counts in its
//! domains changed that the rules read ([`Filter::inputs`]). The message of a failed decision and the candidates of a
//! preemption then cost what changed since the last failure of the same kind of pod. Placed pods have no part in this.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use berth_input::config::Plugin;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::cycle::context::Context;
use crate::cycle::nomination::Nominations;
use crate::device::{DeviceRules, WORK_SPENT};
use crate::plugins::{self, Filters, PreFilter};
use crate::state::Freed;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::interned::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::RuleSetId;
use crate::verdict::{Rejection, Status};

/// Pods with the same key are rejected by the same nodes: nominated pods of lower priority do not count.
type Key = (RuleSetId, SignatureId, i32, Option<Arc<DeviceRules>>);

/// The rejections of rule sets that failed before, each with data of type `T` that is derived from them. Those that were
/// not used for the longest time are dropped.
#[derive(Default)]
pub(crate) struct RejectionViews<T> {
    all: FxHashMap<Key, RejectionView<T>>,
    n_uses: u64,
}

/// The rejections of one rule set, and what is derived from them.
pub(crate) struct RejectionView<T> {
    used: u64,
    pub(crate) rejections: Rejections,
    pub(crate) derived: T,
}

/// Number of views that are kept in clusters of any size.
const MIN_VIEWS: usize = 8;
/// Nodes of all views together, beyond [`MIN_VIEWS`].
const MAX_VIEW_NODES: usize = 1 << 19;

/// Why each node rejects a pod.
#[derive(Default)]
pub(crate) struct Rejections {
    /// Positions in the logs of changes up to which the entries are current.
    seen: u64,
    seen_relabelled: u64,
    seen_nominations: u64,
    layout: u64,
    /// Of the devices that several nodes may use; none for pods without claims.
    devices: Option<u64>,
    /// No node has more pods, the nominated ones included.
    max_pods: i64,
    topologies: SmallVec<[TopologyId; 2]>,
    cells: Vec<Cell>,
    cell_by_key: FxHashMap<CellKey, u32>,
    /// Indexed by node id.
    nodes: Vec<Entry>,
    /// Different rejections, with the number of nodes.
    table: Vec<(Rejection, usize)>,
    pub(crate) n_feasible: usize,
    /// Evaluated with the nomination of the last pod excluded, and to be evaluated again for the next one.
    of_last_pod: Option<NodeId>,
    /// The nodes that were not searched for devices, because the budget was spent.
    unsearched: Vec<NodeId>,
    /// The nodes that were evaluated since [`Rejections::take_evaluated`].
    evaluated: Vec<NodeId>,
}

/// The domains of nodes in the shared topologies that the rules read.
type CellKey = SmallVec<[Option<DomainId>; 2]>;

/// Nodes in the same domains.
struct Cell {
    /// One of them, if it has not left.
    node: NodeId,
    inputs: Vec<i64>,
}

#[derive(Clone, Copy)]
struct Entry {
    result: u32,
    cell: u32,
}

/// The node does not exist.
const ABSENT: u32 = u32::MAX;
/// Excluded before the filters ran.
const NOT_CONSIDERED: u32 = u32::MAX - 1;
const FEASIBLE: u32 = u32::MAX - 2;

impl<T: Default> RejectionView<T> {
    /// A view that is used once.
    pub(crate) fn new(rejections: Rejections) -> RejectionView<T> {
        RejectionView { used: 0, rejections, derived: T::default() }
    }
}

impl<T: Default> RejectionViews<T> {
    /// The current rejections for a pod; none for pods that have no view. Which devices a pod would free, the log of changes
    /// does not have.
    pub(crate) fn view(
        &mut self,
        context: Context<'_>,
        nominations: &Nominations,
        pod: &PreparedPod,
    ) -> Option<&mut RejectionView<T>> {
        if context.cycle.devices.is_some() { None } else { self.followed(context, nominations, pod) }
    }

    /// kube-scheduler's message and the plugins that reject nodes; none if no view follows the pod, a node is feasible, or a
    /// rule cannot be evaluated.
    pub(crate) fn message(
        &mut self,
        context: Context<'_>,
        nominations: &Nominations,
        pod: &PreparedPod,
    ) -> Option<(String, Vec<Plugin>)> {
        self.followed(context, nominations, pod)?.rejections.message(context)
    }

    fn followed(
        &mut self,
        context: Context<'_>,
        nominations: &Nominations,
        pod: &PreparedPod,
    ) -> Option<&mut RejectionView<T>> {
        // Claims of volumes belong to single pods, and what they require changes with objects that the log does not have.
        let devices = context.cycle.devices.as_ref();
        let is_followed = pod.node_name.is_none()
            && context.cycle.volumes.is_none()
            && devices.is_none_or(|devices| devices.fit_a_view())
            && plugins::fit_a_view(context.state, context.rule_set);
        if !is_followed || !matches!(plugins::pre_filter(context), PreFilter::AllNodes) {
            return None;
        }
        let rules = devices.map(|devices| devices.rules.clone());
        let key = (pod.rule_set, context.cycle.signature, pod.precedence.priority, rules);
        self.n_uses += 1;
        let is_current = |view: &mut RejectionView<T>| view.rejections.catch_up(context, nominations, pod);
        if !self.all.get_mut(&key).is_some_and(is_current) {
            self.all.remove(&key);
            let max = MIN_VIEWS.max(MAX_VIEW_NODES / context.state.nodes.len().max(1)).min(4 * MIN_VIEWS);
            if self.all.len() >= max
                && let Some(oldest) =
                    self.all.iter().min_by_key(|(_, view)| view.used).map(|(key, _)| key.clone())
            {
                self.all.remove(&oldest);
            }
            let rejections = Rejections::new(context, nominations, pod, None);
            self.all.insert(key.clone(), RejectionView::new(rejections));
        }
        let view = self.all.get_mut(&key)?;
        view.used = self.n_uses;
        Some(view)
    }
}

impl<T> RejectionViews<T> {
    /// Drops the views of a rule set or a signature that has been removed from the state.
    pub(crate) fn drop_views(&mut self, freed: Freed) {
        self.all.retain(|(rule_set, signature, ..), _| match freed {
            Freed::RuleSet(id) => *rule_set != id,
            Freed::Signature(id) => *signature != id,
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

impl Rejections {
    /// Evaluates every node, or those with these names.
    pub(crate) fn new(
        context: Context<'_>,
        nominations: &Nominations,
        pod: &PreparedPod,
        names: Option<&[String]>,
    ) -> Rejections {
        let state = context.state;
        let nodes = || state.nodes.iter();
        let most = nodes().map(|(_, node)| node.pods.len() + nominations.on(node.name).len()).max();
        let filters = plugins::filters(context);
        let mut rejections = Rejections {
            seen: state.changes.end(),
            seen_relabelled: state.relabelled.end(),
            seen_nominations: nominations.end(),
            layout: state.changes.epochs.layout,
            devices: context.epoch_of_devices(),
            max_pods: 2 * most.unwrap_or(0) as i64 + 16,
            topologies: shared_topologies(&filters),
            of_last_pod: context.node_nominated_to(nominations, pod),
            ..Rejections::default()
        };
        let names: Option<FxHashSet<Symbol>> =
            names.map(|names| names.iter().filter_map(|name| state.symbols.get(name)).collect());
        let is_considered = |name| names.as_ref().is_none_or(|names| names.contains(&name));
        let (considered, excluded): (Vec<_>, Vec<_>) =
            nodes().partition(|(_, node)| is_considered(node.name));
        for (id, _) in excluded {
            rejections.set(id, NOT_CONSIDERED);
        }
        rejections.update(context, nominations, &filters, considered.into_iter().map(|(id, _)| id).collect());
        rejections
    }

    /// Evaluates what changed. Returns false if the view has to be made again.
    fn catch_up(&mut self, context: Context<'_>, nominations: &Nominations, pod: &PreparedPod) -> bool {
        let state = context.state;
        let (Some(changed), Some(relabelled), Some(nominated)) = (
            state.changes.since(self.seen),
            state.relabelled.since(self.seen_relabelled),
            nominations.changed_since(self.seen_nominations),
        ) else {
            return false;
        };
        if (self.layout, self.devices) != (state.changes.epochs.layout, context.epoch_of_devices()) {
            return false;
        }
        let of_this_pod = context.node_nominated_to(nominations, pod);
        let of_last_pod = std::mem::replace(&mut self.of_last_pod, of_this_pod);
        let mut nodes: Vec<NodeId> = [changed, relabelled].concat();
        nodes.extend(nominated.iter().filter_map(|name| state.nodes.find(*name)));
        nodes.extend(of_last_pod.into_iter().chain(of_this_pod));
        nodes.append(&mut self.unsearched);
        self.seen = state.changes.end();
        self.seen_relabelled = state.relabelled.end();
        self.seen_nominations = nominations.end();
        if nodes.is_empty() {
            return true;
        }
        let filters = plugins::filters(context);
        let mut topologies = shared_topologies(&filters).into_iter();
        topologies.all(|t| self.topologies.contains(&t)) && self.update(context, nominations, &filters, nodes)
    }

    /// Evaluates nodes, and those that a change of counts concerns. Returns false if the view has to be made again.
    fn update(
        &mut self,
        context: Context<'_>,
        nominations: &Nominations,
        filters: &Filters<'_>,
        mut nodes: Vec<NodeId>,
    ) -> bool {
        let state = context.state;
        for id in &nodes {
            let Some(record) = state.nodes.find_by_id(*id) else {
                self.set(*id, ABSENT);
                continue;
            };
            if (record.pods.len() + nominations.on(record.name).len()) as i64 >= self.max_pods {
                return false;
            }
            // A topology that no rule reads any more may have been removed.
            let topologies = self.topologies.iter();
            let key: CellKey = topologies.map(|t| state.topologies.find_domain(*t, *id)).collect();
            let n_cells = self.cells.len() as u32;
            let cell = *self.cell_by_key.entry(key).or_insert(n_cells);
            if cell == n_cells {
                self.cells.push(Cell { node: *id, inputs: Vec::new() });
            }
            self.entry(*id).cell = cell;
        }
        // Cells are not removed: relabelled nodes may leave many without nodes.
        if self.cells.len() > 2 * state.nodes.len() + 64 {
            return false;
        }
        let mut inputs = Vec::new();
        let mut changed: FxHashSet<u32> = FxHashSet::default();
        for number in 0..self.cells.len() as u32 {
            let is_in = |id: NodeId| {
                let entry = self.nodes.get(id.0 as usize);
                entry.is_some_and(|entry| entry.cell == number) && state.nodes.find_by_id(id).is_some()
            };
            let node = self.cells[number as usize].node;
            let any = || (0..self.nodes.len() as u32).map(NodeId).find(|id| is_in(*id));
            let Some(node) = Some(node).filter(|id| is_in(*id)).or_else(any) else { continue };
            inputs.clear();
            filters.iter().for_each(|(_, filter)| filter.inputs(node, self.max_pods, &mut inputs));
            let cell = &mut self.cells[number as usize];
            cell.node = node;
            if cell.inputs != inputs {
                cell.inputs.clone_from(&inputs);
                changed.insert(number);
            }
        }
        if !changed.is_empty() {
            let entries = self.nodes.iter().enumerate();
            let concerned = entries.filter(|(_, e)| e.result <= FEASIBLE && changed.contains(&e.cell));
            nodes.extend(concerned.map(|(index, _)| NodeId(index as u32)));
        }
        nodes.sort_unstable();
        nodes.dedup();
        for id in nodes.into_iter().filter(|id| state.nodes.find_by_id(*id).is_some()) {
            let result = match context.rejection(filters, id) {
                Some(rejection) => {
                    if rejection.reasons.iter().any(|reason| reason == WORK_SPENT) {
                        self.unsearched.push(id);
                    }
                    self.intern(rejection)
                }
                None => FEASIBLE,
            };
            self.set(id, result);
        }
        true
    }

    fn intern(&mut self, rejection: Rejection) -> u32 {
        let known = self.table.iter().position(|(known, _)| *known == rejection);
        known.unwrap_or_else(|| {
            self.table.push((rejection, 0));
            self.table.len() - 1
        }) as u32
    }

    fn entry(&mut self, id: NodeId) -> &mut Entry {
        let index = id.0 as usize;
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, Entry { result: ABSENT, cell: u32::MAX });
        }
        &mut self.nodes[index]
    }

    fn set(&mut self, id: NodeId, result: u32) {
        let before = std::mem::replace(&mut self.entry(id).result, result);
        self.n_feasible += usize::from(result == FEASIBLE);
        self.n_feasible -= usize::from(before == FEASIBLE);
        if let Some((_, n_nodes)) = self.table.get_mut(result as usize) {
            *n_nodes += 1;
        }
        if let Some((_, n_nodes)) = self.table.get_mut(before as usize) {
            *n_nodes -= 1;
        }
        if self.evaluated.len() > 2 * self.nodes.len() {
            self.evaluated = (0..self.nodes.len() as u32).map(NodeId).collect();
        }
        self.evaluated.push(id);
    }

    /// The nodes that may have changed since the last call; they may be repeated, and gone.
    pub(crate) fn take_evaluated(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.evaluated)
    }

    /// The status of a node that rejects the pod; none of a feasible one, or one that was not considered.
    pub(crate) fn status(&self, id: NodeId) -> Option<Status> {
        let entry = self.nodes.get(id.0 as usize)?;
        self.table.get(entry.result as usize).map(|(rejection, _)| rejection.status)
    }

    fn message(&self, context: Context<'_>) -> Option<(String, Vec<Plugin>)> {
        if self.n_feasible > 0 || context.state.nodes.len() == 0 {
            return None;
        }
        let (mut histogram, mut plugins) = (BTreeMap::<&str, usize>::new(), Vec::new());
        for (rejection, n_nodes) in self.table.iter().filter(|(_, n)| *n > 0) {
            if rejection.status == Status::Error {
                return None;
            }
            if !plugins.contains(&rejection.plugin) {
                plugins.push(rejection.plugin);
            }
            for reason in &rejection.reasons {
                *histogram.entry(reason).or_default() += n_nodes;
            }
        }
        plugins.sort_unstable();
        Some((fit_error(context.state.nodes.len(), histogram.into_iter()), plugins))
    }
}

/// kube-scheduler's summary: how many nodes have each reason.
pub(crate) fn fit_error<'a, R: Into<Cow<'a, str>>>(
    n_nodes: usize,
    histogram: impl Iterator<Item = (R, usize)>,
) -> String {
    let mut reasons: Vec<_> = histogram.map(|(reason, n)| format!("{n} {}", reason.into())).collect();
    reasons.sort_unstable();
    format!("0/{n_nodes} nodes are available: {}.", reasons.join(", "))
}

fn shared_topologies(filters: &Filters<'_>) -> SmallVec<[TopologyId; 2]> {
    let mut topologies: SmallVec<[TopologyId; 2]> =
        filters.iter().flat_map(|(_, filter)| filter.shared_topologies()).collect();
    topologies.sort_unstable();
    topologies.dedup();
    topologies
}

impl Context<'_> {
    fn epoch_of_devices(self) -> Option<u64> {
        self.cycle.devices.as_ref().map(|_| self.state.changes.epochs.devices)
    }

    /// The existing node that the pod itself is nominated to.
    fn node_nominated_to(self, nominations: &Nominations, pod: &PreparedPod) -> Option<NodeId> {
        self.state.nodes.find(nominations.node(pod.namespace, &pod.name)?)
    }
}
