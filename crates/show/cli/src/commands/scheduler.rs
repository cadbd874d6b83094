//! `berth scheduler`.

use berth_api::object::PodLimits;
use berth_client::rate_limit::RateLimit;
use berth_engine::Settings;
use berth_input::config::{ClientConnectionConfig, DEFAULT_SCHEDULER_NAME, Profile};
use berth_scheduler::{SCHEDULER_NAME, SchedulerOptions};
use berth_terminal::process::ExitStatus;
use berth_terminal::runtime;

use super::cache_args::CacheArgs;
use super::connection_args::ConnectionArgs;
use super::lease_args::{LeaseArgs, identity};
use super::record_args::RecordArgs;
use super::rules_args::RulesArgs;
use super::serving_args::{ServingArgs, note_addresses};
use crate::cluster::log::LogArgs;
use crate::error::CliError;

/// Default name of the Lease.
const LEASE: &str = "berth";

/// Schedule the pods of a Kubernetes cluster
///
/// Schedules pods with the schedulerName `berth`, or with the names given by --scheduler-name or by the profiles of --config. It
/// considers pods of other schedulers in its decisions, but never binds them. To replace kube-scheduler, stop it and use
/// --scheduler-name default-scheduler.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth scheduler
  berth scheduler --context staging --scheduler-name default-scheduler
  berth scheduler --leader-elect --secure-port 10259 --config scheduler.yaml -v
  berth scheduler --record /var/lib/berth/recordings --record-limit 4Gi

Exit codes: 0 stopped by SIGINT or SIGTERM, 2 invalid input or usage, or the scheduler cannot continue

See docs/scheduler.md for the behavior, docs/recordings.md for recordings and docs/metrics.md for the metrics.")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Schedule pods with this schedulerName; can be repeated if the configuration has one profile [default: berth, or
    /// the profiles of --config]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
    #[command(flatten)]
    rules: RulesArgs,
    #[command(flatten)]
    limits: LimitArgs,
    /// Limit of concurrent bind requests; up to it, there are as many as make bindings faster
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=1000))]
    bind_concurrency: u16,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// What pods may carry.
#[derive(Debug, clap::Args)]
pub struct LimitArgs {
    /// Park pods with more entries than this in a field that says where they may run: keys, requirements, tolerations, volumes;
    /// a term between pods or a spread constraint counts as ten, ten values as one
    #[arg(long, value_name = "N", default_value_t = PodLimits::default().max_entries)]
    max_rule_entries: usize,
}

impl LimitArgs {
    pub fn limits(&self) -> PodLimits {
        PodLimits { max_entries: self.max_rule_entries }
    }
}

/// Schedules until SIGINT or SIGTERM.
pub fn run(args: &Args) -> Result<ExitStatus, CliError> {
    args.log.start();
    let file = args.rules.config_file()?;
    runtime::run(async move |stop| {
        let kubeconfig = file.as_ref().and_then(|file| file.value["clientConnection"]["kubeconfig"].as_str());
        let config = args.connection.options_or(kubeconfig).config().await?;
        let settings = stop.run_until_cancelled(args.rules.settings_for(file.as_ref(), &config)).await;
        let Some(settings) = settings.transpose()? else { return Ok(ExitStatus::Success) };
        let running = berth_scheduler::start(config, args.options(settings)?, stop).await?;
        note_addresses("/healthz, /readyz and /metrics", running.http_address(), running.https_address());
        running.stopped().await.map_err(berth_scheduler::SchedulerError::from)?;
        Ok(ExitStatus::Success)
    })
}

impl Args {
    fn options(&self, settings: Settings) -> Result<SchedulerOptions, CliError> {
        let is_configured = self.rules.is_configured();
        let mut options = options(settings, &self.scheduler_name, is_configured, &[SCHEDULER_NAME])?;
        options.pod_limits = self.limits.limits();
        options.record = self.record.options();
        options.bind_concurrency = self.bind_concurrency.into();
        options.cache_limit = self.cache.limit();
        options.serving = self.serving.options("berth-scheduler")?;
        let process = &options.settings.config.process;
        options.leader_election =
            self.lease.configured(&process.leader_election, LEASE, &options.identity)?;
        options.rate_limit = rate_limit(&process.client_connection);
        Ok(options)
    }
}

/// Options of a scheduler for these scheduler names, else those of the configuration, else `defaults`.
///
/// # Errors
/// Names are given and the configuration has several profiles.
pub fn options(
    mut settings: Settings,
    names: &[String],
    is_configured: bool,
    defaults: &[&str],
) -> Result<SchedulerOptions, CliError> {
    let names: Vec<&str> = match names {
        [] if is_configured => Vec::new(),
        [] => defaults.to_vec(),
        names => names.iter().map(String::as_str).collect(),
    };
    if !names.is_empty() {
        let profile = only_profile(&settings).map_err(CliError::Usage)?;
        let named = |name: &str| Profile { scheduler_name: name.to_owned(), ..profile.clone() };
        settings.config.profiles = names.into_iter().map(named).collect();
    } else if let Some(profile) = alias(&settings) {
        settings.config.profiles.push(profile);
    }
    let process = &settings.config.process;
    let defaults = SchedulerOptions {
        first_backoff: process.pod_initial_backoff,
        longest_backoff: process.pod_max_backoff,
        ..SchedulerOptions::default()
    };
    let identity = identity(&defaults.identity);
    Ok(SchedulerOptions { settings, scheduler_name: None, identity, ..defaults })
}

/// The rate limit of the configuration file; none without `qps`.
fn rate_limit(connection: &ClientConnectionConfig) -> Option<RateLimit> {
    // As in client-go: the default burst.
    let burst = connection.burst.unwrap_or(100);
    connection.qps.map(|qps| RateLimit { qps, burst })
}

/// Adds profiles with these scheduler names, and with the name `berth`, to those of the settings: copies of the only
/// profile.
///
/// # Errors
/// Names without a profile are given, and the configuration has several profiles.
pub fn add_names(settings: &mut Settings, names: &[String]) -> Result<(), CliError> {
    let base = only_profile(settings).cloned();
    settings.config.profiles.extend(alias(settings));
    for name in names {
        if settings.config.profile(name).is_none() {
            let profile = base.as_ref().map_err(|error| CliError::Usage(error.clone()))?;
            settings.config.profiles.push(Profile { scheduler_name: name.clone(), ..profile.clone() });
        }
    }
    Ok(())
}

/// The only profile, or what is wrong.
fn only_profile(settings: &Settings) -> Result<&Profile, String> {
    let profiles = &settings.config.profiles;
    if let [profile] = profiles.as_slice() {
        return Ok(profile);
    }
    let names: Vec<_> = profiles.iter().map(|p| p.scheduler_name.as_str()).collect();
    Err(format!(
        "--scheduler-name requires a configuration with one profile, but it has several ({}): remove the option or the \
         other profiles",
        names.join(", ")
    ))
}

/// A copy of the default profile with the name `berth`, unless the configuration has a profile of that name.
fn alias(settings: &Settings) -> Option<Profile> {
    let profiles = &settings.config.profiles;
    let named = |name: &str| profiles.iter().find(|p| p.scheduler_name == name);
    let default = named(DEFAULT_SCHEDULER_NAME).filter(|_| named(SCHEDULER_NAME).is_none())?;
    Some(Profile { scheduler_name: SCHEDULER_NAME.to_owned(), ..default.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(settings: Settings, names: &[&str], is_configured: bool) -> Result<Vec<String>, String> {
        let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
        let options = options(settings, &names, is_configured, &["berth"]).map_err(|e| e.to_string())?;
        Ok(options.settings.config.profiles.into_iter().map(|p| p.scheduler_name).collect())
    }

    fn with_profiles(names: &[&str]) -> Settings {
        let mut settings = Settings::default();
        let profile = settings.config.profiles[0].clone();
        let named = |name: &&str| Profile { scheduler_name: (*name).to_owned(), ..profile.clone() };
        settings.config.profiles = names.iter().map(named).collect();
        settings
    }

    #[test]
    fn a_simulation_adds_the_names_given_and_berth() {
        let added = |mut settings: Settings, names: &[&str]| {
            let names: Vec<_> = names.iter().map(|n| (*n).to_owned()).collect();
            add_names(&mut settings, &names).map_err(|e| e.to_string())?;
            Ok::<_, String>(
                settings.config.profiles.into_iter().map(|p| p.scheduler_name).collect::<Vec<_>>(),
            )
        };
        assert_eq!(added(Settings::default(), &[]).unwrap(), ["default-scheduler", "berth"]);
        assert_eq!(added(Settings::default(), &["a"]).unwrap(), ["default-scheduler", "berth", "a"]);
        assert_eq!(added(with_profiles(&["x"]), &["a", "x"]).unwrap(), ["x", "a"]);
        assert_eq!(added(with_profiles(&["x", "y"]), &["y"]).unwrap(), ["x", "y"]);
        assert!(added(with_profiles(&["x", "y"]), &["a"]).unwrap_err().contains("(x, y)"));
    }

    #[test]
    fn a_scheduler_serves_the_names_given_or_those_of_its_configuration() {
        assert_eq!(names(Settings::default(), &[], false).unwrap(), ["berth"]);
        assert_eq!(names(Settings::default(), &["a", "b"], false).unwrap(), ["a", "b"]);
        assert_eq!(names(with_profiles(&["x", "y"]), &[], true).unwrap(), ["x", "y"]);
        let both = ["default-scheduler", "berth"];
        assert_eq!(names(with_profiles(&["default-scheduler"]), &[], true).unwrap(), both);
        assert_eq!(names(with_profiles(&both), &[], true).unwrap(), both);
        assert!(names(with_profiles(&["x", "y"]), &["a"], true).unwrap_err().contains("(x, y)"));
    }
}
