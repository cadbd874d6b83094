//! The workload and cluster controllers. They use the API as ordinary clients.
//!
//! Each controller gets events from shared informers of `berth-client`, which put keys into its queue (`queue`); its
//! sync reads the caches, makes a plan with pure functions (`plan.rs` and the like, which the tests are about) and
//! carries it out with requests (`api`). No sync looks at all pods: the caches are indexed by controller, namespace
//! and node (`index`).
//!
//! Async code is not generic over kinds: it would be compiled once for each of them.

mod api;
mod autoscaler;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod expectations;
mod failed_pods;
mod garbage;
mod index;
mod informers;
mod job;
mod namespace;
mod node_lifecycle;
mod options;
mod ownership;
mod persistent_volume;
mod pod_control;
mod pod_events;
mod pod_gc;
mod pod_group_protection;
mod provisioner;
mod queue;
mod replica_set;
mod resource_claim;
mod resources;
mod revisions;
mod stateful_set;
mod template;
mod view;

pub use options::ControllerOptions;
pub use provisioner::{DELAY_ANNOTATION, FAILURES_ANNOTATION, ProvisionerOptions, install_storage_class};

use std::sync::Arc;

use berth_api::resource::{self, Resource};
use berth_api::simulated_nodes::CSI_DRIVER;
use berth_client::{HasMetadata, WatchGroup};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::autoscaler::HorizontalPodAutoscalers;
use crate::cron_job::CronJobs;
use crate::daemon_set::DaemonSets;
use crate::deployment::Deployments;
use crate::disruption::DisruptionBudgets;
use crate::endpoints::ServiceEndpoints;
use crate::events::Recorder;
use crate::garbage::GarbageCollector;
use crate::index::{Informer, no_index};
use crate::informers::{Informers, Start, informer};
use crate::job::Jobs;
use crate::namespace::Namespaces;
use crate::node_lifecycle::{NodeLifecycle, TaintEviction};
use crate::persistent_volume::{EphemeralVolumes, PersistentVolumes};
use crate::pod_gc::PodGc;
use crate::pod_group_protection::PodGroupProtection;
use crate::provisioner::Provisioner;
use crate::replica_set::ReplicaSets;
use crate::resource_claim::{DeviceTaintEviction, ResourceClaims};
use crate::stateful_set::StatefulSets;
use crate::view::PartialObjectMetadata;

/// Kinds that only the garbage collector watches.
static ONLY_OWNED: [&Resource; 18] = [
    &resource::CONFIG_MAPS,
    &resource::SECRETS,
    &resource::PRIORITY_CLASSES,
    &resource::DEVICE_CLASSES,
    &resource::DEVICE_TAINT_RULES,
    &resource::CSI_DRIVERS,
    &resource::CSI_NODES,
    &resource::CSI_STORAGE_CAPACITIES,
    &resource::VOLUME_ATTACHMENTS,
    &resource::MUTATING_WEBHOOK_CONFIGURATIONS,
    &resource::VALIDATING_WEBHOOK_CONFIGURATIONS,
    &resource::API_SERVICES,
    &resource::CERTIFICATE_SIGNING_REQUESTS,
    &resource::INGRESSES,
    &resource::NETWORK_POLICIES,
    &resource::POD_TEMPLATES,
    &resource::WORKLOADS,
    &resource::COMPOSITE_POD_GROUPS,
];

/// Runs all controllers until `stop`.
///
/// The controllers wait until the caches are filled. They retry failed requests, so the API server may restart.
pub fn run(client: Client, options: ControllerOptions, stop: CancellationToken) -> BoxFuture<'static, ()> {
    // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
    async move {
        let gates = options.feature_gates;
        let api = &Api::new(client.clone(), gates);
        // A child token: a failure in here does not stop the caller's other components.
        let stop = stop.child_token();
        let events_stop = stop.clone();
        // Controllers trust their API server, and cannot do without a part of the objects.
        let group = WatchGroup::new(usize::MAX);
        let mut informers = Informers::new(&group, gates);

        let recorder = |controller| Recorder::start(client.clone(), controller, events_stop.clone());
        let replica_set =
            ReplicaSets::new(&resource::REPLICA_SETS, api, recorder("replicaset-controller"), &mut informers);
        let replication_controller = ReplicaSets::new(
            &resource::REPLICATION_CONTROLLERS,
            api,
            recorder("replication-controller"),
            &mut informers,
        );
        let deployment = Deployments::new(api, recorder("deployment-controller"), &mut informers);
        let stateful_set = StatefulSets::new(api, recorder("statefulset-controller"), &mut informers);
        let daemon_set =
            DaemonSets::new(api, recorder("daemonset-controller"), &mut informers, options.feature_gates);
        let job = Jobs::new(api, recorder("job-controller"), &mut informers, options.feature_gates);
        let cron_job = CronJobs::new(api, recorder("cronjob-controller"), &mut informers);
        let namespace = Namespaces::new(api, &mut informers);
        let node_lifecycle =
            NodeLifecycle::new(api, recorder("node-controller"), &mut informers, options.clone());
        let taint_eviction = TaintEviction::new(
            api,
            recorder("taint-eviction-controller"),
            &mut informers,
            options.feature_gates,
        );
        let group_protection = PodGroupProtection::new(api, &mut informers);
        let pod_gc = PodGc::new(api, informers.caches(), options.clone());
        let budget = DisruptionBudgets::new(api, recorder("controllermanager"), &mut informers);
        let autoscaler = HorizontalPodAutoscalers::new(
            api,
            recorder("horizontal-pod-autoscaler"),
            &mut informers,
            options.autoscaler_sync_period,
        );
        let endpoints = ServiceEndpoints::new(api, &mut informers);
        let volume = PersistentVolumes::new(api, recorder("persistentvolume-controller"), &mut informers);
        let ephemeral = EphemeralVolumes::new(api, recorder("ephemeral-volume-controller"), &mut informers);
        let resource_claim = recorder("resource-claim-controller");
        let resource_claim = ResourceClaims::new(api, resource_claim, &mut informers, options.feature_gates);
        let device_taints = recorder("device-taint-eviction-controller");
        let device_taints = DeviceTaintEviction::new(api, device_taints, &mut informers);
        let provisioner = options.provisioner.clone();
        let provisioner =
            provisioner.map(|options| Provisioner::new(api, recorder(CSI_DRIVER), options, &mut informers));

        let garbage_collector = Arc::new(GarbageCollector::new(api));
        let mut tasks = Tasks {
            api: api.clone(),
            garbage_collector: garbage_collector.clone(),
            stop,
            synced: Vec::new(),
            set: JoinSet::new(),
        };
        informers.start(&mut tasks);
        for kind in ONLY_OWNED.into_iter().filter(|kind| kind.served(gates).is_enabled(gates)) {
            tasks.start(kind, informer::<PartialObjectMetadata>(kind, no_index, &group, gates));
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
        tasks.work(|stop| group_protection.run(n, stop));
        tasks.work(|stop| pod_gc.run(stop));
        tasks.work(|stop| budget.run(n, stop));
        tasks.work(|stop| autoscaler.run(n, stop));
        tasks.work(|stop| endpoints.run(n, stop));
        tasks.work(|stop| volume.run(n, stop));
        tasks.work(|stop| ephemeral.run(n, stop));
        tasks.work(|stop| resource_claim.run(n, stop));
        tasks.work(|stop| device_taints.run(n, stop));
        if let Some(provisioner) = provisioner {
            tasks.work(|stop| provisioner.run(n, stop));
        }
        // Many small concurrent requests.
        tasks.work(|stop| garbage_collector.run(4 * n, stop));
        tasks.end().await;
    }
    .boxed()
}

/// All spawned tasks; dropping it stops them.
struct Tasks {
    api: Api,
    garbage_collector: Arc<GarbageCollector>,
    stop: CancellationToken,
    synced: Vec<watch::Receiver<bool>>,
    set: JoinSet<()>,
}

impl Start for Tasks {
    /// Starts an informer, whose events the garbage collector gets as well.
    fn start<T>(&mut self, kind: &'static Resource, mut informer: Informer<T>)
    where
        T: HasMetadata + DeserializeOwned + Send + Sync + 'static,
    {
        self.garbage_collector.follow(kind, &mut informer);
        self.synced.push(informer.synced());
        self.set.spawn(informer.run(self.api.client().clone(), self.stop.clone()));
    }
}

impl Tasks {
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
                tracing::error!(%error, "a controller panicked");
                self.stop.cancel();
            }
        }
    }
}
