//! Journal: the updates of a cluster as they are made, for a recording.

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use berth_api::object::{NamespacedName, Node, VolumeDecision};
use berth_input::config::{ConfigErrors, SchedulerConfig};
use berth_input::journal::{
    AssumedVolumes, Entry, GroupResult, JournaledOwnerSelector, JournaledPreemption, RecordedDecision,
    RecordedGroup, RecordedSettings,
};
use berth_rules::{Selector, annotation_key};

use super::Cluster;
use crate::decision::Outcome;
use crate::group::{Group, GroupLevel, GroupOutcome, GroupVictims};
use crate::preemption::Preemption;
use crate::state::pod::prepared::PreparedPod;
use crate::state::{DeviceWork, Settings};

/// Receives a copy of each update.
pub type Journal = Box<dyn FnMut(Entry) + Send + Sync>;

impl Cluster {
    /// From now on, each update is reported as an entry right after it is made. The same updates of another cluster with the
    /// same settings give the same state. Nothing is reported of updates that are taken back before the request ends.
    pub fn set_journal(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    pub(super) fn report(&mut self, entry: impl FnOnce(&Cluster) -> Entry) {
        if let Some(mut journal) = self.journal.take() {
            journal(entry(self));
            self.journal = Some(journal);
        }
    }

    pub(super) fn name_of(&self, pod: &PreparedPod) -> NamespacedName {
        NamespacedName::new(self.state.symbols.text(pod.namespace), pod.name())
    }

    pub(super) fn assumed(
        &self,
        pod: &PreparedPod,
        node: &str,
        volumes: &VolumeDecision,
    ) -> Box<AssumedVolumes> {
        Box::new(AssumedVolumes { pod: self.name_of(pod), node: node.to_owned(), volumes: volumes.clone() })
    }

    /// A group as it is recorded.
    pub fn recorded_group(&self, name: &str, group: &Group<'_>) -> Box<RecordedGroup> {
        let level = |level: &GroupLevel<'_>| (level.rule.clone(), level.value.map(str::to_owned));
        Box::new(RecordedGroup {
            group: name.to_owned(),
            pods: group.members.iter().map(|pod| self.name_of(pod)).collect(),
            min: group.min,
            levels: group.levels.iter().map(level).collect(),
            composite: group.composite.cloned(),
        })
    }

    /// A node with those of its annotations that the state keeps.
    pub(super) fn node_as_kept(&self, node: &Node) -> Node {
        let kept = self.attributes_to_keep(node);
        let mut node = node.clone();
        node.metadata.annotations.retain(|key, _| kept.iter().any(|(k, _)| *k == annotation_key(key)));
        node
    }

    pub(super) fn report_owner(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        selector: Option<&Selector>,
    ) {
        self.report(|_| {
            Entry::Owner(Box::new(JournaledOwnerSelector {
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                selector: selector.and_then(Selector::to_api),
                removed: selector.is_none(),
            }))
        });
    }
}

impl Outcome {
    /// As it is recorded.
    pub fn recorded(&self, pod: NamespacedName) -> RecordedDecision {
        let score = match self {
            Outcome::Placed { score, .. } => *score,
            _ => None,
        };
        let node = self.node().map(str::to_owned);
        RecordedDecision { pod, node, score, message: self.message().into_owned() }
    }
}

impl Preemption {
    /// As it is recorded.
    pub fn recorded(&self, pod: NamespacedName) -> JournaledPreemption {
        let (node, victims) = match self {
            Preemption::Victims(victims) => (Some(victims.node.clone()), victims.victims.clone()),
            _ => (None, Vec::new()),
        };
        JournaledPreemption { pod, node, victims, message: self.message().unwrap_or_default() }
    }
}

impl GroupOutcome {
    /// As it is recorded.
    pub fn recorded(&self, group: &Group<'_>) -> GroupResult {
        match self {
            GroupOutcome::Placed { members, .. } => {
                let nodes = members.iter().map(|outcome| outcome.node().map(str::to_owned)).collect();
                GroupResult { nodes, ..GroupResult::default() }
            }
            GroupOutcome::Unplaced(failure) => {
                GroupResult { message: failure.message(group), ..GroupResult::default() }
            }
        }
    }
}

impl GroupVictims {
    /// As they are recorded; none if no eviction helps.
    pub fn recorded(found: Option<&GroupVictims>) -> GroupResult {
        found.map_or_else(GroupResult::default, |GroupVictims { nodes, victims, .. }| GroupResult {
            nodes: nodes.clone(),
            victims: victims.clone(),
            message: String::new(),
        })
    }
}

impl From<&Settings> for RecordedSettings {
    fn from(settings: &Settings) -> RecordedSettings {
        // The other fields are about the process, and not about decisions.
        let SchedulerConfig { profiles, feature_gates, .. } = settings.config.clone();
        RecordedSettings {
            config: SchedulerConfig { profiles, feature_gates, ..SchedulerConfig::default() }.to_value(),
            extensions: settings.extensions,
            kubernetes: Some(feature_gates.version),
            feature_gates: feature_gates.names().into_iter().map(str::to_owned).collect(),
            exempt_namespaces: settings.exempt_namespaces.clone(),
            exempt_from_v1: settings.exempt_from_v1,
            all_topologies: settings.all_topologies.clone(),
        }
    }
}

impl TryFrom<&RecordedSettings> for Settings {
    type Error = ConfigErrors;

    /// # Errors
    /// The configuration is invalid.
    fn try_from(recorded: &RecordedSettings) -> Result<Settings, ConfigErrors> {
        let feature_gates = FeatureGates::of_names(
            recorded.kubernetes.unwrap_or(KubernetesVersion::V1_36),
            &recorded.feature_gates,
        );
        let (config, _) = SchedulerConfig::read_with(&recorded.config, recorded.extensions, feature_gates)?;
        Ok(Settings {
            device_work: DeviceWork::default(),
            config,
            extensions: recorded.extensions,
            exempt_namespaces: recorded.exempt_namespaces.clone(),
            exempt_from_v1: recorded.exempt_from_v1,
            all_topologies: recorded.all_topologies.clone(),
            // Nodes are recorded with what rules mention, again whenever that changes.
            all_node_attributes: false,
        })
    }
}
