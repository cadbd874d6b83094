//! Jobs and CronJobs.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use serde_json::Value;

use super::context::{Context, owner_reference};
use super::ownership::is_active;
use super::{ExpandError, Expander};
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
        let completions =
            run.spec.completions.map(|n| context.count(&path("completions"), Some(n))).transpose()?;
        let mut draft = self.draft(context, &run.spec.template, &path("template"), &run.owner)?;
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
        let active: Vec<_> = run.pods.iter().filter(|pod| is_active(pod)).collect();
        let n_active = active.len() as i64;
        let succeeded: Vec<_> = run.pods.iter().filter(|pod| pod.status.phase == "Succeeded").collect();
        let n_succeeded = i64::from(run.status.succeeded).max(succeeded.len() as i64);
        let n_free = (parallelism - n_active).max(0);
        let namespace = &draft.pod.metadata.namespace.clone();

        if run.spec.completion_mode.as_deref() != Some("Indexed") {
            let n_missing = match completions {
                Some(completions) => n_free.min((completions - n_succeeded - n_active).max(0)),
                // A work queue: after the first success, no new pods start.
                None if n_succeeded > 0 => 0,
                None => n_free,
            };
            self.reserve(context, "spec.parallelism", &draft, n_missing)?;
            for _ in 0..n_missing {
                let pod = draft.named(self.generated_name(namespace, run.name));
                self.hand_over(context, pod);
            }
            return Ok(());
        }

        let Some(completions) = completions else {
            return Err(
                context.invalid(&path("completions"), "Required value: when completion mode is Indexed")
            );
        };
        let taken: HashSet<i64> =
            active.iter().chain(&succeeded).filter_map(|pod| completion_index(pod)).collect();
        let mut done = index_ranges(&run.status.completed_indexes).into_iter().peekable();
        let mut next = 0;
        let mut n_free = n_free;
        while n_free > 0 && next < completions {
            let index = next;
            next += 1;
            while done.next_if(|range| *range.end() < index).is_some() {}
            if let Some(range) = done.peek().filter(|range| range.contains(&index)) {
                next = range.end().saturating_add(1);
                continue;
            }
            if taken.contains(&index) {
                continue;
            }
            n_free -= 1;
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

fn completion_index(pod: &Pod) -> Option<i64> {
    pod.metadata.annotations.get(COMPLETION_INDEX)?.parse().ok()
}

/// Reads `0-2,5`, sorted; invalid parts are ignored.
fn index_ranges(text: &str) -> Vec<RangeInclusive<i64>> {
    let mut ranges: Vec<RangeInclusive<i64>> = text
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .collect();
    ranges.sort_unstable_by_key(|range| (*range.start(), *range.end()));
    ranges
}
