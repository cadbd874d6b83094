//! Deployments: roll out one ReplicaSet per template.

mod plan;
mod replica_sets;
mod revision;
mod status;

use std::sync::Arc;
use std::time::Duration;

use berth_api::object::NamespacedName;
use berth_api::resource::{DEPLOYMENTS, REPLICA_SETS};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::plan::{Action, Plan, plan};
use super::api::{Api, DeleteOptions, Precondition, Propagation};
use super::events::{Recorder, Reference};
use super::index::Index;
use super::informers::{Caches, Informers};
use super::ownership::{Owner, claim};
use super::pod_control::object_at;
use super::queue::{Next, Queue, work};
use super::template::{POD_TEMPLATE_HASH, same_template};
use super::view::{Deployment, ReplicaSet};
use berth_client::call::CallError;

pub(crate) struct Deployments {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl Deployments {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let caches = informers.caches();
        let controller = Deployments { api: api.clone(), recorder, caches, queue: Arc::default() };
        controller.queue.follow(&mut informers.deployments);
        controller.queue.follow_dependents(
            &DEPLOYMENTS,
            controller.caches.deployments.clone(),
            |deployment| &deployment.spec.selector,
            &mut informers.replica_sets,
            Duration::ZERO,
        );
        let (queue, caches) = (controller.queue.clone(), controller.caches.clone());
        informers.pods.on_change(move |change| {
            let ended = change.new.is_none_or(|pod| pod.is_terminal());
            let Some(pod) = change.old.filter(|old| ended && !old.is_terminal()) else { return };
            let Some(set) = pod.metadata.controller().filter(|owner| owner.kind == REPLICA_SETS.kind) else {
                return;
            };
            let key = NamespacedName::new(&pod.metadata.namespace, &set.name);
            let Some(set) = caches.replica_sets.get(&key) else { return };
            let Some(owner) = set.metadata.controller() else { return };
            let key = NamespacedName::new(key.namespace(), &owner.name);
            if caches.deployments.get(&key).is_some_and(|deployment| !deployment.is_rolling()) {
                queue.add(key);
            }
        });
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("deployments", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(deployment) = self.caches.deployments.get(&key) else { return Ok(Next::Wait) };
        let owner = Owner { kind: &DEPLOYMENTS, meta: &deployment.metadata };
        let selector = &deployment.spec.selector;
        let replica_sets =
            claim(&self.api, owner, selector, &REPLICA_SETS, &self.caches.replica_sets, |_| true).await?;
        let has_running_pods = |set: &ReplicaSet| {
            let pods = self.caches.pods.by(&Index::Controller(set.metadata.uid.clone()));
            pods.iter().any(|pod| !pod.is_terminal())
        };
        let Plan { actions, mut status, look_again } =
            plan(&deployment, &replica_sets, has_running_pods, Timestamp::now());
        let mut result = Ok(());
        // The Deployment's version after the writes of this sync.
        let mut meta = deployment.metadata.clone();
        for action in actions {
            result = match action {
                Action::Create { name, hash, replicas, annotations } => {
                    let object = new_replica_set(&deployment, &name, &hash, replicas, &annotations);
                    let created = self.create(&deployment, &name, replicas, object, &mut status).await;
                    if let Err(error) = &created
                        && !error.is_stale()
                    {
                        let message = error.message();
                        status::set_create_failed(&deployment, &mut status, message, Timestamp::now());
                    }
                    created
                }
                Action::SetRevision(revision) => {
                    let patch = json!({"metadata": {
                        "uid": meta.uid,
                        "resourceVersion": meta.resource_version,
                        "annotations": {revision::REVISION: revision},
                    }});
                    let written = self.api.patch(&DEPLOYMENTS, &key, "", &patch).await;
                    written.map(|written| meta.resource_version = written.metadata.resource_version)
                }
                Action::Update { replica_set, replicas, annotations, min_ready_seconds } => {
                    let mut patch = json!({"metadata": {
                        "uid": replica_set.metadata.uid,
                        "resourceVersion": replica_set.metadata.resource_version,
                        "annotations": annotations,
                    }});
                    if let Some(replicas) = replicas {
                        patch["spec"]["replicas"] = replicas.into();
                    }
                    if let Some(seconds) = min_ready_seconds {
                        patch["spec"]["minReadySeconds"] = seconds.into();
                    }
                    let set = replica_set.metadata.namespaced_name();
                    let written = self.api.patch(&REPLICA_SETS, &set, "", &patch).await;
                    if let (Ok(_), Some(to)) = (&written, replicas) {
                        self.record_scaled(&deployment, set.name(), replica_set.replicas(), to);
                    }
                    written.map(drop)
                }
                Action::Delete(replica_set) => {
                    let options = DeleteOptions {
                        propagation: Some(Propagation::Background),
                        ..DeleteOptions::of_uid(&replica_set.metadata.uid)
                    };
                    self.api.delete(&REPLICA_SETS, &replica_set.metadata.namespaced_name(), options).await
                }
            };
            if result.is_err() {
                break;
            }
        }
        if status != deployment.status && result.as_ref().err().is_none_or(|error| !error.is_stale()) {
            self.api.write_status(&DEPLOYMENTS, &meta, &status, Precondition::Version).await?;
        }
        result?;
        let now = Timestamp::now();
        Ok(Next::at(look_again, now))
    }

    async fn create(
        &self,
        deployment: &Deployment,
        name: &str,
        replicas: i32,
        object: Value,
        status: &mut super::view::DeploymentStatus,
    ) -> Result<(), CallError> {
        let namespace = &deployment.metadata.namespace;
        match self.api.create(&REPLICA_SETS, namespace, object.to_string().into_bytes()).await {
            Ok(_) => {
                if replicas > 0 {
                    self.record_scaled(deployment, name, 0, replicas);
                }
                Ok(())
            }
            Err(error) if error.is_already_exists() => {
                let key = NamespacedName::new(namespace, name);
                let there: Option<ReplicaSet> = self.api.get(&REPLICA_SETS, &key).await?;
                let is_ours = there.is_some_and(|there| {
                    there.metadata.is_controlled_by(&deployment.metadata.uid)
                        && same_template(&there.spec.template, &deployment.spec.template)
                });
                // If it is ours, the cache will show it. Otherwise the hash collides and the name must change.
                if !is_ours {
                    status.collision_count = Some(status.collision_count.unwrap_or(0).saturating_add(1));
                }
                Ok(())
            }
            Err(error) => {
                if !error.is_namespace_terminating() {
                    let about = Reference::new(&DEPLOYMENTS, &deployment.metadata);
                    let message = format!("Failed to create new replica set \"{name}\": {}", error.message());
                    self.recorder.warning(&about, "ReplicaSetCreateError", message);
                }
                Err(error)
            }
        }
    }

    fn record_scaled(&self, deployment: &Deployment, replica_set: &str, from: i32, to: i32) {
        let about = Reference::new(&DEPLOYMENTS, &deployment.metadata);
        let direction = if to > from { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {replica_set} from {from} to {to}");
        self.recorder.normal(&about, "ScalingReplicaSet", message);
    }
}

fn new_replica_set(
    deployment: &Deployment,
    name: &str,
    hash: &str,
    replicas: i32,
    annotations: &revision::Annotations,
) -> Value {
    let owner = Owner { kind: &DEPLOYMENTS, meta: &deployment.metadata };
    let mut template = deployment.spec.template.as_object().cloned().unwrap_or_default();
    let labels = object_at(object_at(&mut template, "metadata"), "labels");
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.into());
    let labels = labels.clone();
    let mut selector = deployment.spec.selector.written.clone();
    selector.match_labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.to_owned());
    json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": deployment.spec.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    })
}
