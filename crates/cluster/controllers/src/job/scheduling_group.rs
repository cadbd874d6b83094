//! The PodGroup of a Job whose pods all run at once: the gate `WorkloadWithJob` of Kubernetes 1.36.
//!
//! The controller creates a Workload and a PodGroup before the first pod of the Job. The garbage collector deletes both with
//! the Job. A Job that has pods without a group stays without one.

use berth_api::object::group::{GROUP_ANNOTATION, POD_GROUP_LABEL};
use berth_api::object::{NamespacedName, OwnerReference};
use berth_api::resource::{JOBS, POD_GROUPS, Resource, WORKLOADS};
use berth_client::call::CallError;
use serde_json::{Value, json};

use super::Jobs;
use crate::events::Reference;
use crate::ownership::Owner;
use crate::template::name_hash;
use crate::view::{Job, PartialObjectMetadata};

/// Bytes of the name of an object at most.
const MAX_NAME: usize = 253;
/// Bytes of the name of a template at most.
const MAX_TEMPLATE_NAME: usize = 63;

impl Jobs {
    /// The name of the Job's PodGroup, if its pods are a group. It is created if the Job has no pods yet.
    pub(super) async fn scheduling_group(
        &self,
        job: &Job,
        about: &Reference,
        is_new: bool,
    ) -> Result<Option<String>, CallError> {
        if !self.feature_gates.workload_with_job || !is_gang(job) {
            return Ok(None);
        }
        let (workload, template) = (workload_name(job), template_name(job));
        let group = pod_group_name(&workload, &template);
        if self.owned(&POD_GROUPS, job, &group).await?.is_some() {
            return Ok(Some(group));
        }
        if !is_new {
            return Ok(None);
        }
        let parallelism = job.parallelism();
        let object = workload_of(job, &workload, &template);
        let created = match self.owned(&WORKLOADS, job, &workload).await? {
            Some(created) => created,
            None => {
                let created =
                    self.control.api.create(&WORKLOADS, &job.metadata.namespace, bytes(&object)).await?;
                let why =
                    format!("Created Workload {workload} with gang scheduling (minCount={parallelism})");
                self.control.recorder.normal(about, "WorkloadCreated", why);
                created
            }
        };
        let object = pod_group_of(job, &group, &created, &object["spec"]["podGroupTemplates"][0]);
        self.control.api.create(&POD_GROUPS, &job.metadata.namespace, bytes(&object)).await?;
        let why = format!("Created PodGroup {group} for Workload {workload}");
        self.control.recorder.normal(about, "PodGroupCreated", why);
        Ok(Some(group))
    }

    /// The object of this name that the Job controls.
    async fn owned(
        &self,
        kind: &'static Resource,
        job: &Job,
        name: &str,
    ) -> Result<Option<PartialObjectMetadata>, CallError> {
        let key = NamespacedName::new(&job.metadata.namespace, name);
        let object: Option<PartialObjectMetadata> = self.control.api.get(kind, &key).await?;
        let is_own = |object: &PartialObjectMetadata| {
            object.metadata.controller().is_some_and(|owner| owner.uid == job.metadata.uid)
        };
        Ok(object.filter(is_own))
    }
}

fn bytes(object: &Value) -> Vec<u8> {
    object.to_string().into_bytes()
}

/// Whether all pods of a Job run at the same time, several of them, and its template names no group.
fn is_gang(job: &Job) -> bool {
    let metadata = &job.spec.template["metadata"];
    let names_group = !job.spec.template["spec"]["schedulingGroup"].is_null()
        || !metadata["labels"][POD_GROUP_LABEL].is_null()
        || !metadata["annotations"][GROUP_ANNOTATION].is_null();
    job.is_indexed()
        && job.parallelism() > 1
        && job.spec.completions == Some(job.parallelism())
        && !names_group
}

fn workload_of(job: &Job, name: &str, template: &str) -> Value {
    let mut template =
        json!({"name": template, "schedulingPolicy": {"gang": {"minCount": job.parallelism()}}});
    // Without it, the group would have the default priority instead of that of its pods.
    let class = &job.spec.template["spec"]["priorityClassName"];
    if class.as_str().is_some_and(|class| !class.is_empty()) {
        template["priorityClassName"] = class.clone();
    }
    let owner = Owner { kind: &JOBS, meta: &job.metadata }.reference();
    json!({
        "apiVersion": WORKLOADS.api_version(), "kind": WORKLOADS.kind,
        "metadata": {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]},
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": job.metadata.name},
            "podGroupTemplates": [template],
        },
    })
}

fn pod_group_of(job: &Job, name: &str, workload: &PartialObjectMetadata, template: &Value) -> Value {
    let job_owner = Owner { kind: &JOBS, meta: &job.metadata }.reference();
    let workload_owner = OwnerReference {
        controller: None,
        block_owner_deletion: None,
        ..Owner { kind: &WORKLOADS, meta: &workload.metadata }.reference()
    };
    let mut spec = template.clone();
    if let Some(spec) = spec.as_object_mut() {
        let template = spec.remove("name").unwrap_or_default();
        let reference = json!({"workloadName": workload.metadata.name, "podGroupTemplateName": template});
        spec.insert("podGroupTemplateRef".to_owned(), json!({ "workload": reference }));
    }
    json!({
        "apiVersion": POD_GROUPS.api_version(), "kind": POD_GROUPS.kind,
        "metadata": {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [job_owner, workload_owner]},
        "spec": spec,
    })
}

/// `JOB-HASH`; the hash is that of the uid.
fn workload_name(job: &Job) -> String {
    let hash = name_hash(&[&job.metadata.uid]);
    format!("{}-{hash}", cut(&job.metadata.name, MAX_NAME - hash.len() - 1))
}

/// `JOB-worker-0`. It is a label, which the name of a Job may not be.
fn template_name(job: &Job) -> String {
    let suffix = "-worker-0";
    let name = job.metadata.name.replace('.', "-");
    format!("{}{suffix}", cut(&name, MAX_TEMPLATE_NAME - suffix.len()))
}

/// `WORKLOAD-TEMPLATE-HASH`; of long names, each keeps at least half of the room.
fn pod_group_name(workload: &str, template: &str) -> String {
    let hash = name_hash(&[workload, template]);
    let room = MAX_NAME - hash.len() - 2;
    let template = cut(template, (room / 2).max(room.saturating_sub(workload.len())));
    format!("{}-{template}-{hash}", cut(workload, room - template.len()))
}

/// The first bytes of a name, which is ASCII.
fn cut(name: &str, n_bytes: usize) -> &str {
    name.get(..n_bytes).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(name: &str, spec: Value) -> Job {
        let metadata = json!({"name": name, "namespace": "a", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn a_job_is_a_gang_if_all_its_pods_run_at_once() {
        let is_gang = |changes: Value| {
            let mut spec =
                json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": {}});
            json_patch::merge(&mut spec, &changes);
            is_gang(&job("j", spec))
        };
        assert!(is_gang(json!({})));
        assert!(!is_gang(json!({"completionMode": "NonIndexed"})));
        assert!(!is_gang(json!({"completions": 4})));
        assert!(!is_gang(json!({"parallelism": 1, "completions": 1})));
        assert!(!is_gang(json!({"template": {"spec": {"schedulingGroup": {"podGroupName": "own"}}}})));
        assert!(!is_gang(json!({"template": {"metadata": {"annotations": {GROUP_ANNOTATION: "own"}}}})));
    }

    #[test]
    fn names_are_stable_and_short_enough() {
        let long = job(&format!("{}.{}", "a".repeat(60), "b".repeat(180)), json!({}));
        let (workload, template) = (workload_name(&long), template_name(&long));
        assert_eq!((workload_name(&long), template.len()), (workload.clone(), 63));
        assert!(!template.contains('.') && template.ends_with("-worker-0"), "{template}");
        let group = pod_group_name(&workload, &template);
        assert_eq!(group.len(), MAX_NAME, "{group}");
        assert!(group.contains(&template), "{group}");
        assert!(pod_group_name("w", "t").starts_with("w-t-"));
        assert_ne!(pod_group_name("w", "t"), pod_group_name("w", "s"));
    }
}
