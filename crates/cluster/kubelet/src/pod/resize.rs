//! The state of an in-place resize of a pod's containers.

use berth_api::object::ResourceRequirements;
use jiff::Timestamp;

/// Conditions of a pod that exist only during a resize.
pub(crate) const RESIZE_CONDITIONS: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

/// Why a node has not allocated the resources that a pod requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PendingResize {
    /// The node is too small.
    Infeasible(String),
    /// Other pods use the resources now.
    Deferred(String),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Resize {
    pub(super) pending: Option<PendingResize>,
    /// When the condition of the resize last changed.
    pub(super) changed: Timestamp,
    /// The resources of the containers, then of the init containers, that are in force while the allocated ones are not.
    pub(super) in_force: Option<Vec<ResourceRequirements>>,
    /// Whether the pod was ever resized: its status then has to remove conditions.
    pub(super) was_requested: bool,
}
