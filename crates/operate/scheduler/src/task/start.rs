//! Starts the parts of a scheduler and its task.

use std::sync::Arc;

use berth_client::WatchGroup;
use berth_client::component::Sidecars;
use berth_client::connect::Connection;
use berth_client::events::{EventRecorder, RecorderOptions};
use berth_client::serving::Content;
use berth_engine::{Cluster, Settings};
use berth_input::journal::{Header, RecordedSettings};
use berth_mirror::{Mirror, MirrorOptions, Source};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::scheduler::Scheduler;
use crate::binding::{
    BindWorkers, Binder, DeviceBindings, DeviceWriter, PreBind, VolumeBindings, VolumeWriter,
};
use crate::context::Context;
use crate::device_turns::DeviceTurns;
use crate::instruments::Instruments;
use crate::metrics::Metrics;
use crate::moves::ExpectedReplacements;
use crate::options::{SchedulerError, SchedulerOptions};
use crate::pending::{FailureEvents, PendingPods, QueuedPods, StatusWriter};
use crate::pod_groups::PodGroups;
use crate::queue::{Queue, QueueOptions};
use crate::recorder::Recorder;
use crate::relaxation::Relaxation;
use crate::reporter::Reporter;
use crate::resizes::DeferredResizes;
use crate::serving;
use crate::state::{Budgets, State};
use crate::status::Handle;
use crate::wake::Waker;

/// Pods whose volumes, or claims of devices, are written at a time.
const MOST_CLAIM_WRITERS: usize = 16;

pub(crate) fn start(
    connection: Connection,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> BoxFuture<'static, Result<Handle, SchedulerError>> {
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        let options = SchedulerOptions { settings: options.settings()?, ..options };
        // Events have the same limit, separately. Leader election sends two requests per retry period.
        let unlimited = berth_client::connect::client(connection.clone())?;
        let client = berth_client::connect::limited_client(connection, options.rate_limit)?;
        let mut registry = Registry::default();
        let metrics = Arc::new(Metrics::new(&mut registry));
        let (reporter, status) = Reporter::new(metrics.clone());
        let content = Content {
            registry: Arc::new(registry),
            state: status.clone(),
            pages: Some(serving::pages(&options.settings.config, client.clone())),
        };
        let election = options.leader_election.clone();
        // Without an election, there is no beginning of a leadership after which pods are listed again.
        let led_before = election.is_none();
        let (sidecars, addresses, leadership) =
            Sidecars::start(unlimited.clone(), &options.serving, content, election).await?;
        let (completed, completions) = mpsc::unbounded_channel();
        let mut event_options = RecorderOptions::new("berth", options.identity.clone());
        if let Some(limit) = options.rate_limit {
            event_options.rate = limit;
        }
        let events = EventRecorder::start(unlimited, event_options, sidecars.token());
        let binder = Binder {
            client: client.clone(),
            leadership: leadership.clone(),
            timeout: options.bind_timeout(),
            metrics: metrics.clone(),
            n_refused: Arc::default(),
            stop: CancellationToken::new(),
        };
        let n_claim_writers = options.bind_concurrency.clamp(1, MOST_CLAIM_WRITERS);
        let writer = VolumeWriter {
            client: client.clone(),
            leadership: leadership.clone(),
            timeout: options.bind_timeout(),
            permits: Arc::new(Semaphore::new(n_claim_writers)),
        };
        let device_writer =
            DeviceWriter::new(client.clone(), leadership.clone(), options.bind_timeout(), n_claim_writers);
        let config = Arc::new(options.settings.config.clone());
        let (profiles, gates) = (config.clone(), config.feature_gates);
        let mirrored = MirrorOptions {
            sources: Source::ALL,
            watch_idle_timeout: options.watch_idle_timeout,
            check_interval: options.resync_interval,
            check_grace: options.resync_grace,
            group: WatchGroup::new(options.cache_limit),
            readiness: false,
            // Pods of this scheduler are kept until they are bound.
            keeps: Arc::new(move |pod| profiles.profile(&pod.spec.scheduler_name).is_some()),
        };
        let (mirror, watch_events) = Mirror::start(client.clone(), mirrored);
        let mut cluster = Cluster::new(Settings { all_node_attributes: false, ..options.settings.clone() });
        cluster.record_changes(true);
        let recorder = match &options.record {
            Some(record) => {
                let header = Header {
                    scheduler: "berth".to_owned(),
                    identity: options.identity.clone(),
                    settings: RecordedSettings::from(cluster.settings()),
                    ..Header::default()
                };
                let recorder = Recorder::start(record, header)?;
                cluster.set_journal(recorder.journal());
                recorder
            }
            None => Recorder::default(),
        };
        let now = Instant::now();
        let budgets = Budgets::default();
        let state = State { config, cluster, mirror, budgets, limits: options.pod_limits, recorder };
        let pending = PendingPods {
            queue: Queue::new(QueueOptions {
                first_backoff: options.first_backoff,
                longest_backoff: options.longest_backoff,
            }),
            pods: QueuedPods::default(),
            statuses: StatusWriter::new(client, leadership.clone(), events.clone(), completed.clone()),
            events: FailureEvents::new(events, now),
            metrics: metrics.clone(),
            listed: Vec::new(),
        };
        let scheduler = Scheduler {
            context: Context { state, pending },
            groups: PodGroups::new(&options, metrics.clone()),
            binds: BindWorkers::start(options.bind_concurrency, binder, &completed),
            pre_bind: PreBind {
                volumes: VolumeBindings::new(writer, completed.clone(), metrics.clone()),
                devices: DeviceBindings::new(device_writer, completed, metrics.clone()),
            },
            device_turns: DeviceTurns::default(),
            waker: Waker::new(options.flush_after, now),
            relaxation: Relaxation::default(),
            replacements: ExpectedReplacements::default(),
            resizes: DeferredResizes::new(gates, options.flush_after, now),
            instruments: Instruments::new(metrics.clone(), now),
            reporter,
            metrics,
            failure: None,
            led_before,
            leadership,
            flush_after: options.flush_after,
            stop_timeout: options.stop_timeout,
        };
        let task = tokio::spawn(scheduler.run(watch_events, completions, stop, sidecars));
        Ok(Handle::new(status, addresses, task))
    }
    .boxed()
}
