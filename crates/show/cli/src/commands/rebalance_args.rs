//! Flags of what the enforcer rebalances.

use std::time::Duration;

use berth_enforcer::RebalanceOptions;
use berth_rebalance::{Goal, Movable, Request};
use jiff::{SignedDuration, Timestamp};

use super::node_args::duration;
use super::rebalance::{parse_selector, unrepeated};
use crate::error::CliError;

/// What is rebalanced.
#[derive(Debug, clap::Args)]
pub struct RebalanceArgs {
    /// Also move running pods, one at a time, so that the cluster is better by these goals, separated by commas, the most
    /// important first: required, defragment, spread, preferences, consolidate, balance
    #[arg(long, value_name = "GOALS", value_delimiter = ',', value_parser = str::parse::<Goal>)]
    rebalance: Vec<Goal>,
    /// How long after a plan without moves the next one is made, if no node changes
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration, requires = "rebalance")]
    rebalance_interval: Duration,
    /// Only pods in namespaces with these labels are moved, such as team=shop,stage!=prod
    #[arg(long, value_name = "SELECTOR", requires = "rebalance")]
    rebalance_namespace_selector: Option<String>,
    /// Also move pods with local storage (emptyDir, hostPath): its contents are lost
    #[arg(long, requires = "rebalance")]
    rebalance_local_storage: bool,
    /// A pod that started less than this ago is not moved
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, requires = "rebalance")]
    rebalance_settle: Duration,
    /// Percentage of CPU or memory requested above which `balance` counts a node
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=100), requires = "rebalance")]
    rebalance_threshold: u32,
    /// Node label with the price of the node, by which `consolidate` weighs nodes [default: each node counts 1]
    #[arg(long, value_name = "KEY", requires = "rebalance")]
    rebalance_price_label: Option<String>,
}

impl RebalanceArgs {
    /// The options, if anything is rebalanced. The schedulers of these names put a replacement where its move says.
    pub fn options(&self, following_schedulers: &[String]) -> Result<Option<RebalanceOptions>, CliError> {
        if self.rebalance.is_empty() {
            return Ok(None);
        }
        let selector = self.rebalance_namespace_selector.as_ref();
        let request = Request {
            movable: Movable {
                with_local_storage: self.rebalance_local_storage,
                namespaces: parse_selector("--rebalance-namespace-selector", selector)?,
                settle: SignedDuration::try_from(self.rebalance_settle).unwrap_or(SignedDuration::MAX),
            },
            threshold: self.rebalance_threshold,
            price_label: self.rebalance_price_label.clone(),
            ..Request::new(unrepeated("--rebalance", &self.rebalance)?, Timestamp::UNIX_EPOCH)
        };
        Ok(Some(RebalanceOptions {
            interval: self.rebalance_interval,
            following_schedulers: following_schedulers.to_vec(),
            ..RebalanceOptions::new(request)
        }))
    }
}
