//! How many replicas one metric asks for, as in the replica calculator of kube-controller-manager.

use std::collections::BTreeMap;

use berth_api::fenceposts::clamp;
use berth_api::simulated_nodes::POD_METRIC_PREFIX;
use berth_api::syntax::quantity::Quantity;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::view::{MetricSpec, PodMetrics, PodsMetric, ResourceMetric, ScaledPod, find_condition};

/// How long after its start the readiness of a pod decides whether its CPU usage counts.
const CPU_INITIALIZATION_PERIOD: SignedDuration = SignedDuration::from_mins(5);
/// A pod that was not ready this long after its start has never been ready.
const INITIAL_READINESS_DELAY: SignedDuration = SignedDuration::from_secs(30);

/// What a metric asks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// In messages, such as `cpu resource utilization (percentage of request)`.
    pub(super) metric: String,
    /// The entry of `status.currentMetrics`.
    pub(super) status: Value,
}

/// Why a metric asks for nothing: the reason of a condition, and a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetricFailure {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The input of the calculation.
pub(super) struct Measured<'a> {
    pub(super) current_replicas: i32,
    pub(super) pods: &'a [ScaledPod],
    pub(super) metrics: &'a [PodMetrics],
    /// How far the usage may be from its target, as a fraction, below and above.
    pub(super) tolerances: (f64, f64),
    pub(super) now: Timestamp,
}

/// Usage, or requests, of pods by name, in thousandths.
type Amounts<'a> = BTreeMap<&'a str, i64>;

/// Pods by what is known of their usage.
#[derive(Debug, Default)]
struct Groups<'a> {
    n_ready: usize,
    unready: Vec<&'a str>,
    missing: Vec<&'a str>,
    ignored: Vec<&'a str>,
}

/// What the usage is compared with.
enum Target {
    Utilization(i32),
    AverageValue(i64),
}

impl Measured<'_> {
    pub(super) fn proposal(&self, metric: &MetricSpec) -> Result<Proposal, MetricFailure> {
        if let ("Pods", Some(source)) = (&*metric.kind, &metric.pods) {
            return self.of_pods(source);
        }
        let (member, source) = match (&*metric.kind, &metric.resource, &metric.container_resource) {
            ("Resource", Some(source), _) => ("resource", source),
            ("ContainerResource", _, Some(source)) => ("containerResource", source),
            (kind, ..) => {
                let reason = match kind {
                    "Object" => "FailedGetObjectMetric",
                    "External" => "FailedGetExternalMetric",
                    _ => "InvalidMetricSourceType",
                };
                let message = format!(
                    "metrics of type {kind} have no source here: use the type Resource, ContainerResource or Pods"
                );
                return Err(MetricFailure { reason, message });
            }
        };
        let failure = |message: String| MetricFailure {
            reason: if member == "resource" {
                "FailedGetResourceMetric"
            } else {
                "FailedGetContainerResourceMetric"
            },
            message: format!("failed to get {} utilization: {message}", source.name),
        };
        let target = match (source.target.average_utilization, source.target.average_value) {
            (Some(percent), _) => Target::Utilization(percent.max(1)),
            (None, Some(value)) => Target::AverageValue(value.millis().max(1)),
            (None, None) => {
                return Err(failure("the target has neither averageUtilization nor averageValue".to_owned()));
            }
        };
        let usage = self.usage(source);
        if usage.is_empty() {
            return Err(failure(
                "no metrics returned from resource metrics API: pods have metrics if they have the annotation \
                 usage.berth.dev/cpu or usage.berth.dev/memory"
                    .to_owned(),
            ));
        }
        let (usage, groups) = self.counted(&source.name, usage).map_err(failure)?;
        let requests = match target {
            Target::Utilization(_) => self.requests(source).map_err(failure)?,
            Target::AverageValue(_) => Amounts::new(),
        };
        let average = average(&usage);
        let mut current = json!({"averageValue": format!("{average}m")});
        if let Target::Utilization(_) = target {
            current["averageUtilization"] = ((ratio(&usage, &requests, 1.0) * 100.0).floor() as i64).into();
        }
        let mut status = json!({"type": metric.kind, member: {"name": source.name, "current": current}});
        let mut name = match target {
            Target::Utilization(_) => format!("{} resource utilization (percentage of request)", source.name),
            Target::AverageValue(_) => format!("{} resource", source.name),
        };
        if !source.container.is_empty() {
            status[member]["container"] = source.container.as_str().into();
            name = name.replacen("resource", "container resource", 1);
        }
        let replicas = self.replicas(usage, &groups, &requests, &target);
        Ok(Proposal { replicas, metric: name, status })
    }

    /// What a metric of each pod asks for. Annotations have its values.
    fn of_pods(&self, source: &PodsMetric) -> Result<Proposal, MetricFailure> {
        let name = &source.metric.name;
        let failure = |message: String| MetricFailure {
            reason: "FailedGetPodsMetric",
            message: format!("failed to get pods metric value: {message}"),
        };
        let Some(value) = source.target.average_value else {
            return Err(failure("the target has no averageValue".to_owned()));
        };
        let key = format!("{POD_METRIC_PREFIX}{name}");
        let value_of = |pod: &ScaledPod| Some(Quantity::parse(pod.metadata.annotation(&key)?).ok()?.millis());
        let usage = self.pods.iter().filter_map(|pod| Some((&*pod.metadata.name, value_of(pod)?)));
        let usage: Amounts<'_> = usage.collect();
        if usage.is_empty() {
            return Err(failure(format!(
                "unable to get metric {name}: no pod has the annotation {key}, which sets its value"
            )));
        }
        let (usage, groups) = self.counted("", usage).map_err(failure)?;
        let current = json!({"averageValue": format!("{}m", average(&usage))});
        let status = json!({"type": "Pods", "pods": {"metric": {"name": name}, "current": current}});
        let target = Target::AverageValue(value.millis().max(1));
        let replicas = self.replicas(usage, &groups, &Amounts::new(), &target);
        Ok(Proposal { replicas, metric: format!("pods metric {name}"), status })
    }

    /// The usage of the pods whose usage counts, and what is known of the others.
    fn counted<'p>(
        &'p self,
        resource: &str,
        mut usage: Amounts<'p>,
    ) -> Result<(Amounts<'p>, Groups<'p>), String> {
        let groups = self.groups(resource, &usage);
        groups.ignored.iter().chain(&groups.unready).for_each(|pod| _ = usage.remove(pod));
        match usage.is_empty() {
            true => Err("did not receive metrics for targeted pods (pods might be unready)".to_owned()),
            false => Ok((usage, groups)),
        }
    }

    /// The usage of the pods that have metrics.
    fn usage(&self, source: &ResourceMetric) -> Amounts<'_> {
        let is_meant = |name: &str| source.container.is_empty() || source.container == name;
        let of_pod = |pod: &PodMetrics| {
            let containers = pod.containers.iter().filter(|container| is_meant(&container.name));
            let amounts: Option<Vec<i64>> =
                containers.map(|c| Some(c.usage.get(&source.name)?.millis())).collect();
            amounts.filter(|amounts| !amounts.is_empty()).map(total)
        };
        self.metrics.iter().filter_map(|pod| Some((&*pod.metadata.name, of_pod(pod)?))).collect()
    }

    fn requests(&self, source: &ResourceMetric) -> Result<Amounts<'_>, String> {
        let mut requests = Amounts::new();
        for pod in self.pods {
            let of_pod =
                pod.spec.resources.as_ref().and_then(|resources| resources.requests.get(&source.name));
            if let Some(request) = of_pod.filter(|_| source.container.is_empty()) {
                requests.insert(&pod.metadata.name, request.millis());
                continue;
            }
            let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
            let mut sum = 0_i64;
            for container in pod.spec.containers.iter().chain(sidecars) {
                if !source.container.is_empty() && source.container != container.name {
                    continue;
                }
                let request = container.resources.requests.get(&source.name).ok_or_else(|| {
                    let (pod, container) = (&pod.metadata.name, &container.name);
                    format!("missing request for {} in container {container} of Pod {pod}", source.name)
                })?;
                sum = sum.saturating_add(request.millis());
            }
            requests.insert(&pod.metadata.name, sum);
        }
        Ok(requests)
    }

    fn groups(&self, resource: &str, usage: &Amounts<'_>) -> Groups<'_> {
        let mut groups = Groups::default();
        let metrics: BTreeMap<&str, &PodMetrics> =
            self.metrics.iter().map(|metrics| (&*metrics.metadata.name, metrics)).collect();
        for pod in self.pods {
            let name = &*pod.metadata.name;
            if pod.metadata.is_deleting() || pod.status.phase == "Failed" {
                groups.ignored.push(name);
            } else if pod.status.phase == "Pending" {
                groups.unready.push(name);
            } else if !usage.contains_key(name) {
                groups.missing.push(name);
            } else if resource == "cpu" && metrics.get(name).is_some_and(|metrics| self.starts(pod, metrics))
            {
                groups.unready.push(name);
            } else {
                groups.n_ready += 1;
            }
        }
        groups
    }

    /// Whether a pod's CPU usage is that of its start.
    fn starts(&self, pod: &ScaledPod, metrics: &PodMetrics) -> bool {
        let ready = find_condition(&pod.status.conditions, "Ready");
        let (Some(ready), Some(started)) = (ready, pod.status.start_time) else { return true };
        let changed = ready.last_transition_time.unwrap_or(started);
        if self.now.duration_since(started) < CPU_INITIALIZATION_PERIOD {
            let window = metrics.window.parse().unwrap_or(SignedDuration::from_mins(1));
            ready.status == "False" || metrics.timestamp.unwrap_or(self.now).duration_since(changed) < window
        } else {
            ready.status == "False" && changed.duration_since(started) < INITIAL_READINESS_DELAY
        }
    }

    fn replicas<'p>(
        &self,
        mut usage: Amounts<'p>,
        groups: &Groups<'p>,
        requests: &Amounts<'_>,
        target: &Target,
    ) -> i32 {
        let ratio_of = |usage: &Amounts<'_>| match target {
            Target::Utilization(percent) => {
                (ratio(usage, requests, 1.0) * 100.0).floor() / f64::from(*percent)
            }
            Target::AverageValue(value) => average(usage) as f64 / *value as f64,
        };
        let (below, above) = self.tolerances;
        let is_within = |ratio: f64| (1.0 - below..=1.0 + above).contains(&ratio);
        let first = ratio_of(&usage);
        let rises_with_unready = !groups.unready.is_empty() && first > 1.0;
        if !rises_with_unready && groups.missing.is_empty() {
            let wanted = (first * groups.n_ready as f64).ceil();
            return if is_within(first) { self.current_replicas } else { wanted as i32 };
        }
        // Unknown pods use everything when the workload would shrink, and nothing when it would grow.
        for pod in &groups.missing {
            let assumed = match target {
                _ if first > 1.0 => 0,
                Target::Utilization(percent) => requests
                    .get(pod)
                    .map_or(0, |request| request.saturating_mul(i64::from(*percent.max(&100))) / 100),
                Target::AverageValue(value) => *value,
            };
            if first != 1.0 {
                usage.insert(pod, assumed);
            }
        }
        if rises_with_unready {
            groups.unready.iter().for_each(|pod| _ = usage.insert(pod, 0));
        }
        let second = ratio_of(&usage);
        let turned = first < 1.0 && second > 1.0 || first > 1.0 && second < 1.0;
        if is_within(second) || turned {
            return self.current_replicas;
        }
        let wanted = (second * usage.len() as f64).ceil() as i32;
        let contradicts =
            second < 1.0 && wanted > self.current_replicas || second > 1.0 && wanted < self.current_replicas;
        if contradicts { self.current_replicas } else { wanted }
    }
}

/// Usage as a fraction of the requests of the same pods; `none` if they request nothing.
fn ratio(usage: &Amounts<'_>, requests: &Amounts<'_>, none: f64) -> f64 {
    let (mut used, mut requested) = (0_i64, 0_i64);
    for (pod, amount) in usage {
        let Some(request) = requests.get(pod) else { continue };
        used = used.saturating_add(*amount);
        requested = requested.saturating_add(*request);
    }
    if requested == 0 { none } else { used as f64 / requested as f64 }
}

fn total(amounts: impl IntoIterator<Item = i64>) -> i64 {
    amounts.into_iter().fold(0, i64::saturating_add)
}

fn average(usage: &Amounts<'_>) -> i64 {
    total(usage.values().copied()) / i64::from(clamp(usage.len() as i64).max(1))
}
