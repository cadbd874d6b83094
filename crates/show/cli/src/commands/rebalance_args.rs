//! Flags of what the enforcer rebalances.

use std::time::Duration;

use berth_enforcer::RebalanceOptions;
use berth_input::inventory::Inventory;
use berth_rebalance::descheduler::Translation;
use berth_rebalance::{Goal, Movable, Request, Threshold};
use berth_rules::Selector;
use berth_terminal::output;
use clap::ArgGroup;
use jiff::{SignedDuration, Timestamp};

use super::node_args::duration;
use super::policy_file::read_descheduler_policy;
use super::rebalance::unrepeated;
use crate::error::CliError;

/// The group of the flags without which nothing is rebalanced.
pub const REBALANCING: &str = "rebalancing";

/// What is rebalanced.
#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new(REBALANCING).args(["rebalance", "descheduler_policy"])))]
pub struct RebalanceArgs {
    /// Also move running pods, one at a time, so that the cluster is better by these goals, separated by commas, the most
    /// important first: required, defragment, spread, preferences, consolidate, balance
    #[arg(long, value_name = "GOALS", value_delimiter = ',', value_parser = str::parse::<Goal>)]
    rebalance: Vec<Goal>,
    /// Rebalance as a policy of the descheduler says (descheduler/v1alpha2). Notes say what becomes of each of its fields
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rebalance", "rebalance_namespace_selector", "rebalance_local_storage", "rebalance_settle", "rebalance_threshold"])]
    descheduler_policy: Option<String>,
    /// How long after a plan without moves the next one is made, if no node changes
    #[arg(long, value_name = "DURATION", default_value = "5m", requires = REBALANCING, value_parser = duration)]
    rebalance_interval: Duration,
    /// Only pods in namespaces with these labels are moved, such as team=shop,stage!=prod
    #[arg(long, value_name = "SELECTOR", requires = "rebalance", value_parser = str::parse::<Selector>)]
    rebalance_namespace_selector: Option<Selector>,
    /// Also move pods with local storage (emptyDir, hostPath): its contents are lost
    #[arg(long, requires = "rebalance")]
    rebalance_local_storage: bool,
    /// A pod that started less than this ago is not moved
    #[arg(long, value_name = "DURATION", default_value = "10m", requires = "rebalance", value_parser = duration)]
    rebalance_settle: Duration,
    /// Percentage of CPU or memory requested above which `balance` counts a node, or one of each, such as cpu=60,memory=70
    #[arg(long, value_name = "PERCENT", default_value_t = Threshold::default(), requires = "rebalance", value_parser = str::parse::<Threshold>)]
    rebalance_threshold: Threshold,
    /// Node label with the price of the node, by which `consolidate` weighs nodes [default: each node counts 1]
    #[arg(long, value_name = "KEY", requires = REBALANCING)]
    rebalance_price_label: Option<String>,
}

impl RebalanceArgs {
    /// The options, if anything is rebalanced. The schedulers of these names put a replacement where its move says.
    pub fn options(&self, following_schedulers: &[String]) -> Result<Option<RebalanceOptions>, CliError> {
        let request = match &self.descheduler_policy {
            Some(file) => {
                // Priority classes are not known before the cluster is.
                let Translation { request, notes } = read_descheduler_policy(file, &Inventory::default())?;
                notes.iter().for_each(output::note);
                request
            }
            None if self.rebalance.is_empty() => return Ok(None),
            None => self.request()?,
        };
        Ok(Some(RebalanceOptions {
            interval: self.rebalance_interval,
            following_schedulers: following_schedulers.to_vec(),
            ..RebalanceOptions::new(Request { price_label: self.rebalance_price_label.clone(), ..request })
        }))
    }

    fn request(&self) -> Result<Request, CliError> {
        let movable = Movable {
            with_local_storage: self.rebalance_local_storage,
            namespaces: self.rebalance_namespace_selector.clone(),
            settle: SignedDuration::try_from(self.rebalance_settle).unwrap_or(SignedDuration::MAX),
            ..Movable::default()
        };
        let request = Request::new(unrepeated("--rebalance", &self.rebalance)?, Timestamp::UNIX_EPOCH);
        Ok(Request { movable, threshold: self.rebalance_threshold, ..request })
    }
}
