//! Claims.

use std::sync::Arc;

use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION, PersistentVolumeClaim, SELECTED_NODE_ANNOTATION, STORAGE,
};
use berth_api::syntax::quantity::Quantity;
use berth_rules::Selector;

use crate::state::pod::uid::Uid;

/// A claim, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClaimRecord {
    pub(crate) uid: Uid,
    /// The pod (or other object) that controls it.
    pub(crate) controller: Option<Uid>,
    pub(crate) class: Box<str>,
    /// The volume that it is bound to or asks for; empty for none.
    pub(crate) volume: Box<str>,
    pub(crate) is_lost: bool,
    pub(crate) is_deleting: bool,
    /// Whether one pod at a time may use it.
    pub(crate) is_for_one_pod: bool,
    /// `volume` is set, and binding is completed.
    pub(crate) is_bound: bool,
    /// The node that its volume is to be provisioned for, as written.
    pub(crate) selected_node: Option<Box<str>>,
    /// The same as assumed.
    pub(crate) assumed_node: Option<Box<str>>,
    /// The size; none if the claim requests none.
    pub(crate) requested: Option<Quantity>,
    pub(crate) needs: Arc<Needs>,
    resource_version: Box<str>,
}

/// What a volume must have to be bound to the claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Needs {
    pub(crate) class: Box<str>,
    /// The size; 0 if the claim requests none.
    pub(crate) size: Quantity,
    pub(crate) access_modes: Vec<String>,
    /// None if it selects by nothing.
    pub(crate) selector: Option<Selector>,
    pub(crate) is_block: bool,
    pub(crate) attributes_class: Box<str>,
}

impl Needs {
    pub(crate) fn differs_in_size_alone(&self, other: &Needs) -> bool {
        Needs { size: self.size, ..other.clone() } == *self
    }
}

pub(super) fn is_block(volume_mode: Option<&str>) -> bool {
    volume_mode == Some("Block")
}

impl ClaimRecord {
    pub(super) fn compile(claim: &PersistentVolumeClaim) -> ClaimRecord {
        let PersistentVolumeClaim { metadata, spec, status } = claim;
        let requested = spec.resources.requests.get(STORAGE).copied();
        let needs = Needs {
            class: claim.storage_class().into(),
            size: requested.unwrap_or_default(),
            access_modes: spec.access_modes.clone(),
            selector: spec.selector.as_ref().map(|selector| {
                // The API server rejects selectors that do not parse.
                Selector::parse(Some(selector)).unwrap_or(Selector::Nothing)
            }),
            is_block: is_block(spec.volume_mode.as_deref()),
            attributes_class: spec.volume_attributes_class_name.as_deref().unwrap_or_default().into(),
        };
        ClaimRecord {
            uid: Uid::new(&metadata.uid),
            controller: metadata.controller().map(|owner| Uid::new(&owner.uid)),
            class: claim.storage_class().into(),
            volume: spec.volume_name.as_str().into(),
            is_lost: status.phase == "Lost",
            is_deleting: metadata.is_deleting(),
            is_for_one_pod: spec.access_modes.iter().any(|mode| mode == "ReadWriteOncePod"),
            is_bound: !spec.volume_name.is_empty()
                && metadata.annotations.contains_key(BIND_COMPLETED_ANNOTATION),
            selected_node: metadata.annotation(SELECTED_NODE_ANNOTATION).map(Into::into),
            assumed_node: None,
            requested,
            needs: Arc::new(needs),
            resource_version: metadata.resource_version.as_str().into(),
        }
    }

    /// The node that its volume is to be provisioned for.
    pub(crate) fn selected_node(&self) -> Option<&str> {
        self.assumed_node.as_deref().or(self.selected_node.as_deref())
    }

    /// Takes over what is assumed of an earlier version of the object, if this is no newer one.
    pub(super) fn keep_assumption(&mut self, before: &ClaimRecord) {
        let assumed_node = before.assumed_node.clone();
        if self.resource_version.is_empty() {
            let unchanged = ClaimRecord { assumed_node: assumed_node.clone(), ..self.clone() } == *before;
            self.assumed_node = assumed_node.filter(|_| unchanged);
        } else if self.resource_version == before.resource_version {
            self.assumed_node = assumed_node;
        }
    }
}
