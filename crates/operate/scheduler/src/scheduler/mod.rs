//! The task that owns the state.

mod attempt;
mod completions;
mod failure_events;
mod instruments;
mod nominations;
mod pod_groups;
mod pod_status;
mod queued_pods;
mod relaxation;
mod reporter;
mod unschedulable;
mod unsupported;
mod volumes;
mod watch_events;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use berth_api::config::Plugin;
use berth_api::journal::{Header, RecordedSettings};
use berth_api::object::DeviceResources;
use berth_client::component::Sidecars;
use berth_client::connect::Connection;
use berth_client::delegated::{self, DelegatedAuthorizer};
use berth_client::events::{EventRecorder, RecorderOptions};
use berth_client::lease::{Leadership, elect};
use berth_engine::{Cluster, Equivalence, Settings, WakeConditions};
use berth_mirror::{Mirror, MirrorOptions, Source, WatchEvent};
use berth_serve::ClientAuthorities;
use berth_serve::component::{self, Content};
use prometheus_client::registry::Registry;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Handle;
use crate::bind::{BindResult, BindWorkers, Binder};
use crate::metrics::Metrics;
use crate::options::{SchedulerError, SchedulerOptions};
use crate::queue::{PodId, Queue, QueueOptions};
use crate::recorder::Recorder;
use crate::serving;
use crate::status::FailureReason;
use crate::volume_writes::VolumeWriter;
use completions::Completions;
pub(crate) use completions::{Completion, CompletionSender};
use failure_events::FailureEvents;
use instruments::Instruments;
use pod_groups::PodGroups;
use pod_status::StatusWriter;
use queued_pods::QueuedPods;
use relaxation::RelaxTimers;
use reporter::Reporter;
use volumes::VolumeBindings;
use watch_events::Budgets;
pub(crate) use watch_events::is_pending;

/// Watch events applied before pods are decided again.
const EVENTS_AT_ONCE: usize = 512;
/// Maximum decisions before the loop reads watch events again.
const DECISIONS_AT_ONCE: usize = 128;
/// How often the scheduler looks for pods that have been unschedulable for long.
const FLUSH_PERIOD: Duration = Duration::from_secs(30);
/// The longest time between two turns of the loop.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Pods with equal keys have one failure. A pod that preempted others, or has rules that time relaxes, is alone with its own.
type GroupKey = (Equivalence, Option<PodId>);

/// Why no node fits the pods of a group, and what could change that.
#[derive(Clone)]
struct GroupFailure {
    reason: FailureReason,
    message: Arc<str>,
    /// The plugins that reject the pods, and their profile.
    plugins: Arc<[Plugin]>,
    profile: Arc<str>,
    /// What excludes most nodes, once that was evaluated.
    bottleneck: Option<Arc<str>>,
    /// A change that could help one of these could help.
    wake: Vec<WakeConditions>,
    /// [`Cluster::signature_epoch`] when the group was formed.
    epoch: usize,
    /// The group is not evaluated again before; and whether there is a reason to do so then.
    look_again: Option<Instant>,
    is_due: bool,
}

struct Scheduler {
    options: SchedulerOptions,
    cluster: Cluster,
    mirror: Mirror,
    queue: Queue<GroupKey, GroupFailure>,
    pods: QueuedPods,
    pod_groups: PodGroups,
    /// Pods that came with a list that is not complete.
    listed: Vec<PodId>,
    budgets: Budgets,
    devices: DeviceResources,
    leadership: Leadership,
    led_before: bool,
    binds: BindWorkers,
    volumes: VolumeBindings,
    statuses: StatusWriter,
    relax_timers: RelaxTimers,
    events: FailureEvents,
    /// When to evaluate groups again that were evaluated in vain.
    look_again_at: Option<Instant>,
    next_flush: Instant,
    metrics: Arc<Metrics>,
    instruments: Instruments,
    reporter: Reporter,
    recorder: Recorder,
}

pub(crate) async fn start(
    connection: Connection,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> Result<Handle, SchedulerError> {
    let options = SchedulerOptions { settings: options.settings()?, ..options };
    // Events have the same limit, separately. Leader election sends two requests per retry period.
    let unlimited = berth_client::connect::client(connection.clone())?;
    let client = berth_client::connect::limited_client(connection, options.rate_limit)?;
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry));
    let (reporter, status) = Reporter::new();
    // Health is served and the lease is held until everything else has ended.
    let last = CancellationToken::new();
    let always_allowed = options.serving.always_allowed_paths();
    let client_authorities = Arc::new(ClientAuthorities::default());
    if options.serving.lacks_client_authorities() {
        let set = {
            let known = client_authorities.clone();
            move |pem: &str| known.set_pem(pem.as_bytes())
        };
        let follow = delegated::follow_client_authorities(unlimited.clone(), set);
        tokio::spawn(last.clone().run_until_cancelled_owned(follow));
    }
    let content = Content {
        client_authorities,
        registry: Arc::new(registry),
        state: status.clone(),
        pages: Some(serving::pages(&options.settings.config, client.clone())),
        authorizer: DelegatedAuthorizer::new(unlimited.clone(), always_allowed).into_function(),
    };
    let addresses = component::serve(&options.serving, content, last.clone()).await?;
    let (leadership, elector) = match &options.leader_election {
        Some(lease) => {
            let (leadership, elector) = elect(unlimited.clone(), lease.clone(), last.clone());
            (leadership, Some(elector))
        }
        None => (Leadership::uncontested(), None),
    };
    let (completed, completions) = mpsc::unbounded_channel();
    let mut event_options = RecorderOptions::new("berth", options.identity.clone());
    if let Some(limit) = options.rate_limit {
        event_options.rate = limit;
    }
    let events = EventRecorder::start(unlimited.clone(), event_options, last.clone());
    let binder = Binder {
        client: client.clone(),
        leadership: leadership.clone(),
        timeout: options.bind_timeout(),
        metrics: metrics.clone(),
        stop: CancellationToken::new(),
    };
    let writer = VolumeWriter {
        client: client.clone(),
        leadership: leadership.clone(),
        timeout: options.bind_timeout(),
        permits: Arc::new(Semaphore::new(options.bind_concurrency.max(1))),
    };
    let profiles = options.settings.config.clone();
    let mirrored = MirrorOptions {
        sources: Source::ALL,
        watch_idle_timeout: options.watch_idle_timeout,
        check_interval: options.resync_interval,
        check_grace: options.resync_grace,
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
    let scheduler = Scheduler {
        cluster,
        mirror,
        queue: Queue::new(QueueOptions {
            first_backoff: options.first_backoff,
            longest_backoff: options.longest_backoff,
        }),
        pods: QueuedPods::default(),
        pod_groups: PodGroups::default(),
        listed: Vec::new(),
        budgets: Budgets::default(),
        devices: DeviceResources::default(),
        // Without an election, there is no beginning of a leadership after which pods are listed again.
        led_before: elector.is_none(),
        binds: BindWorkers::start(options.bind_concurrency.max(1), binder, &completed),
        volumes: VolumeBindings::new(writer, completed.clone()),
        statuses: StatusWriter::new(client, leadership.clone(), events.clone(), completed),
        leadership,
        relax_timers: RelaxTimers::default(),
        events: FailureEvents::new(events, now),
        look_again_at: None,
        next_flush: now + FLUSH_PERIOD.min(options.flush_after),
        metrics,
        instruments: Instruments::new(now),
        reporter,
        recorder,
        options,
    };
    let task = tokio::spawn(scheduler.run(watch_events, completions, stop, Sidecars::new(last, elector)));
    Ok(Handle::new(status, addresses.http, addresses.https, task))
}

impl Scheduler {
    async fn run(
        mut self,
        mut watch_events: mpsc::Receiver<WatchEvent>,
        mut completions: Completions,
        stop: CancellationToken,
        sidecars: Sidecars,
    ) {
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut has_more = false;
        // One for all turns: it remembers what it has seen of the lease.
        let mut leadership = self.leadership.clone();
        let mut timer = pin!(tokio::time::sleep(LONGEST_PAUSE));
        loop {
            let wake_at = self.next_wake(Instant::now());
            // Setting the timer costs as much as a turn; a turn too early does no harm.
            if wake_at < timer.deadline() || timer.is_elapsed() {
                timer.as_mut().reset(wake_at);
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completion) = completions.recv() => self.completed(completion),
                n = watch_events.recv_many(&mut batch, EVENTS_AT_ONCE) => if n == 0 { break },
                () = leadership.changed() => {}
                () = std::future::ready(()), if has_more => {}
                () = &mut timer => {}
            }
            while let Ok(completion) = completions.try_recv() {
                self.completed(completion);
            }
            // The branches are tried in order: watch events must not wait until there are no completions.
            while batch.len() < EVENTS_AT_ONCE
                && let Ok(event) = watch_events.try_recv()
            {
                batch.push(event);
            }
            for event in batch.drain(..) {
                self.apply(event);
            }
            has_more = self.turn();
            if has_more {
                tokio::task::yield_now().await;
            }
        }
        self.stop(&mut completions).await;
        sidecars.stop().await;
    }

    /// One turn, after all events that have arrived are applied. Returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.observe_leadership();
        for _ in 0..self.queue.end_backoffs(now) {
            self.metrics.queued("active", "BackoffComplete");
        }
        self.expire_relax_timers(now);
        self.expire_volumes(now);
        self.expire_pod_groups(now);
        self.wake_unschedulable(now);
        self.flush(now);
        self.mirror.read_node_attributes(&self.cluster, now);
        let has_more = self.decide_some();
        self.statuses.write_some(&mut self.pods);
        self.write_pod_group_statuses();
        self.explain_one();
        self.mirror.check_if_due(now);
        self.count_if_due(now);
        self.report_if_due(now);
        has_more
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&self, now: Instant) -> Instant {
        let times = [
            self.queue.next_due(),
            self.look_again_at,
            self.events.next_due(),
            self.relax_timers.next_due(),
            self.reporter.next_due(),
            self.volumes.next_due(),
            self.pod_groups.next_due(),
        ];
        times.into_iter().flatten().min().map_or(now + LONGEST_PAUSE, |at| at.min(now + LONGEST_PAUSE))
    }

    /// Events of what another leader did a moment ago may not have arrived yet: pods are listed again before the first
    /// decision as a leader.
    fn observe_leadership(&mut self) {
        let leads = self.leadership.leads();
        if leads != self.led_before {
            self.reset_reservations();
        }
        if leads && !self.led_before {
            self.mirror.relist_pods();
            self.pod_groups.forget_victims();
        }
        self.led_before = leads;
    }

    fn may_decide(&self) -> bool {
        // Twice the maximum in flight: while one binding is in flight, the next is ready.
        self.binds.n_in_flight() < 2 * self.options.bind_concurrency.max(1)
            && self.mirror.is_complete()
            && self.leadership.leads()
    }

    /// Waits for bindings in flight, within limits.
    async fn stop(&mut self, completions: &mut Completions) {
        let deadline = Instant::now() + self.options.stop_timeout;
        for binding in self.binds.close() {
            self.completed(Completion::Binding {
                binding,
                result: BindResult::NotSent,
                took: Duration::ZERO,
            });
        }
        while self.binds.n_in_flight() > 0 {
            match tokio::time::timeout_at(deadline, completions.recv()).await {
                Ok(Some(completion)) => self.completed(completion),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(n = self.binds.n_in_flight(), "stopping with bindings in flight");
                    break;
                }
            }
        }
        self.binds.abandon_lookups();
        self.report();
    }
}
