//! The volumes of the pod of one decision: what they require of its node, resolved against the objects as they are.
//!
//! Claims belong to single pods. [`VolumeRules`] is what of them decides about nodes: pods whose claims require the same
//! have equal rules, and share a view. Nothing is kept between decisions.

mod binding;
mod resolve;

use std::sync::Arc;

use berth_api::syntax::quantity::Quantity;
use berth_rules::volume::InTreePlugin;
use smallvec::SmallVec;

use crate::state::State;
use crate::state::change::MAX_ALIKE;
use crate::state::interned::intern::Symbol;
use crate::state::node::NodeId;
use crate::state::node::condition::NodeSelectorMatcher;
use crate::state::volume::{AllowedTopologies, ClaimKey, Matching, Needs, PodVolumes, ZoneRule};

pub(crate) use binding::{BindingVerdict, StorageUse, volume_decision};

/// The volumes of the pod of one decision.
#[derive(Clone, Debug)]
pub(crate) struct CycleVolumes {
    pub(crate) pod: Arc<PodVolumes>,
    /// Why VolumeRestrictions rejects the pod on every node.
    pub(crate) restrictions: Option<Problem>,
    /// Claims that one pod at a time may use.
    pub(crate) one_pod_claims: SmallVec<[ClaimKey; 1]>,
    /// How many of these a pod uses.
    pub(crate) n_in_use: i64,
    /// Why VolumeBinding rejects the pod on every node.
    pub(crate) binding: Option<Problem>,
    /// The same for VolumeZone.
    pub(crate) zone: Option<Problem>,
    pub(crate) rules: Arc<VolumeRules>,
    /// Claims to be bound or provisioned, parallel to [`VolumeRules::unbound`].
    pub(crate) unbound: SmallVec<[ClaimKey; 1]>,
    /// Whether volumes that pods of a node use already are looked up there. Otherwise all are taken as new, which is
    /// right for the nodes that [`CycleVolumes::nodes_attached`] does not name.
    pub(crate) looks_up_attached: bool,
}

/// Why a pod is rejected on every node: only a change of a volume object or of the pod helps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem(pub(crate) String);

/// What volumes require of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct VolumeRules {
    /// In the order of the claims.
    pub(crate) bound: SmallVec<[BoundRule; 1]>,
    /// In the order in which they are bound or provisioned.
    pub(crate) unbound: SmallVec<[UnboundRule; 1]>,
    pub(crate) zones: SmallVec<[ZoneRule; 1]>,
    /// How many volumes drivers have to attach, if they attach those of the plugin.
    pub(crate) attach: SmallVec<[AttachRule; 1]>,
    /// Drivers that the node must have, if they attach the volumes of the plugin.
    pub(crate) required_drivers: SmallVec<[(Arc<str>, Option<InTreePlugin>); 1]>,
}

/// A driver, the in-tree plugin whose volumes it attaches (if so), and the number of volumes.
pub(crate) type AttachRule = (Arc<str>, Option<InTreePlugin>, i64);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BoundRule {
    Missing,
    Affinity {
        affinity: Option<Arc<NodeSelectorMatcher>>,
        /// What counts instead on nodes on which the plugin is migrated.
        migrated: Option<(InTreePlugin, Option<Arc<NodeSelectorMatcher>>)>,
    },
}

impl BoundRule {
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, BoundRule::Missing)
    }
}

/// What a claim that is not bound requires.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnboundRule {
    /// The existing volumes that it may be bound to, if there are any.
    pub(crate) matching: Option<Matching>,
    /// Its volume is to be provisioned for this node alone; `Some(None)` if the node does not exist.
    pub(crate) selected: Option<Option<Symbol>>,
    pub(crate) provision: Provision,
}

/// Whether a volume can be provisioned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Provision {
    /// The class does not provision volumes.
    Unsupported,
    Dynamic {
        /// None for all nodes.
        topologies: Option<Arc<AllowedTopologies>>,
        /// The class and the size in bytes, if the driver publishes its free capacity.
        capacity: Option<(Arc<str>, Quantity)>,
    },
}

impl CycleVolumes {
    /// Whether pods with equal [`VolumeRules`] fare equally, so that they can share a view.
    pub(crate) fn fit_a_view(&self) -> bool {
        let depends_on_more = |rule: &UnboundRule| {
            matches!(rule.matching, Some(Matching::Reserved(_))) || rule.selected.is_some()
        };
        self.restrictions.is_none()
            && self.binding.is_none()
            && self.zone.is_none()
            && self.n_in_use == 0
            && self.pod.disks.is_empty()
            && self.pod.in_tree.is_empty()
            && !self.rules.unbound.iter().any(depends_on_more)
    }

    /// As long as there are this many free volumes with an equal offer, one more or less of them changes nothing for the
    /// pod: no node becomes feasible or infeasible. At most [`MAX_ALIKE`] + 1, which stands for any number.
    ///
    /// Claims of one class that need the same but for the size choose by size and name: which nodes have enough volumes
    /// follows from how many there are of each size, up to the number of claims. Otherwise a choice for one claim can take
    /// away the only volume of another, and names decide.
    pub(crate) fn n_alike_watched(&self) -> usize {
        let free = self.rules.unbound.iter().filter_map(|rule| match &rule.matching {
            Some(Matching::Free(needs)) => Some(&**needs),
            _ => None,
        });
        let needs: SmallVec<[&Needs; 2]> = free.collect();
        let compete = |a: &Needs, b: &Needs| a.class == b.class && !a.differs_in_size_alone(b);
        let differ = |i: usize| needs[..i].iter().any(|other| compete(other, needs[i]));
        if (0..needs.len()).any(differ) { MAX_ALIKE + 1 } else { needs.len().min(MAX_ALIKE + 1) }
    }

    /// Without the claims that are not bound.
    pub(crate) fn bound_alone(self) -> CycleVolumes {
        let rules = VolumeRules { unbound: SmallVec::new(), ..VolumeRules::clone(&self.rules) };
        CycleVolumes { rules: Arc::new(rules), unbound: SmallVec::new(), ..self }
    }

    /// The same rules for any pod that has them.
    pub(crate) fn shared(&self) -> CycleVolumes {
        CycleVolumes { looks_up_attached: false, ..self.clone() }
    }

    /// The nodes whose pods use volumes of the pod already, or may do so.
    pub(crate) fn nodes_attached(&self, state: &State) -> SmallVec<[NodeId; 2]> {
        if self.rules.attach.is_empty() {
            return SmallVec::new();
        }
        state.volumes.nodes_attached(state, &self.pod)
    }

    /// The nodes that the volumes name: VolumeBinding rejects all others. None if volumes leave it open.
    pub(crate) fn named_nodes(&self, state: &State) -> Option<SmallVec<[NodeId; 1]>> {
        if let Some(selected) = self.rules.unbound.iter().find_map(|rule| rule.selected) {
            return Some(selected.and_then(|node| state.nodes.find(node)).into_iter().collect());
        }
        let hosts = self.rules.bound.iter().find_map(|rule| match rule {
            BoundRule::Affinity { affinity: Some(affinity), migrated: None } => {
                affinity.values_of(state.volumes.hostname)
            }
            _ => None,
        })?;
        let mut nodes: SmallVec<[NodeId; 1]> =
            hosts.into_iter().flat_map(|host| state.volumes.hosts(host).iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        Some(nodes)
    }
}
