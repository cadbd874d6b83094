//! The PodGroup of a Job, with the gate `WorkloadWithJob`: in Kubernetes 1.36 a gang, if all its pods run at once; since 1.37 what
//! `spec.scheduling` says, by default a basic group, if no other controller owns the Job.
//!
//! The controller creates a Workload and a PodGroup before the first pod of the Job. The garbage collector deletes both with
//! the Job. A Job that has pods without a group stays without one.

use berth_api::feature_gates::KubernetesVersion::{self, V1_36};
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
        let version = self.feature_gates.version;
        if !self.feature_gates.workload_with_job || !is_grouped(job, version) {
            return Ok(None);
        }
        let (workload, template) = (workload_name(job), template_name(job, version));
        let group = pod_group_name(&workload, &template);
        if self.owned(&POD_GROUPS, job, &group).await?.is_some() {
            return Ok(Some(group));
        }
        if !is_new {
            return Ok(None);
        }
        let kinds = [&WORKLOADS, &POD_GROUPS].map(|kind| self.control.api.served(kind));
        let object = workload_of(job, kinds[0], &workload, template_of(job, &template, version));
        let created = match self.owned(&WORKLOADS, job, &workload).await? {
            Some(created) => created,
            None => {
                let created =
                    self.control.api.create(&WORKLOADS, &job.metadata.namespace, bytes(&object)).await?;
                let why = match version {
                    V1_36 => {
                        let min = job.parallelism();
                        format!("Created Workload {workload} with gang scheduling (minCount={min})")
                    }
                    _ => format!("Created Workload {workload} for Job {}", job.metadata.name),
                };
                self.control.recorder.normal(about, "WorkloadCreated", why);
                created
            }
        };
        let object = pod_group_of(job, kinds, &group, &created, &object["spec"]["podGroupTemplates"][0]);
        self.control.api.create(&POD_GROUPS, &job.metadata.namespace, bytes(&object)).await?;
        let why = match version {
            V1_36 => format!("Created PodGroup {group} for Workload {workload}"),
            _ => format!("Created PodGroup {group} for Job {}", job.metadata.name),
        };
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

/// Whether the pods of a Job are a group that its controller makes: its template names none. In 1.36, all its pods run at the same time,
/// several of them.
fn is_grouped(job: &Job, version: KubernetesVersion) -> bool {
    let metadata = &job.spec.template["metadata"];
    let names_group = !job.spec.template["spec"]["schedulingGroup"].is_null()
        || !metadata["labels"][POD_GROUP_LABEL].is_null()
        || !metadata["annotations"][GROUP_ANNOTATION].is_null();
    let is_group = match version {
        V1_36 => {
            let is_at_once = job.spec.completions == Some(job.parallelism());
            job.is_indexed() && job.parallelism() > 1 && is_at_once
        }
        _ => job.metadata.controller().is_none(),
    };
    is_group && !names_group
}

fn template_of(job: &Job, name: &str, version: KubernetesVersion) -> Value {
    let mut template =
        json!({"name": name, "schedulingPolicy": {"gang": {"minCount": job.parallelism().max(1)}}});
    if version > V1_36 {
        let scheduling = &job.spec.scheduling;
        let policy = &scheduling["schedulingPolicy"];
        match &policy["gang"] {
            Value::Null => template["schedulingPolicy"] = json!({"basic": {}}),
            gang if !gang["minCount"].is_null() => template["schedulingPolicy"] = json!({ "gang": gang }),
            _ => {}
        }
        for field in ["schedulingConstraints", "resourceClaims"] {
            if !scheduling[field].is_null() {
                template[field] = scheduling[field].clone();
            }
        }
        let mode = &scheduling["disruptionMode"];
        if !mode.is_null() {
            template["disruptionMode"] = mode.clone();
        }
    }
    // Without it, the group would have the default priority instead of that of its pods.
    let class = &job.spec.template["spec"]["priorityClassName"];
    if class.as_str().is_some_and(|class| !class.is_empty()) {
        template["priorityClassName"] = class.clone();
    }
    template
}

fn workload_of(job: &Job, kind: &Resource, name: &str, template: Value) -> Value {
    let owner = Owner { kind: &JOBS, meta: &job.metadata }.reference();
    json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [owner]},
        "spec": {
            "controllerRef": {"apiGroup": JOBS.group, "kind": JOBS.kind, "name": job.metadata.name},
            "podGroupTemplates": [template],
        },
    })
}

fn pod_group_of(
    job: &Job,
    [workloads, pod_groups]: [&'static Resource; 2],
    name: &str,
    workload: &PartialObjectMetadata,
    template: &Value,
) -> Value {
    let job_owner = Owner { kind: &JOBS, meta: &job.metadata }.reference();
    let workload_owner = OwnerReference {
        controller: None,
        block_owner_deletion: None,
        ..Owner { kind: workloads, meta: &workload.metadata }.reference()
    };
    let mut spec = template.clone();
    if let Some(spec) = spec.as_object_mut() {
        let template = spec.remove("name").unwrap_or_default();
        let workload = &workload.metadata.name;
        let (field, reference) = match *workloads == WORKLOADS {
            true => {
                let reference = json!({"workloadName": workload, "podGroupTemplateName": template});
                ("podGroupTemplateRef", json!({ "workload": reference }))
            }
            false => ("workloadRef", json!({"workloadName": workload, "templateName": template})),
        };
        spec.insert(field.to_owned(), reference);
    }
    json!({
        "apiVersion": pod_groups.api_version(), "kind": pod_groups.kind,
        "metadata": {"name": name, "namespace": job.metadata.namespace, "ownerReferences": [job_owner, workload_owner]},
        "spec": spec,
    })
}

/// `JOB-HASH`; the hash is that of the uid.
fn workload_name(job: &Job) -> String {
    let hash = name_hash(&[&job.metadata.uid]);
    format!("{}-{hash}", cut(&job.metadata.name, MAX_NAME - hash.len() - 1))
}

/// `JOB-worker-0`, since 1.37 `JOB-pgt-0`. It is a label, which the name of a Job may not be.
fn template_name(job: &Job, version: KubernetesVersion) -> String {
    let suffix = if version == V1_36 { "-worker-0" } else { "-pgt-0" };
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
    use berth_api::feature_gates::KubernetesVersion::V1_37;

    use super::*;

    fn job(name: &str, spec: Value) -> Job {
        let metadata = json!({"name": name, "namespace": "a", "uid": "u"});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    #[test]
    fn the_scheduling_of_a_job_is_that_of_its_group_since_1_37() {
        let template = |scheduling: Value| {
            let spec = json!({"parallelism": 3, "scheduling": scheduling, "template": {}});
            template_of(&job("j", spec), "t", V1_37)
        };
        assert_eq!(template(Value::Null), json!({"name": "t", "schedulingPolicy": {"basic": {}}}));
        let gang = json!({"schedulingPolicy": {"gang": {}}, "disruptionMode": {"all": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]}});
        let expected = json!({"name": "t", "schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": {"all": {}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]}});
        assert_eq!(template(gang), expected);
        let smaller = template(json!({"schedulingPolicy": {"gang": {"minCount": 2}}}));
        assert_eq!(smaller["schedulingPolicy"]["gang"]["minCount"], 2);
        assert!(is_grouped(&job("j", json!({"template": {}})), V1_37));
        assert!(!is_grouped(&job("j", json!({"template": {}})), V1_36));
    }

    #[test]
    fn a_job_is_a_gang_if_all_its_pods_run_at_once() {
        let is_gang = |changes: Value| {
            let mut spec =
                json!({"completionMode": "Indexed", "parallelism": 3, "completions": 3, "template": {}});
            json_patch::merge(&mut spec, &changes);
            is_grouped(&job("j", spec), V1_36)
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
        let (workload, template) = (workload_name(&long), template_name(&long, V1_36));
        assert_eq!((workload_name(&long), template.len()), (workload.clone(), 63));
        assert!(!template.contains('.') && template.ends_with("-worker-0"), "{template}");
        let group = pod_group_name(&workload, &template);
        assert_eq!(group.len(), MAX_NAME, "{group}");
        assert!(group.contains(&template), "{group}");
        assert!(pod_group_name("w", "t").starts_with("w-t-"));
        assert_ne!(pod_group_name("w", "t"), pod_group_name("w", "s"));
    }
}
