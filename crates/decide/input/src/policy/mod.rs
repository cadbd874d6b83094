//! Placement rules that policies add to pods: `PlacementPolicy` and `ClusterPlacementPolicy`. Label keys that pods must carry:
//! [`RequiredLabels`].
//!
//! A policy selects pods and has the rules in the fields of a pod's specification. [`PolicySet::apply`] adds the rules of
//! all policies that select a new pod, in a fixed order. It is a pure function of the pod, the policies and the labels of
//! namespaces; it changes only new pods, not running ones.

mod apply;
mod merge;
mod object;
mod read;
mod required_labels;
mod set;

pub use apply::{Applied, PodChange, changes};
pub use object::{APPLIED_ANNOTATION, Mode, PlacementPolicy, PlacementPolicySpec};
pub use required_labels::{RequiredLabels, missing_labels_message};
pub use set::{APPLY_STEPS, PolicySet};

#[cfg(test)]
mod tests;
