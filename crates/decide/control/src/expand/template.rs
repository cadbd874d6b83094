//! What a workload says about its pods, however many it creates.

use serde_json::Value;

use super::context::Context;
use super::draft::{Origin, PodDraft};
use super::{ExpandError, selector};
use berth_api::object::{LabelSelector, Pod};
use berth_input::inventory::{Entry, Workload, WorkloadSpec};

/// The selector and the template of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadPods {
    /// The pods that it manages; none for a CronJob, and for a Job whose selector the API server generates.
    pub selector: Option<LabelSelector>,
    /// A pod of the template, without a name and without the labels that controllers add.
    pub template: Pod,
}

/// The selector and the template of a workload.
///
/// # Errors
/// The API server would reject the selector or the template.
pub fn workload_pods(entry: &Entry<Workload>) -> Result<WorkloadPods, ExpandError> {
    let context = Context { index: 0, entry };
    let (template, path) = match &entry.object.spec {
        WorkloadSpec::Deployment(w)
        | WorkloadSpec::ReplicaSet(w)
        | WorkloadSpec::StatefulSet(w)
        | WorkloadSpec::DaemonSet(w) => (Some(&w.spec.template), "spec.template"),
        WorkloadSpec::ReplicationController(w) => (Some(&w.spec.template), "spec.template"),
        WorkloadSpec::Job(w) => (Some(&w.spec.template), "spec.template"),
        WorkloadSpec::CronJob(w) => {
            (w.spec.job_template.pointer("/spec/template"), "spec.jobTemplate.spec.template")
        }
    };
    let origin = Origin {
        object: &entry.object,
        path,
        namespace: &context.metadata().namespace,
        owner: &context.owner(),
        keep_raw: false,
    };
    let draft = PodDraft::new(template.unwrap_or(&Value::Null), &origin);
    let template = draft.map_err(|error| context.field_error(error))?.pod;
    let selector = match &entry.object.spec {
        WorkloadSpec::Deployment(w)
        | WorkloadSpec::ReplicaSet(w)
        | WorkloadSpec::StatefulSet(w)
        | WorkloadSpec::DaemonSet(w) => Some(selector::of_workload(context, w)?),
        WorkloadSpec::ReplicationController(w) => {
            Some(selector::of_replication_controller(context, w, &template.metadata.labels)?)
        }
        WorkloadSpec::Job(w) => w.spec.selector.clone().filter(|_| w.spec.manual_selector),
        WorkloadSpec::CronJob(_) => None,
    };
    Ok(WorkloadPods { selector, template })
}
