//! Starts the parts of an enforcer and its task.

use std::sync::Arc;

use berth_client::WatchGroup;
use berth_client::component::Sidecars;
use berth_client::connect::Connection;
use berth_client::events::{EventRecorder, RecorderOptions};
use berth_client::ledger::LedgerClient;
use berth_client::serving::Content;
use berth_engine::{Cluster, RemedyOptions, Settings};
use berth_input::config::Profile;
use berth_mirror::{Mirror, MirrorOptions, Source};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::enforcer::Enforcer;
use super::rebalancer::Rebalancer;
use crate::evaluation_timer::EvaluationTimer;
use crate::event_reporter::EventReporter;
use crate::evict::Evictor;
use crate::evictions::Evictions;
use crate::held_pods::HeldPods;
use crate::ledger_sync::LedgerSync;
use crate::limiter::EvictionLimiter;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::options::{EnforcerError, EnforcerOptions};
use crate::pods::Pods;
use crate::rebalance::{DESCRIPTION, STATUS_KEY, STATUS_NAME, StatusWriter};
use crate::reporter::Reporter;
use crate::status::Handle;
use crate::violations::Violations;

const CONTROLLER: &str = "berth-enforcer";

/// The settings with a profile for each of these schedulers: without one of that name, the first profile. A pod whose scheduler has no
/// profile finds no node.
fn with_profiles<'n>(mut settings: Settings, schedulers: impl Iterator<Item = &'n String>) -> Settings {
    for scheduler_name in schedulers {
        let profiles = &mut settings.config.profiles;
        if let Some(first) =
            profiles.first().filter(|_| profiles.iter().all(|p| p.scheduler_name != *scheduler_name))
        {
            profiles.push(Profile { scheduler_name: scheduler_name.clone(), ..first.clone() });
        }
    }
    settings
}

pub(crate) fn start(
    connection: Connection,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Handle, EnforcerError>> {
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        let client = berth_client::connect::client(connection)?;
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::new(&mut registry));
        let (reporter, status) = Reporter::new(metrics.clone());
        let content = Content { registry: Arc::new(registry), state: status.clone(), pages: None };
        let election = options.leader_election.clone().filter(|_| !options.dry_run);
        // Without an election, there is no beginning of a leadership after which pods are listed again.
        let led_before = election.is_none();
        let (sidecars, addresses, leadership) =
            Sidecars::start(client.clone(), &options.serving, content, election).await?;
        let mirrored = MirrorOptions {
            watch_idle_timeout: options.watch_idle_timeout,
            check_interval: options.resync_interval,
            check_grace: options.resync_grace,
            group: WatchGroup::new(options.cache_limit),
            readiness: options.rebalance.is_some(),
            // The Eviction API checks PodDisruptionBudgets; plans are made with them.
            ..MirrorOptions::new(if options.rebalance.is_some() { Source::ALL } else { Source::PLACEMENT })
        };
        let (mirror, watch_events) = Mirror::start(client.clone(), mirrored);
        let (completed, completions) = mpsc::unbounded_channel();
        let recorder = (!options.dry_run).then(|| {
            let recording = RecorderOptions::new(CONTROLLER, options.identity.clone());
            EventRecorder::start(client.clone(), recording, sidecars.token())
        });
        let held = HeldPods::new(
            client.clone(),
            leadership.clone(),
            options.request_timeout(),
            options.holds.clone(),
        );
        let evictor = Evictor {
            client: client.clone(),
            leadership: leadership.clone(),
            timeout: options.request_timeout(),
            metrics: metrics.clone(),
            stop: CancellationToken::new(),
        };
        let following = options.rebalance.iter().flat_map(|rebalance| &rebalance.following_schedulers);
        let settings = with_profiles(options.settings.clone(), following);
        let mut cluster = Cluster::new(Settings { all_node_attributes: false, ..settings });
        cluster.watch_violations();
        let exempt_by_settings =
            options.settings.exempt_namespaces.iter().filter(|_| options.settings.extensions);
        let mut limiter = EvictionLimiter::new(options.limits.clone());
        if options.leader_election.is_none() {
            limiter = limiter.shared_as(&options.identity);
        }
        let exempt_namespaces = exempt_by_settings.chain(&options.exempt_namespaces).cloned().collect();
        let rebalancer = options.rebalance.clone().map(|rebalance| {
            let client = LedgerClient {
                client: client.clone(),
                namespace: options.ledger_namespace.clone(),
                name: STATUS_NAME.to_owned(),
                key: STATUS_KEY,
                description: DESCRIPTION,
                timeout: options.request_timeout(),
            };
            let writer = (!options.dry_run).then(|| StatusWriter::start(client, leadership.clone()));
            Rebalancer::new(rebalance, writer, completed.clone())
        });
        let ledger = LedgerSync::new(client, &options, completed.clone(), metrics.clone());
        let enforcer = Enforcer {
            cluster,
            mirror,
            pods: Pods::default(),
            is_complete: false,
            held,
            violations: Violations::new(options.graces, exempt_namespaces, metrics.clone()),
            limits: Limits::new(limiter, ledger),
            evictions: Evictions::new(evictor, completed, &options),
            rebalancer,
            events: EventReporter::new(recorder),
            reporter,
            metrics,
            timer: EvaluationTimer::new(Instant::now()),
            remedy_options: RemedyOptions {
                seek_targets: true,
                evict_without_target: Vec::new(),
                exempt_namespaces: options.exempt_namespaces.clone(),
                bound_against_rule: Vec::new(),
            },
            failure: None,
            led_before,
            has_ended_groups: false,
            leadership,
            options,
        };
        let task = tokio::spawn(enforcer.run(watch_events, completions, stop, sidecars));
        Ok(Handle::new(status, addresses, task))
    }
    .boxed()
}
