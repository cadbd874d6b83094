//! The informers that the controllers share.

use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::volume::{PersistentVolume, PersistentVolumeClaim};
use berth_api::resource::{self, Resource};
use berth_client::{HasMetadata, Indexer, WatchGroup, WatchOptions};

use super::index::{Cache, Index, Informer, by_metadata, no_index};
use super::view::*;

/// Initial backoff of a watch. Controllers react to each other's changes, so it is short.
const FIRST_RETRY: Duration = Duration::from_millis(100);

pub(crate) fn informer<T: HasMetadata>(
    kind: &'static Resource,
    indexer: Indexer<T, Index>,
    group: &WatchGroup,
    gates: FeatureGates,
) -> Informer<T> {
    let (path, group) = (kind.served(gates).path(""), group.clone());
    let options = WatchOptions { first_retry: FIRST_RETRY, group, ..WatchOptions::new(path) };
    Informer::indexed(options, indexer)
}

/// A row for each kind: field, type, resource, and how objects are indexed.
macro_rules! informers {
    ($($field:ident: $kind:ty = $resource:ident, $indexer:expr;)*) => {
        /// The informers, one for each kind that controllers read.
        pub(crate) struct Informers {
            $(pub(crate) $field: Informer<$kind>,)*
        }

        #[derive(Clone)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Arc<Cache<$kind>>,)*
        }

        impl Informers {
            pub(crate) fn new(group: &WatchGroup, gates: FeatureGates) -> Informers {
                Informers { $($field: informer(&resource::$resource, $indexer, group, gates),)* }
            }

            pub(crate) fn caches(&self) -> Caches {
                Caches { $($field: self.$field.cache(),)* }
            }

            /// Passes each informer to the tasks that run it.
            pub(crate) fn start(self, tasks: &mut impl Start) {
                $(tasks.start(&resource::$resource, self.$field);)*
            }
        }
    };
}

pub(crate) trait Start {
    fn start<T>(&mut self, kind: &'static Resource, informer: Informer<T>)
    where
        T: HasMetadata + serde::de::DeserializeOwned + Send + Sync + 'static;
}

informers! {
    pods: Pod = PODS, Pod::index;
    nodes: Node = NODES, no_index;
    leases: Lease = LEASES, no_index;
    namespaces: Namespace = NAMESPACES, no_index;
    service_accounts: PartialObjectMetadata = SERVICE_ACCOUNTS, no_index;
    replica_sets: ReplicaSet = REPLICA_SETS, by_metadata;
    replication_controllers: ReplicaSet = REPLICATION_CONTROLLERS, by_metadata;
    deployments: Deployment = DEPLOYMENTS, by_metadata;
    stateful_sets: StatefulSet = STATEFUL_SETS, by_metadata;
    daemon_sets: DaemonSet = DAEMON_SETS, by_metadata;
    revisions: ControllerRevision = CONTROLLER_REVISIONS, by_metadata;
    jobs: Job = JOBS, by_metadata;
    cron_jobs: CronJob = CRON_JOBS, by_metadata;
    budgets: PodDisruptionBudget = POD_DISRUPTION_BUDGETS, by_metadata;
    volumes: PersistentVolume = PERSISTENT_VOLUMES, index_volume;
    claims: PersistentVolumeClaim = PERSISTENT_VOLUME_CLAIMS, index_claim;
    services: Service = SERVICES, by_metadata;
    endpoints: Endpoints = ENDPOINTS, no_index;
    endpoint_slices: EndpointSlice = ENDPOINT_SLICES, by_metadata;
    autoscalers: HorizontalPodAutoscaler = HORIZONTAL_POD_AUTOSCALERS, by_metadata;
    classes: StorageClass = STORAGE_CLASSES, no_index;
    resource_claims: ResourceClaim = RESOURCE_CLAIMS, ResourceClaim::index;
    resource_claim_templates: ResourceClaimTemplate = RESOURCE_CLAIM_TEMPLATES, no_index;
    pod_groups: PodGroup = POD_GROUPS, by_metadata;
    resource_slices: ResourceSlice = RESOURCE_SLICES, ResourceSlice::index;
}
