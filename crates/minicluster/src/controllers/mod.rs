//! The workload and cluster controllers: clients of the API like any other, on any API server.
//!
//! Each controller hears of changes through shared informers (`informer`, `cache`), which put keys into its queue
//! (`queue`); its sync reads the caches, makes a plan with pure functions (`plan.rs` and the like, which the tests
//! are about) and carries it out with requests (`api`). No sync looks at all pods: the caches are indexed by
//! controller, namespace and node.

#![allow(dead_code)]

mod api;
mod cache;
mod daemon_set;
mod deployment;
mod events;
mod expectations;
mod fenceposts;
mod informer;
mod job;
mod kinds;
mod options;
mod ownership;
mod pod_control;
mod queue;
mod replica_set;
mod revisions;
mod stateful_set;
mod template;
mod view;

pub use options::ControllerOptions;

use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::api::Api;
use self::cache::Cached;
use self::daemon_set::DaemonSets;
use self::deployment::Deployments;
use self::informer::Informer;
use self::job::Jobs;
use self::kinds::Kind;
use self::replica_set::ReplicaSets;
use self::stateful_set::StatefulSets;

/// Runs all controllers until `stop`.
///
/// Nothing is done before the caches are filled. Requests that fail are tried again, so an API server may come and go.
pub async fn run(client: Client, options: ControllerOptions, stop: CancellationToken) {
    let api = Api::new(client);
    // A token of its own: what breaks in here ends this, not the caller's other parts.
    let stop = stop.child_token();
    let (recorder, write_events) = events::recorder(api.clone(), stop.clone());
    let mut pods = informer(&kinds::PODS);
    let mut replica_sets = informer(&kinds::REPLICA_SETS);
    let mut replication_controllers = informer(&kinds::REPLICATION_CONTROLLERS);
    let mut deployments = informer(&kinds::DEPLOYMENTS);
    let mut stateful_sets = informer(&kinds::STATEFUL_SETS);
    let mut daemon_sets = informer(&kinds::DAEMON_SETS);
    let mut jobs = informer(&kinds::JOBS);
    let revisions = informer(&kinds::CONTROLLER_REVISIONS);
    let mut nodes = informer(&kinds::NODES);

    let recorder_of = |source| recorder.of(source);
    let rs = ReplicaSets::new(
        &kinds::REPLICA_SETS,
        &api,
        recorder_of("replicaset-controller"),
        &mut replica_sets,
        &mut pods,
    );
    let rc = ReplicaSets::new(
        &kinds::REPLICATION_CONTROLLERS,
        &api,
        recorder_of("replication-controller"),
        &mut replication_controllers,
        &mut pods,
    );
    let deployment = Deployments::new(
        &api,
        recorder_of("deployment-controller"),
        &mut deployments,
        &mut replica_sets,
        &mut pods,
    );

    let stateful_set = StatefulSets::new(
        &api,
        recorder_of("statefulset-controller"),
        &mut stateful_sets,
        &revisions,
        &mut pods,
    );
    let daemon_set = DaemonSets::new(
        &api,
        recorder_of("daemonset-controller"),
        &mut daemon_sets,
        &revisions,
        &mut pods,
        &mut nodes,
    );

    let job = Jobs::new(&api, recorder_of("job-controller"), &mut jobs, &mut pods);

    let mut tasks = Tasks { api, stop, synced: Vec::new(), set: JoinSet::new() };
    tasks.set.spawn(write_events);
    tasks.follow(pods);
    tasks.follow(replica_sets);
    tasks.follow(replication_controllers);
    tasks.follow(deployments);
    tasks.follow(stateful_sets);
    tasks.follow(daemon_sets);
    tasks.follow(jobs);
    tasks.follow(revisions);
    tasks.follow(nodes);
    if !tasks.are_synced().await {
        return;
    }
    tracing::debug!("the caches are filled, controllers start");
    let n = options.n_workers;
    tasks.work(|stop| rs.run(n, stop));
    tasks.work(|stop| rc.run(n, stop));
    tasks.work(|stop| deployment.run(n, stop));
    tasks.work(|stop| stateful_set.run(n, stop));
    tasks.work(|stop| daemon_set.run(n, stop));
    tasks.work(|stop| job.run(n, stop));
    tasks.end().await;
}

fn informer<T: Cached + DeserializeOwned>(kind: &'static Kind) -> Informer<T> {
    Informer::new(kind.plural, kind.path(""))
}

/// Everything that runs; dropping it ends all of it.
struct Tasks {
    api: Api,
    stop: CancellationToken,
    synced: Vec<watch::Receiver<bool>>,
    set: JoinSet<()>,
}

impl Tasks {
    fn follow<T: Cached + DeserializeOwned>(&mut self, informer: Informer<T>) {
        self.synced.push(informer.synced());
        self.set.spawn(informer.run(self.api.clone(), self.stop.clone()));
    }

    /// Waits until all caches are filled; false if it was stopped before.
    async fn are_synced(&mut self) -> bool {
        for synced in &mut self.synced {
            tokio::select! {
                // The sender lives as long as its informer runs.
                _ = synced.wait_for(|synced| *synced) => {}
                () = self.stop.cancelled() => return false,
            }
        }
        true
    }

    fn work<F: Future<Output = ()> + Send + 'static>(&mut self, run: impl FnOnce(CancellationToken) -> F) {
        self.set.spawn(run(self.stop.clone()));
    }

    /// Waits for all of it to end. A controller that panics takes the others with it: half a control plane would be
    /// harder to notice.
    async fn end(mut self) {
        while let Some(ended) = self.set.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller broke");
                self.stop.cancel();
            }
        }
    }
}
