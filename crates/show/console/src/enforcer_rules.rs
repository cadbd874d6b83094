//! What the enforcer adds to the answers of the engine.

use std::time::Duration;

use berth_api::object::Pod;
use berth_engine::{Remedy, RemedyOptions, ViolatedRule};
use berth_simulate::Simulation;
use jiff::Timestamp;

/// What the enforcer adds to the answers of the engine; a server that has the enforcer gives it.
#[derive(Clone, Copy)]
pub struct EnforcerRules {
    /// Why the default limits delay each of these evictions.
    pub delays: fn(&Simulation, &[&Remedy]) -> Vec<Option<String>>,
    /// How it looks for evictions at a time, if that is known: which pods are held no longer without a feasible node.
    pub remedy_options: fn(&Simulation, Option<Timestamp>) -> RemedyOptions,
    /// Leaves out the held pods whose eviction would fix no rule, since others stay.
    pub leave_out_blocked: fn(&Simulation, &mut Vec<Remedy>),
    /// Namespace and name of the pods that are evicted at some time, although no node is feasible for them.
    pub evicted_without_target: fn(&Simulation) -> Vec<(String, String)>,
    /// Until when each of these pods without a feasible node is held.
    pub held: fn(&Simulation, &[&Remedy]) -> Vec<String>,
    /// How long a rule of a pod may be broken before an eviction.
    pub grace: fn(&Pod, ViolatedRule) -> Duration,
    /// What the limits count by a ledger at a time, as the enforcer has it by default; or why the ledger cannot be read.
    pub limits: fn(&Simulation, &str, Timestamp) -> Result<LimitsInUse, String>,
}

#[derive(Clone, Debug, Default)]
pub struct LimitsInUse {
    /// Until when the cluster limit stops all evictions.
    pub stopped_until: Option<Timestamp>,
    /// What is limited, the evictions within the window, how many are allowed, and when the oldest counts no more.
    pub limits: Vec<(String, usize, Option<usize>, Timestamp)>,
}
