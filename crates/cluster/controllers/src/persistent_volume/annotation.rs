//! Annotations of bound claims and volumes.

/// Annotation of a claim whose binding is complete.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation of an object that this controller, not a user, bound to the other one.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation of a volume with the name of the provisioner that created it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
