//! What is tried for a member, and what need not be tried: devices besides those that it gets first, and nodes that an equal member
//! had before.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_api::object::device::DeviceDecision;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::member::Member;
use crate::cycle::equivalence::Equivalence;
use crate::decision::Outcome;
use crate::device::{AvoidedDevices, CycleDevices, DeviceRules, alternatives};
use crate::state::State;
use crate::state::node::NodeId;

/// What is tried next for a member.
#[derive(Default)]
pub(super) struct Choices {
    pub(super) n_tried: usize,
    /// The nodes that were tried before all were listed.
    pub(super) tried: SmallVec<[NodeId; 2]>,
    /// The nodes that are left, the best last, once they have been listed.
    pub(super) rest: Option<Vec<NodeId>>,
    pub(super) failure: Option<Outcome>,
    pub(super) skipped: bool,
    pub(super) current: Option<NodeId>,
    pub(super) devices: DeviceChoices,
}

/// The devices that a member can get besides the first.
#[derive(Default)]
pub(super) struct DeviceChoices {
    /// What it got on which node without which devices: others are looked for once all nodes have been tried.
    found: Vec<(NodeId, Box<DeviceDecision>, AvoidedDevices)>,
    open: Vec<(NodeId, AvoidedDevices)>,
    seen: BTreeSet<(u32, AvoidedDevices)>,
}

impl DeviceChoices {
    /// The member got devices on a node, where it avoided others.
    pub(super) fn add(&mut self, node: NodeId, outcome: &Outcome, avoided: AvoidedDevices) {
        if let Outcome::Placed { devices: Some(devices), .. } = outcome {
            self.found.push((node, devices.clone(), avoided));
        }
    }

    /// The next node, with the devices to be avoided there. `members` are those whose claims matter: the member and those after it.
    pub(super) fn next(&mut self, state: &State, members: &[Member]) -> Option<(NodeId, AvoidedDevices)> {
        while self.open.is_empty() && !self.found.is_empty() {
            let (node, decision, avoided) = self.found.remove(0);
            let pods = members.iter().filter_map(|member| CycleDevices::of(state, &member.valid));
            let pods: Vec<Arc<CycleDevices>> = pods.collect();
            let sets = alternatives(state, state.nodes.get(node), &pods, &decision, &avoided);
            let new = sets.into_iter().filter(|set| self.seen.insert((node.0, set.clone())));
            self.open.extend(new.map(|set| (node, set)));
        }
        self.open.pop()
    }
}

/// What decides about a member: members with equal values can change places.
#[derive(PartialEq, Eq)]
struct Kind {
    equivalence: Equivalence,
    devices: Option<Arc<DeviceRules>>,
}

impl Kind {
    /// None if no other member is like it: it uses a claim that has a device, or that others use.
    fn of(state: &State, member: &Member) -> Option<Kind> {
        let mut equivalence = Equivalence::of(state, &member.valid);
        equivalence.devices = None;
        let Some(devices) = CycleDevices::of(state, &member.valid) else {
            return Some(Kind { equivalence, devices: None });
        };
        let is_own = devices.problem.is_none() && devices.write_problem.is_none();
        let is_open = devices.claims.iter().all(|claim| claim.unallocated.is_some());
        (is_own && is_open).then(|| Kind { equivalence, devices: Some(devices.rules.clone()) })
    }
}

/// For each member, by order of decision, the number of its kind.
pub(super) fn kinds(state: &State, members: &[Member]) -> Vec<usize> {
    let mut claims = FxHashSet::default();
    let mut shared = FxHashSet::default();
    for devices in members.iter().filter_map(|member| CycleDevices::of(state, &member.valid)) {
        for claim in &devices.claims {
            if !claims.insert(claim.claim.clone()) {
                shared.insert(claim.claim.clone());
            }
        }
    }
    let shares = |member: &Member| {
        let devices = CycleDevices::of(state, &member.valid);
        devices.is_some_and(|devices| devices.claims.iter().any(|claim| shared.contains(&claim.claim)))
    };
    let mut known: Vec<(Kind, usize)> = Vec::new();
    let number = |(at, member): (usize, &Member)| {
        let Some(kind) = Kind::of(state, member).filter(|_| !shares(member)) else { return at };
        let equal = known.iter().find(|(other, _)| *other == kind).map(|(_, number)| *number);
        if equal.is_none() {
            known.push((kind, at));
        }
        equal.unwrap_or(at)
    };
    members.iter().enumerate().map(number).collect()
}
