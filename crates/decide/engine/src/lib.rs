//! Berth's placement engine: cluster state, rules, verdicts and decisions.
//!
//! A [`Cluster`] receives nodes, namespaces, services and assigned pods in any order. It decides where a pod fits
//! ([`Cluster::decide`], [`Cluster::place`]) and explains why ([`Cluster::evaluate`], [`Cluster::explain`]).
//!
//! - **Units:** CPU in milli-CPU, memory and storage in bytes, other resources in units, times in seconds since 1970,
//!   scores as 0 to 100 times the weight of the plugin.
//! - **Guarantees:** the same state and pod give the same decision on every machine: the highest score, then the first
//!   node name. Decisions, scores and messages equal those of kube-scheduler. All nodes are considered.
//! - **Errors:** there are none. "Does not fit" is a value ([`Outcome`]). The engine expects admitted pods.
//!
//! It has no clock, does no I/O, draws no random numbers, and never reads the text of objects.

#![warn(missing_docs)]

mod cluster;
mod cycle;
mod decision;
mod device;
mod explain;
mod group;
mod moves;
mod node_admission;
mod plugins;
mod preemption;
mod state;
mod verdict;
mod view;
mod violation;
mod volume;
mod wake;

pub use cluster::{Cluster, Journal, Moves, RelaxedPod, SkewedConstraint, SpreadDomains};
pub use cycle::equivalence::Equivalence;
pub use decision::timing::{Stage, StageTime};
pub use decision::{DevicePostFilter, Evaluation, NodeEvaluation, NodeScore, Outcome};
pub use device::{DeviceModel, DevicesOfNode, PublishedDevice};
pub use explain::blast_radius::{BlastRadius, Reach, TermRadius};
pub use explain::opportunity_cost::OpportunityCost;
pub use explain::{
    DomainSummary, ExcludedNodes, Explanation, FeasibleNodes, MAX_BOTTLENECK, PluginScore, ScorePart,
    TermSummary,
};
pub use group::{Group, GroupLevel, GroupOutcome, GroupVictims, MemberFailure};
pub use moves::Standing;
pub use node_admission::NodeRejection;
pub use plugins::reads_volumes;
pub use preemption::{DisruptionBudget, NotEligible, Preemption, Victims};
pub use state::group::GroupDisruption;
pub use state::pod::prepared::PreparedPod;
pub use state::{DeviceWork, MAX_ALL_TOPOLOGIES, Settings};
pub use verdict::{Counts, ExcludedDevices, Rejection, Status, TopologyPair, Verdict, ViolatedRule, Witness};
pub use violation::{
    Remedies, Remedy, RemedyOptions, Stays, Target, Victim, Violation, ViolationChanges, ViolationKey,
};
pub use wake::{ClusterChange, WakeConditions};

/// The Rust code of docs/embedding.md, as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/embedding.md")]
struct EmbeddingGuide;
