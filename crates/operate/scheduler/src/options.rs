//! What a scheduler is started with.

use std::time::Duration;

use berth_api::object::PodLimits;
use berth_client::lease::LeaseOptions;
use berth_client::rate_limit::RateLimit;
use berth_client::serving::ServingOptions;
use berth_engine::Settings;
use berth_input::config::{DEFAULT_SCHEDULER_NAME, SchedulerConfig};

use crate::recorder::{RecordError, RecordOptions};

pub const SCHEDULER_NAME: &str = "berth";
/// The longest list that `--scheduler-name` and profiles are shown as in errors.
const NAMES_SHOWN: usize = 10;

/// What a scheduler is started with. The defaults suit a cluster of any size.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// Profiles, and how rules are read.
    pub settings: Settings,
    /// The `schedulerName` that the only profile of the settings is served under, whatever its own name. None: the
    /// profiles are served under their own names, as kube-scheduler does with a configuration file.
    pub scheduler_name: Option<String>,
    /// Limit of the bindings sent at one time. Up to it, the scheduler sends as many as make
    /// bindings faster.
    pub bind_concurrency: usize,
    /// How long one request to bind may take before it counts as unanswered. With leader election it is cut to the
    /// time between the end of a leadership and the earliest beginning of the next.
    pub bind_timeout: Duration,
    /// A limit on the rate of requests, but for leader election and events; none: without a limit.
    pub rate_limit: Option<RateLimit>,
    /// Leader election; none: this process is the only scheduler.
    pub leader_election: Option<LeaseOptions>,
    /// Where `/healthz`, `/readyz`, `/metrics` and the scheduler's own pages are served.
    pub serving: ServingOptions,
    /// How often the state is compared with a fresh list.
    pub resync_interval: Duration,
    /// How long after a detected difference the check is repeated. Events in flight arrive meanwhile.
    pub resync_grace: Duration,
    /// How long a pod may be unschedulable before it is tried again without a reason.
    pub flush_after: Duration,
    /// The wait after a pod's first failure.
    pub first_backoff: Duration,
    /// The longest wait after a pod's failures.
    pub longest_backoff: Duration,
    /// How long a pod group fails before room may be held for it.
    pub group_reserve_after: Duration,
    /// How long room is held for a pod group at most; zero: never.
    pub group_reservation: Duration,
    /// How long to wait for bindings in flight when stopping.
    pub stop_timeout: Duration,
    /// A watch that is silent for longer is started again; see
    /// [`WatchOptions::idle_timeout`](berth_client::WatchOptions).
    pub watch_idle_timeout: Duration,
    /// What all watches may keep, in bytes; see [`WatchGroup`](berth_client::WatchGroup).
    pub cache_limit: usize,
    /// Name of this process in events; unique among replicas.
    pub identity: String,
    /// Pods with larger fields are parked: each decision reads them on many nodes.
    pub pod_limits: PodLimits,
    /// Where decisions are recorded, if they are.
    pub record: Option<RecordOptions>,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        SchedulerOptions {
            settings: Settings::default(),
            scheduler_name: Some(SCHEDULER_NAME.to_owned()),
            bind_concurrency: 128,
            bind_timeout: Duration::from_secs(10),
            rate_limit: None,
            leader_election: None,
            serving: ServingOptions::default(),
            resync_interval: Duration::from_secs(600),
            resync_grace: Duration::from_secs(15),
            flush_after: Duration::from_secs(300),
            first_backoff: Duration::from_secs(1),
            longest_backoff: Duration::from_secs(10),
            group_reserve_after: Duration::from_secs(60),
            group_reservation: Duration::from_secs(300),
            stop_timeout: Duration::from_secs(10),
            watch_idle_timeout: Duration::from_secs(90),
            cache_limit: berth_client::WatchGroup::DEFAULT_LIMIT,
            identity: format!("berth-{:08x}", fastrand::u32(..)),
            pod_limits: PodLimits::default(),
            record: None,
        }
    }
}

/// Why a scheduler cannot be started, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    #[error(
        "scheduler name {name:?} is given, but the configuration has {n} profiles ({profiles}): leave the name out, \
         or keep one profile"
    )]
    SeveralProfiles { name: String, n: usize, profiles: String },
    #[error(transparent)]
    Connect(#[from] berth_client::connect::ConnectError),
    /// `/metrics` and its like cannot be served.
    #[error(transparent)]
    Serve(#[from] berth_client::serving::ServeError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("the scheduler cannot continue: {0}")]
    Broken(#[from] berth_client::component::ComponentError),
}

impl SchedulerOptions {
    /// The settings with the profile under the name it is served under.
    pub(crate) fn settings(&self) -> Result<Settings, SchedulerError> {
        let mut settings = self.settings.clone();
        if let Some(name) = &self.scheduler_name {
            rename(&mut settings.config, name)?;
        }
        Ok(settings)
    }

    /// How long a request to bind may take.
    pub(crate) fn bind_timeout(&self) -> Duration {
        LeaseOptions::request_timeout(self.leader_election.as_ref(), self.bind_timeout)
    }
}

fn rename(config: &mut SchedulerConfig, name: &str) -> Result<(), SchedulerError> {
    match config.profiles.as_mut_slice() {
        [profile] => {
            profile.scheduler_name =
                if name.is_empty() { DEFAULT_SCHEDULER_NAME.to_owned() } else { name.to_owned() };
            Ok(())
        }
        profiles => {
            let names: Vec<_> =
                profiles.iter().take(NAMES_SHOWN).map(|p| p.scheduler_name.as_str()).collect();
            Err(SchedulerError::SeveralProfiles {
                name: name.to_owned(),
                n: profiles.len(),
                profiles: names.join(", "),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_input::config::Profile;

    use super::*;

    #[test]
    fn one_profile_is_served_under_the_name_given_and_several_under_their_own() {
        let mut options = SchedulerOptions::default();
        assert!(options.settings().unwrap().config.profile("berth").is_some());
        options.scheduler_name = Some("default-scheduler".to_owned());
        assert!(options.settings().unwrap().config.profile("").is_some());
        options
            .settings
            .config
            .profiles
            .push(Profile { scheduler_name: "two".to_owned(), ..Profile::default() });
        let error = options.settings().unwrap_err().to_string();
        assert!(error.contains("2 profiles (default-scheduler, two)"), "{error}");
        options.scheduler_name = None;
        assert!(options.settings().unwrap().config.profile("two").is_some());
    }
}
