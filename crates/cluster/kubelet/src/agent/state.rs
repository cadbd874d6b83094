//! The state of the agent.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::object::Node;
use berth_client::FailureLog;
use berth_client::rate_limit::{RateLimit, Tokens};
use jiff::Timestamp;
use tokio::time::Instant;

use super::pending_mounts::PendingMounts;
use super::request_queue::{Job, RequestQueue};
use super::store::{NodeId, NodeState, Nodes, PendingPodResize, PodCounter, PodId, Pods};
use crate::address::AddressPool;
use crate::admission::NodeAdmission;
use crate::control::Counts;
use crate::device::DeviceClaims;
use crate::event::PodEvents;
use crate::options::KubeletOptions;
use crate::request::Caller;
use crate::selector::NodeSelection;
use crate::timer::Timers;
use crate::volume::Volumes;

/// Short starts that are written per second, in the long run and at once. In bursts of pods, most go without: each costs a
/// write.
const ANNOUNCEMENTS: RateLimit = RateLimit { qps: 20.0, burst: 100 };
/// Time between two messages about failed requests.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

pub(crate) struct Agent {
    pub(super) options: KubeletOptions,
    pub(super) selection: NodeSelection,
    pub(super) caller: Arc<Caller>,
    pub(super) nodes: Nodes,
    pub(super) pods: Pods,
    /// Pods that wait for their final check, oldest first.
    pub(super) pending_rechecks: Vec<(NodeId, PodId)>,
    pub(super) admission: NodeAdmission,
    pub(super) volumes: Volumes,
    pub(super) devices: DeviceClaims,
    pub(super) pending_mounts: PendingMounts,
    /// In the order of their requests.
    pub(super) pending_resizes: Vec<PendingPodResize>,
    pub(super) timers: Timers<Timer>,
    pub(super) work: RequestQueue,
    pub(super) leases: RequestQueue,
    pub(super) node_ips: AddressPool,
    pub(super) pod_ips: AddressPool,
    pub(super) counts: Arc<Counts>,
    pub(super) started: Instant,
    pub(super) failure_log: FailureLog,
    /// None before the start.
    pub(super) events: Option<PodEvents>,
    /// Whether the pod watch has delivered its list; before that, pods of single nodes are not listed.
    pub(super) follows_pods: bool,
    /// For starts that are written only if these are few.
    pub(super) announcements: Tokens,
    /// Nodes whose first registration request is not completed.
    pub(super) n_registering: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Timer {
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
            devices: DeviceClaims::default(),
            pending_mounts: PendingMounts::default(),
            pending_resizes: Vec::new(),
            timers: Timers::new(),
            work: RequestQueue::new(limit),
            leases: RequestQueue::new(limit.div_ceil(4)),
            node_ips: AddressPool::of_nodes(),
            pod_ips: AddressPool::of_pods(),
            counts,
            started: Instant::now(),
            failure_log: FailureLog::new(FAILURE_PAUSE, FAILURE_PAUSE),
            events: None,
            follows_pods: false,
            announcements: Tokens::new(ANNOUNCEMENTS.qps, ANNOUNCEMENTS.burst, Instant::now()),
            n_registering: 0,
            options,
        };
        for node in nodes {
            let name = Arc::from(node.metadata.name.as_str());
            agent.insert_node(name, Arc::new(node), NodeState::Registering);
        }
        agent
    }

    pub(super) fn push(&mut self, job: Job) {
        match job {
            Job::Lease(_) => self.leases.push(job),
            _ => self.work.push(job),
        }
    }

    pub(super) fn retry(&mut self, job: Job, after: Duration) {
        self.timers.add(Instant::now() + after, Timer::Retry(job));
    }

    pub(super) fn recount(&mut self, before: PodCounter, now: PodCounter) {
        let counts = &*self.counts;
        for (counter, sign) in [(before, false), (now, true)] {
            let add = |count: &std::sync::atomic::AtomicUsize| {
                if sign {
                    count.fetch_add(1, Ordering::Relaxed);
                } else {
                    count.fetch_sub(1, Ordering::Relaxed);
                }
            };
            match counter {
                PodCounter::Nothing => {}
                PodCounter::Pending => add(&counts.pods_pending),
                PodCounter::Running => add(&counts.pods_running),
                PodCounter::Ready => {
                    add(&counts.pods_running);
                    add(&counts.pods_ready);
                }
            }
        }
    }
}

/// The wall-clock time for API objects; timers use the monotonic clock.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
