//! The two dialects of affinity.

/// Which document gives a field its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// Kubernetes' v1 API.
    V1,
    Proposal,
}
