//! HorizontalPodAutoscalers: set the replicas of workloads by the resource usage of their pods, which they read from
//! `metrics.k8s.io`.

mod behavior;
mod metric;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use berth_api::fenceposts::clamp;
use berth_api::object::NamespacedName;
use berth_api::resource::{HORIZONTAL_POD_AUTOSCALERS, POD_METRICS, PODS, percent_encoded};
use berth_api::simulated_nodes::USAGE_PREFIX;
use berth_api::syntax::quantity::Quantity;
use berth_client::call::{self, CallError};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Precondition};
use crate::autoscaler::behavior::{Decision, History};
use crate::autoscaler::metric::{Measured, MetricFailure, Proposal};
use crate::events::{Recorder, Reference};
use crate::index::Index;
use crate::informers::{Caches, Informers};
use crate::queue::{Next, Queue, work};
use crate::resources::owner_resource;
use crate::view::{
    Condition, HorizontalPodAutoscaler, HorizontalPodAutoscalerStatus, Pod, PodMetricsList, Scale,
    ScaledPodList, ScalingRules,
};

/// A change of usage or readiness is looked at when the metrics have it: their window is a second.
const SETTLE: Duration = Duration::from_millis(1500);
/// Fraction by which the usage may differ from its target.
const TOLERANCE: f64 = 0.1;

pub(crate) struct HorizontalPodAutoscalers {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    period: Duration,
    queue: Arc<Queue<NamespacedName>>,
    /// By the uid of the autoscaler.
    histories: Mutex<HashMap<String, History>>,
}

struct Verdict {
    decision: Decision,
    reason: String,
    /// `ScalingActive`.
    active: Condition,
    metrics: Vec<serde_json::Value>,
}

impl HorizontalPodAutoscalers {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers, period: Duration) -> Self {
        let queue: Arc<Queue<NamespacedName>> = Arc::default();
        let caches = informers.caches();
        informers.autoscalers.on_change({
            let queue = queue.clone();
            move |change| {
                // The controller's own writes change only the status.
                let is_same = change
                    .old
                    .zip(change.new)
                    .is_some_and(|(old, new)| old.metadata.generation == new.metadata.generation);
                let changed = change.latest().filter(|_| !is_same);
                changed.into_iter().for_each(|changed| queue.add(changed.metadata.namespaced_name()));
            }
        });
        let (changed, autoscalers) = (queue.clone(), caches.autoscalers.clone());
        informers.pods.on_change(move |change| {
            let Some(pod) = change.latest() else { return };
            let is_same = change.old.zip(change.new).is_some_and(|(old, new)| measured(old) == measured(new));
            if !is_same {
                for autoscaler in autoscalers.by(&Index::Namespace(pod.metadata.namespace.clone())) {
                    changed.add_after(autoscaler.metadata.namespaced_name(), SETTLE);
                }
            }
        });
        HorizontalPodAutoscalers {
            api: api.clone(),
            recorder,
            caches,
            period,
            queue,
            histories: Mutex::default(),
        }
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("horizontalpodautoscalers", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(autoscaler) = self.caches.autoscalers.get(&key) else {
            self.forget_deleted();
            return Ok(Next::Wait);
        };
        let now = Timestamp::now();
        let about = Reference::new(&HORIZONTAL_POD_AUTOSCALERS, &autoscaler.metadata);
        let mut status = autoscaler.status.clone();
        status.observed_generation = autoscaler.metadata.generation;
        match self.scale(&autoscaler).await {
            Err(message) => {
                self.recorder.warning(&about, "FailedGetScale", &*message);
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {message}");
                set(
                    &mut status.conditions,
                    Condition::new("AbleToScale", "False", "FailedGetScale", message, now),
                );
            }
            Ok((path, scale)) => self.rescale(&autoscaler, (&path, &scale), &about, &mut status, now).await?,
        }
        if status != autoscaler.status {
            self.api
                .write_status(&HORIZONTAL_POD_AUTOSCALERS, &autoscaler.metadata, &status, Precondition::Uid)
                .await?;
        }
        Ok(Next::After(self.period))
    }

    /// Histories of autoscalers that do not exist any more.
    fn forget_deleted(&self) {
        let kept: Vec<String> =
            self.caches.autoscalers.all().iter().map(|autoscaler| autoscaler.metadata.uid.clone()).collect();
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        histories.retain(|uid, _| kept.contains(uid));
    }

    /// The scale of the target, with its path.
    async fn scale(&self, autoscaler: &HorizontalPodAutoscaler) -> Result<(String, Scale), String> {
        let target = &autoscaler.spec.scale_target_ref;
        let resource = owner_resource(&target.api_version, &target.kind).ok_or_else(|| {
            format!(
                "no scale of {} {}: use a Deployment, ReplicaSet, ReplicationController or StatefulSet",
                target.api_version, target.kind
            )
        })?;
        let path = format!("{}/scale", resource.object_path(&autoscaler.metadata.namespace, &target.name));
        let scale = self.api.send(call::get(&path)).await.map_err(|error: CallError| error.message())?;
        Ok((path, scale))
    }

    /// Decides, and changes the scale if necessary.
    async fn rescale(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        (path, scale): (&str, &Scale),
        about: &Reference,
        status: &mut HorizontalPodAutoscalerStatus,
        now: Timestamp,
    ) -> Result<(), CallError> {
        let current = scale.spec.replicas;
        let Verdict { decision, reason, active, metrics } =
            self.decide(autoscaler, scale, about, now).await?;
        let desired = decision.replicas;
        (status.current_replicas, status.desired_replicas) = (current, desired);
        status.current_metrics = metrics;
        set(&mut status.conditions, active);
        let mut able = Condition::new("AbleToScale", "True", decision.able.0, decision.able.1, now);
        if desired != current {
            let patch = json!({"spec": {"replicas": desired}}).to_string().into_bytes();
            let request = call::with_body(http::Method::PATCH, path, "application/merge-patch+json", patch);
            match self.api.send::<Scale>(request).await {
                Ok(_) => {
                    let message =
                        format!("the HPA controller was able to update the target scale to {desired}");
                    able = Condition::new("AbleToScale", "True", "SucceededRescale", message, now);
                    status.last_scale_time = Some(now);
                    self.history(autoscaler, current, now, |history| history.changed(current, desired, now));
                    self.recorder.normal(
                        about,
                        "SuccessfulRescale",
                        format!("New size: {desired}; reason: {reason}"),
                    );
                }
                Err(error) => {
                    let why = error.message();
                    let event = format!("New size: {desired}; reason: {reason}; error: {why}");
                    self.recorder.warning(about, "FailedRescale", event);
                    let message = format!("the HPA controller was unable to update the target scale: {why}");
                    able = Condition::new("AbleToScale", "False", "FailedUpdateScale", message, now);
                }
            }
        }
        set(&mut status.conditions, able);
        let (limits, reason, message) = match decision.limited {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", "DesiredWithinRange", "the desired count is within the acceptable range"),
        };
        set(&mut status.conditions, Condition::new("ScalingLimited", limits, reason, message, now));
        Ok(())
    }

    async fn decide(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        scale: &Scale,
        about: &Reference,
        now: Timestamp,
    ) -> Result<Verdict, CallError> {
        let current = scale.spec.replicas;
        let (least, most) = (autoscaler.min_replicas(), autoscaler.spec.max_replicas);
        let fixed = |replicas, reason: &str, active| Verdict {
            decision: Decision {
                replicas,
                able: ("SucceededGetScale", "the HPA controller was able to get the target's current scale"),
                limited: None,
            },
            reason: reason.to_owned(),
            active,
            metrics: autoscaler.status.current_metrics.clone(),
        };
        let active =
            |reason: &str, message: String| Condition::new("ScalingActive", "True", reason, message, now);
        if current == 0 && least != 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            return Ok(fixed(
                0,
                "",
                Condition::new("ScalingActive", "False", "ScalingDisabled", message, now),
            ));
        }
        let in_range =
            || active("ValidMetricFound", "the replica count is brought into its range".to_owned());
        if current > most {
            return Ok(fixed(most, "Current number of replicas above Spec.MaxReplicas", in_range()));
        }
        if current < least {
            return Ok(fixed(least, "Current number of replicas below Spec.MinReplicas", in_range()));
        }
        let (proposals, failures) = self.proposals(autoscaler, scale, now).await?;
        for failure in &failures {
            self.recorder.warning(about, failure.reason, &*failure.message);
        }
        let best = proposals.iter().max_by_key(|proposal| proposal.replicas);
        // With unknown metrics, the others may only ask for more.
        let best = best.filter(|best| failures.is_empty() || best.replicas >= current);
        let Some(best) = best else {
            let MetricFailure { reason, message } = failures.into_iter().next().unwrap_or(MetricFailure {
                reason: "InvalidMetricSourceType",
                message: "spec.metrics is empty".to_owned(),
            });
            let message = format!("the HPA was unable to compute the replica count: {message}");
            return Ok(fixed(current, "", Condition::new("ScalingActive", "False", reason, message, now)));
        };
        let decision = self.history(autoscaler, current, now, |history| {
            history.decide(autoscaler, current, best.replicas, now)
        });
        let above = decision.replicas > current;
        let reason = if above {
            format!("{} above target", best.metric)
        } else {
            "All metrics below target".to_owned()
        };
        let message =
            format!("the HPA was able to successfully calculate a replica count from {}", best.metric);
        Ok(Verdict {
            decision,
            reason,
            active: active("ValidMetricFound", message),
            metrics: proposals.iter().map(|proposal| proposal.status.clone()).collect(),
        })
    }

    /// What each metric asks for, and why some ask for nothing.
    async fn proposals(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        scale: &Scale,
        now: Timestamp,
    ) -> Result<(Vec<Proposal>, Vec<MetricFailure>), CallError> {
        let fail = |reason, message: &str| {
            Ok((Vec::new(), vec![MetricFailure { reason, message: message.to_owned() }]))
        };
        if scale.status.selector.is_empty() {
            return fail("InvalidSelector", "the HPA target's scale is missing a selector");
        }
        let namespace = &autoscaler.metadata.namespace;
        let selected = |resource: &berth_api::resource::Resource| {
            format!("{}?labelSelector={}", resource.path(namespace), percent_encoded(&scale.status.selector))
        };
        let pods: ScaledPodList = self.list(&selected(&PODS)).await?;
        let metrics: PodMetricsList = match self.list(&selected(&POD_METRICS)).await {
            Ok(metrics) => metrics,
            Err(error) if error.is_refusal() => return fail("FailedGetResourceMetric", &error.message()),
            Err(error) => return Err(error),
        };
        if pods.items.is_empty() {
            return fail(
                "FailedGetResourceMetric",
                "no pods returned by selector while calculating replica count",
            );
        }
        let behavior = &autoscaler.spec.behavior;
        let tolerances = (tolerance(&behavior.scale_down), tolerance(&behavior.scale_up));
        let measured = Measured {
            current_replicas: scale.spec.replicas,
            pods: &pods.items,
            metrics: &metrics.items,
            tolerances,
            now,
        };
        let (mut proposals, mut failures) = (Vec::new(), Vec::new());
        for metric in &autoscaler.spec.metrics {
            match measured.proposal(metric) {
                Ok(proposal) => proposals.push(proposal),
                Err(failure) => failures.push(failure),
            }
        }
        Ok((proposals, failures))
    }

    async fn list<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.api.send(call::get(path)).await
    }

    fn history<T>(
        &self,
        autoscaler: &HorizontalPodAutoscaler,
        current: i32,
        now: Timestamp,
        with: impl FnOnce(&mut History) -> T,
    ) -> T {
        let mut histories = self.histories.lock().unwrap_or_else(PoisonError::into_inner);
        let history = histories.entry(autoscaler.metadata.uid.clone());
        with(history.or_insert_with(|| History::starting_with(current, now)))
    }
}

/// What metrics depend on: the readiness of a pod, and the annotations with its usage.
fn measured(pod: &Pod) -> (bool, Vec<(&String, &String)>) {
    let annotations = pod.metadata.annotations.iter();
    (pod.is_ready(), annotations.filter(|(key, _)| key.starts_with(USAGE_PREFIX)).collect())
}

/// Sets a condition; its message may change while its status does not.
fn set(conditions: &mut Vec<Condition>, new: Condition) {
    match conditions.iter_mut().find(|old| old.condition_type == new.condition_type) {
        Some(old) if old.status == new.status => {
            *old = Condition { last_transition_time: old.last_transition_time, ..new };
        }
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

fn tolerance(rules: &ScalingRules) -> f64 {
    rules.tolerance.map_or(TOLERANCE, |tolerance: Quantity| f64::from(clamp(tolerance.millis())) / 1000.0)
}
