//! Annotations of bound claims and volumes.

pub(super) use berth_api::object::volume::{
    BIND_COMPLETED_ANNOTATION as BIND_COMPLETED, BOUND_BY_CONTROLLER_ANNOTATION as BOUND_BY_CONTROLLER,
};

/// Annotation of a volume with the name of the provisioner that created it.
pub(crate) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
