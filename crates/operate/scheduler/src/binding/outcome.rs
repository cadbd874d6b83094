//! The end of what is written before a pod is bound.

use crate::completion::Binding;

/// How the wait of a pod ended.
pub(crate) enum PreBindOutcome {
    /// Its volumes or its claims are bound.
    Bound(Binding),
    /// They are not, for this reason.
    Failed(Binding, String),
    /// Nothing more may be sent. The pod goes back to the queue as if nothing had been tried.
    NotSent(Binding),
}
