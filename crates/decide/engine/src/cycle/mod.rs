//! One scheduling cycle: what the rules read for one pod.

pub(crate) mod context;
pub(crate) mod equivalence;
pub(crate) mod nomination;
pub(crate) mod what_if;
