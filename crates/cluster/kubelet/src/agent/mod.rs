//! The agent of all nodes: one task owns the state and decides; requests run in tasks of their own.
//!
//! It has one watch each for nodes, namespaces and bound pods, for any number of nodes. All timers are in one queue.
//! Requests are in two queues, so that neither heartbeats nor pods starve the other.

mod failure_log;
mod heartbeats;
mod mounts;
mod nodes;
mod pods;
mod recheck;
mod request_queue;
mod resizes;
mod store;
mod writes;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::object::{Namespace, Node};
use berth_api::resource;
use berth_client::{Event, WatchOptions, WatchStream, watch};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::failure_log::FailureLog;
use self::mounts::PendingMounts;
use self::request_queue::{Completion, Job, RequestQueue};
use self::resizes::DeferredResize;
use self::store::{Counted, NodeId, NodeState, Nodes, PodId, Pods};
use crate::address::AddressPool;
use crate::admission::NodeAdmission;
use crate::control::{Command, ControlError, Counts, Power};
use crate::event::PodEvents;
use crate::node::NodeView;
use crate::options::KubeletOptions;
use crate::pod::view::PodView;
use crate::request::Caller;
use crate::selector::NodeSelection;
use crate::timer::Timers;
use crate::volume::{ClaimView, CsiNodeView, VolumeView, Volumes};

/// Events taken from one watch in one turn.
const BATCH: usize = 256;

pub(crate) struct Agent {
    options: KubeletOptions,
    selection: NodeSelection,
    caller: Arc<Caller>,
    nodes: Nodes,
    pods: Pods,
    /// Pods that wait for their final check, oldest first.
    pending_rechecks: Vec<(NodeId, PodId)>,
    admission: NodeAdmission,
    volumes: Volumes,
    pending_mounts: PendingMounts,
    /// In the order of their requests.
    deferred_resizes: Vec<DeferredResize>,
    timers: Timers<Timer>,
    work: RequestQueue,
    leases: RequestQueue,
    node_ips: AddressPool,
    pod_ips: AddressPool,
    counts: Arc<Counts>,
    started: Instant,
    failure_log: FailureLog,
    /// None before the start.
    events: Option<PodEvents>,
    /// Whether the pod watch has delivered its list; before that, pods of single nodes are not listed.
    follows_pods: bool,
    /// Nodes whose first registration request is not completed.
    n_registering: usize,
}

#[derive(Clone, Copy, Debug)]
enum Timer {
    Lease(NodeId, u32),
    NodeStatus(NodeId, u32),
    /// The next stage of the pod, or its final check.
    Pod(PodId, u32),
    /// The next event about a pod that waits for its volumes.
    Mount(PodId),
    /// Retry of a failed request.
    Retry(Job),
}

impl Agent {
    pub(crate) fn new(
        options: KubeletOptions,
        selection: NodeSelection,
        caller: Caller,
        nodes: Vec<Node>,
        counts: Arc<Counts>,
    ) -> Agent {
        let limit = options.max_concurrent_requests.max(1);
        let mut agent = Agent {
            selection,
            caller: Arc::new(caller),
            nodes: Nodes::default(),
            pods: Pods::default(),
            pending_rechecks: Vec::new(),
            admission: NodeAdmission::new(options.admission.clone()),
            volumes: Volumes::default(),
            pending_mounts: PendingMounts::default(),
            deferred_resizes: Vec::new(),
            timers: Timers::new(),
            work: RequestQueue::new(limit),
            leases: RequestQueue::new(limit.div_ceil(4)),
            node_ips: AddressPool::of_nodes(),
            pod_ips: AddressPool::of_pods(),
            counts,
            started: Instant::now(),
            failure_log: FailureLog::default(),
            events: None,
            follows_pods: false,
            n_registering: 0,
            options,
        };
        for node in nodes {
            let name = Arc::from(node.metadata.name.as_str());
            agent.insert_node(name, Arc::new(node), NodeState::Registering);
        }
        agent
    }

    /// Runs until `stop`. The nodes stay in the API, where they become `NotReady`.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>, stop: CancellationToken) {
        let client = self.caller.own();
        self.events = Some(PodEvents::start(client.clone(), self.options.events, stop.clone()));
        let mut namespaces =
            watch::<Namespace>(client.clone(), WatchOptions::new(resource::NAMESPACES.path("")));
        let mut nodes = watch::<NodeView>(client.clone(), WatchOptions::new(resource::NODES.path("")));
        // Only pods with claims wait for these.
        let mut claims = watch::<ClaimView>(
            client.clone(),
            WatchOptions::new(resource::PERSISTENT_VOLUME_CLAIMS.path("")),
        );
        let mut volumes =
            watch::<VolumeView>(client.clone(), WatchOptions::new(resource::PERSISTENT_VOLUMES.path("")));
        let mut csi_nodes =
            watch::<CsiNodeView>(client.clone(), WatchOptions::new(resource::CSI_NODES.path("")));
        let (mut claim_events, mut volume_events, mut csi_node_events) = (Vec::new(), Vec::new(), Vec::new());
        let mut pods: Option<WatchStream<PodView>> = None;
        let mut ready = Ready { namespaces: false, nodes: false };
        let (mut namespace_events, mut node_events, mut pod_events) = (Vec::new(), Vec::new(), Vec::new());
        let mut running = true;
        while running {
            // The check of a pod needs its node and namespace, so these are listed first.
            if pods.is_none() && ready.namespaces && ready.nodes && self.n_registering == 0 {
                let options = WatchOptions::new(resource::PODS.path("")).fields("spec.nodeName!=");
                pods = Some(watch::<PodView>(client.clone(), options));
            }
            let next_timer = self.timers.next_due();
            tokio::select! {
                () = stop.cancelled() => running = false,
                Some(command) = commands.recv() => self.execute(command),
                n = namespaces.next_many(&mut namespace_events, BATCH) => {
                    running = n > 0;
                    for event in namespace_events.drain(..) {
                        ready.namespaces |= matches!(event, Event::Restarted(_));
                        self.namespace_event(event);
                    }
                }
                n = nodes.next_many(&mut node_events, BATCH) => {
                    running = n > 0;
                    for event in node_events.drain(..) {
                        ready.nodes |= matches!(event, Event::Restarted(_));
                        self.node_event(event);
                    }
                }
                n = claims.next_many(&mut claim_events, BATCH) => {
                    running = n > 0;
                    claim_events.drain(..).for_each(|event| self.claim_event(event));
                }
                n = volumes.next_many(&mut volume_events, BATCH) => {
                    running = n > 0;
                    volume_events.drain(..).for_each(|event| self.volume_event(event));
                }
                n = csi_nodes.next_many(&mut csi_node_events, BATCH) => {
                    running = n > 0;
                    csi_node_events.drain(..).for_each(|event| self.csi_node_event(event));
                }
                n = next_of(&mut pods, &mut pod_events) => {
                    running = n > 0;
                    for event in pod_events.drain(..) {
                        self.pod_event(event);
                    }
                }
                done = self.work.done() => {
                    self.done(done);
                    while let Some(done) = self.work.try_done() {
                        self.done(done);
                    }
                }
                done = self.leases.done() => {
                    self.done(done);
                    while let Some(done) = self.leases.try_done() {
                        self.done(done);
                    }
                }
                () = sleep_until(next_timer) => {
                    let now = Instant::now();
                    while let Some(timer) = self.timers.pop(now) {
                        self.fire(timer);
                    }
                }
            }
            self.start_jobs();
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::Lease(node, epoch) => self.lease_due(node, epoch),
            Timer::NodeStatus(node, epoch) => self.status_due(node, epoch),
            Timer::Pod(pod, epoch) => self.pod_due(pod, epoch),
            Timer::Mount(pod) => self.mount_due(pod),
            Timer::Retry(job) => self.push(job),
        }
    }

    fn push(&mut self, job: Job) {
        match job {
            Job::Lease(_) => self.leases.push(job),
            _ => self.work.push(job),
        }
    }

    fn start_jobs(&mut self) {
        while let Some(job) = self.leases.next() {
            self.start(job);
        }
        while let Some(job) = self.work.next() {
            self.start(job);
        }
    }

    fn start(&mut self, job: Job) {
        match job {
            Job::Register(node)
            | Job::NodeStatus(node)
            | Job::NodeLabels(node)
            | Job::CsiNode(node)
            | Job::Lease(node)
            | Job::ListPods(node) => self.start_node_job(job, node),
            Job::Pod(pod) => self.start_pod_write(pod),
            Job::Recheck(pod) => self.start_recheck(pod),
        }
    }

    fn done(&mut self, done: Completion) {
        match done.job {
            Job::Register(node) => self.registration_completed(node, done.result),
            Job::NodeStatus(node) => self.status_written(node, done.result),
            Job::NodeLabels(node) => self.labels_written(node, done.result),
            Job::CsiNode(node) => self.csi_node_created(node, done.result),
            Job::Lease(node) => self.lease_written(node, done.kind, done.result),
            Job::ListPods(node) => self.pods_listed(node, done.result),
            Job::Pod(pod) => self.pod_written(pod, done.kind, done.result),
            Job::Recheck(pod) => self.recheck(pod, done.result),
        }
    }

    fn retry(&mut self, job: Job, after: Duration) {
        self.timers.add(Instant::now() + after, Timer::Retry(job));
    }

    fn namespace_event(&mut self, event: Event<Namespace>) {
        match event {
            // Namespaces that were deleted in the meantime may stay: they have no pods.
            Event::Restarted(namespaces) => namespaces.iter().for_each(|n| self.admission.set_namespace(n)),
            Event::Applied(namespace) => self.admission.set_namespace(&namespace),
            Event::Deleted(namespace) => self.admission.remove_namespace(&namespace.metadata.name),
        }
    }

    fn execute(&mut self, command: Command) {
        let node =
            self.nodes.find(&command.node).filter(|id| self.nodes.get(*id).state != NodeState::Deleted);
        let result = match node {
            None => Err(ControlError::UnknownNode { node: command.node }),
            Some(id) => {
                match command.power {
                    Power::Off => self.stop_node(id),
                    Power::On => self.start_node(id),
                }
                Ok(())
            }
        };
        // The caller may have dropped the receiver.
        let _ = command.done.send(result);
    }

    fn recount(&mut self, before: Counted, now: Counted) {
        let counts = &*self.counts;
        for (counted, sign) in [(before, false), (now, true)] {
            let add = |count: &std::sync::atomic::AtomicUsize| {
                if sign {
                    count.fetch_add(1, Ordering::Relaxed);
                } else {
                    count.fetch_sub(1, Ordering::Relaxed);
                }
            };
            match counted {
                Counted::Nothing => {}
                Counted::Pending => add(&counts.pods_pending),
                Counted::Running => add(&counts.pods_running),
                Counted::Ready => {
                    add(&counts.pods_running);
                    add(&counts.pods_ready);
                }
            }
        }
    }
}

/// Which lists have arrived.
struct Ready {
    namespaces: bool,
    nodes: bool,
}

async fn next_of(following: &mut Option<WatchStream<PodView>>, events: &mut Vec<Event<PodView>>) -> usize {
    match following {
        Some(following) => following.next_many(events, BATCH).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The wall-clock time for API objects; timers use the monotonic clock.
fn now() -> Timestamp {
    Timestamp::now()
}
