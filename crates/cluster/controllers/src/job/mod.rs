//! Jobs: run pods to completion.

mod backoff;
mod count;
mod outcome;
mod per_index;
mod plan;
mod policy;
mod scheduling_group;

use std::sync::Arc;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_api::resource::{JOBS, PODS};
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use self::outcome::{INDEX, TRACKING, is_tracked};
use self::per_index::{FAILURES, Failures, IGNORED};
use self::plan::{Plan, Uncounted, plan};
use super::api::{Api, DeleteOptions, Precondition, Propagation};
use super::events::{Recorder, Reference};
use super::index::Index;
use super::informers::Informers;
use super::ownership::{Owner, claim};
use super::pod_control::{PodControl, object_at, pod_from_template};
use super::pod_events::PodEvents;
use super::queue::{Next, Queue, work};
use super::view::{Job, PartialObjectMetadata, Pod};
use berth_client::call::CallError;

/// Batching window: pod events within this time cause one sync.
const SETTLE: Duration = Duration::from_millis(20);

pub(crate) struct Jobs {
    control: PodControl,
    queue: Arc<Queue<NamespacedName>>,
    feature_gates: FeatureGates,
}

impl Jobs {
    pub(crate) fn new(
        api: &Api,
        recorder: Recorder,
        informers: &mut Informers,
        feature_gates: FeatureGates,
    ) -> Self {
        let control = PodControl::new(api, recorder, informers);
        let controller = Jobs { control, queue: Arc::default(), feature_gates };
        PodEvents {
            kind: &JOBS,
            objects: controller.control.caches.jobs.clone(),
            selector: |object| &object.spec.selector,
            queue: controller.queue.clone(),
            expectations: controller.control.expectations.clone(),
            settle: SETTLE,
        }
        .register(&mut informers.jobs, &mut informers.pods);
        controller
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("jobs", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(job) = self.control.caches.jobs.get(&key) else {
            self.control.expectations.forget(&key);
            return self.release_pods_of_gone(&key).await;
        };
        if !matches!(job.spec.managed_by.as_str(), "" | "kubernetes.io/job-controller") {
            return Ok(Next::Wait);
        }
        let may_act = self.control.expectations.are_met(&key, &self.queue);
        let owner = Owner { kind: &JOBS, meta: &job.metadata };
        let pods =
            claim(&self.control.api, owner, &job.spec.selector, &PODS, &self.control.caches.pods, |pod| {
                pod.is_active()
            })
            .await?;
        let plan = plan(&job, &pods, Timestamp::now());
        if plan.expired {
            let options = DeleteOptions {
                propagation: Some(Propagation::Foreground),
                resource_version: Some(&job.metadata.resource_version),
                ..DeleteOptions::of_uid(&job.metadata.uid)
            };
            self.control.api.delete(&JOBS, &key, options).await?;
            return Ok(Next::Wait);
        }
        let about = Reference::new(&JOBS, &job.metadata);
        if plan.status != job.status {
            self.control.api.write_status(&JOBS, &job.metadata, &plan.status, Precondition::Version).await?;
            if let Some(event) = &plan.event {
                self.control.recorder.record(&about, event.clone());
            }
        }
        self.release(&plan.release).await?;
        if may_act {
            self.delete(&key, &about, &plan).await?;
            let group = match plan.create.is_empty() {
                true => None,
                false => self.scheduling_group(&job, &about, pods.is_empty()).await?,
            };
            self.create(&key, owner, &job, &about, &plan, group.as_deref()).await?;
        }
        let now = Timestamp::now();
        Ok(Next::at(plan.look_again, now))
    }

    async fn release(&self, pods: &[Arc<Pod>]) -> Result<(), CallError> {
        let released = join_all(pods.iter().map(|pod| self.release_one(pod))).await;
        released.into_iter().collect()
    }

    async fn release_one(&self, pod: &Pod) -> Result<(), CallError> {
        let kept: Vec<&str> =
            pod.metadata.finalizers.iter().map(String::as_str).filter(|name| *name != TRACKING).collect();
        self.control.api.set_metadata(&PODS, &pod.metadata, "finalizers", json!(kept)).await.map(drop)
    }

    /// Removes the finalizer of pods whose Job is deleted; they could never be deleted otherwise.
    async fn release_pods_of_gone(&self, key: &NamespacedName) -> Result<Next, CallError> {
        let pods = self.control.caches.pods.by(&Index::Namespace(key.namespace().to_owned()));
        let is_left = |pod: &Arc<Pod>| {
            let owner = pod.metadata.controller();
            is_tracked(pod) && owner.is_some_and(|owner| owner.kind == JOBS.kind && owner.name == key.name())
        };
        let left: Vec<_> = pods.into_iter().filter(is_left).collect();
        if left.is_empty() || self.control.api.get::<PartialObjectMetadata>(&JOBS, key).await?.is_some() {
            return Ok(Next::Wait);
        }
        self.release(&left).await?;
        Ok(Next::Wait)
    }

    async fn delete(&self, key: &NamespacedName, about: &Reference, plan: &Plan) -> Result<(), CallError> {
        let released = plan.delete.iter().map(|(pod, uncounted)| async move {
            if *uncounted == Uncounted::Yes && is_tracked(pod) {
                self.release_one(pod).await?;
            }
            Ok(pod.clone())
        });
        let (mut pods, mut error) = (Vec::new(), None);
        for released in join_all(released).await {
            match released {
                Ok(pod) => pods.push(pod),
                Err(failed) => error = Some(failed),
            }
        }
        let failed = self.control.delete(key, about, &pods).await;
        error.or(failed).map_or(Ok(()), Err)
    }

    async fn create(
        &self,
        key: &NamespacedName,
        owner: Owner<'_>,
        job: &Job,
        about: &Reference,
        plan: &Plan,
        group: Option<&str>,
    ) -> Result<(), CallError> {
        let bodies = plan.create.iter().map(|index| {
            let failures = index.and_then(|index| plan.failures.get(&index));
            let mut pod = new_pod(job, owner, *index, failures);
            if let Some(name) = group {
                object_at(&mut pod, "spec")
                    .insert("schedulingGroup".to_owned(), json!({"podGroupName": name}));
            }
            Value::Object(pod).to_string().into_bytes()
        });
        let failed = self.control.create(key, about, bodies.collect()).await;
        failed.filter(|error| !error.is_namespace_terminating()).map_or(Ok(()), Err)
    }
}

/// A pod of a Job, with the finalizer that keeps it until it is counted.
fn new_pod(
    job: &Job,
    owner: Owner<'_>,
    index: Option<i32>,
    failures: Option<&Failures>,
) -> Map<String, Value> {
    let mut pod = pod_from_template(&job.spec.template, owner);
    let metadata = object_at(&mut pod, "metadata");
    let mut finalizers = metadata.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    finalizers.push(TRACKING.into());
    metadata.insert("finalizers".to_owned(), finalizers.into());
    let Some(index) = index else { return pod };

    let name = &job.metadata.name;
    metadata.insert("generateName".to_owned(), format!("{name}-{index}-").into());
    for field in ["labels", "annotations"] {
        object_at(metadata, field).insert(INDEX.to_owned(), index.to_string().into());
    }
    if let Some(failures) = failures {
        let annotations = object_at(metadata, "annotations");
        annotations.insert(FAILURES.to_owned(), failures.counted.to_string().into());
        if failures.ignored > 0 {
            annotations.insert(IGNORED.to_owned(), failures.ignored.to_string().into());
        }
    }
    let spec = object_at(&mut pod, "spec");
    spec.insert("hostname".to_owned(), format!("{name}-{index}").into());
    for containers in ["containers", "initContainers"] {
        let containers = spec.get_mut(containers).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let env = container.entry("env").or_insert(Value::Null);
            let mut kept = env.as_array().cloned().unwrap_or_default();
            if kept.iter().all(|variable| variable["name"] != "JOB_COMPLETION_INDEX") {
                let field = json!({"fieldRef": {"fieldPath": format!("metadata.labels['{INDEX}']")}});
                kept.push(json!({"name": "JOB_COMPLETION_INDEX", "valueFrom": field}));
            }
            *env = kept.into();
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_an_indexed_job_carry_their_index() {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": "j", "namespace": "a", "uid": "u"},
            "spec": {"template": {"spec": {"containers": [{"name": "c", "env": [{"name": "A", "value": "b"}]}]}}},
        }))
        .unwrap();
        let pod = Value::Object(new_pod(&job, Owner { kind: &JOBS, meta: &job.metadata }, Some(4), None));
        assert_eq!(pod["metadata"]["generateName"], "j-4-");
        assert_eq!(pod["metadata"]["annotations"][INDEX], "4");
        assert_eq!(pod["metadata"]["finalizers"], json!([TRACKING]));
        assert_eq!(pod["spec"]["hostname"], "j-4");
        assert_eq!(pod["spec"]["containers"][0]["env"][1]["name"], "JOB_COMPLETION_INDEX");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u");
    }
}
