//! Persistent volumes.

use std::sync::Arc;

use berth_api::object::volume::PersistentVolume;
use berth_api::object::{NodeSelector, Shared, StringMap};
use berth_api::syntax::quantity::Quantity;
use berth_rules::volume::{InTreePlugin, VOLUME_ZONE_LABELS, zones_of_label};
use berth_rules::{Dialect, NodeRequirement, NodeTerm, Requirement};

use super::claim::{ClaimRecord, Needs, is_block};
use super::pod_volumes::ClaimKey;
use crate::state::interned::intern::{Symbol, Symbols};
use crate::state::node::condition::NodeSelectorMatcher;
use crate::state::pod::uid::Uid;

/// A persistent volume, as far as decisions depend on it. A user of its symbols.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct VolumeRecord {
    pub(crate) class: Box<str>,
    pub(crate) offer: Arc<Offer>,
    is_available: bool,
    is_deleting: bool,
    /// The claim in `claimRef`.
    claim: Option<(ClaimKey, Uid)>,
    /// The claim that it is assumed to be bound to.
    pub(crate) assumed: Option<(ClaimKey, Uid)>,
    /// What VolumeZone requires of the labels of nodes.
    pub(crate) zones: Box<[ZoneRule]>,
    pub(crate) source: Source,
    resource_version: Box<str>,
}

/// What a volume of a class offers to claims, but for its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Offer {
    pub(crate) capacity: Quantity,
    access_modes: Vec<String>,
    is_block: bool,
    attributes_class: Box<str>,
    labels: Shared<StringMap>,
    /// The nodes that can use it; none for all.
    pub(crate) affinity: Option<Arc<NodeSelectorMatcher>>,
}

/// A node label that a volume restricts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ZoneRule {
    pub(crate) key: Symbol,
    /// The label that counts where the node lacks the first.
    pub(crate) or_key: Symbol,
    pub(crate) values: Box<[Symbol]>,
}

/// Who attaches the volume.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Csi {
        driver: Arc<str>,
        handle: Box<str>,
    },
    /// A disk that a CSI driver serves where its plugin is migrated; the affinity is the one that counts there.
    InTree {
        plugin: InTreePlugin,
        handle: Box<str>,
        affinity: Option<Arc<NodeSelectorMatcher>>,
    },
    Other,
}

impl VolumeRecord {
    pub(super) fn compile(symbols: &mut Symbols, volume: &PersistentVolume) -> VolumeRecord {
        let PersistentVolume { metadata, spec, status } = volume;
        let claim = spec.claim_ref.as_ref().map(|claim| {
            ((symbols.intern(&claim.namespace), claim.name.as_str().into()), Uid::new(&claim.uid))
        });
        let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
        let affinity = required.map(|selector| affinity(symbols, selector));
        let source = match &spec.csi {
            Some(csi) => {
                Source::Csi { driver: csi.driver.as_str().into(), handle: csi.volume_handle.as_str().into() }
            }
            None => match InTreePlugin::of_disk(spec.in_tree_disks(), &metadata.labels) {
                Some((plugin, handle)) => {
                    let selector = plugin.translated_node_affinity(volume);
                    let affinity = selector.map(|selector| self::affinity(symbols, &selector));
                    Source::InTree { plugin, handle: handle.into(), affinity }
                }
                None => Source::Other,
            },
        };
        let mut zones = Vec::new();
        for (key, or_key) in VOLUME_ZONE_LABELS {
            if let Some(values) = metadata.label(key).and_then(zones_of_label) {
                let mut values: Box<[_]> = values.into_iter().map(|value| symbols.intern(value)).collect();
                values.sort_unstable();
                zones.push(ZoneRule { key: symbols.intern(key), or_key: symbols.intern(or_key), values });
            }
        }
        let offer = Offer {
            capacity: volume.capacity(),
            access_modes: spec.access_modes.clone(),
            is_block: is_block(spec.volume_mode.as_deref()),
            attributes_class: spec.volume_attributes_class_name.as_deref().unwrap_or_default().into(),
            labels: metadata.labels.clone(),
            affinity,
        };
        VolumeRecord {
            class: volume.storage_class().into(),
            offer: Arc::new(offer),
            is_available: status.phase == "Available",
            is_deleting: metadata.is_deleting(),
            claim,
            assumed: None,
            zones: zones.into(),
            source,
            resource_version: metadata.resource_version.as_str().into(),
        }
    }

    /// The symbols that it uses, but for that of an assumed claim, which the claim has.
    pub(super) fn symbols(&self) -> Vec<Symbol> {
        let mut symbols: Vec<_> = self.claim.iter().chain(&self.assumed).map(|(key, _)| key.0).collect();
        let translated = match &self.source {
            Source::InTree { affinity, .. } => affinity.as_ref(),
            _ => None,
        };
        symbols.extend(self.offer.affinity.iter().chain(translated).flat_map(|affinity| affinity.symbols()));
        symbols.extend(self.zones.iter().flat_map(|rule| [rule.key, rule.or_key]));
        symbols.extend(self.zones.iter().flat_map(|rule| rule.values.iter().copied()));
        symbols
    }

    /// The claim that it belongs to or is reserved for; its uid is empty before they are bound.
    pub(crate) fn claim(&self) -> Option<&(ClaimKey, Uid)> {
        self.assumed.as_ref().or(self.claim.as_ref())
    }

    /// Whether any claim may be bound to it that needs such a volume.
    pub(super) fn is_free(&self) -> bool {
        self.is_available && !self.is_deleting && self.claim().is_none()
    }

    /// Whether it belongs to a claim or is reserved for it.
    pub(crate) fn is_for(&self, key: &ClaimKey, claim: &ClaimRecord) -> bool {
        self.claim().is_some_and(|(of, uid)| of == key && (*uid == Uid::default() || *uid == claim.uid))
    }

    /// Whether a volume that is reserved for the claim can be bound to it.
    pub(crate) fn suffices(&self, needs: &Needs) -> bool {
        let Offer { capacity, is_block, attributes_class, .. } = &*self.offer;
        *capacity >= needs.size
            && *is_block == needs.is_block
            && *attributes_class == needs.attributes_class
            && !self.is_deleting
    }

    /// Whether a free volume of the class of the claim can be bound to it.
    pub(crate) fn matches(&self, needs: &Needs) -> bool {
        let label = |key: &str| self.offer.labels.get(key).map(String::as_str);
        self.suffices(needs)
            && needs.selector.as_ref().is_none_or(|selector| selector.matches(label))
            && needs.access_modes.iter().all(|mode| self.offer.access_modes.contains(mode))
    }

    /// Takes over what is assumed of an earlier version of the object, if this is no newer one.
    pub(super) fn keep_assumption(&mut self, before: &VolumeRecord) {
        let assumed = before.assumed.clone();
        if self.resource_version.is_empty() {
            let unchanged = VolumeRecord { assumed: assumed.clone(), ..self.clone() } == *before;
            self.assumed = assumed.filter(|_| unchanged);
        } else if self.resource_version == before.resource_version {
            self.assumed = assumed;
        }
    }
}

/// A volume's node affinity reads labels only: fields of nodes are as if they were empty.
fn affinity(symbols: &mut Symbols, selector: &NodeSelector) -> Arc<NodeSelectorMatcher> {
    let parse = |term| match NodeTerm::parse(term, Dialect::V1) {
        NodeTerm::All(mut requirements) => {
            let names_node = |r: &NodeRequirement| matches!(r, NodeRequirement::Name(Requirement::In(..)));
            if requirements.iter().any(names_node) {
                return NodeTerm::Nothing;
            }
            requirements.retain(|requirement| matches!(requirement, NodeRequirement::Label(_)));
            NodeTerm::All(requirements)
        }
        term => term,
    };
    let terms: Vec<_> = selector.node_selector_terms.iter().map(parse).collect();
    Arc::new(NodeSelectorMatcher::compile(symbols, &terms))
}
