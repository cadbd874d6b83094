//! The state of a cluster and its indexes: what the rules read.

pub(crate) mod change;
pub(crate) mod class;
pub(crate) mod cluster;
pub(crate) mod compile;
pub(crate) mod counter;
pub(crate) mod counting;
pub(crate) mod identity;
pub(crate) mod image;
pub(crate) mod incoming;
pub(crate) mod intern;
pub(crate) mod matcher;
pub(crate) mod name_order;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod node_condition;
pub(crate) mod pod;
pub(crate) mod profile;
pub(crate) mod selector;
pub(crate) mod topology;
pub(crate) mod uid;
pub(crate) mod witness;
pub(crate) mod workload;
