//! The agent of all nodes: one task owns the state and decides; requests run in separate tasks.
//!
//! It has one watch each for nodes, namespaces and bound pods, for any number of nodes. It keeps no pod objects, only
//! their lifecycles, and hands namespaces to node admission: these watches feed no cache. Claims, volumes and CSINodes
//! are in the caches of informers. All timers are in one queue.
//! Requests are in two queues, so that neither heartbeats nor pods starve the other.

mod heartbeats;
mod mounts;
mod nodes;
mod pending_mounts;
mod pods;
mod recheck;
mod request_queue;
mod resizes;
mod state;
mod store;
mod writes;

use std::sync::Arc;

use berth_api::object::Namespace;
use berth_api::resource;
use berth_client::{ChangedKeys, Event, WatchOptions, WatchStream, watch};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::request_queue::{Completion, Job};
pub(crate) use self::state::Agent;
use self::state::Timer;
use self::store::NodeState;
use crate::control::{Command, ControlError, Power};
use crate::device::DeviceClaims;
use crate::event::PodEvents;
use crate::node::NodeView;
use crate::pod::view::PodView;

/// Events taken from one watch in one turn.
const BATCH: usize = 256;

impl Agent {
    /// Runs until `stop`. The nodes stay in the API, where they become `NotReady`.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>, stop: CancellationToken) {
        let client = self.caller.own();
        self.events = Some(PodEvents::start(client.clone(), self.options.events, stop.clone()));
        let mut namespaces =
            watch::<Namespace>(client.clone(), WatchOptions::new(resource::NAMESPACES.path("")));
        let mut nodes = watch::<NodeView>(client.clone(), WatchOptions::new(resource::NODES.path("")));
        // Only pods with claims wait for these.
        let changed_claims = Arc::new(ChangedKeys::default());
        let informers = stop.child_token();
        let _stops_informers = informers.clone().drop_guard();
        self.volumes.follow(&client, &changed_claims, &informers);
        self.devices = DeviceClaims::new(client.clone(), &changed_claims, informers.clone());
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
                claims = changed_claims.take() => claims.iter().for_each(|claim| self.claim_changed(claim)),
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
}

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
