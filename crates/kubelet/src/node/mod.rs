//! Nodes as the API sees them.

mod lease;
mod record;
mod template;

pub(crate) use lease::{LEASE_NAMESPACE, new_lease, renewal};
pub(crate) use record::{
    NodeView, heartbeat_status, may_label_itself, needs_status, new_node, takeover_labels,
};
pub use template::{NodeTemplate, NodeTemplateError};
