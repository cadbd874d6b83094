//! Moves: running pods go to other nodes hypothetically, one after the other, and what their rules are worth is known after
//! each move at a cost that follows what the move changes.
//!
//! A move takes a pod off its node, and puts what its controller creates in its place on another one. It is refused if a
//! filter rejects the pod there, or if a required rule of another running pod that held before does not hold after it.
//! The filters look at neither the affinity of running pods nor at their hard spread constraints, so these are followed here.
//!
//! Pods that rules do not distinguish are one class: what is known of one on a node is known of all of them there.

mod neighbours;
mod spread;
mod standing;

use berth_input::config::Plugin;
use berth_input::journal::AssumedDevices;
use rustc_hash::FxHashMap;

use self::neighbours::Neighbour;
use self::spread::SpreadTable;
use self::standing::{Place, Rules};
use crate::cycle::context::{Context, CycleState};
use crate::cycle::nomination::Nominations;
use crate::decision::{Outcome, decide_on};
use crate::plugins::{self, Reads};
use crate::state::State;
use crate::state::counting::topology::DomainId;
use crate::state::device::ReleasedClaims;
use crate::state::node::NodeId;
use crate::state::pod::prepared::PreparedPod;
use crate::state::pod::{Likeness, PodId};

/// How well all running pods stand, apart from those that are being deleted. Less is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Number of pods that the filters would reject where they are; without spread constraints, resources, volumes and
    /// devices.
    pub rejected: i64,
    /// The skew above `maxSkew`, summed over the distinct spread constraints of the pods, hard and soft.
    pub skew: i64,
    /// The weights of the preferred terms of node affinity, pod affinity and anti-affinity that are not met.
    pub unmet: i64,
}

/// A class of pods, by its index.
type ClassId = usize;

/// Pods that rules do not distinguish.
struct Class {
    pod: PreparedPod,
    likeness: Likeness,
    places: FxHashMap<NodeId, Place>,
    /// The classes whose rules look at them.
    neighbours: Vec<Neighbour>,
}

struct Running {
    pod: PreparedPod,
    class: ClassId,
    node: NodeId,
}

/// What a move has changed.
struct Done {
    pod: usize,
    before: PreparedPod,
    from: NodeId,
    places: Vec<(ClassId, NodeId, Option<Place>)>,
    devices: MovedDevices,
}

/// What changes of the claims of a pod that moves: a claim that no other pod uses loses its devices, and gets others on the target.
#[derive(Default)]
struct MovedDevices {
    released: ReleasedClaims,
    assumed: Option<AssumedDevices>,
}

/// The running pods of a state, where they are, and how well they stand.
pub(crate) struct MoveTable {
    pods: Vec<Running>,
    classes: Vec<Class>,
    spread: SpreadTable,
    done: Vec<Done>,
    rejected: i64,
    unmet: i64,
}

impl MoveTable {
    /// The pods must be on nodes that the state knows; their positions are those of the caller.
    pub(crate) fn new(state: &mut State, pods: &[PodId]) -> MoveTable {
        let (mut classes, mut by_key) = (Vec::<Class>::new(), FxHashMap::default());
        let running = pods.iter().filter_map(|id| {
            let record = state.pods.get(*id);
            let (node, likeness) = (record.node?, record.likeness());
            let pod = state.as_pending(*id);
            let class = *by_key.entry((likeness, pod.default_spread)).or_insert_with(|| {
                let (places, neighbours) = Default::default();
                classes.push(Class { pod: pod.clone(), likeness, places, neighbours });
                classes.len() - 1
            });
            classes[class].places.entry(node).or_default().n_pods += 1;
            Some(Running { pod, class, node })
        });
        let pods: Vec<_> = running.collect();
        let state = &*state;
        for (class, neighbours) in neighbours::of_all(state, &classes).into_iter().enumerate() {
            classes[class].neighbours = neighbours;
        }
        let spread = SpreadTable::new(state, &classes);
        let mut table = MoveTable { pods, classes, spread, done: Vec::new(), rejected: 0, unmet: 0 };
        for class in 0..table.classes.len() {
            let nodes: Vec<_> = table.classes[class].places.keys().copied().collect();
            table.evaluate(state, class, &nodes);
        }
        table
    }

    pub(crate) fn standing(&self) -> Standing {
        Standing { rejected: self.rejected, skew: self.spread.excess, unmet: self.unmet }
    }

    pub(crate) fn node_of(&self, pod: usize) -> NodeId {
        self.pods[pod].node
    }

    pub(crate) fn class_of(&self, pod: usize) -> ClassId {
        self.pods[pod].class
    }

    pub(crate) fn prepared(&self, pod: usize) -> &PreparedPod {
        &self.pods[pod].pod
    }

    /// Whether the filters would reject the pod where it is.
    pub(crate) fn is_rejected(&self, pod: usize) -> bool {
        self.place_of(pod).is_some_and(|place| place.is_rejected)
    }

    /// The weights of its preferred terms that are not met.
    pub(crate) fn unmet(&self, pod: usize) -> i64 {
        self.place_of(pod).map_or(0, |place| place.unmet)
    }

    fn place_of(&self, pod: usize) -> Option<&Place> {
        let Running { class, node, .. } = &self.pods[pod];
        self.classes[*class].places.get(node)
    }

    /// Number of distinct spread constraints.
    pub(crate) fn n_constraints(&self) -> usize {
        self.spread.constraints.len()
    }

    /// The nodes of the fullest and of the emptiest domains of a spread constraint whose skew exceeds `maxSkew`.
    pub(crate) fn excess_of(&self, state: &State, constraint: usize) -> Option<(Vec<NodeId>, Vec<NodeId>)> {
        let constraint = &self.spread.constraints[constraint];
        (constraint.excess() > 0).then(|| constraint.extremes(state))
    }

    /// `maxSkew` of a spread constraint, whether it has as many domains as it requires, and the nodes that count with their domains.
    pub(crate) fn domains_of(
        &self,
        state: &State,
        constraint: usize,
    ) -> (i64, bool, Vec<(NodeId, DomainId)>) {
        self.spread.constraints[constraint].domains(state)
    }

    pub(crate) fn counts_for(&self, pod: usize, constraint: usize) -> bool {
        self.spread.counts(self.classes[self.pods[pod].class].likeness.signature, constraint)
    }

    /// Moves a pod to a node, if that is legal. Returns whether it is; the state is unchanged if not.
    pub(crate) fn apply(&mut self, state: &mut State, pod: usize, to: NodeId) -> bool {
        let Running { pod: before, class, node: from } = &self.pods[pod];
        let (before, class, from) = (before.clone(), *class, *from);
        let replacement = before.replacement();
        let mut devices = MovedDevices::default();
        leave(state, &before, &mut devices.released);
        let is_admitted = self.admits(state, &replacement, class, from, to)
            && allocate(state, &replacement, to, &mut devices.assumed);
        if !is_admitted {
            state.take_back_claims(devices.released);
            put(state, &before, from);
            return false;
        }
        put(state, &replacement, to);
        devices.assumed.iter().for_each(|assumed| state.assume_devices(assumed));
        self.pods[pod].pod = replacement;
        self.pods[pod].node = to;
        let signature = self.classes[class].likeness.signature;
        let holds = self.spread.shift(state, signature, class, from, to);
        self.done.push(Done { pod, before, from, places: Vec::new(), devices });
        let is_legal = holds && self.follow(state, class, from, to);
        if !is_legal {
            self.undo(state);
        }
        is_legal
    }

    /// Whether the filters admit a pod of a class that has left a node to another. Those of its spread constraints would count the pods
    /// of all nodes: they are counted here.
    fn admits(&self, state: &State, pod: &PreparedPod, class: ClassId, from: NodeId, to: NodeId) -> bool {
        let cycle = CycleState::without_nominated(state, pod);
        let Some(context) = Context::with_any_profile(state, &cycle) else { return false };
        // Defaults of kube-scheduler are soft.
        let has_filter = context.profile.profile.filter.contains(&Plugin::PodTopologySpread);
        (!has_filter || self.spread.admits(state, class, from, to))
            && context.admits_by(to, |plugin| plugin != Plugin::PodTopologySpread)
    }

    /// The nodes that admit a pod as far as they alone decide, whatever runs anywhere.
    pub(crate) fn could_be_on(state: &State, pod: &PreparedPod) -> Vec<NodeId> {
        let cycle = CycleState::without_nominated(state, pod);
        let Some(context) = Context::with_any_profile(state, &cycle) else { return Vec::new() };
        let is_of_node = |plugin| plugins::rule(plugin).is_some_and(|rule| rule.reads.only(Reads::NODE));
        let nodes = state.nodes.iter().map(|(id, _)| id);
        nodes.filter(|id| context.admits_by(*id, is_of_node)).collect()
    }

    /// Takes the last move back. Returns whether there was one.
    pub(crate) fn undo(&mut self, state: &mut State) -> bool {
        let Some(Done { pod, before, from, places, devices }) = self.done.pop() else { return false };
        let Running { pod: replacement, class, node: to } = &self.pods[pod];
        let (class, to) = (*class, *to);
        state.forget(replacement);
        devices.assumed.iter().for_each(|assumed| state.restore_devices(assumed));
        state.take_back_claims(devices.released);
        put(state, &before, from);
        self.spread.shift(state, self.classes[class].likeness.signature, class, to, from);
        for (class, node, place) in places.into_iter().rev() {
            self.set_place(class, node, place);
        }
        self.pods[pod] = Running { pod: before, class, node: from };
        true
    }

    /// Evaluates the places that a move affects. Returns false, and stops, if a rule does not hold that held before.
    fn follow(&mut self, state: &State, class: ClassId, from: NodeId, to: NodeId) -> bool {
        for (node, sign) in [(from, -1), (to, 1)] {
            let mut place = self.classes[class].places.get(&node).cloned().unwrap_or_default();
            place.n_pods = place.n_pods.saturating_add_signed(sign);
            self.change_place(class, node, Some(place));
        }
        let mut affected: Vec<(ClassId, Vec<NodeId>)> = vec![(class, vec![from, to])];
        for neighbour in &self.classes[class].neighbours {
            let nodes = neighbour.affected(state, &self.classes[neighbour.class].places, from, to);
            affected.push((neighbour.class, nodes));
        }
        affected.sort_unstable();
        affected.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1.append(&mut later.1);
            }
            is_same
        });
        affected.into_iter().all(|(other, mut nodes)| {
            nodes.sort_unstable();
            nodes.dedup();
            nodes.retain(|node| self.classes[other].places.contains_key(node));
            self.evaluate(state, other, &nodes)
        })
    }

    /// Evaluates pods of a class on nodes. Returns whether every required rule holds that held before, apart from those of
    /// pods that have just come.
    fn evaluate(&mut self, state: &State, class: ClassId, nodes: &[NodeId]) -> bool {
        if nodes.is_empty() {
            return true;
        }
        let mut found = Vec::with_capacity(nodes.len());
        let Class { pod, places, .. } = &self.classes[class];
        Rules::of(state, pod, |rules| {
            found.extend(nodes.iter().map(|node| (*node, rules.on(*node, places[node].n_pods))));
        });
        let mut all_hold = true;
        for (node, place) in found {
            let before = &self.classes[class].places[&node];
            all_hold &= !before.is_known || place.broken.iter().all(|rule| before.broken.contains(rule));
            if place != *before {
                self.change_place(class, node, Some(place));
            }
        }
        all_hold
    }

    /// Changes a place so that the last move can be taken back.
    fn change_place(&mut self, class: ClassId, node: NodeId, place: Option<Place>) {
        let place = place.filter(|place| place.n_pods > 0);
        let before = self.set_place(class, node, place);
        if let Some(done) = self.done.last_mut() {
            done.places.push((class, node, before));
        }
    }

    fn set_place(&mut self, class: ClassId, node: NodeId, place: Option<Place>) -> Option<Place> {
        let after = place.as_ref().map(Place::sum).unwrap_or_default();
        let places = &mut self.classes[class].places;
        let before = match place {
            Some(place) => places.insert(node, place),
            None => places.remove(&node),
        };
        let (rejected, unmet) = before.as_ref().map(Place::sum).unwrap_or_default();
        self.rejected += after.0 - rejected;
        self.unmet += after.1 - unmet;
        before
    }
}

/// Takes a pod off its node, and the devices from the claims that no other pod uses.
pub(crate) fn leave(state: &mut State, pod: &PreparedPod, released: &mut ReleasedClaims) {
    state.forget(pod);
    if let Some(devices) = &pod.devices {
        state.release_claims(devices, released);
    }
}

/// Chooses the devices of a node for a pod that it admits. Returns false if they cannot be chosen.
fn allocate(state: &State, pod: &PreparedPod, node: NodeId, assumed: &mut Option<AssumedDevices>) -> bool {
    if !pod.devices.as_ref().is_some_and(|devices| devices.concern(state)) {
        return true;
    }
    match decide_on(state, &Nominations::default(), pod, node) {
        Some(Outcome::Placed { devices, .. }) => {
            *assumed = devices.map(|devices| pod.assumed_devices(&devices, false));
            true
        }
        _ => false,
    }
}

fn put(state: &mut State, pod: &PreparedPod, node: NodeId) {
    let name = state.symbols.shared_text(state.nodes.get(node).name);
    state.assign(pod, &name);
}
