//! CronJobs: create Jobs at scheduled times, and delete the oldest of those that have ended.

mod plan;

use std::sync::Arc;

use berth_api::object::NamespacedName;
use berth_api::resource::{CRON_JOBS, JOBS};
use berth_api::syntax::cron::time_zone;
use berth_client::call::CallError;
use berth_control::cron_job::job_name;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::plan::{plan, reference};
use super::api::{Api, DeleteOptions, Precondition, Propagation};
use super::events::{Recorder, Reference};
use super::index::Index;
use super::informers::{Caches, Informers};
use super::ownership::Owner;
use super::queue::{Next, Queue, work};
use super::view::{CronJob, Job, PartialObjectMetadata};

/// The annotation of a Job with its scheduled time.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

pub(crate) struct CronJobs {
    api: Api,
    recorder: Recorder,
    caches: Caches,
    queue: Arc<Queue<NamespacedName>>,
}

impl CronJobs {
    pub(crate) fn new(api: &Api, recorder: Recorder, informers: &mut Informers) -> Self {
        let queue: Arc<Queue<NamespacedName>> = Arc::default();
        let of_jobs = queue.clone();
        informers.jobs.on_change(move |change| {
            let Some(job) = change.latest() else { return };
            let owner = job.metadata.controller().filter(|owner| owner.kind == CRON_JOBS.kind);
            if let Some(owner) = owner {
                of_jobs.add(NamespacedName::new(&job.metadata.namespace, &owner.name));
            }
        });
        queue.follow(&mut informers.cron_jobs);
        CronJobs { api: api.clone(), recorder, caches: informers.caches(), queue }
    }

    pub(crate) async fn run(self, n_workers: usize, stop: CancellationToken) {
        work("cron-jobs", &self.queue, n_workers, |key| self.sync(key), stop).await;
    }

    async fn sync(&self, key: NamespacedName) -> Result<Next, CallError> {
        let Some(cron_job) = self.caches.cron_jobs.get(&key) else { return Ok(Next::Wait) };
        let jobs = self.caches.jobs.by(&Index::Controller(cron_job.metadata.uid.clone()));
        let mut gone = Vec::new();
        for active in &cron_job.status.active {
            if jobs.iter().all(|job| job.metadata.uid != active.uid) {
                // The watch may not have shown it yet.
                let job = NamespacedName::new(key.namespace(), &active.name);
                let found: Option<PartialObjectMetadata> = self.api.get(&JOBS, &job).await?;
                if found.is_none_or(|found| found.metadata.uid != active.uid) {
                    gone.push(active.uid.clone());
                }
            }
        }
        let (zone, now) = (time_zone(&cron_job.spec.time_zone), Timestamp::now());
        let mut plan = plan(&cron_job, &jobs, |active| gone.contains(&active.uid), zone.as_ref(), now);
        let about = Reference::new(&CRON_JOBS, &cron_job.metadata);
        for event in plan.events {
            self.recorder.record(&about, event);
        }
        for job in &plan.delete {
            let options = DeleteOptions {
                propagation: Some(Propagation::Background),
                ..DeleteOptions::of_uid(&job.metadata.uid)
            };
            self.api.delete(&JOBS, &job.metadata.namespaced_name(), options).await?;
            self.recorder.normal(&about, "SuccessfulDelete", format!("Deleted job {}", job.metadata.name));
        }
        if let Some((scheduled, zone)) = plan.create.zip(zone.as_ref()) {
            match self.create(&cron_job, &about, scheduled, zone).await {
                Ok(Some(job)) => {
                    plan.status.active.push(reference(&job));
                    plan.status.last_schedule_time = Some(scheduled);
                }
                Ok(None) => {}
                Err(error) if error.is_namespace_terminating() => return Ok(Next::Wait),
                Err(error) => {
                    self.recorder.warning(&about, "FailedCreate", format!("Error creating job: {error}"));
                    return Err(error);
                }
            }
        }
        if plan.status != cron_job.status {
            self.api
                .write_status(&CRON_JOBS, &cron_job.metadata, &plan.status, Precondition::Version)
                .await?;
        }
        Ok(Next::at(plan.again_at, Timestamp::now()))
    }

    /// Creates the Job of a scheduled time; none if another object has its name.
    async fn create(
        &self,
        cron_job: &CronJob,
        about: &Reference,
        scheduled: Timestamp,
        zone: &TimeZone,
    ) -> Result<Option<Job>, CallError> {
        let (namespace, name) = (&cron_job.metadata.namespace, job_name(&cron_job.metadata.name, scheduled));
        let body = new_job(cron_job, &name, scheduled, zone).to_string().into_bytes();
        match self.api.create_as(&JOBS, namespace, body).await {
            Ok(job) => {
                self.recorder.normal(about, "SuccessfulCreate", format!("Created job {name}"));
                Ok(Some(job))
            }
            Err(error) if error.is_already_exists() => {
                // It was created before, and the status was not written.
                let found: Option<Job> = self.api.get(&JOBS, &NamespacedName::new(namespace, &name)).await?;
                let uid = &cron_job.metadata.uid;
                Ok(found.filter(|job| job.metadata.controller().is_some_and(|owner| owner.uid == *uid)))
            }
            Err(error) => Err(error),
        }
    }
}

fn new_job(cron_job: &CronJob, name: &str, scheduled: Timestamp, zone: &TimeZone) -> Value {
    let template = &cron_job.spec.job_template;
    let time = scheduled.to_zoned(zone.clone());
    let format = if time.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    let mut annotations = template["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    annotations.insert(SCHEDULED.to_owned(), time.strftime(format).to_string().into());
    let owner = Owner { kind: &CRON_JOBS, meta: &cron_job.metadata };
    json!({
        "apiVersion": JOBS.api_version(),
        "kind": JOBS.kind,
        "metadata": {
            "name": name,
            "namespace": cron_job.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations,
            "ownerReferences": [owner.reference()],
        },
        "spec": template["spec"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_the_template_and_its_time_in_the_time_zone() {
        let cron_job: CronJob = serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "a", "uid": "u"},
            "spec": {"jobTemplate": {"metadata": {"labels": {"x": "y"}, "annotations": {"k": "v"}},
                "spec": {"parallelism": 2}}},
        }))
        .unwrap();
        let scheduled: Timestamp = "2026-07-01T00:00:00Z".parse().unwrap();
        let berlin = time_zone("Europe/Berlin").unwrap();
        let job = new_job(&cron_job, &job_name("c", scheduled), scheduled, &berlin);
        assert_eq!(job["metadata"]["name"], "c-29714400");
        assert_eq!(job["metadata"]["annotations"], json!({"k": "v", SCHEDULED: "2026-07-01T02:00:00+02:00"}));
        assert_eq!(job["metadata"]["ownerReferences"][0]["controller"], true);
        assert_eq!((&job["metadata"]["labels"]["x"], &job["spec"]["parallelism"]), (&json!("y"), &json!(2)));
        let utc = new_job(&cron_job, "n", scheduled, &TimeZone::UTC);
        assert_eq!(utc["metadata"]["annotations"][SCHEDULED], "2026-07-01T00:00:00Z");
    }
}
