//! The state of a cluster and its indexes: what the rules read.
//!
//! [`State`] holds nodes, namespaces, assigned pods, their interned rules and labels, and the counters over them. It
//! imports no other module of the engine: plugins, views, nominations, preemption and violations are above it, and read
//! what they need. It records its own changes ([`change::Change`]) where a reader asks for that.

pub(crate) mod change;
pub(crate) mod counting;
pub(crate) mod device;
pub(crate) mod group;
pub(crate) mod ids;
pub(crate) mod interned;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod rule_set;
mod settings;
mod update;
pub(crate) mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::object::Pod;
use berth_rules::PodRules;
use rustc_hash::{FxHashMap, FxHashSet};

use self::change::{Change, ChangeLog, TrackedChange};
use self::counting::matcher::Matchers;
use self::counting::topology::Topologies;
use self::device::Devices;
use self::group::Groups;
use self::interned::intern::{Symbol, Symbols};
use self::interned::lease::Ended;
use self::interned::table::Table;
use self::namespace::Namespaces;
use self::node::attribute::MentionedAttributes;
use self::node::image::Images;
use self::node::name_order::NameOrder;
use self::node::{Allocatable, NodeId, Nodes};
use self::pod::recent::RecentPods;
use self::pod::signature::{LabelSet, Signatures};
use self::pod::{PodId, Pods};
use self::rule_set::RuleSet;
use self::rule_set::default_spread::DefaultSpread;
use self::rule_set::profile::ProfileState;
use self::rule_set::workload::WorkloadSelectors;
use self::volume::Volumes;

pub(crate) use self::interned::lease::Freed;

pub use self::device::DeviceWork;
pub use self::rule_set::compile::MAX_ALL_TOPOLOGIES;
pub use self::settings::Settings;

/// The state of a cluster, indexed for decisions.
///
/// A pod whose node is not known is ignored until the node is added. Nothing here fails.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) profiles: Vec<ProfileState>,
    pub(crate) symbols: Symbols,
    pub(crate) namespaces: Namespaces,
    pub(crate) exempt_namespaces: FxHashSet<Symbol>,
    pub(crate) nodes: Nodes,
    pub(crate) pods: Pods,
    pub(crate) groups: Groups,
    pub(crate) images: Images,
    pub(crate) topologies: Topologies,
    pub(crate) matchers: Matchers,
    pub(crate) signatures: Signatures,
    pub(crate) rule_sets: Table<RuleSet>,
    pub(crate) label_sets: Table<LabelSet>,
    recent_pods: RecentPods,
    default_spreads: Table<DefaultSpread>,
    allocatables: Table<Arc<Allocatable>>,
    workloads: WorkloadSelectors,
    pub(crate) volumes: Volumes,
    pub(crate) devices: Devices,
    pub(crate) changes: ChangeLog,
    /// The nodes of pods whose labels changed in a way that no rule sees. Disruption budgets may.
    pub(crate) relabelled: ChangeLog,
    pub(crate) name_order: NameOrder,
    /// Changes since they were last taken, if they are recorded at all.
    recorded: Option<Vec<Change>>,
    /// The same for changes that can make rules of running pods hold or not.
    tracked: Option<Vec<TrackedChange>>,
    /// Label keys that selectors and signatures mention, and how often.
    mentioned: FxHashMap<Symbol, u32>,
    pub(crate) attributes: MentionedAttributes,
    /// Counts the times that label sets got other signatures.
    signature_epoch: usize,
    ended: Ended,
    /// Rule sets and signatures that have been removed, until they are taken.
    freed: Vec<Freed>,
    /// Searches for groups that ended at their limit.
    pub(crate) n_cut_group_searches: u64,
    pub(crate) empty: Symbol,
}

impl State {
    /// A copy. The leases on this state are not leases on the copy.
    pub(crate) fn copy(&self) -> State {
        State { ended: Ended::default(), recorded: None, tracked: None, ..self.clone() }
    }

    pub(crate) fn new(settings: Settings) -> State {
        let mut symbols = Symbols::default();
        let profiles = settings.config.profiles.iter();
        let profiles = profiles.map(|profile| {
            let mut profile = profile.clone();
            profile.dynamic_resources.preempt_for_devices &= settings.extensions;
            profile.preempt_across_nodes &= settings.extensions;
            ProfileState::new(&mut symbols, profile)
        });
        let profiles = profiles.collect();
        let exempt = settings.exempt_namespaces.iter().filter(|_| settings.extensions);
        let exempt_namespaces = exempt.map(|n| symbols.intern(n)).collect();
        State {
            empty: symbols.intern(""),
            volumes: Volumes::new(&mut symbols),
            devices: Devices::default(),
            settings,
            profiles,
            symbols,
            namespaces: Namespaces::default(),
            exempt_namespaces,
            nodes: Nodes::default(),
            pods: Pods::default(),
            groups: Groups::default(),
            images: Images::default(),
            topologies: Topologies::default(),
            matchers: Matchers::default(),
            signatures: Signatures::default(),
            rule_sets: Table::default(),
            label_sets: Table::default(),
            recent_pods: RecentPods::default(),
            default_spreads: Table::default(),
            allocatables: Table::default(),
            workloads: WorkloadSelectors::default(),
            changes: ChangeLog::default(),
            relabelled: ChangeLog::default(),
            name_order: NameOrder::default(),
            recorded: None,
            tracked: None,
            mentioned: FxHashMap::default(),
            attributes: MentionedAttributes::default(),
            signature_epoch: 0,
            ended: Ended::default(),
            freed: Vec::new(),
            n_cut_group_searches: 0,
        }
    }

    /// The rules of a pod, as the settings read it.
    pub(crate) fn rules_of(&self, pod: &Pod) -> PodRules {
        PodRules::parse(pod, self.settings.rule_options())
    }

    pub(crate) fn is_exempt(&self, namespace: Symbol) -> bool {
        self.exempt_namespaces.contains(&namespace)
    }

    /// Epoch: when it changes, pods that had the same signature may have different ones.
    pub(crate) fn signature_epoch(&self) -> usize {
        self.signature_epoch
    }

    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.nodes.find(self.symbols.get(name)?)
    }

    pub(crate) fn find_pod(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.pods.find(self.symbols.get(namespace)?, name)
    }

    pub(crate) fn node_name(&self, node: NodeId) -> &str {
        self.symbols.text(self.nodes.get(node).name)
    }

    pub(crate) fn table_sizes(&self) -> BTreeMap<&'static str, usize> {
        let matchers = || self.matchers.table.iter().map(|(_, matcher)| matcher);
        let mut sizes = self.volumes.table_sizes();
        sizes.extend(self.devices.table_sizes());
        sizes.extend([
            ("symbols", self.symbols.len()),
            ("namespaces", self.namespaces.len()),
            ("nodes", self.nodes.len()),
            ("allocatables", self.allocatables.len()),
            ("pods", self.pods.len()),
            ("pod groups", self.groups.len()),
            ("rule sets", self.rule_sets.len()),
            ("label sets", self.label_sets.len()),
            ("signatures", self.signatures.table.len()),
            ("mentioned keys", self.mentioned.len()),
            ("mentioned attributes", self.attributes.len()),
            ("default spreads", self.default_spreads.len()),
            ("topologies", self.topologies.table.len()),
            ("matchers", self.matchers.table.len()),
            ("counters", matchers().map(|m| m.matching.len() + m.owners.len()).sum()),
        ]);
        sizes
    }

    /// From now on appends changes to these (with `None`, records none); returns those recorded before.
    pub(crate) fn replace_recorded(&mut self, recorded: Option<Vec<Change>>) -> Option<Vec<Change>> {
        std::mem::replace(&mut self.recorded, recorded)
    }

    /// The changes recorded since the last call, in order.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        self.recorded.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts or stops recording changes for [`State::take_tracked_changes`].
    pub(crate) fn track_changes(&mut self, on: bool) {
        self.tracked = on.then(Vec::new);
    }

    /// The tracked changes since the last call, in order.
    pub(crate) fn take_tracked_changes(&mut self) -> Vec<TrackedChange> {
        self.tracked.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn record(&mut self, change: Change) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(change);
        }
    }

    fn track(&mut self, change: impl FnOnce() -> TrackedChange) {
        if let Some(tracked) = &mut self.tracked {
            tracked.push(change());
        }
    }
}
