//! Views: the feasible nodes of one rule set with their scores, updated as nodes change.
//!
//! A view finds the best node for the next pod of its rule set without a pass over all nodes. Nodes with equal domains
//! in the topologies with several nodes per domain form a cell; in a cell, nodes with equal features (raw scores that
//! are normalized, and what is checked at each decision) form a group; in a group, nodes with equal sums of all other
//! scores form a bucket, ordered by name. A decision iterates over cells and groups, of which there are few, and takes
//! the first node of the best bucket. A change of a node moves that node only; a change of a counter of a topology with
//! several nodes per domain moves none.
//!
//! A view has no reasons, scores by plugin or messages: [`crate::decision`] evaluates every node for those, and for pods
//! without a view ([`plugins::fit_a_view`]). A view never changes the state.
//!
//! The parts of `InterPodAffinity` and `PodTopologySpread` stand in their folders, but are called here by name: they are evaluated
//! at different steps (node, cell, group), for each candidate of each decision, where a common trait costs instructions.

mod cells;
mod local;
pub(crate) mod rejections;

use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::cycle::nomination::{NominatedPods, Nominations};
use crate::device::{CycleDevices, DeviceRules};
use crate::plugins::inter_pod_affinity_view::InterPod;
use crate::plugins::pod_topology_spread_view::{Constraints, FeasibleGroup};
use crate::plugins::{self, RAW_SCORES};
use crate::state::Freed;
use crate::state::State;
use crate::state::change::Epochs;
use crate::state::counting::topology::{DomainId, TopologyId};
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::signature::SignatureId;
use crate::state::rule_set::RuleSetId;
use crate::state::rule_set::spread::Spread;
use crate::volume::{CycleVolumes, VolumeRules};
use cells::{CellKey, Cells, Place, RawScores};
use local::LocalRules;

type ViewKey = (RuleSetId, SignatureId, ObjectRulesId);

/// Object rules that pods with views have; 0 for pods without volumes and claims of devices.
type ObjectRulesId = u64;

/// What the volumes and the claims of devices of a pod require of a node.
#[derive(Clone, PartialEq, Eq, Hash)]
struct ObjectRules {
    volumes: Option<Arc<VolumeRules>>,
    devices: Option<Arc<DeviceRules>>,
}

/// The volumes and the claims of a pod that can share a view with others.
#[derive(Clone, Copy)]
pub(crate) struct SharedObjects<'a> {
    pub(crate) volumes: Option<&'a Arc<CycleVolumes>>,
    pub(crate) devices: Option<&'a Arc<CycleDevices>>,
}

/// The views of the rule sets in use, by rule set and signature of their pods; those that were not used for the longest
/// time are dropped.
#[derive(Default)]
pub(crate) struct Views {
    all: FxHashMap<ViewKey, View>,
    by_rule_set: FxHashMap<RuleSetId, FxHashSet<ViewKey>>,
    by_signature: FxHashMap<SignatureId, FxHashSet<ViewKey>>,
    /// The object rules of views, with their ids.
    object_rules: FxHashMap<ObjectRules, ObjectRulesId>,
    /// The same by id, with the number of views.
    n_views_of_rules: FxHashMap<ObjectRulesId, (ObjectRules, usize)>,
    last_rules: ObjectRulesId,
    n_decisions: u64,
    n_evaluated: u64,
    /// Start of the log of changes. Views that have not read the entries before it are dropped.
    log_start: u64,
}

/// Number of views that are kept in clusters of any size.
const MIN_VIEWS: usize = 64;
/// Nodes of all views together, beyond [`MIN_VIEWS`]. A node takes 8 bytes in each view.
const MAX_VIEW_NODES: usize = 4 << 20;
/// The size of a view without nodes, in nodes.
const NODES_PER_VIEW: usize = 256;

/// The feasible nodes of one rule set.
struct View {
    cycle: CycleState,
    /// The number of the last decision that used it.
    used: u64,
    /// Position in the log of changes up to which the view is current.
    seen: u64,
    epochs: Epochs,
    /// Whether images of the rule set are on any node.
    has_images: bool,
    /// Topologies whose domains make the cells. Those of other rule sets' terms may have been removed since.
    topologies: SmallVec<[TopologyId; 2]>,
    inter_pod: InterPod,
    constraints: Constraints,
    /// The weights of the rules of [`RAW_SCORES`]; 0 for those that do not score the pod.
    weights: RawScores,
    cells: Cells,
    /// Nodes on which a rule cannot be evaluated: no pod is placed while there are any.
    failing: FxHashSet<NodeId>,
    /// The nodes that were not searched for devices, because the budget was spent: the next decision begins with them.
    unsearched: Vec<NodeId>,
    /// How many nodes were evaluated since the last decision.
    n_evaluated: u64,
}

impl SharedObjects<'_> {
    fn rules(self) -> ObjectRules {
        ObjectRules {
            volumes: self.volumes.map(|volumes| volumes.rules.clone()),
            devices: self.devices.map(|devices| devices.rules.clone()),
        }
    }
}

impl Views {
    /// The best node for a pod and its total score, by the view of its rule set. `None` if no node is feasible, a rule cannot be
    /// evaluated, or the pod has no view. `objects` are those of the pod, and fit a view.
    pub(crate) fn best(
        &mut self,
        state: &State,
        nominations: &Nominations,
        pod: &PreparedPod,
        objects: Option<SharedObjects<'_>>,
    ) -> Option<(NodeId, i64)> {
        let volumes = objects.and_then(|objects| objects.volumes);
        if pod.node_name.is_some() {
            return None;
        }
        if self.log_start != state.changes.start() {
            self.log_start = state.changes.start();
            self.drop_where(|view| state.changes.since(view.seen).is_none());
        }
        let signature = state.decided_signature(pod);
        let rules = objects.map(|objects| objects.rules());
        let key = (pod.rule_set, signature, rules.as_ref().map_or(0, |rules| self.rules_id(rules)));
        let is_current = |view: &mut View| view.has_spread_of(state, pod) && view.catch_up(state);
        if !self.all.get_mut(&key).is_some_and(is_current) {
            if !plugins::fit_a_view(state, state.rule_sets.get(pod.rule_set)) {
                return None;
            }
            // A view serves pods of every priority: nominated pods are looked up at each decision.
            self.remove(key);
            self.make_room(state.nodes.len());
            let shared = volumes.map(|volumes| Arc::new(volumes.shared()));
            let devices = objects.and_then(|objects| objects.devices).cloned();
            let cycle = CycleState { volumes: shared, devices, ..CycleState::without_nominated(state, pod) };
            self.insert(key, View::new(state, cycle)?);
            if let Some(rules) = rules {
                let of_rules = self.n_views_of_rules.entry(key.2);
                of_rules.or_insert_with(|| (rules.clone(), 0)).1 += 1;
                self.object_rules.insert(rules, key.2);
            }
        }
        self.n_decisions += 1;
        let view = self.all.get_mut(&key)?;
        view.used = self.n_decisions;
        // Nodes whose pods, also nominated ones, use volumes of the pod attach fewer: they are evaluated for this pod alone.
        let attached = volumes.map(|volumes| volumes.nodes_attached(state)).unwrap_or_default();
        let is_shared = attached.is_empty() && (volumes.is_none() || nominations.is_empty());
        let shared = (!is_shared).then(|| std::mem::replace(&mut view.cycle.volumes, volumes.cloned()));
        if !attached.is_empty() {
            view.update_changed(state, attached.iter().copied());
        }
        let excluded =
            if nominations.is_empty() { Vec::new() } else { view.exclude_nominated(state, nominations, pod) };
        let best = view.best(state);
        if let Some(shared) = shared {
            view.cycle.volumes = shared;
        }
        if !excluded.is_empty() || !attached.is_empty() {
            view.update_changed(state, excluded.into_iter().chain(attached));
        }
        self.n_evaluated += std::mem::take(&mut view.n_evaluated);
        best
    }

    fn rules_id(&mut self, rules: &ObjectRules) -> ObjectRulesId {
        self.object_rules.get(rules).copied().unwrap_or_else(|| {
            self.last_rules += 1;
            self.last_rules
        })
    }

    /// Drops an eighth of the views if there is no room for another one.
    fn make_room(&mut self, n_nodes: usize) {
        let max = MIN_VIEWS.max(MAX_VIEW_NODES / (n_nodes + NODES_PER_VIEW));
        if self.all.len() >= max {
            let mut used: Vec<u64> = self.all.values().map(|view| view.used).collect();
            let n_dropped = used.len() - (max - max / 8);
            let (_, newest_dropped, _) = used.select_nth_unstable(n_dropped);
            let newest_dropped = *newest_dropped;
            self.drop_where(|view| view.used <= newest_dropped);
        }
    }

    fn insert(&mut self, key: ViewKey, view: View) {
        self.by_rule_set.entry(key.0).or_default().insert(key);
        self.by_signature.entry(key.1).or_default().insert(key);
        self.all.insert(key, view);
    }

    fn remove(&mut self, key: ViewKey) {
        if self.all.remove(&key).is_none() {
            return;
        }
        if let Entry::Occupied(mut views) = self.by_rule_set.entry(key.0) {
            views.get_mut().remove(&key);
            if views.get().is_empty() {
                views.remove();
            }
        }
        if let Entry::Occupied(mut views) = self.by_signature.entry(key.1) {
            views.get_mut().remove(&key);
            if views.get().is_empty() {
                views.remove();
            }
        }
        if let Entry::Occupied(mut views) = self.n_views_of_rules.entry(key.2) {
            views.get_mut().1 -= 1;
            if views.get().1 == 0 {
                let (rules, _) = views.remove();
                self.object_rules.remove(&rules);
            }
        }
    }

    /// Drops the views of a rule set or a signature that has been removed from the state.
    pub(crate) fn drop_views(&mut self, freed: Freed) {
        let keys: Vec<ViewKey> = match freed {
            Freed::RuleSet(id) => self.by_rule_set.get(&id).into_iter().flatten().copied().collect(),
            Freed::Signature(id) => self.by_signature.get(&id).into_iter().flatten().copied().collect(),
        };
        keys.into_iter().for_each(|key| self.remove(key));
    }

    fn drop_where(&mut self, is_dropped: impl Fn(&View) -> bool) {
        let dropped: Vec<ViewKey> =
            self.all.iter().filter(|(_, view)| is_dropped(view)).map(|(key, _)| *key).collect();
        dropped.into_iter().for_each(|key| self.remove(key));
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// How many nodes were evaluated for decisions, each as often as it was.
    pub(crate) fn n_evaluated(&self) -> u64 {
        self.n_evaluated
    }
}

impl View {
    /// Evaluates every node; `None` without a profile for the rule set.
    fn new(state: &State, cycle: CycleState) -> Option<View> {
        let context = Context::new(state, &cycle)?;
        let inter_pod = InterPod::new(context);
        let constraints = Constraints::new(context);
        let of_constraints = constraints.all.iter().filter(|c| !c.by_node).map(|c| c.topology);
        let shared = |t: &TopologyId| state.topologies.is_shared(*t);
        let mut topologies: SmallVec<[TopologyId; 2]> =
            inter_pod.topologies().filter(shared).chain(of_constraints).collect();
        topologies.sort_unstable();
        topologies.dedup();
        let has_images = plugins::images_in_use(state, context.rule_set);
        let mut view = View {
            used: 0,
            seen: state.changes.end(),
            epochs: state.changes.epochs,
            has_images,
            topologies,
            inter_pod,
            constraints,
            weights: RawScores::default(),
            cells: Cells::new(state.nodes.len()),
            failing: FxHashSet::default(),
            unsearched: Vec::new(),
            n_evaluated: 0,
            cycle,
        };
        view.update(state, state.nodes.iter().map(|(id, _)| id), true, |cells, id, place| {
            _ = cells.assign(id, place);
        });
        view.cells.fill(&state.name_order);
        Some(view)
    }

    /// Whether a pod's spread constraints are those of the view. The default ones may have been resolved again, and
    /// their matchers freed.
    fn has_spread_of(&self, state: &State, pod: &PreparedPod) -> bool {
        let places = |s: &Spread| (s.matcher, s.topology);
        pod.default_spread.is_none()
            || state.spread_of(pod).iter().map(places).eq(self.cycle.spread.iter().map(places))
    }

    /// Evaluates the nodes that changed. Returns false if the view has to be rebuilt.
    fn catch_up(&mut self, state: &State) -> bool {
        let now = state.changes.epochs;
        let Some(context) = Context::new(state, &self.cycle) else { return false };
        if now != self.epochs {
            let has_images = plugins::images_in_use(state, context.rule_set);
            let images_changed = now.images != self.epochs.images && (self.has_images || has_images);
            let n_watched = self.cycle.volumes.as_ref().map_or(0, |volumes| volumes.n_alike_watched());
            let volumes_changed = now.free_volumes[..n_watched] != self.epochs.free_volumes[..n_watched];
            let devices_changed = now.devices != self.epochs.devices && self.cycle.devices.is_some();
            if now.layout != self.epochs.layout || images_changed || volumes_changed || devices_changed {
                return false;
            }
            if now.terms != self.epochs.terms {
                let inter_pod = InterPod::new(context);
                let known = |t| !state.topologies.is_shared(t) || self.topologies.contains(&t);
                if !inter_pod.extends(&self.inter_pod, state, known) {
                    return false;
                }
                self.inter_pod = inter_pod;
            }
            self.epochs = now;
        }
        let Some(changed) = state.changes.since(self.seen) else { return false };
        if !changed.is_empty() || !self.unsearched.is_empty() {
            let mut changed: SmallVec<[NodeId; 64]> = changed.into();
            changed.sort_unstable();
            changed.dedup();
            self.cells.read_ahead(&changed);
            let unsearched = std::mem::take(&mut self.unsearched);
            self.update_changed(state, unsearched.into_iter().chain(changed));
            self.seen = state.changes.end();
        }
        true
    }

    /// Excludes, for one decision, the nodes on which the pod does not fit together with the pods nominated to them, and
    /// returns them.
    fn exclude_nominated(
        &mut self,
        state: &State,
        nominations: &Nominations,
        pod: &PreparedPod,
    ) -> Vec<NodeId> {
        self.cycle.nominated = nominations.against(pod);
        let mut excluded = Vec::new();
        if let Some(context) = Context::new(state, &self.cycle) {
            excluded.extend(self.cycle.nominated.nodes(state).filter(|id| self.cells.holds(*id)));
            if !excluded.is_empty() {
                let filters = plugins::filters(context);
                excluded.retain(|id| context.rejection_with_nominated(&filters, *id).is_some());
            }
        }
        for id in &excluded {
            self.cells.put(*id, &state.name_order, None);
        }
        self.cycle.nominated = NominatedPods::default();
        excluded
    }

    fn update_changed(&mut self, state: &State, nodes: impl Iterator<Item = NodeId>) {
        self.update(state, nodes, false, |cells, id, place| cells.put(id, &state.name_order, place));
    }

    /// Evaluates nodes, and passes each to `put` with its place.
    fn update(
        &mut self,
        state: &State,
        nodes: impl Iterator<Item = NodeId>,
        all_nodes: bool,
        put: impl Fn(&mut Cells, NodeId, Option<&Place>),
    ) {
        let Some(context) = Context::new(state, &self.cycle) else { return };
        let mut local = LocalRules::new(context, all_nodes);
        self.weights = local.weights;
        let inter_pod = self.inter_pod.node_rules(state);
        let mut place = Place::default();
        for id in nodes {
            self.n_evaluated += 1;
            let record = state.nodes.find_by_id(id);
            // Constraints count nodes whether they are feasible or not, until they are removed.
            let feasible = self.constraints.count_node(context, id, record, &mut place.features.spread);
            let node = record.filter(|_| feasible).map(|record| NodeRef::new(id, record));
            let node = node.filter(|_| inter_pod.allow(id, &mut place.features.inter_pod));
            let sum = node.and_then(|node| local.score(node, &mut place.features.raw_scores));
            if local.can_fail() {
                match node.filter(|_| sum.is_none()).is_some_and(|node| local.fails(node)) {
                    true => self.failing.insert(id),
                    false => self.failing.remove(&id),
                };
            }
            if let Some(sum) = sum {
                place.sum = sum;
                place.key.clear();
                for topology in &self.topologies {
                    place.key.push(state.topologies.find_domain(*topology, id));
                }
            }
            put(&mut self.cells, id, sum.map(|_| &place));
            if self.cycle.devices.is_some() && state.settings.device_work.is_cut() {
                self.unsearched.push(id);
            }
        }
    }

    /// The best node, and its total score.
    fn best(&mut self, state: &State) -> Option<(NodeId, i64)> {
        if !self.failing.is_empty() {
            return None;
        }
        let candidates = self.candidates(state);
        let mut highest: RawScores = candidates.first()?.raw_scores;
        for candidate in &candidates {
            for (max, raw) in highest.iter_mut().zip(&candidate.raw_scores) {
                *max = (*max).max(*raw);
            }
        }
        let inter_pod = self.inter_pod.scores(candidates.iter().map(|c| c.inter_pod));
        let cells = &self.cells.all;
        let spread = self.constraints.scores(state, &self.topologies, candidates.len(), |i| {
            let Candidate { cell, group, n_nodes, .. } = candidates[i];
            let features = &cells[cell].groups[group].features.spread;
            FeasibleGroup { features, n_nodes, domains: &cells[cell].key }
        });

        let mut best: Option<(i64, u32, NodeId)> = None;
        for (i, candidate) in candidates.iter().enumerate() {
            let mut total = inter_pod.of(candidate.inter_pod) + spread.of(i);
            for (rule, (_, normalization)) in RAW_SCORES.iter().enumerate() {
                let raw = candidate.raw_scores[rule];
                total += self.weights[rule] * normalization.of_highest(raw, highest[rule]);
            }
            let highest = total + self.cells.best_sum(candidate.cell, candidate.group);
            if best.is_some_and(|(best, ..)| highest < best) {
                continue;
            }
            let (sum, order, node) =
                self.cells.first_of_best(candidate.cell, candidate.group, &state.name_order)?;
            let better = best.is_none_or(|(best, first, _)| {
                (total + sum, std::cmp::Reverse(order)) > (best, std::cmp::Reverse(first))
            });
            if better {
                best = Some((total + sum, order, node));
            }
        }
        best.map(|(total, _, node)| (node, total))
    }

    /// The groups whose nodes are feasible now.
    fn candidates(&self, state: &State) -> SmallVec<[Candidate; 16]> {
        let all_terms = self.inter_pod.all_affinity_terms();
        let as_first = self.inter_pod.terms_as_first(state);
        let mut candidates = SmallVec::new();
        for (i, cell) in self.cells.all.iter().enumerate().filter(|(_, cell)| !cell.groups.is_empty()) {
            let domain = |topology| self.domain(&cell.key, topology);
            let rules = self.inter_pod.check_cell(state, domain);
            if !rules.allowed || self.constraints.exceeds_skew_in(domain) {
                continue;
            }
            for (j, group) in cell.groups.iter().enumerate().filter(|(_, g)| g.n_nodes > 0) {
                let features = &group.features;
                let satisfied =
                    features.inter_pod.affinity_terms | rules.affinity_terms | as_first == all_terms;
                if satisfied && !self.constraints.exceeds_skew_on(&features.spread) {
                    candidates.push(Candidate {
                        cell: i,
                        group: j,
                        n_nodes: group.n_nodes,
                        raw_scores: features.raw_scores,
                        inter_pod: features.inter_pod.score + rules.score,
                    });
                }
            }
        }
        candidates
    }

    fn domain(&self, key: &CellKey, topology: TopologyId) -> Option<DomainId> {
        let position = self.topologies.iter().position(|t| *t == topology)?;
        key[position]
    }
}

/// A group whose nodes are feasible.
struct Candidate {
    cell: usize,
    group: usize,
    n_nodes: usize,
    raw_scores: RawScores,
    /// Raw score of `InterPodAffinity`.
    inter_pod: i64,
}

#[cfg(test)]
mod tests {
    use berth_testkit::text;

    use super::*;
    use crate::state::Settings;

    #[test]
    fn the_least_recently_used_views_are_dropped() {
        let mut state = State::new(Settings::default());
        state.set_node(&text::node("node a"));
        let prepare = |i| state.prepare(&text::world(&format!("pod default/a cpu={}m", i + 1)).pods[0]);
        let pods: Vec<_> = (0..=MIN_VIEWS).map(prepare).collect();
        let mut views = Views::default();
        for pod in &pods {
            assert!(views.best(&state, &Nominations::default(), pod, None).is_some());
        }
        assert_eq!(views.len(), pods.len());
        views.make_room(MAX_VIEW_NODES);
        let n_dropped = pods.len() - views.len();
        assert!(n_dropped > 0 && views.len() < MIN_VIEWS);
        assert!(views.all.values().all(|view| view.used > n_dropped as u64));
    }
}
