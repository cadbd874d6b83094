//! Follows the placement policies of a cluster, and writes their status.
//!
//! Every replica of the webhook writes the same status, and only if the stored one differs: no leader is needed.

mod status;

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::{Namespace, ObjectMeta, PartialObjectMetadata};
use berth_api::read::from_value;
use berth_api::resource::{CLUSTER_PLACEMENT_POLICIES, NAMESPACES, PLACEMENT_POLICIES, PODS, Resource};
use berth_client::watch::Event;
use berth_client::{Cache, HasMetadata, Informer, Missing, WatchGroup, WatchOptions, WatchStream, watch};
use berth_input::config::ConfigErrors;
use berth_input::policy::{PlacementPolicy, PolicySet};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Fuse, FusedFuture as _, join3};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::admission::AdmissionController;
use status::MatchedPods;

/// A definition that is installed later is noticed after this time.
const LONGEST_RETRY: Duration = Duration::from_secs(2);
/// Changes within this time cause one write of the status.
const STATUS_DELAY: Duration = Duration::from_millis(500);

/// A policy as the API server has it.
struct Stored {
    /// The policy, or what is wrong with it.
    read: Result<PlacementPolicy, ConfigErrors>,
    metadata: ObjectMeta,
    status: Value,
}

berth_client::has_metadata!(Stored);

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        Ok(Stored {
            read: PlacementPolicy::read(&object),
            metadata: from_value(&object["metadata"]).map_err(D::Error::custom)?,
            status: object["status"].take(),
        })
    }
}

/// What the API server reported so far. Pods are counted by their labels and not kept.
struct Observed {
    policies: [Arc<Cache<Stored>>; 2],
    namespaces: Arc<Cache<Namespace>>,
    pods: MatchedPods,
}

impl Observed {
    /// All policies, by namespace and name.
    fn policies(&self) -> Vec<Arc<Stored>> {
        let mut policies: Vec<_> = self.policies.iter().flat_map(|cache| cache.all()).collect();
        policies.sort_by_cached_key(|stored| stored.metadata.namespaced_name());
        policies
    }

    fn set(&self) -> PolicySet {
        let policies = self.policies();
        let valid = policies.iter().filter_map(|stored| stored.read.as_ref().ok());
        let namespaces = self.namespaces.all();
        let labels = namespaces.iter().map(|n| (n.metadata.name.clone(), n.metadata.labels.clone()));
        PolicySet::new(valid.cloned(), labels.collect())
    }
}

fn options(resource: &Resource, group: &WatchGroup) -> WatchOptions {
    WatchOptions {
        missing: Missing::empty(resource),
        group: group.clone(),
        longest_retry: LONGEST_RETRY,
        ..WatchOptions::new(resource.path(""))
    }
}

fn informer<T: HasMetadata + DeserializeOwned>(
    resource: &Resource,
    group: &WatchGroup,
    changed: &Arc<Notify>,
) -> Informer<T> {
    let mut informer = Informer::new(options(resource, group));
    let changed = changed.clone();
    informer.on_change(move |_| changed.notify_one());
    informer
}

impl AdmissionController {
    /// Keeps the placement policies equal to those of a cluster and writes their status, for as long as the runtime
    /// lives. Pods are watched only while there are policies.
    pub(crate) async fn follow_policies(&self, client: kube::Client, group: &WatchGroup) {
        let changed = Arc::default();
        let namespaced = informer::<Stored>(&PLACEMENT_POLICIES, group, &changed);
        let cluster_scoped = informer::<Stored>(&CLUSTER_PLACEMENT_POLICIES, group, &changed);
        let namespaces = informer::<Namespace>(&NAMESPACES, group, &changed);
        let mut observed = Observed {
            policies: [namespaced.cache(), cluster_scoped.cache()],
            namespaces: namespaces.cache(),
            pods: MatchedPods::default(),
        };
        let mut namespaced_listed = namespaced.synced();
        let mut cluster_scoped_listed = cluster_scoped.synced();
        let mut namespaces_listed = namespaces.synced();
        let stop = CancellationToken::new();
        let mut informers = join3(
            namespaced.run(client.clone(), stop.clone()),
            cluster_scoped.run(client.clone(), stop.clone()),
            namespaces.run(client.clone(), stop),
        );
        let mut pods: Option<WatchStream<PartialObjectMetadata>> = None;
        let mut status_due: Option<Instant> = None;
        // Policies are followed while statuses are written.
        let mut written: Fuse<BoxFuture<'_, bool>> = Fuse::terminated();
        loop {
            let listed = tokio::select! {
                _ = &mut informers => return,
                Ok(()) = namespaced_listed.changed() => Some(PLACEMENT_POLICIES),
                Ok(()) = cluster_scoped_listed.changed() => Some(CLUSTER_PLACEMENT_POLICIES),
                Ok(()) = namespaces_listed.changed() => Some(NAMESPACES),
                () = changed.notified() => None,
                Some(event) = next(&mut pods) => {
                    observed.pods.apply(event);
                    status_due.get_or_insert_with(|| Instant::now() + STATUS_DELAY);
                    continue;
                }
                () = until(status_due), if written.is_terminated() => {
                    status_due = None;
                    written = status::write(client.clone(), &observed).boxed().fuse();
                    continue;
                }
                is_written = &mut written => {
                    if !is_written {
                        status_due = Some(Instant::now() + LONGEST_RETRY);
                    }
                    continue;
                }
            };
            self.set_placement_policies(observed.set());
            if let Some(resource) = listed {
                self.listed(resource.plural);
            }
            if observed.policies.iter().all(|cache| cache.n_objects() == 0) {
                (pods, observed.pods) = (None, MatchedPods::default());
            } else {
                pods.get_or_insert_with(|| watch(client.clone(), options(&PODS, group)));
                status_due.get_or_insert_with(|| Instant::now() + STATUS_DELAY);
            }
        }
    }
}

async fn next(pods: &mut Option<WatchStream<PartialObjectMetadata>>) -> Option<Event<PartialObjectMetadata>> {
    match pods {
        Some(pods) => pods.next().await,
        None => std::future::pending().await,
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures::{StreamExt as _, stream};
    use http::{Method, Request, Response};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::policy::Policy;

    const SECOND_AFTER: Duration = Duration::from_secs(5);

    /// The lines of a watch of policies: one at once, and one later.
    fn lines(is_policies: bool) -> impl futures::Stream<Item = Bytes> + Send {
        let policy = |name: &str| {
            let metadata = json!({"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"});
            let spec = json!({"tolerations": [{"key": name, "operator": "Exists"}]});
            json!({"type": "ADDED", "object": {"metadata": metadata, "spec": spec}})
        };
        let end = json!({"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}});
        let end = json!({"type": "BOOKMARK", "object": {"metadata": end}});
        let line = |value: Value| Bytes::from(format!("{value}\n"));
        let first = is_policies.then(|| policy("first")).into_iter().chain([end]).map(line);
        let second = is_policies.then(|| line(policy("second")));
        let later = async move {
            tokio::time::sleep(SECOND_AFTER).await;
            stream::iter(second)
        };
        stream::iter(first).chain(later.flatten_stream()).chain(stream::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn a_policy_had_no_effect_while_the_server_did_not_answer_a_write_of_a_status() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            if request.method() == Method::PATCH {
                std::future::pending::<()>().await;
            }
            let is_policies = request.uri().path().ends_with("/placementpolicies");
            let lines = lines(is_policies).map(|line| Ok::<_, Infallible>(Frame::data(line)));
            Ok::<_, Infallible>(Response::new(StreamBody::new(lines)))
        });
        let client = kube::Client::new(service, "default");
        let admission = AdmissionController::mirrored(Policy::default());
        let mut policies = admission.placement_policies();
        let group = WatchGroup::default();
        let two = policies.wait_for(|set| set.policies().len() == 2);
        let in_time = SECOND_AFTER + STATUS_DELAY;
        tokio::select! {
            () = admission.follow_policies(client, &group) => panic!("it follows for ever"),
            seen = tokio::time::timeout(in_time, two) => assert!(seen.is_ok(), "the second policy came late"),
        }
    }
}
