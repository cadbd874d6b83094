//! `berth scheduler`.

use std::net::SocketAddr;

use berth_api::config::{DEFAULT_SCHEDULER_NAME, Profile};
use berth_engine::Settings;
use berth_scheduler::{SCHEDULER_NAME, SchedulerOptions};

use super::connection_args::ConnectionArgs;
use super::lease_args::{LeaseArgs, identity};
use super::rules_args::RulesArgs;
use crate::Answer;
use crate::cluster::log::LogArgs;
use crate::cluster::runtime;
use crate::error::CliError;
use crate::output;

/// Name of the Lease unless another one is given.
const LEASE: &str = "berth";

/// Schedule the pods of a cluster
///
/// Serves the pods whose schedulerName is `berth`, or what --scheduler-name or the profiles of --config say. Pods of
/// other schedulers count, and are left alone. To take over a cluster, stop its scheduler and serve
/// `default-scheduler`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  berth scheduler
  berth scheduler --context staging --scheduler-name default-scheduler
  berth scheduler --leader-elect --listen 0.0.0.0:10259 --config scheduler.yaml -v

Exit codes: 0 ended by SIGINT or SIGTERM, 2 bad input or usage, or it could not go on

docs/scheduler.md tells how it works and what its metrics mean.")]
pub struct Args {
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Serve pods of this schedulerName; may be given several times if the configuration has one profile [default:
    /// berth, or the names of the profiles of --config]
    #[arg(long, value_name = "NAME")]
    scheduler_name: Vec<String>,
    #[command(flatten)]
    rules: RulesArgs,
    /// Pods bound at a time, each over a connection of its own
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1000))]
    bind_concurrency: u16,
    /// Serve /healthz, /readyz and /metrics here; without it they are served nowhere
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Schedules until told to stop.
pub fn run(args: &Args) -> Result<Answer, CliError> {
    args.log.start();
    let settings = args.rules.settings(&[])?;
    let is_configured = args.rules.is_configured();
    let mut options = options(settings, &args.scheduler_name, is_configured, &[SCHEDULER_NAME])?;
    options.bind_concurrency = args.bind_concurrency.into();
    options.listen = args.listen;
    options.leader_election = args.lease.options(LEASE, &options.identity)?;
    runtime::run(async move |stop| {
        let config = args.connection.options().config().await?;
        let running = berth_scheduler::start(config, options, stop).await?;
        if let Some(address) = running.http_address() {
            output::note(&format!("healthz, readyz and metrics are at http://{address}"));
        }
        running.stopped().await.map_err(berth_scheduler::SchedulerError::from)?;
        Ok(Answer::Good)
    })
}

/// What a scheduler is started with that serves these names, or else those of the configuration, or else `defaults`.
///
/// # Errors
/// Names are given, and the configuration has several profiles.
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
        let [profile] = settings.config.profiles.as_slice() else {
            let profiles: Vec<_> =
                settings.config.profiles.iter().map(|p| p.scheduler_name.as_str()).collect();
            return Err(CliError::Usage(format!(
                "--scheduler-name is given, but the configuration has several profiles ({}): leave it out, or keep one",
                profiles.join(", ")
            )));
        };
        let named = |name: &str| Profile { scheduler_name: name.to_owned(), ..profile.clone() };
        settings.config.profiles = names.into_iter().map(named).collect();
    } else if let Some(profile) = alias(&settings) {
        settings.config.profiles.push(profile);
    }
    let defaults = SchedulerOptions::default();
    let identity = identity(&defaults.identity);
    Ok(SchedulerOptions { settings, scheduler_name: None, identity, ..defaults })
}

/// The default profile of a configuration file, for pods that ask for Berth by name, unless one is called so.
fn alias(settings: &Settings) -> Option<Profile> {
    let profiles = &settings.config.profiles;
    let is_called = |name: &str| profiles.iter().find(|p| p.scheduler_name == name);
    let default = is_called(DEFAULT_SCHEDULER_NAME).filter(|_| is_called(SCHEDULER_NAME).is_none())?;
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
