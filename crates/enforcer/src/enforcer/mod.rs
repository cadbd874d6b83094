//! The task that owns the state.

mod completions;
mod judge;
mod report;

mod ledger_sync;
mod watch_events;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_client::Backoff;
use berth_client::component::Sidecars;
use berth_client::events::{EventRecorder, RecorderOptions};
use berth_client::lease::{Leadership, elect};
use berth_engine::{Cluster, RemedyOptions, ViolatedRule, ViolationKey};
use berth_mirror::{Mirror, MirrorOptions, Source, WatchEvent};
use berth_serve::health;
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::evict::Evictor;
use crate::grace_timers::GraceTimers;
use crate::limiter::EvictionLimiter;
use crate::metrics::Metrics;
use crate::options::{EnforcerError, EnforcerOptions};
use crate::pods::Pods;
use crate::{Handle, Snapshot};
use completions::Completion;
use ledger_sync::LedgerSync;

/// What placement depends on. The Eviction API checks PodDisruptionBudgets.
const SOURCES: [Source; 7] = [
    Source::Nodes,
    Source::Pods,
    Source::Namespaces,
    Source::Services,
    Source::ReplicaSets,
    Source::StatefulSets,
    Source::ReplicationControllers,
];
/// Watch events applied before anything is evaluated again.
const EVENTS_AT_ONCE: usize = 512;
/// The loop turns at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Judging takes no more than one part in so many of the time.
const JUDGING_SHARE: u32 = 8;
/// Name of the controller in events.
const CONTROLLER: &str = "berth-enforcer";

/// A pod that was told to go, by the engine's name for it.
struct Going {
    /// The rules for which it goes.
    cures: Vec<ViolationKey>,
    /// Whether the request is under way still.
    is_in_flight: bool,
}

/// A pod whose eviction was refused or failed.
struct Retry {
    backoff: Backoff,
    not_before: Instant,
    /// Whether a budget refused it, rather than something failed.
    is_refused: bool,
}

struct Enforcer {
    options: EnforcerOptions,
    remedy_options: RemedyOptions,
    exempt_namespaces: HashSet<String>,
    cluster: Cluster,
    mirror: Mirror,
    pods: Pods,
    /// Whether all sources were listed once. Before that, violations mean nothing.
    is_complete: bool,
    leadership: Leadership,
    led_before: bool,
    patience: GraceTimers<ViolationKey>,
    /// What kind of rule each of the broken ones is.
    rules: BTreeMap<ViolationKey, ViolatedRule>,
    brakes: EvictionLimiter,
    written: LedgerSync,
    evictor: Evictor,
    /// Pods that were told to go, by uid, until they have gone.
    going: HashMap<String, Going>,
    n_in_flight: usize,
    /// Pods reserved with the brakes that have not been sent yet, by uid.
    reserved: HashSet<String>,
    /// Pods whose eviction may yet be carried out although it seemed to fail, by uid: they stay reserved.
    uncertain: HashSet<String>,
    retries: HashMap<String, Retry>,
    /// What was said about why somebody stays, by pod or rule, so that it is said once.
    said: HashMap<String, &'static str>,
    /// When to judge for reasons other than the end of a grace.
    judge_at: Option<Instant>,
    /// Judging takes no more than a part of the time.
    judge_not_before: Instant,
    recorder: Option<EventRecorder>,
    ended: mpsc::UnboundedSender<Completion>,
    /// Requests under way; as many as may be at a time, so what they send back is bounded too.
    tasks: JoinSet<()>,
    metrics: Arc<Metrics>,
    /// As it is now, and as it was shown last.
    shown: Snapshot,
    shown_last: Snapshot,
    snapshot: watch::Sender<Snapshot>,
}

pub(crate) async fn start(
    config: kube::Config,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> Result<Handle, EnforcerError> {
    let client = berth_client::connect::client(config)?;
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry));
    let (snapshot, receiver) = watch::channel(Snapshot {
        pending_sources: SOURCES.iter().map(|source| source.name()).collect(),
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
    let (leadership, elector) = match options.leader_election.as_ref().filter(|_| !options.dry_run) {
        Some(lease) => {
            let (leadership, elector) = elect(client.clone(), lease.clone(), last.clone());
            (leadership, Some(elector))
        }
        None => (Leadership::uncontested(), None),
    };
    let mirrored = MirrorOptions {
        sources: &SOURCES,
        watch_idle_timeout: options.watch_idle_timeout,
        check_interval: options.resync_interval,
        check_grace: options.resync_grace,
        keeps: Arc::new(|_| false),
    };
    let (mirror, watch_events) = Mirror::start(client.clone(), mirrored);
    let (ended_sender, ended) = mpsc::unbounded_channel();
    let recorder = (!options.dry_run).then(|| {
        let recording = RecorderOptions::new(CONTROLLER, options.identity.clone());
        EventRecorder::start(client.clone(), recording, last.clone())
    });
    let evictor = Evictor {
        client: client.clone(),
        leadership: leadership.clone(),
        timeout: options.request_timeout(),
        metrics: metrics.clone(),
        stop: CancellationToken::new(),
    };
    let mut cluster = Cluster::new(options.settings.clone());
    cluster.watch_violations();
    let exempt_by_settings =
        options.settings.exempt_namespaces.iter().filter(|_| options.settings.extensions);
    let enforcer = Enforcer {
        remedy_options: RemedyOptions {
            seek_targets: true,
            evict_without_target: options.evict_without_target,
            exempt_namespaces: options.exempt_namespaces.clone(),
        },
        exempt_namespaces: exempt_by_settings.chain(&options.exempt_namespaces).cloned().collect(),
        cluster,
        mirror,
        pods: Pods::default(),
        is_complete: false,
        // Without an election there is no first moment of leading, after which pods are listed anew.
        led_before: elector.is_none(),
        leadership,
        patience: GraceTimers::default(),
        rules: BTreeMap::new(),
        brakes: EvictionLimiter::new(options.brakes.clone()),
        written: LedgerSync::new(client, &options),
        evictor,
        going: HashMap::new(),
        n_in_flight: 0,
        reserved: HashSet::new(),
        uncertain: HashSet::new(),
        retries: HashMap::new(),
        said: HashMap::new(),
        judge_at: None,
        judge_not_before: Instant::now(),
        recorder,
        ended: ended_sender,
        tasks: JoinSet::new(),
        metrics,
        shown: Snapshot::default(),
        shown_last: Snapshot::default(),
        snapshot,
        options,
    };
    let task = tokio::spawn(enforcer.run(watch_events, ended, stop, Sidecars::new(last, elector)));
    Ok(Handle::new(receiver, http_address, task))
}

impl Enforcer {
    async fn run(
        mut self,
        mut watch_events: mpsc::Receiver<WatchEvent>,
        mut ended: mpsc::UnboundedReceiver<Completion>,
        stop: CancellationToken,
        companions: Sidecars,
    ) {
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        // One for all turns: it remembers what it has seen of the lease.
        let mut leadership = self.leadership.clone();
        loop {
            let wake_at = self.next_wake(Instant::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(end) = ended.recv() => self.ended(end),
                n = watch_events.recv_many(&mut batch, EVENTS_AT_ONCE) => if n == 0 { break },
                () = leadership.changed() => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
            while let Ok(end) = ended.try_recv() {
                self.ended(end);
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
            self.turn();
        }
        self.stop(&mut ended).await;
        companions.stop().await;
    }

    /// One turn: everything told is known.
    fn turn(&mut self) {
        let now = Instant::now();
        self.watch_leadership();
        self.take_violations(now);
        while self.tasks.try_join_next().is_some() {}
        self.keep_ledger(now);
        if self.judge_at.is_some_and(|at| at.max(self.judge_not_before) <= now) && self.may_judge() {
            self.judge_at = None;
            self.judge(now);
            self.judge_not_before = Instant::now() + now.elapsed() * JUDGING_SHARE;
        }
        self.mirror.check_if_due(now);
        self.show();
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&self, now: Instant) -> Instant {
        let judge_at = self.judge_at.filter(|_| self.may_judge()).map(|at| at.max(self.judge_not_before));
        let ledger_at = self.written.retry_at(self.keeps_ledger());
        let times = [self.patience.next_due(), judge_at, ledger_at];
        times.into_iter().flatten().min().map_or(now + LONGEST_PAUSE, |at| at.min(now + LONGEST_PAUSE))
    }

    fn judge_soon(&mut self, at: Instant) {
        self.judge_at = Some(self.judge_at.map_or(at, |planned| planned.min(at)));
    }

    /// What another leader did until a moment ago may not have been told yet: before the first decision as a leader,
    /// pods are listed anew, and the ledger is read.
    fn watch_leadership(&mut self) {
        let leads = self.leadership.leads();
        if leads && !self.led_before {
            self.mirror.relist_pods();
        }
        if !leads && self.led_before {
            self.written.forget();
        }
        self.led_before = leads;
    }

    fn may_judge(&self) -> bool {
        self.is_complete
            && self.mirror.is_complete()
            && (self.options.dry_run || (self.keeps_ledger() && self.written.is_known()))
    }

    /// Whether this process evicts, and writes down that it does.
    fn keeps_ledger(&self) -> bool {
        !self.options.dry_run && self.leadership.leads()
    }

    fn show(&mut self) {
        let leads = self.keeps_ledger();
        let shown = &mut self.shown;
        shown.pending_sources = self.mirror.pending();
        shown.leads = leads;
        shown.n_nodes = self.mirror.n_nodes();
        shown.n_pods = self.mirror.n_pods();
        shown.n_broken = self.patience.len();
        shown.n_due = self.patience.n_due();
        shown.n_going = self.going.len();
        shown.is_brake_engaged = self.brakes.is_engaged();
        shown.n_events_dropped = self.recorder.as_ref().map_or(0, EventRecorder::dropped);
        if *shown != self.shown_last {
            self.metrics.show(&self.shown_last.held, shown);
            self.shown_last = shown.clone();
            self.snapshot.send_replace(shown.clone());
        }
    }

    /// Waits for evictions under way, within limits.
    async fn stop(&mut self, ended: &mut mpsc::UnboundedReceiver<Completion>) {
        let deadline = Instant::now() + self.options.stop_timeout;
        while self.n_in_flight > 0 {
            match tokio::time::timeout_at(deadline, ended.recv()).await {
                Ok(Some(end)) => self.ended(end),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(n = self.n_in_flight, "stopping before all evictions are answered");
                    break;
                }
            }
        }
        self.evictor.stop.cancel();
        self.show();
    }
}
