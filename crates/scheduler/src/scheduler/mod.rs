//! The task that owns the state.

mod attempt;
mod ended;
mod parked;
mod resync;
mod told;
mod writes;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_api::object::Pod;
use berth_client::WatchOptions;
use berth_client::component::Sidecars;
use berth_client::events::{EventRecorder, RecorderOptions};
use berth_client::lease::{Leadership, elect};
use berth_engine::{Cluster, DisruptionBudget, Equivalence, PreparedPod, WakeConditions};
use berth_mirror::feed::{Differences, Feed, Fingerprint};
use berth_mirror::sources::{Source, Sources, Told};
use berth_serve::health;
use prometheus_client::registry::Registry;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bind::{BindEnd, Binder, Bindings, start_workers};
use crate::metrics::Metrics;
use crate::options::{SchedulerError, SchedulerOptions};
use crate::pods::{PodEvent, PodSource};
use crate::queue::{PodId, Queue, QueueOptions};
use crate::status;
use crate::{Handle, Snapshot};
pub(crate) use ended::Ended;

/// What the server tells waits here; when as much waits, the server is not read any further.
const TOLD_BUFFER: usize = 2048;
/// Told changes applied before pods are decided again.
const TOLD_AT_ONCE: usize = 512;
/// Decisions made before what was told is looked at again.
const DECISIONS_AT_ONCE: usize = 128;
/// Status patches and evictions under way: few, so that they never take what bindings need.
const WRITES_AT_ONCE: usize = 4;
/// How often unschedulable pods are looked through for those to be tried without a reason.
const FLUSH_PERIOD: Duration = Duration::from_secs(30);
/// The loop turns at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A snapshot is shown this long after the one before: nobody needs to see thousands a second.
const SHOW_PERIOD: Duration = Duration::from_millis(10);

/// Pods with equal keys have one verdict. A pod for which room is being made is alone with its own.
type GroupKey = (Equivalence, Option<PodId>);

/// Why a pod fits nowhere, and what could change that.
#[derive(Clone)]
struct Verdict {
    reason: &'static str,
    message: Arc<str>,
    /// What stands most in the way, once somebody found out.
    bottleneck: Option<Arc<str>>,
    wake: WakeConditions,
    /// [`Cluster::signature_epoch`] when the group was formed.
    distinctions: usize,
    /// Looking again is not worth it before; and whether there is a reason to look again then.
    look_again: Option<Instant>,
    is_due: bool,
}

/// A pod that waits, or is being bound.
struct Waiting {
    pod: Arc<Pod>,
    prepared: PreparedPod,
    fingerprint: Fingerprint,
    /// It changed while it was being bound: to be prepared anew.
    is_stale: bool,
    attempts: u32,
    first_seen: Instant,
    decided_at: Instant,
    binding: Option<InFlight>,
    /// What its status says, or will once what is under way is written.
    told: status::Told,
    /// What its status is to say.
    to_tell: Option<status::Told>,
    is_being_told: bool,
}

/// A binding under way.
struct InFlight {
    node: Arc<str>,
    abandoned: Arc<AtomicBool>,
}

/// An event that waits for its explanation.
struct Owed {
    id: PodId,
    key: GroupKey,
    message: Arc<str>,
}

struct Scheduler {
    options: SchedulerOptions,
    client: kube::Client,
    cluster: Cluster,
    feed: Feed,
    queue: Queue<GroupKey, Verdict>,
    pods: FxHashMap<PodId, Waiting>,
    by_uid: HashMap<Box<str>, PodId>,
    last_id: u64,
    budgets: HashMap<(String, String), DisruptionBudget>,
    /// The same as a list; none after a change.
    budget_list: Option<Vec<DisruptionBudget>>,
    waits_for: BTreeSet<Source>,
    sources: Sources,
    pod_source: PodSource,
    leadership: Leadership,
    led_before: bool,
    bindings: Arc<Bindings>,
    /// Ends waiting for a server that does not answer.
    stop_binding: CancellationToken,
    /// Bindings that are to be sent, or under way.
    n_binding: usize,
    n_assumed: usize,
    /// Pods whose status is to be written.
    to_write: VecDeque<PodId>,
    n_writing: usize,
    evictions: VecDeque<ended::Eviction>,
    recorder: EventRecorder,
    owed: VecDeque<Owed>,
    explain_not_before: Instant,
    look_again_at: Option<Instant>,
    next_flush: Instant,
    next_resync: Instant,
    /// What the last fresh lists differed in, until the next ones confirm it.
    suspects: Option<(Differences, Differences, Vec<String>)>,
    ended: mpsc::UnboundedSender<Ended>,
    /// They end with the scheduler.
    _workers: JoinSet<()>,
    /// Requests under way besides bindings; as many as may be at a time, so what they send back is bounded too.
    tasks: JoinSet<()>,
    metrics: Arc<Metrics>,
    show_not_before: Instant,
    show_is_due: bool,
    /// As it is now, and as it was shown last.
    shown: Snapshot,
    shown_last: Snapshot,
    snapshot: watch::Sender<Snapshot>,
}

pub(crate) async fn start(
    config: kube::Config,
    options: SchedulerOptions,
    stop: CancellationToken,
) -> Result<Handle, SchedulerError> {
    let settings = options.settings()?;
    let client = berth_client::connect::client(config)?;
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry));
    let (snapshot, receiver) = watch::channel(Snapshot {
        waits_for: Source::ALL.iter().map(|source| source.name()).collect(),
        ..Snapshot::default()
    });
    // Served and led until everything else has ended.
    let last = CancellationToken::new();
    let http_address = match options.listen {
        Some(address) => {
            Some(health::serve(address, Arc::new(registry), receiver.clone(), last.clone()).await?)
        }
        None => None,
    };
    let (leadership, elector) = match &options.leader_election {
        Some(lease) => {
            let (leadership, elector) = elect(client.clone(), lease.clone(), last.clone());
            (leadership, Some(elector))
        }
        None => (Leadership::uncontested(), None),
    };
    let (told_sender, told) = mpsc::channel(TOLD_BUFFER);
    let (ended_sender, ended) = mpsc::unbounded_channel();
    let (pods_sender, pods_told) = mpsc::channel(TOLD_BUFFER);
    let options = SchedulerOptions { settings, ..options };
    let others: Vec<Source> = Source::ALL.into_iter().filter(|source| *source != Source::Pods).collect();
    let sources = Sources::start(client.clone(), &others, options.watch_idle_timeout, told_sender);
    let patience =
        WatchOptions { idle_timeout: options.watch_idle_timeout, ..WatchOptions::new(String::new()) };
    let config = options.settings.config.clone();
    let pod_source = PodSource::start(client.clone(), patience, config, pods_sender);
    let binder = Binder {
        client: client.clone(),
        leadership: leadership.clone(),
        timeout: options.bind_timeout(),
        metrics: metrics.clone(),
        stop: CancellationToken::new(),
    };
    let (bindings, mut workers) = (Bindings::new(), JoinSet::new());
    start_workers(options.bind_concurrency.max(1), &binder, &bindings, &ended_sender, &mut workers);
    let recording = RecorderOptions::new("berth", options.identity.clone());
    let recorder = EventRecorder::start(client.clone(), recording, last.clone());
    let mut cluster = Cluster::new(options.settings.clone());
    cluster.record_changes(true);
    let now = Instant::now();
    let queue_options =
        QueueOptions { first_backoff: options.first_backoff, longest_backoff: options.longest_backoff };
    let flush_after = options.flush_after;
    let scheduler = Scheduler {
        options,
        client,
        cluster,
        feed: Feed::new(),
        queue: Queue::new(queue_options),
        pods: FxHashMap::default(),
        by_uid: HashMap::new(),
        last_id: 0,
        budgets: HashMap::new(),
        budget_list: None,
        waits_for: Source::ALL.into_iter().collect(),
        sources,
        pod_source,
        // Without an election there is no first moment of leading, after which pods are listed anew.
        led_before: elector.is_none(),
        leadership,
        bindings,
        stop_binding: binder.stop,
        n_binding: 0,
        n_assumed: 0,
        to_write: VecDeque::new(),
        n_writing: 0,
        evictions: VecDeque::new(),
        recorder,
        owed: VecDeque::new(),
        explain_not_before: now,
        look_again_at: None,
        next_flush: now + FLUSH_PERIOD.min(flush_after),
        next_resync: now + Duration::from_secs(u64::from(u32::MAX)),
        suspects: None,
        ended: ended_sender,
        metrics,
        _workers: workers,
        tasks: JoinSet::new(),
        show_not_before: now,
        show_is_due: false,
        shown: Snapshot::default(),
        shown_last: Snapshot::default(),
        snapshot,
    };
    let task = tokio::spawn(scheduler.run((told, pods_told), ended, stop, Sidecars::new(last, elector)));
    Ok(Handle::new(receiver, http_address, task))
}

impl Scheduler {
    async fn run(
        mut self,
        (mut told, mut pods_told): (mpsc::Receiver<Told>, mpsc::Receiver<(u32, PodEvent)>),
        mut ended: mpsc::UnboundedReceiver<Ended>,
        stop: CancellationToken,
        companions: Sidecars,
    ) {
        let mut batch = Vec::with_capacity(TOLD_AT_ONCE);
        let mut pods_batch = Vec::with_capacity(TOLD_AT_ONCE);
        let mut has_more = false;
        // One for all turns: it remembers what it has seen of the lease.
        let mut leadership = self.leadership.clone();
        loop {
            let wake_at = self.next_wake(Instant::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(end) = ended.recv() => self.ended(end),
                n = told.recv_many(&mut batch, TOLD_AT_ONCE) => if n == 0 { break },
                n = pods_told.recv_many(&mut pods_batch, TOLD_AT_ONCE) => if n == 0 { break },
                () = leadership.changed() => {}
                () = std::future::ready(()), if has_more => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
            while let Ok(end) = ended.try_recv() {
                self.ended(end);
            }
            // The branches are tried in order: what is told must not wait for a moment without answers.
            while batch.len() < TOLD_AT_ONCE
                && let Ok(more) = told.try_recv()
            {
                batch.push(more);
            }
            while pods_batch.len() < TOLD_AT_ONCE
                && let Ok(more) = pods_told.try_recv()
            {
                pods_batch.push(more);
            }
            for told in batch.drain(..) {
                self.take(told);
            }
            for (number, event) in pods_batch.drain(..) {
                self.take_pods(number, event);
            }
            has_more = self.turn();
            if has_more {
                tokio::task::yield_now().await;
            }
        }
        self.stop(&mut ended).await;
        companions.stop().await;
    }

    /// One turn: everything told is known. Returns whether there is more to do at once.
    fn turn(&mut self) -> bool {
        let now = Instant::now();
        self.watch_leadership();
        for _ in 0..self.queue.end_backoffs(now) {
            self.metrics.queued("active", "BackoffComplete");
        }
        self.wake_parked(now);
        self.flush(now);
        while self.tasks.try_join_next().is_some() {}
        let has_more = self.decide_some();
        self.write_some();
        self.explain_one();
        self.compare_if_due(now);
        self.show_if_due(now);
        has_more
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&self, now: Instant) -> Instant {
        let explain = (!self.owed.is_empty()).then_some(self.explain_not_before);
        let show = self.show_is_due.then_some(self.show_not_before);
        let times = [self.queue.next_due(), self.look_again_at, explain, show];
        times.into_iter().flatten().min().map_or(now + LONGEST_PAUSE, |at| at.min(now + LONGEST_PAUSE))
    }

    /// What another leader did until a moment ago may not have been told yet: before the first decision as a leader,
    /// pods are listed anew.
    fn watch_leadership(&mut self) {
        let leads = self.leadership.leads();
        if leads && !self.led_before {
            self.waits_for.insert(Source::Pods);
            self.pod_source.restart();
        }
        self.led_before = leads;
    }

    fn may_decide(&self) -> bool {
        // Twice as many as can be sent: while one binding is under way, the next is ready.
        self.n_binding < 2 * self.options.bind_concurrency.max(1)
            && self.waits_for.is_empty()
            && self.leadership.leads()
    }

    fn show_if_due(&mut self, now: Instant) {
        self.show_is_due = now < self.show_not_before;
        if !self.show_is_due {
            self.show();
            self.show_not_before = now + SHOW_PERIOD;
        }
    }

    fn show(&mut self) {
        let shown = &mut self.shown;
        shown.waits_for = self.waits_for.iter().map(|source| source.name()).collect();
        shown.leads = self.leadership.leads();
        shown.queue = self.queue.counts();
        shown.n_nodes = self.feed.n_nodes();
        shown.n_pods = self.feed.n_pods();
        shown.n_events_dropped = self.recorder.dropped();
        if *shown != self.shown_last {
            self.metrics.sizes(shown.queue, shown.n_nodes, shown.n_pods, self.n_assumed);
            self.metrics.events_dropped.set(shown.n_events_dropped as i64);
            self.metrics.leads.set(i64::from(shown.leads));
            self.shown_last = shown.clone();
            self.snapshot.send_replace(shown.clone());
        }
    }

    /// Waits for bindings under way, within limits.
    async fn stop(&mut self, ended: &mut mpsc::UnboundedReceiver<Ended>) {
        let deadline = Instant::now() + self.options.stop_timeout;
        for binding in self.bindings.close() {
            self.ended(Ended::Binding { binding, end: BindEnd::NotSent });
        }
        while self.n_binding > 0 {
            match tokio::time::timeout_at(deadline, ended.recv()).await {
                Ok(Some(end)) => self.ended(end),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(n = self.n_binding, "stopping before all bindings are answered");
                    break;
                }
            }
        }
        self.stop_binding.cancel();
        self.show();
    }
}
