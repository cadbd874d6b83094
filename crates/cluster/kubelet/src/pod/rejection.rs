//! The rejection of a pod by its node.

/// Why a node rejects a pod: `status.reason` and `status.message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    /// One word, such as `NodeAffinity` or `OutOfcpu`.
    pub(crate) reason: String,
    pub(crate) message: String,
}
