//! The labels that the API server and the controllers add to the pods of a workload.

use std::borrow::Cow;
use std::ops::Range;

use berth_api::object::StringMap;
use berth_control::expand::DesiredReplicas;
use berth_input::inventory::{Workload, WorkloadSpec};
use berth_rules::{PodSet, Requirement};
use serde_json::Value;

/// Begins what stands for a value that only a controller knows. Each workload has another one, except for indexes.
pub(crate) const UNKNOWN_VALUE: &str = "set-by-the-controller-";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The labels whose values differ among the pods of one workload.
const OF_SINGLE_PODS: [&str; 3] = [POD_NAME, POD_INDEX, COMPLETION_INDEX];
const OF_JOBS: [&str; 4] =
    ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];

/// The labels that are added to the pods of one workload.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedLabels {
    pub(crate) keys: Vec<&'static str>,
    /// The ordinals of the pods that are created before any of them runs; empty without ordinals.
    first: Range<i64>,
}

impl AddedLabels {
    pub(crate) fn of(workload: &Workload, desired: &DesiredReplicas<'_>) -> AddedLabels {
        let of_job = |manual_selector: bool, is_indexed: bool, n_first: i64| {
            let mut keys = if manual_selector { Vec::new() } else { OF_JOBS.to_vec() };
            keys.extend(is_indexed.then_some(COMPLETION_INDEX));
            AddedLabels { keys, first: 0..if is_indexed { n_first } else { 0 } }
        };
        let with = |keys: &[&'static str]| AddedLabels { keys: keys.to_vec(), first: 0..0 };
        match &workload.spec {
            WorkloadSpec::Deployment(_) => with(&["pod-template-hash"]),
            WorkloadSpec::StatefulSet(set) => {
                let start = set.spec.ordinals.as_ref().map_or(0, |ordinals| i64::from(ordinals.start));
                let is_parallel = set.spec.pod_management_policy == "Parallel";
                let n_first = if is_parallel { desired.of(workload).map_or(1, i64::from) } else { 1 };
                let mut keys = vec!["controller-revision-hash"];
                keys.extend(OF_SINGLE_PODS.iter().filter(|key| **key != COMPLETION_INDEX));
                AddedLabels { keys, first: start..start.saturating_add(n_first) }
            }
            WorkloadSpec::DaemonSet(_) => with(&["controller-revision-hash", "pod-template-generation"]),
            WorkloadSpec::Job(job) => {
                let spec = &job.spec;
                let is_indexed = spec.completion_mode.as_deref() == Some("Indexed");
                of_job(spec.manual_selector, is_indexed, i64::from(spec.parallelism.unwrap_or(1)))
            }
            WorkloadSpec::CronJob(cron_job) => {
                let spec = cron_job.spec.job_template.get("spec").unwrap_or(&Value::Null);
                let is_indexed = spec["completionMode"].as_str() == Some("Indexed");
                let n_first = spec["parallelism"].as_i64().unwrap_or(1);
                of_job(spec["manualSelector"].as_bool().unwrap_or(false), is_indexed, n_first)
            }
            WorkloadSpec::ReplicaSet(_) | WorkloadSpec::ReplicationController(_) => with(&[]),
        }
    }

    /// Adds them to the labels of a pod template. `order` is the position of the workload in the input.
    pub(crate) fn add_to(&self, labels: &mut StringMap, workload: &Workload, order: usize) {
        for key in &self.keys {
            let value = match (*key, &workload.spec) {
                ("job-name" | "batch.kubernetes.io/job-name", WorkloadSpec::Job(job)) => {
                    job.metadata.name.clone()
                }
                (key, _) if !is_of_one_workload(key) => format!("{UNKNOWN_VALUE}index"),
                _ => format!("{UNKNOWN_VALUE}{order}"),
            };
            labels.entry((*key).to_owned()).or_insert(value);
        }
    }

    /// The labels of one pod of a workload with those of another one: the values of [`OF_SINGLE_PODS`] differ.
    pub(crate) fn of_another<'a>(&self, labels: &'a StringMap) -> Cow<'a, StringMap> {
        let mut labels = Cow::Borrowed(labels);
        for key in self.of_single_pods() {
            if let Some(value) = labels.to_mut().get_mut(key) {
                value.push_str("-of-another-pod");
            }
        }
        labels
    }

    /// The labels of pods that are created first: those with the ordinals that the sets ask for, and the first one.
    pub(crate) fn of_first_pods(&self, labels: &StringMap, name: &str, sets: &[PodSet]) -> Vec<StringMap> {
        if self.of_single_pods().next().is_none() {
            return Vec::new();
        }
        let mut ordinals = vec![self.first.start];
        for requirement in sets.iter().flat_map(|set| set.selector.requirements()) {
            if let Requirement::In(key, values) = requirement
                && OF_SINGLE_PODS.contains(&key.as_str())
            {
                ordinals.extend(values.iter().filter_map(|value| ordinal(key, value, name)));
            }
        }
        ordinals.retain(|ordinal| self.first.contains(ordinal));
        let labels_of = |ordinal: i64| {
            let mut labels = labels.clone();
            for key in self.of_single_pods() {
                let value = if key == POD_NAME { format!("{name}-{ordinal}") } else { ordinal.to_string() };
                labels.insert(key.to_owned(), value);
            }
            labels
        };
        ordinals.into_iter().map(labels_of).collect()
    }

    fn of_single_pods(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().copied().filter(|key| OF_SINGLE_PODS.contains(key))
    }
}

/// Whether each workload has other values of this label: the pods of all workloads are numbered alike.
pub(crate) fn is_of_one_workload(key: &str) -> bool {
    ![POD_INDEX, COMPLETION_INDEX].contains(&key)
}

fn ordinal(key: &str, value: &str, name: &str) -> Option<i64> {
    let value = if key == POD_NAME { value.strip_prefix(name)?.strip_prefix('-')? } else { value };
    value.parse().ok()
}
