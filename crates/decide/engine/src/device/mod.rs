//! The claims of the pod of one decision: resolved against the objects as they are, and devices for them on a node.
//!
//! [`CycleDevices`] says what the pod needs, [`pools`] which devices a node can use, [`search`] chooses among them, and
//! [`result`] writes what was chosen. The choice is kube-scheduler's: the first in the order of claims, requests,
//! alternatives and devices that meets everything.

mod alternatives;
mod capacity;
mod domain;
mod explain;
mod extended;
mod in_use;
mod node_allocatable;
mod pools;
mod published;
mod resolve;
mod result;
mod score;
mod search;

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use berth_api::object::{NamespacedName, NodeAllocatableResourceClaimStatus};
use berth_input::config::LeastWaste;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::device::{
    ClaimSpec, ClassRecord, Consumer, ContainerResources, Meter, NodeScope, PodDevices,
};
use crate::state::node::{NodeId, NodeRecord};
use crate::state::pod::prepared::PreparedPod;
use crate::state::rule_set::RuleSetId;

pub(crate) use self::alternatives::alternatives;
pub(crate) use self::explain::{Holders, Obstacle};
pub(crate) use self::in_use::{AvoidedDevices, DeviceDelta, DevicesInUse};
pub(crate) use self::node_allocatable::{AllocatableRules, Refusal};
pub use self::published::{DeviceModel, DevicesOfNode, PublishedDevice};
pub(crate) use self::published::{devices_of, models};
pub(crate) use self::result::device_decision;

/// The claims of the pod of one decision.
#[derive(Clone, Debug)]
pub(crate) struct CycleDevices {
    pub(crate) pod: Arc<PodDevices>,
    /// Why the pod is rejected on every node: only a change of a device object or of the pod helps.
    pub(crate) problem: Option<String>,
    /// In the order of the pod.
    pub(crate) claims: Vec<CycleClaim>,
    pub(crate) rules: Arc<DeviceRules>,
    /// The scoring strategy of the profile.
    pub(crate) least_waste: Option<Arc<LeastWaste>>,
    /// Why the claims cannot be written, whatever the node.
    pub(crate) write_problem: Option<String>,
    /// How long binding conditions may take to become true, in seconds.
    binding_timeout: i64,
    /// The requests of the pod; none where they are not looked at.
    requests: Option<RuleSetId>,
}

/// A claim of the pod.
#[derive(Clone, Debug)]
pub(crate) struct CycleClaim {
    pub(crate) name_in_pod: Box<str>,
    pub(crate) claim: NamespacedName,
    /// Its place in [`DeviceRules::unallocated`], if it has to be allocated.
    pub(crate) unallocated: Option<usize>,
    /// The PodGroup that shares it: it is reserved for the group instead of the pod.
    pub(crate) group: Option<Consumer>,
}

/// What claims require of a node. Pods with equal rules fare equally.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceRules {
    /// The claims that are allocated, in their order, and the nodes that can use their devices: none where these do not become
    /// ready.
    pub(crate) allocated: Vec<(NamespacedName, NodeScope)>,
    /// What has to be allocated, in the order of the claims.
    pub(crate) unallocated: Vec<Requested>,
    /// The extended resources that devices provide where the node has none of them itself.
    pub(crate) extended: Vec<ExtendedResource>,
    /// What the containers request; none without such a resource.
    pub(crate) containers: Box<[ContainerResources]>,
    /// The score of the claims that are allocated, the same on all nodes. It counts if others have to be allocated.
    pub(crate) score: i64,
    /// A claim for extended resources is left over from an earlier attempt.
    pub(crate) has_stale_claim: bool,
    /// What matters where devices take allocatable resources of their node.
    pub(crate) allocatable: AllocatableRules,
}

/// A claim to be allocated, with the classes of its requests.
#[derive(Clone, Debug)]
pub(crate) struct Requested {
    pub(crate) claim: NamespacedName,
    pub(crate) spec: Arc<ClaimSpec>,
    /// One for each alternative, in the order of [`ClaimSpec::alternatives`].
    pub(crate) classes: Arc<[Arc<ClassRecord>]>,
}

/// An extended resource that a class provides.
#[derive(Clone, Debug)]
pub(crate) struct ExtendedResource {
    pub(crate) name: Arc<str>,
    pub(crate) class: Arc<ClassRecord>,
}

/// What the rule says about a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeVerdict {
    /// All claims are allocated, or can be.
    Fits(Box<NodeDevices>),
    /// In kube-scheduler's words.
    Rejected(Cow<'static, str>),
    /// For what the devices take of the node.
    Refused(Box<Refusal>),
    /// The attempt for the pod ends with this error.
    Error(String),
}

/// What was chosen on a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeDevices {
    /// One for each of [`DeviceRules::unallocated`], then that for extended resources.
    pub(crate) chosen: Vec<search::ChosenClaim>,
    /// The claim for extended resources, if the node needs one.
    pub(crate) extended: Option<(Requested, extended::Mappings)>,
    /// The sum over alternatives of how early they stand in their lists.
    pub(crate) score: i64,
    /// What is wasted, if the profile asks for it.
    pub(crate) waste: Option<search::Waste>,
    /// What the devices take of the node, by the names of the claims.
    pub(crate) node_allocatable: Vec<NodeAllocatableResourceClaimStatus>,
}

pub(crate) const CANNOT_ALLOCATE: &str = "cannot allocate all claims";
pub(crate) const NOT_AVAILABLE: &str = "resourceclaim not available on the node";
pub(crate) const STALE_CLAIM: &str = "cannot schedule extended resource claim";
pub(crate) const INVALID_POOLS: &str = "invalid resource pools were encountered";
pub(crate) const WORK_SPENT: &str =
    "without a search for devices, because the work that is allowed for one decision is done";
pub(crate) const TOO_MUCH_WORK: &str = "the search for devices on the node ended at its limit of work";

impl PodDevices {
    /// Whether the pod has claims, or a class provides one of its resources.
    pub(crate) fn concern(&self, state: &State) -> bool {
        let is_provided = |name| state.devices.class_of_resource(name).is_some();
        !self.claims.is_empty() || (state.devices.has_classes() && self.extended_resources().any(is_provided))
    }
}

impl CycleDevices {
    /// The claims of a pod that decide about nodes; none if it has none and no class provides one of its resources.
    pub(crate) fn of(state: &State, pod: &PreparedPod) -> Option<Arc<CycleDevices>> {
        let devices = pod.devices.as_ref().filter(|devices| devices.concern(state))?;
        let profile = state.rule_sets.get(pod.rule_set).key.profile.map(|i| &state.profiles[i].profile);
        let args = profile.map(|profile| profile.dynamic_resources).unwrap_or_default();
        let least_waste = profile.and_then(|profile| profile.least_waste.clone());
        let binding_timeout = args.binding_timeout.as_secs() as i64;
        let resolved = CycleDevices::resolve(state, devices, binding_timeout, least_waste);
        Some(Arc::new(CycleDevices { requests: Some(pod.rule_set), ..resolved }))
    }

    pub(crate) fn needs_search(&self) -> bool {
        self.problem.is_none() && !(self.rules.unallocated.is_empty() && self.rules.extended.is_empty())
    }

    pub(crate) fn has_alternatives(&self) -> bool {
        let has = |requested: &Requested| requested.spec.requests.iter().any(|r| r.is_prioritized);
        self.rules.score > 0 || self.rules.unallocated.iter().any(has)
    }

    /// Whether claims can be satisfied on a node, and how, within the budget. Beyond it, what the same decision found before counts.
    pub(crate) fn on(&self, state: &State, node: &NodeRecord, in_use: &DevicesInUse) -> NodeVerdict {
        let (work, seen) = (&state.settings.device_work, state.changes.end());
        let marks = work.marks();
        let verdict = self.within(work.meter(), state, node, in_use);
        if let NodeVerdict::Rejected(reason) = &verdict
            && in_use.is_that_of_state()
        {
            if reason != WORK_SPENT {
                work.keep_reason(&self.rules, seen, node.name, reason.clone());
            } else if let Some(reason) = work.kept_reason(&self.rules, seen, node.name) {
                // Nothing is left out.
                work.set_marks(marks);
                return NodeVerdict::Rejected(reason);
            }
        }
        verdict
    }

    fn within(
        &self,
        meter: Meter<'_>,
        state: &State,
        node: &NodeRecord,
        in_use: &DevicesInUse,
    ) -> NodeVerdict {
        let rules = &*self.rules;
        if rules.has_stale_claim {
            return NodeVerdict::Rejected(STALE_CLAIM.into());
        }
        if let Some(shared) = self.shared_on(state, node, in_use) {
            return shared;
        }
        let is_available = rules.allocated.iter().all(|(_, scope)| scope.includes(&state.symbols, node));
        let extended = self.extended_on(state, node);
        let of_resources = extended.iter().map(|(requested, _)| requested);
        let requested: Vec<&Requested> = rules.unallocated.iter().chain(of_resources).collect();
        let (mut chosen, mut waste, mut score) = (Vec::new(), None, 0);
        if !requested.is_empty() {
            (chosen, waste) =
                match search::search(state, node, in_use, &requested, self.least_waste.as_deref(), meter) {
                    search::Found::Devices(chosen, waste) => (chosen, waste),
                    search::Found::Nothing(reason) => return NodeVerdict::Rejected(reason),
                    search::Found::Error(error) => return NodeVerdict::Error(error),
                };
            score = rules.score + score::score(&requested, &chosen);
        }
        if !is_available {
            return NodeVerdict::Rejected(NOT_AVAILABLE.into());
        }
        match self.taken_of(state, node, &requested, &chosen) {
            Ok(node_allocatable) => {
                NodeVerdict::Fits(Box::new(NodeDevices { chosen, extended, score, waste, node_allocatable }))
            }
            Err(refused) => refused,
        }
    }

    /// What keeps the claims that have to be allocated from it on a node. The claim for extended resources is the last.
    pub(crate) fn obstacles_on(&self, state: &State, node: &NodeRecord, holders: &Holders) -> Vec<Obstacle> {
        if self.rules.has_stale_claim {
            return Vec::new();
        }
        let extended = self.extended_on(state, node);
        let of_resources = extended.iter().map(|(requested, _)| requested);
        let requested: Vec<&Requested> = self.rules.unallocated.iter().chain(of_resources).collect();
        explain::obstacles(state, node, &requested, holders)
    }

    /// The allocated claims whose devices the node cannot use.
    pub(crate) fn unavailable_on<'a>(
        &'a self,
        state: &'a State,
        node: &'a NodeRecord,
    ) -> impl Iterator<Item = &'a NamespacedName> {
        let outside = |(_, scope): &&(NamespacedName, NodeScope)| !scope.includes(&state.symbols, node);
        self.rules.allocated.iter().filter(outside).map(|(claim, _)| claim)
    }

    /// The nodes that its allocated claims name: all others are rejected. None if they leave it open, or devices have to be
    /// found, which can fail on any node.
    pub(crate) fn named_nodes(&self, state: &State) -> Option<SmallVec<[NodeId; 1]>> {
        if self.problem.is_some() || self.needs_search() {
            return None;
        }
        let name = self.rules.allocated.iter().find_map(|(_, scope)| match scope {
            NodeScope::Node(name) => Some(name),
            _ => None,
        })?;
        Some(state.find_node(name).into_iter().collect())
    }

    /// Whether pods with equal [`DeviceRules`] fare equally, with equal scores, so that they can share a view.
    pub(crate) fn fit_a_view(&self) -> bool {
        self.problem.is_none()
            && self.write_problem.is_none()
            && !self.rules.has_stale_claim
            && !self.rules.allocatable.is_own
            && !self.has_alternatives()
    }
}

/// Equal specifications and classes are one; the names of claims make no difference.
impl PartialEq for Requested {
    fn eq(&self, other: &Requested) -> bool {
        Arc::ptr_eq(&self.spec, &other.spec)
            && self.classes.len() == other.classes.len()
            && self.classes.iter().zip(&*other.classes).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl Eq for Requested {}

impl Hash for Requested {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.spec).hash(state);
    }
}

impl PartialEq for DeviceRules {
    fn eq(&self, other: &DeviceRules) -> bool {
        let scopes = |rules: &DeviceRules| -> Vec<NodeScope> {
            rules.allocated.iter().map(|(_, scope)| scope.clone()).collect()
        };
        let classes = |rules: &DeviceRules| -> Vec<(Arc<str>, *const ClassRecord)> {
            rules.extended.iter().map(|of| (of.name.clone(), Arc::as_ptr(&of.class))).collect()
        };
        (self.has_stale_claim, self.score) == (other.has_stale_claim, other.score)
            && self.unallocated == other.unallocated
            && scopes(self) == scopes(other)
            && classes(self) == classes(other)
            && self.containers == other.containers
            && self.allocatable == other.allocatable
    }
}

impl Eq for DeviceRules {}

impl Hash for DeviceRules {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.unallocated.hash(state);
        self.containers.hash(state);
        for (_, scope) in &self.allocated {
            scope.hash(state);
        }
    }
}
