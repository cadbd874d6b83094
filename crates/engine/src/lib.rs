//! Berth's placement engine: cluster state, rules, verdicts and decisions.
//!
//! A [`Cluster`] is fed nodes, namespaces, services and assigned pods in any order; it answers where a
//! pod goes ([`Cluster::decide`], [`Cluster::place`]) and why ([`Cluster::evaluate`]). It has no clock,
//! does no I/O, draws no random numbers, and cannot fail: "does not fit" is a value.

mod blast_radius;
mod cluster;
mod context;
mod decision;
mod equivalence;
mod explain;
mod feasibility;
mod node_admission;
mod nomination;
mod plugins;
mod preemption;
mod state;
mod verdict;
mod view;
mod violation;
mod wake;
mod what_if;
mod witness;

pub use blast_radius::{BlastRadius, Reach, TermRadius};
pub use cluster::Cluster;
pub use decision::{Evaluation, NodeEvaluation, NodeScore, Outcome};
pub use equivalence::Equivalence;
pub use explain::{
    DomainSummary, ExcludedNodes, Explanation, FeasibleNodes, MAX_BOTTLENECK, PluginScore, ScorePart,
    TermSummary,
};
pub use node_admission::NodeRejection;
pub use preemption::{DisruptionBudget, Preemption, Victims};
pub use state::prepared::PreparedPod;
pub use state::{MAX_ALL_TOPOLOGIES, Settings};
pub use verdict::{Counts, Rejection, Status, TopologyPair, Verdict, Witness};
pub use violation::{
    Remedies, Remedy, RemedyOptions, Stays, Target, Victim, ViolatedRule, Violation, ViolationChanges,
    ViolationKey,
};
pub use wake::{ClusterChange, WakeConditions};

/// The Rust code of docs/embedding.md, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct EmbeddingGuide;
