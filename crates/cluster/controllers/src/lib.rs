//! The workload and cluster controllers. They use the API as ordinary clients.
//!
//! Each controller gets events from shared informers of `berth-client`, which put keys into its queue (`queue`); its
//! sync reads the caches, makes a plan with pure functions (`plan.rs` and the like, which the tests are about) and
//! carries it out with requests (`api`). No sync looks at all pods: the caches are indexed by controller, namespace
//! and node (`index`).
//!
//! Async code is not generic over kinds: it would be compiled once for each of them.

mod api;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod events;
mod expectations;
mod garbage;
mod index;
mod job;
mod namespace;
mod node_lifecycle;
mod options;
mod ownership;
mod persistent_volume;
mod pod_control;
mod pod_events;
mod pod_gc;
mod provisioner;
mod queue;
mod replica_set;
mod resources;
mod revisions;
mod stateful_set;
mod template;
mod view;

pub use options::ControllerOptions;
pub use provisioner::{DELAY_ANNOTATION, FAILURES_ANNOTATION, ProvisionerOptions, install_storage_class};

use std::time::Duration;

use berth_api::resource::{self, Resource};
use berth_api::simulated_nodes::CSI_DRIVER;
use berth_client::{HasMetadata, Indexer, WatchOptions};
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::cron_job::CronJobs;
use crate::daemon_set::DaemonSets;
use crate::deployment::Deployments;
use crate::disruption::{DisruptionBudgets, Scales};
use crate::events::Recorder;
use crate::garbage::GarbageCollector;
use crate::index::{Index, Informer, by_metadata, no_index};
use crate::job::Jobs;
use crate::namespace::{Namespace, Namespaces};
use crate::node_lifecycle::{NodeLifecycle, TaintEviction};
use crate::persistent_volume::{EphemeralVolumes, PersistentVolumes};
use crate::pod_gc::PodGc;
use crate::provisioner::Provisioner;
use crate::replica_set::ReplicaSets;
use crate::stateful_set::StatefulSets;
use crate::view::{
    ControllerRevision, CronJob, DaemonSet, Deployment, Job, Lease, Node, PartialObjectMetadata,
    PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget, ReplicaSet, StatefulSet, StorageClass,
};

/// Initial backoff of a watch. Controllers react to each other's changes, so it is short.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// Kinds that only the garbage collector watches.
static ONLY_OWNED: [&Resource; 24] = [
    &resource::CONFIG_MAPS,
    &resource::SECRETS,
    &resource::SERVICES,
    &resource::PRIORITY_CLASSES,
    &resource::DEVICE_CLASSES,
    &resource::CSI_DRIVERS,
    &resource::CSI_NODES,
    &resource::CSI_STORAGE_CAPACITIES,
    &resource::VOLUME_ATTACHMENTS,
    &resource::MUTATING_WEBHOOK_CONFIGURATIONS,
    &resource::VALIDATING_WEBHOOK_CONFIGURATIONS,
    &resource::API_SERVICES,
    &resource::CERTIFICATE_SIGNING_REQUESTS,
    &resource::ENDPOINTS,
    &resource::ENDPOINT_SLICES,
    &resource::HORIZONTAL_POD_AUTOSCALERS,
    &resource::INGRESSES,
    &resource::NETWORK_POLICIES,
    &resource::POD_TEMPLATES,
    &resource::RESOURCE_CLAIMS,
    &resource::RESOURCE_CLAIM_TEMPLATES,
    &resource::RESOURCE_SLICES,
    &resource::POD_GROUPS,
    &resource::WORKLOADS,
];

/// Runs all controllers until `stop`.
///
/// The controllers wait until the caches are filled. They retry failed requests, so the API server may restart.
pub async fn run(client: Client, options: ControllerOptions, stop: CancellationToken) {
    let api = &Api::new(client.clone());
    // A child token: a failure in here does not stop the caller's other components.
    let stop = stop.child_token();
    let events_stop = stop.clone();
    let mut tasks = Tasks { api: api.clone(), stop, synced: Vec::new(), set: JoinSet::new() };

    let mut pods = informer::<Pod>(&resource::PODS, Pod::index);
    let mut nodes = informer::<Node>(&resource::NODES, no_index);
    let leases = informer::<Lease>(&resource::LEASES, no_index);
    let mut namespaces = informer::<Namespace>(&resource::NAMESPACES, no_index);
    let mut service_accounts = informer::<PartialObjectMetadata>(&resource::SERVICE_ACCOUNTS, no_index);
    let mut replica_sets = informer::<ReplicaSet>(&resource::REPLICA_SETS, by_metadata);
    let mut replication_controllers = informer::<ReplicaSet>(&resource::REPLICATION_CONTROLLERS, by_metadata);
    let mut deployments = informer::<Deployment>(&resource::DEPLOYMENTS, by_metadata);
    let mut stateful_sets = informer::<StatefulSet>(&resource::STATEFUL_SETS, by_metadata);
    let mut daemon_sets = informer::<DaemonSet>(&resource::DAEMON_SETS, by_metadata);
    let revisions = informer::<ControllerRevision>(&resource::CONTROLLER_REVISIONS, by_metadata);
    let mut jobs = informer::<Job>(&resource::JOBS, by_metadata);
    let mut cron_jobs = informer::<CronJob>(&resource::CRON_JOBS, by_metadata);
    let mut budgets = informer::<PodDisruptionBudget>(&resource::POD_DISRUPTION_BUDGETS, by_metadata);
    let mut volumes = informer::<PersistentVolume>(&resource::PERSISTENT_VOLUMES, PersistentVolume::index);
    let mut claims =
        informer::<PersistentVolumeClaim>(&resource::PERSISTENT_VOLUME_CLAIMS, PersistentVolumeClaim::index);
    let mut classes = informer::<StorageClass>(&resource::STORAGE_CLASSES, no_index);

    let recorder = |controller| Recorder::start(client.clone(), controller, events_stop.clone());
    let replica_set = ReplicaSets::new(
        &resource::REPLICA_SETS,
        api,
        recorder("replicaset-controller"),
        &mut replica_sets,
        &mut pods,
    );
    let replication_controller = ReplicaSets::new(
        &resource::REPLICATION_CONTROLLERS,
        api,
        recorder("replication-controller"),
        &mut replication_controllers,
        &mut pods,
    );
    let deployment = Deployments::new(
        api,
        recorder("deployment-controller"),
        &mut deployments,
        &mut replica_sets,
        &mut pods,
    );
    let stateful_set = StatefulSets::new(
        api,
        recorder("statefulset-controller"),
        &mut stateful_sets,
        &revisions,
        &claims,
        &mut pods,
    );
    let daemon_set = DaemonSets::new(
        api,
        recorder("daemonset-controller"),
        &mut daemon_sets,
        &revisions,
        &mut pods,
        &mut nodes,
    );
    let job = Jobs::new(api, recorder("job-controller"), &mut jobs, &mut pods);
    let cron_job = CronJobs::new(api, recorder("cronjob-controller"), &mut cron_jobs, &mut jobs);
    let namespace = Namespaces::new(api, &mut namespaces, &mut service_accounts, &mut pods);
    let node_lifecycle = NodeLifecycle::new(
        api,
        recorder("node-controller"),
        &mut nodes,
        leases.cache(),
        pods.cache(),
        options.clone(),
    );
    let taint_eviction =
        TaintEviction::new(api, recorder("taint-eviction-controller"), &mut nodes, &mut pods);
    let pod_gc = PodGc::new(api, pods.cache(), nodes.cache(), options.clone());
    let scales = Scales {
        deployments: deployments.cache(),
        replica_sets: replica_sets.cache(),
        replication_controllers: replication_controllers.cache(),
        stateful_sets: stateful_sets.cache(),
    };
    let budget = DisruptionBudgets::new(api, recorder("controllermanager"), &mut budgets, &mut pods, scales);
    budget.follow_scale(&mut deployments, Deployment::replicas);
    budget.follow_scale(&mut replica_sets, ReplicaSet::replicas);
    budget.follow_scale(&mut replication_controllers, ReplicaSet::replicas);
    budget.follow_scale(&mut stateful_sets, StatefulSet::replicas);

    let volume = PersistentVolumes::new(
        api,
        recorder("persistentvolume-controller"),
        &mut volumes,
        &mut claims,
        &mut classes,
        &mut pods,
    );
    let ephemeral =
        EphemeralVolumes::new(api, recorder("ephemeral-volume-controller"), &mut claims, &mut pods);
    let provisioner = options.provisioner.clone().map(|options| {
        let recorder = recorder(CSI_DRIVER);
        Provisioner::new(api, recorder, options, &mut volumes, &mut claims, &classes, &nodes)
    });

    let garbage_collector = GarbageCollector::new(api);
    tasks.follow_owned(&garbage_collector, &resource::PODS, pods);
    tasks.follow_owned(&garbage_collector, &resource::NODES, nodes);
    tasks.follow_owned(&garbage_collector, &resource::LEASES, leases);
    tasks.follow_owned(&garbage_collector, &resource::NAMESPACES, namespaces);
    tasks.follow_owned(&garbage_collector, &resource::SERVICE_ACCOUNTS, service_accounts);
    tasks.follow_owned(&garbage_collector, &resource::REPLICA_SETS, replica_sets);
    tasks.follow_owned(&garbage_collector, &resource::REPLICATION_CONTROLLERS, replication_controllers);
    tasks.follow_owned(&garbage_collector, &resource::DEPLOYMENTS, deployments);
    tasks.follow_owned(&garbage_collector, &resource::STATEFUL_SETS, stateful_sets);
    tasks.follow_owned(&garbage_collector, &resource::DAEMON_SETS, daemon_sets);
    tasks.follow_owned(&garbage_collector, &resource::CONTROLLER_REVISIONS, revisions);
    tasks.follow_owned(&garbage_collector, &resource::JOBS, jobs);
    tasks.follow_owned(&garbage_collector, &resource::CRON_JOBS, cron_jobs);
    tasks.follow_owned(&garbage_collector, &resource::POD_DISRUPTION_BUDGETS, budgets);
    tasks.follow_owned(&garbage_collector, &resource::PERSISTENT_VOLUMES, volumes);
    tasks.follow_owned(&garbage_collector, &resource::PERSISTENT_VOLUME_CLAIMS, claims);
    tasks.follow_owned(&garbage_collector, &resource::STORAGE_CLASSES, classes);
    for kind in ONLY_OWNED {
        tasks.follow_owned(&garbage_collector, kind, informer::<PartialObjectMetadata>(kind, no_index));
    }

    if !tasks.are_synced().await {
        return;
    }
    tracing::debug!("the caches are filled, controllers start");
    let n = options.n_workers;
    tasks.work(|stop| replica_set.run(n, stop));
    tasks.work(|stop| replication_controller.run(n, stop));
    tasks.work(|stop| deployment.run(n, stop));
    tasks.work(|stop| stateful_set.run(n, stop));
    tasks.work(|stop| daemon_set.run(n, stop));
    tasks.work(|stop| job.run(n, stop));
    tasks.work(|stop| cron_job.run(n, stop));
    tasks.work(|stop| namespace.run(n, stop));
    tasks.work(|stop| node_lifecycle.run(n, stop));
    tasks.work(|stop| taint_eviction.run(n, stop));
    tasks.work(|stop| pod_gc.run(stop));
    tasks.work(|stop| budget.run(n, stop));
    tasks.work(|stop| volume.run(n, stop));
    tasks.work(|stop| ephemeral.run(n, stop));
    if let Some(provisioner) = provisioner {
        tasks.work(|stop| provisioner.run(n, stop));
    }
    // Many small concurrent requests.
    tasks.work(|stop| garbage_collector.run(4 * n, stop));
    tasks.end().await;
}

fn informer<T: HasMetadata>(kind: &'static Resource, indexer: Indexer<T, Index>) -> Informer<T> {
    let options = WatchOptions { first_retry: FIRST_RETRY, ..WatchOptions::new(kind.path("")) };
    Informer::indexed(options, indexer)
}

/// All spawned tasks; dropping it stops them.
struct Tasks {
    api: Api,
    stop: CancellationToken,
    synced: Vec<watch::Receiver<bool>>,
    set: JoinSet<()>,
}

impl Tasks {
    /// Starts an informer and also sends its events to the garbage collector.
    fn follow_owned<T>(
        &mut self,
        garbage_collector: &GarbageCollector,
        kind: &'static Resource,
        mut informer: Informer<T>,
    ) where
        T: HasMetadata + DeserializeOwned + Send + Sync + 'static,
    {
        garbage_collector.follow(kind, &mut informer);
        self.synced.push(informer.synced());
        self.set.spawn(informer.run(self.api.client().clone(), self.stop.clone()));
    }

    /// Waits until all caches are filled; returns false if stopped before.
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

    /// Waits for all tasks. A panic in one controller stops all: a partly working control plane would be
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
