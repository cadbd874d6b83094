//! Options of rebalancing.

use std::time::Duration;

use berth_rebalance::Request;

/// What is rebalanced, and how.
#[derive(Clone, Debug)]
pub struct RebalanceOptions {
    /// The goals, which pods may move, and the limits of the search. Its time is not read.
    pub request: Request,
    /// How long after a plan without moves the next one is made, if no node changes.
    pub interval: Duration,
    /// How long an evicted pod may be there, and then its replacement may take until it is ready.
    pub step_timeout: Duration,
    /// The scheduler names of pods whose scheduler puts a replacement where the move says: Berth's scheduler. Pods of others
    /// are moved only where their scheduler would put them anyway.
    pub following_schedulers: Vec<String>,
}

impl RebalanceOptions {
    /// The defaults, for a request.
    pub fn new(request: Request) -> RebalanceOptions {
        RebalanceOptions {
            request,
            interval: Duration::from_secs(300),
            step_timeout: Duration::from_secs(300),
            following_schedulers: vec!["berth".to_owned()],
        }
    }
}
