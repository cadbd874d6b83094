//! The task that owns the state.

mod completions;
mod report;

mod ledger_sync;
mod victims;
mod watch_events;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::DeviceResources;
use berth_client::Backoff;
use berth_client::component::Sidecars;
use berth_client::connect::Connection;
use berth_client::delegated::{self, DelegatedAuthorizer};
use berth_client::events::{EventRecorder, RecorderOptions};
use berth_client::lease::{Leadership, elect};
use berth_engine::{Cluster, RemedyOptions, Settings, ViolatedRule, ViolationKey};
use berth_mirror::{Mirror, MirrorOptions, Source, WatchEvent};
use berth_serve::ClientAuthorities;
use berth_serve::component::{self, Content};
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
use crate::{Handle, Status};
use completions::Completion;
use ledger_sync::LedgerSync;

/// Watch events applied before anything is evaluated again.
const EVENTS_AT_ONCE: usize = 512;
/// The loop turns at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Victim selection takes no more than one part in so many of the time.
const EVALUATION_SHARE: u32 = 8;
/// Members of a group are bound one after the other: so long, a pod may miss the pods that it requires.
const GROUP_GRACE: Duration = Duration::from_secs(2);
/// Name of the controller in events.
const CONTROLLER: &str = "berth-enforcer";

/// A pod that is evicted and not deleted yet.
struct Evicting {
    /// The rules that its eviction fixes.
    cures: Vec<ViolationKey>,
    /// Whether the request is still in flight.
    is_in_flight: bool,
}

/// A pod whose eviction was rejected or failed.
struct Retry {
    backoff: Backoff,
    not_before: Instant,
    /// Whether the API server rejected it, rather than the request failed.
    is_refused: bool,
}

struct Enforcer {
    options: EnforcerOptions,
    remedy_options: RemedyOptions,
    exempt_namespaces: HashSet<String>,
    cluster: Cluster,
    mirror: Mirror,
    pods: Pods,
    devices: DeviceResources,
    /// Whether all sources were listed once. Before that, violations mean nothing.
    is_complete: bool,
    leadership: Leadership,
    led_before: bool,
    graces: GraceTimers<ViolationKey>,
    /// Pods that were bound since the last turn.
    arrived: HashSet<(String, String)>,
    /// The pods that were bound against a rule, by the rule.
    intruders: BTreeMap<ViolationKey, Vec<(String, String)>>,
    /// The kinds of the violated rules.
    rules: BTreeMap<ViolationKey, ViolatedRule>,
    limiter: EvictionLimiter,
    ledger: LedgerSync,
    evictor: Evictor,
    /// Pods that are evicted, by uid, until they are deleted.
    evicting: HashMap<String, Evicting>,
    n_in_flight: usize,
    /// Pods that the limiter counts and whose eviction is not sent yet, by uid.
    reserved: HashSet<String>,
    /// Pods whose eviction failed but may still be carried out, by uid: the limiter counts them.
    uncertain: HashSet<String>,
    retries: HashMap<String, Retry>,
    /// The reason last reported of why a pod or rule has no eviction, so that each reason is reported once.
    reported: HashMap<String, &'static str>,
    /// When to select victims for reasons other than the end of a grace period.
    evaluate_at: Option<Instant>,
    evaluate_not_before: Instant,
    recorder: Option<EventRecorder>,
    completed: mpsc::UnboundedSender<Completion>,
    /// Requests in flight. Their number is limited, and so are their completions.
    tasks: JoinSet<()>,
    metrics: Arc<Metrics>,
    /// As it is now, and as it was published last.
    current: Status,
    last: Status,
    status: watch::Sender<Status>,
}

pub(crate) async fn start(
    connection: Connection,
    options: EnforcerOptions,
    stop: CancellationToken,
) -> Result<Handle, EnforcerError> {
    let client = berth_client::connect::client(connection)?;
    let mut registry = Registry::default();
    let metrics = Arc::new(Metrics::new(&mut registry));
    let (status, receiver) = watch::channel(Status {
        pending_sources: Source::PLACEMENT.iter().map(|source| source.name()).collect(),
        ..Status::default()
    });
    // Health is served and the lease is held until everything else has ended.
    let last = CancellationToken::new();
    let always_allowed = options.serving.always_allowed_paths();
    let authorizer = DelegatedAuthorizer::new(client.clone(), always_allowed).into_function();
    let client_authorities = Arc::new(ClientAuthorities::default());
    if options.serving.lacks_client_authorities() {
        let set = {
            let known = client_authorities.clone();
            move |pem: &str| known.set_pem(pem.as_bytes())
        };
        let follow = delegated::follow_client_authorities(client.clone(), set);
        tokio::spawn(last.clone().run_until_cancelled_owned(follow));
    }
    let content = Content {
        registry: Arc::new(registry),
        state: receiver.clone(),
        pages: None,
        authorizer,
        client_authorities,
    };
    let addresses = component::serve(&options.serving, content, last.clone()).await?;
    let (leadership, elector) = match options.leader_election.as_ref().filter(|_| !options.dry_run) {
        Some(lease) => {
            let (leadership, elector) = elect(client.clone(), lease.clone(), last.clone());
            (leadership, Some(elector))
        }
        None => (Leadership::uncontested(), None),
    };
    let mirrored = MirrorOptions {
        // The Eviction API checks PodDisruptionBudgets.
        sources: Source::PLACEMENT,
        watch_idle_timeout: options.watch_idle_timeout,
        check_interval: options.resync_interval,
        check_grace: options.resync_grace,
        keeps: Arc::new(|_| false),
    };
    let (mirror, watch_events) = Mirror::start(client.clone(), mirrored);
    let (completed, completions) = mpsc::unbounded_channel();
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
    let mut cluster = Cluster::new(Settings { all_node_attributes: false, ..options.settings.clone() });
    cluster.watch_violations();
    let exempt_by_settings =
        options.settings.exempt_namespaces.iter().filter(|_| options.settings.extensions);
    let mut limiter = EvictionLimiter::new(options.limits.clone());
    if options.leader_election.is_none() {
        limiter = limiter.shared_as(&options.identity);
    }
    let enforcer = Enforcer {
        remedy_options: RemedyOptions {
            seek_targets: true,
            evict_without_target: options.evict_without_target,
            exempt_namespaces: options.exempt_namespaces.clone(),
            bound_against_rule: Vec::new(),
        },
        exempt_namespaces: exempt_by_settings.chain(&options.exempt_namespaces).cloned().collect(),
        cluster,
        mirror,
        pods: Pods::default(),
        devices: DeviceResources::default(),
        is_complete: false,
        // Without an election, there is no beginning of a leadership after which pods are listed again.
        led_before: elector.is_none(),
        leadership,
        graces: GraceTimers::default(),
        arrived: HashSet::new(),
        intruders: BTreeMap::new(),
        rules: BTreeMap::new(),
        limiter,
        ledger: LedgerSync::new(client, &options),
        evictor,
        evicting: HashMap::new(),
        n_in_flight: 0,
        reserved: HashSet::new(),
        uncertain: HashSet::new(),
        retries: HashMap::new(),
        reported: HashMap::new(),
        evaluate_at: None,
        evaluate_not_before: Instant::now(),
        recorder,
        completed,
        tasks: JoinSet::new(),
        metrics,
        current: Status::default(),
        last: Status::default(),
        status,
        options,
    };
    let task = tokio::spawn(enforcer.run(watch_events, completions, stop, Sidecars::new(last, elector)));
    Ok(Handle::new(receiver, addresses.http, addresses.https, task))
}

impl Enforcer {
    async fn run(
        mut self,
        mut watch_events: mpsc::Receiver<WatchEvent>,
        mut completions: mpsc::UnboundedReceiver<Completion>,
        stop: CancellationToken,
        sidecars: Sidecars,
    ) {
        let mut batch = Vec::with_capacity(EVENTS_AT_ONCE);
        // One for all turns: it remembers what it has seen of the lease.
        let mut leadership = self.leadership.clone();
        loop {
            let wake_at = self.next_wake(Instant::now());
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(completion) = completions.recv() => self.apply_completion(completion),
                n = watch_events.recv_many(&mut batch, EVENTS_AT_ONCE) => if n == 0 { break },
                () = leadership.changed() => {}
                () = tokio::time::sleep_until(wake_at) => {}
            }
            while let Ok(completion) = completions.try_recv() {
                self.apply_completion(completion);
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
        self.stop(&mut completions).await;
        sidecars.stop().await;
    }

    /// One turn, after all events that have arrived are applied.
    fn turn(&mut self) {
        let now = Instant::now();
        self.observe_leadership();
        self.take_violations(now);
        while self.tasks.try_join_next().is_some() {}
        self.sync_ledger(now);
        if self.evaluate_at.is_some_and(|at| at.max(self.evaluate_not_before) <= now) && self.may_evict() {
            self.evaluate_at = None;
            self.select_victims(now);
            self.evaluate_not_before = Instant::now() + now.elapsed() * EVALUATION_SHARE;
        }
        self.mirror.read_node_attributes(&self.cluster, now);
        self.mirror.check_if_due(now);
        self.report();
    }

    /// When there is something to do although nothing happens.
    fn next_wake(&self, now: Instant) -> Instant {
        let evaluate_at =
            self.evaluate_at.filter(|_| self.may_evict()).map(|at| at.max(self.evaluate_not_before));
        let ledger_at = self.ledger.retry_at(self.keeps_ledger());
        let times = [self.graces.next_due(), evaluate_at, ledger_at];
        times.into_iter().flatten().min().map_or(now + LONGEST_PAUSE, |at| at.min(now + LONGEST_PAUSE))
    }

    fn evaluate_by(&mut self, at: Instant) {
        self.evaluate_at = Some(self.evaluate_at.map_or(at, |planned| planned.min(at)));
    }

    /// Events of what another leader did a moment ago may not have arrived yet: pods are listed again, and the ledger is
    /// read, before the first decision as a leader.
    fn observe_leadership(&mut self) {
        let leads = self.leadership.leads();
        if leads && !self.led_before {
            self.mirror.relist_pods();
        }
        if !leads && self.led_before {
            self.ledger.reset();
        }
        self.led_before = leads;
    }

    fn may_evict(&self) -> bool {
        self.is_complete
            && self.mirror.is_complete()
            && (self.options.dry_run || (self.keeps_ledger() && self.ledger.is_known()))
    }

    /// Whether this process evicts, and so keeps the ledger.
    fn keeps_ledger(&self) -> bool {
        !self.options.dry_run && self.leadership.leads()
    }

    fn report(&mut self) {
        let leads = self.keeps_ledger();
        let current = &mut self.current;
        current.pending_sources = self.mirror.pending();
        current.leads = leads;
        current.n_nodes = self.mirror.n_nodes();
        current.n_pods = self.mirror.n_pods();
        current.n_violated = self.graces.len();
        current.n_due = self.graces.n_due();
        current.n_evicting = self.evicting.len();
        current.is_stopped = self.limiter.is_stopped();
        current.n_events_dropped = self.recorder.as_ref().map_or(0, EventRecorder::dropped);
        if *current != self.last {
            self.metrics.update(&self.last.held, current);
            self.last = current.clone();
            self.status.send_replace(current.clone());
        }
    }

    /// Waits for evictions in flight, within limits.
    async fn stop(&mut self, completions: &mut mpsc::UnboundedReceiver<Completion>) {
        let deadline = Instant::now() + self.options.stop_timeout;
        while self.n_in_flight > 0 {
            match tokio::time::timeout_at(deadline, completions.recv()).await {
                Ok(Some(completion)) => self.apply_completion(completion),
                Ok(None) => break,
                Err(_) => {
                    tracing::warn!(n = self.n_in_flight, "stopping with evictions in flight");
                    break;
                }
            }
        }
        self.evictor.stop.cancel();
        self.report();
    }
}
