//! Jobs and CronJobs.

use serde_json::Value;

use super::context::{Context, owner_reference};
use super::ownership::is_active;
use super::{ExpandError, Expander};
use crate::job::{self, Indexes, Rank, rank};
use berth_api::fenceposts::clamp;
use berth_api::object::{CronJob, Job, JobSpec, JobStatus, ObjectMeta, OwnerReference, Pod};
use berth_api::read::{Kind, decode_at};

/// The annotation and label with a pod's completion index.
pub const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// A Job of the input, or the Job of a CronJob's next run.
struct Run<'a> {
    name: &'a str,
    owner: OwnerReference,
    spec: &'a JobSpec,
    status: &'a JobStatus,
    /// Path of `spec` in the workload.
    path: &'a str,
    /// Pods of the input that it controls.
    pods: Vec<&'a Pod>,
}

impl<'a> Expander<'a> {
    pub(super) fn job(&mut self, context: Context<'a>, job: &'a Job) -> Result<(), ExpandError> {
        let run = Run {
            name: &job.metadata.name,
            owner: context.owner(),
            spec: &job.spec,
            status: &job.status,
            path: "spec",
            pods: self.ownership.pods_of(Kind::Job, &job.metadata),
        };
        self.run(context, &run)
    }

    pub(super) fn cron_job(
        &mut self,
        context: Context<'a>,
        cron_job: &'a CronJob,
    ) -> Result<(), ExpandError> {
        let metadata = &cron_job.metadata;
        let has_run = !self.ownership.workloads_of(Kind::CronJob, metadata).is_empty()
            || self.ownership.has_pods_of_absent_jobs(metadata);
        let path = "spec.jobTemplate.spec";
        let spec = cron_job.spec.job_template.get("spec").unwrap_or(&Value::Null);
        let spec: JobSpec = decode_at::<Option<JobSpec>>(spec, path, &context.entry.object)
            .map_err(|error| context.field_error(error))?
            .unwrap_or_default();
        let job = ObjectMeta {
            name: format!("{}-0", metadata.name),
            namespace: metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        let owner = owner_reference("batch/v1", Kind::Job, &job);
        if cron_job.spec.suspend || has_run {
            self.draft(context, &spec.template, &format!("{path}.template"), &owner)?;
            return Ok(());
        }
        let status = JobStatus::default();
        self.run(
            context,
            &Run { name: &job.name, owner, spec: &spec, status: &status, path, pods: Vec::new() },
        )
    }

    fn run(&mut self, context: Context<'a>, run: &Run<'_>) -> Result<(), ExpandError> {
        let path = |field: &str| format!("{}.{field}", run.path);
        let parallelism = context.count(&path("parallelism"), run.spec.parallelism)?;
        let completions = run
            .spec
            .completions
            .map(|n| context.count(&path("completions"), Some(n)))
            .transpose()?
            .map(clamp);
        let mut draft = self.draft(context, &run.spec.template, &path("template"), &run.owner)?;
        let mut active: Vec<&Pod> = run.pods.iter().filter(|pod| is_active(pod)).copied().collect();
        if run.spec.suspend && !run.status.is_finished() {
            self.expansion.deleted.extend(active.iter().map(|pod| pod.metadata.namespaced_name()));
        }
        if run.spec.suspend || run.status.is_finished() {
            return Ok(());
        }
        self.keep_template(context, &draft);
        if !run.spec.manual_selector {
            for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
                draft.label_unless_present(key, &run.owner.uid);
            }
            for key in ["batch.kubernetes.io/job-name", "job-name"] {
                draft.label_unless_present(key, run.name);
            }
        }
        active.sort_by(|a, b| rank_of(a).cmp(&rank_of(b)));
        let succeeded: Vec<_> = run.pods.iter().filter(|pod| pod.status.phase == "Succeeded").collect();
        let is_indexed = run.spec.completion_mode.as_deref() == Some("Indexed");
        if is_indexed && completions.is_none() {
            return Err(
                context.invalid(&path("completions"), "Required value: when completion mode is Indexed")
            );
        }
        let indexes = |text: &str| Indexes::parse(text, completions.unwrap_or(0));
        let (mut completed, failed) =
            (indexes(&run.status.completed_indexes), indexes(&run.status.failed_indexes));
        let of_pods = succeeded.iter().filter_map(|pod| completion_index(pod));
        of_pods.filter(|index| Some(*index) < completions).for_each(|index| completed.insert(index));
        let n_succeeded = match is_indexed {
            true => completed.len(),
            false => run.status.succeeded.max(clamp(succeeded.len() as i64)),
        };
        let indexes_of_active: Vec<_> = active.iter().map(|pod| completion_index(pod)).collect();
        let job = job::Job {
            parallelism: clamp(parallelism),
            completions,
            is_indexed,
            succeeded: n_succeeded,
            completed: &completed,
            failed: &failed,
            active: &indexes_of_active,
            // They are gone when the cluster has settled.
            awaited: &[],
        };
        let steps = job.steps();
        let deleted = steps.delete.iter().map(|at| active[*at].metadata.namespaced_name());
        self.expansion.deleted.extend(deleted);
        let namespace = &draft.pod.metadata.namespace.clone();
        if !is_indexed {
            self.reserve(context, "spec.parallelism", &draft, steps.n_missing as i64)?;
            for _ in 0..steps.n_missing {
                let pod = draft.named(self.generated_name(namespace, run.name));
                self.hand_over(context, pod);
            }
            return Ok(());
        }
        for index in job.free_indexes().take(steps.n_missing) {
            self.reserve(context, "spec.parallelism", &draft, 1)?;
            let base = format!("{}-{index}", run.name);
            let mut pod = draft.named(self.generated_name(namespace, &base));
            pod.label(COMPLETION_INDEX, &index.to_string());
            pod.annotation(COMPLETION_INDEX, &index.to_string());
            pod.spec_text("hostname", &base);
            self.hand_over(context, pod);
        }
        Ok(())
    }
}

fn completion_index(pod: &Pod) -> Option<i32> {
    pod.metadata.annotations.get(COMPLETION_INDEX)?.parse().ok().filter(|index| *index >= 0)
}

fn rank_of(pod: &Pod) -> Rank<'_> {
    let (metadata, spec) = (&pod.metadata, &pod.spec);
    let runs = !spec.node_name.is_empty();
    rank(
        runs && !pod.is_unready(),
        &pod.status.phase,
        &spec.node_name,
        metadata.creation_timestamp,
        &metadata.name,
    )
}
