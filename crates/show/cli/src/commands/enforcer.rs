//! `berth enforcer`.

use std::time::Duration;

use berth_enforcer::{EnforcerOptions, Graces, LimitOptions};
use berth_engine::Settings;
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;

use super::cache_args::CacheArgs;
use super::connection_args::ConnectionArgs;
use super::hold_args::HoldArgs;
use super::lease_args::{LeaseArgs, identity};
use super::node_args::duration;
use super::rebalance_args::{REBALANCING, RebalanceArgs};
use super::rules_args::RulesArgs;
use super::serving_args::{ServingArgs, note_addresses};
use crate::cluster::log::LogArgs;
use crate::error::CliError;

/// Default name of the Lease.
const LEASE: &str = "berth-enforcer";

/// Evict running pods that violate rules required during execution
///
/// The enforcer evicts a pod if a rule has been violated for its grace period, the eviction fixes the rule, the pod fits on
/// another node with all its rules or has waited long enough for such a node, its PodDisruptionBudget allows the eviction, and no eviction limit is reached. If it
/// does not evict a pod, an event says why. With --rebalance it also carries out the plans of `berth rebalance`, one move at a time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth enforcer --dry-run
  berth enforcer --context staging --protected-namespaces monitoring
  berth enforcer --rebalance required,spread --dry-run
  berth enforcer --leader-elect --secure-port 10260 --max-cluster-share 5%

Annotations of a pod: scheduling.berth.dev/eviction-grace is its grace period, for example 90s;
scheduling.berth.dev/without-target says what happens if no node is feasible: evict, hold, or a duration.

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 invalid input or usage, or the enforcer cannot continue

See docs/enforcer.md and docs/rebalance.md for the behavior, and docs/metrics.md for the metrics.")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Log which pods would be evicted; evict no pod and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Grace period of node affinity rules: how long a violation lasts before an eviction
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    node_affinity_grace: Duration,
    /// Grace period of pod affinity rules
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pod_affinity_grace: Duration,
    /// Grace period of pod anti-affinity rules
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pod_anti_affinity_grace: Duration,
    #[command(flatten)]
    hold: HoldArgs,
    /// Never evict pods of these namespaces, separated by commas
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    protected_namespaces: Vec<String>,
    /// Length of the sliding window for eviction limits
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    window: Duration,
    /// Maximum number of evictions per second
    #[arg(long, value_name = "RATE", default_value_t = 5.0, value_parser = rate)]
    evictions_per_second: f64,
    /// Maximum number of evictions from one node within the window
    #[arg(long, value_name = "N", default_value_t = 10)]
    max_evictions_per_node: u32,
    /// Maximum number of evictions in one namespace within the window
    #[arg(long, value_name = "N", default_value_t = 100)]
    max_evictions_per_namespace: u32,
    /// Maximum share of the cluster's pods that may be evicted within the window, at least 5 pods
    ///
    /// If more pods would be evicted, all evictions stop for the length of a window. 100% disables the limit.
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = share)]
    max_cluster_share: f64,
    /// Maximum share of one workload's pods that may be evicted within the window, at least 1 pod; 100% disables the limit
    #[arg(long, value_name = "PERCENT", default_value = "50%", value_parser = share)]
    max_workload_share: f64,
    /// Maximum number of consecutive evictions of a workload's pods for the same rule if the new pods violate it again
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    max_repeats: u32,
    /// Length of the window for --max-repeats
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    repeat_window: Duration,
    /// Namespace of the ConfigMap `berth-enforcer`, which records evictions [default: namespace of the Lease]
    #[arg(long, value_name = "NAMESPACE")]
    ledger_namespace: Option<String>,
    #[command(flatten)]
    rebalance: RebalanceArgs,
    /// The names of schedulers that are Berth's, separated by commas: they put a moved pod where the plan has it
    ///
    /// Pods of other schedulers are moved only where their scheduler would put them by its own scores.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "berth", requires = REBALANCING)]
    berth_schedulers: Vec<String>,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Enforces until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    if args.dry_run { args.log.at_least_info() } else { args.log }.start();
    let file = args.rules.config_file()?;
    let mut options = options(Settings::default());
    options.leader_election = args.lease.options(LEASE, &options.identity)?;
    options.cache_limit = args.cache.limit();
    args.set(&mut options)?;
    options.serving = args.serving.options("berth-enforcer")?;
    runtime::run(async move |stop| {
        let config = args.connection.options().config().await?;
        let settings = stop.run_until_cancelled(args.rules.settings_for(file.as_ref(), &config)).await;
        let Some(settings) = settings.transpose()? else { return Ok(ExitStatus::Success) };
        options.settings = settings;
        let running = berth_enforcer::start(config, options, stop).await?;
        note_addresses("/healthz, /readyz and /metrics", running.http_address(), running.https_address());
        running.stopped().await.map_err(berth_enforcer::EnforcerError::from)?;
        Ok(ExitStatus::Success)
    })
}

impl Args {
    fn set(&self, options: &mut EnforcerOptions) -> Result<(), CliError> {
        options.graces = Graces {
            node_affinity: self.node_affinity_grace,
            pod_affinity: self.pod_affinity_grace,
            pod_anti_affinity: self.pod_anti_affinity_grace,
        };
        options.limits = LimitOptions {
            window: self.window,
            evictions_per_second: self.evictions_per_second,
            max_per_node: self.max_evictions_per_node,
            max_per_namespace: self.max_evictions_per_namespace,
            max_cluster_share: self.max_cluster_share,
            max_workload_share: self.max_workload_share,
            max_repeats: self.max_repeats,
            repeat_window: self.repeat_window,
        };
        options.dry_run = self.dry_run;
        options.holds = self.hold.holds()?;
        options.rebalance = self.rebalance.options(&self.berth_schedulers)?;
        options.exempt_namespaces.clone_from(&self.protected_namespaces);
        options.ledger_namespace =
            self.ledger_namespace.clone().unwrap_or_else(|| self.lease.namespace().to_owned());
        Ok(())
    }
}

/// Options with the default limits.
pub fn options(settings: Settings) -> EnforcerOptions {
    let defaults = EnforcerOptions::default();
    let identity = identity(&defaults.identity);
    EnforcerOptions { settings, identity, ..defaults }
}

/// Parses `10%` or `0.1`.
fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "must be a percentage from 0% to 100%, for example 10%".to_owned())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (0.001..=1000.0).contains(rate));
    rate.ok_or_else(|| "must be a number from 0.001 to 1000".to_owned())
}

#[cfg(test)]
mod tests {
    use berth_rebalance::Goal;
    use clap::{Args as _, Command, FromArgMatches};

    use super::*;

    fn parsed(arguments: &[&str]) -> EnforcerOptions {
        let command = Args::augment_args(Command::new("enforcer"));
        let matches = command.try_get_matches_from([&["enforcer"], arguments].concat()).unwrap();
        let args = Args::from_arg_matches(&matches).unwrap();
        let mut options = options(args.rules.settings(&[], None).unwrap());
        options.leader_election = args.lease.options(LEASE, "me").unwrap();
        args.set(&mut options).unwrap();
        options
    }

    #[test]
    fn the_flags_defaults_are_the_enforcers_own() {
        let (parsed, default) = (parsed(&[]), EnforcerOptions::default());
        assert_eq!((parsed.graces, parsed.limits), (default.graces, default.limits));
        assert_eq!(parsed.ledger_namespace, default.ledger_namespace);
        assert_eq!(parsed.holds, default.holds);
        assert!(parsed.rebalance.is_none());
        assert!(!parsed.dry_run && parsed.leader_election.is_none());
    }

    #[test]
    fn flags_set_the_options() {
        let options = parsed(&[
            "--leader-elect",
            "--leader-elect-resource-namespace=berth-system",
            "--node-affinity-grace=1s",
            "--max-cluster-share=5%",
            "--max-workload-share",
            "0.25",
            "--protected-namespaces=a,b",
            "--rebalance=required,spread",
            "--berth-schedulers=default-scheduler",
        ]);
        let rebalance = options.rebalance.unwrap();
        assert_eq!(rebalance.request.goals, [Goal::Required, Goal::Spread]);
        assert_eq!(rebalance.following_schedulers, ["default-scheduler"]);
        assert_eq!(options.leader_election.unwrap().name, "berth-enforcer");
        assert_eq!(options.ledger_namespace, "berth-system");
        assert_eq!(options.graces.node_affinity, Duration::from_secs(1));
        assert_eq!((options.limits.max_cluster_share, options.limits.max_workload_share), (0.05, 0.25));
        assert_eq!(options.exempt_namespaces, ["a", "b"]);
        assert!(share("101%").is_err() && share("ten").is_err() && rate("0").is_err());
    }
}
