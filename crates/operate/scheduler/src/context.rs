//! What scheduling attempts and their results change together.

use crate::pending::PendingPods;
use crate::state::State;

/// The state of the cluster, and the pods that wait for a node.
pub(crate) struct Context {
    pub(crate) state: State,
    pub(crate) pending: PendingPods,
}
