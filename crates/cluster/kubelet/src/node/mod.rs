//! The API objects of a simulated node.

mod csi_node;
mod lease;
mod record;
mod template;

pub use csi_node::CsiDriverTemplate;
pub(crate) use csi_node::new_csi_node;
pub(crate) use lease::{LEASE_NAMESPACE, new_lease, renewal};
pub(crate) use record::{
    NodeView, heartbeat_status, may_set_own_labels, missing_labels, needs_status, new_node,
};
pub use template::{NodeTemplate, NodeTemplateError};
