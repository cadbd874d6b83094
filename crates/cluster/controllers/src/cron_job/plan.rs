//! The action for a CronJob. Pure: jobs, the schedule and the time are passed in.

use std::sync::Arc;

use berth_api::resource::JOBS;
use berth_api::syntax::cron::Schedule;
use berth_control::cron_job::{Due, due, job_name};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use crate::events::Notice;
use crate::view::{ActiveJob, CronJob, CronJobStatus, Job};

/// More missed runs than this are reported: the clock or the controller may have stopped.
const MANY_MISSED: i64 = 100;

/// What to do, in this order.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Delete these Jobs: surplus history, or replaced.
    pub(super) delete: Vec<Arc<Job>>,
    /// Create the Job of this time, and count it as the last scheduled time.
    pub(super) create: Option<Timestamp>,
    /// The status before the Job is created.
    pub(super) status: CronJobStatus,
    pub(super) events: Vec<Notice>,
    pub(super) again_at: Option<Timestamp>,
}

/// The reference of a Job in the status.
pub(super) fn reference(job: &Job) -> ActiveJob {
    ActiveJob {
        api_version: JOBS.api_version(),
        kind: JOBS.kind.to_owned(),
        namespace: job.metadata.namespace.clone(),
        name: job.metadata.name.clone(),
        uid: job.metadata.uid.clone(),
    }
}

/// Decides by the Jobs that the CronJob controls. `is_gone` says of an active Job that is not among them whether it does
/// not exist any more.
pub(super) fn plan(
    cron_job: &CronJob,
    jobs: &[Arc<Job>],
    is_gone: impl Fn(&ActiveJob) -> bool,
    zone: Option<&TimeZone>,
    now: Timestamp,
) -> Plan {
    let spec = &cron_job.spec;
    let mut plan = Plan { status: cron_job.status.clone(), ..Plan::default() };
    follow_jobs(&mut plan, jobs, is_gone);
    prune_history(&mut plan, cron_job, jobs);
    if cron_job.metadata.is_deleting() {
        return plan;
    }
    let Some(zone) = zone else {
        plan.events
            .push(Notice::warning("UnknownTimeZone", format!("invalid timeZone: {:?}", spec.time_zone)));
        return plan;
    };
    if spec.suspend {
        return plan;
    }
    let schedule: Schedule = match spec.schedule.parse() {
        Ok(schedule) => schedule,
        Err(error) => {
            let message = format!("unparseable schedule: {:?} : {error}", spec.schedule);
            plan.events.push(Notice::warning("UnparseableSchedule", message));
            return plan;
        }
    };
    let since = cron_job.status.last_schedule_time.or(cron_job.metadata.creation_timestamp).unwrap_or(now);
    let Due { earliest, scheduled, n_missed } =
        due(since, spec.starting_deadline_seconds, &schedule, zone, now);
    plan.again_at = schedule.next(scheduled.unwrap_or(earliest), zone);
    if n_missed > MANY_MISSED {
        let message = format!(
            "too many missed start times: {n_missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        );
        plan.events.push(Notice::warning("TooManyMissedTimes", message));
    }
    let Some(scheduled) = scheduled else { return plan };
    let name = job_name(&cron_job.metadata.name, scheduled);
    let is_late = spec.starting_deadline_seconds.is_some_and(|seconds| {
        scheduled.saturating_add(SignedDuration::from_secs(seconds)).is_ok_and(|end| end < now)
    });
    if is_late {
        let message = format!("Missed scheduled time to start a job: {scheduled}");
        plan.events.push(Notice::warning("MissSchedule", message));
        return plan;
    }
    if plan.status.last_schedule_time == Some(scheduled)
        || plan.status.active.iter().any(|job| job.name == name)
    {
        return plan;
    }
    match spec.concurrency_policy.as_str() {
        "Forbid" if !plan.status.active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.events.push(Notice::normal("JobAlreadyActive", message));
            return plan;
        }
        "Replace" => {
            let active = std::mem::take(&mut plan.status.active);
            let replaced = jobs.iter().filter(|job| active.iter().any(|a| a.uid == job.metadata.uid));
            plan.delete.extend(replaced.cloned());
        }
        _ => {}
    }
    plan.create = Some(scheduled);
    plan
}

/// Brings the active Jobs and the time of the last success up to date.
fn follow_jobs(plan: &mut Plan, jobs: &[Arc<Job>], is_gone: impl Fn(&ActiveJob) -> bool) {
    let status = &mut plan.status;
    for job in jobs {
        let (uid, name) = (&job.metadata.uid, &job.metadata.name);
        let position = status.active.iter().position(|active| active.uid == *uid);
        match (position, job.status.is_finished()) {
            (None, false) => {
                status.active.push(reference(job));
                let message = format!("Saw a job that the controller did not create or forgot: {name}");
                plan.events.push(Notice::warning("UnexpectedJob", message));
            }
            (Some(i), true) => {
                status.active.remove(i);
                let condition = if job.status.has("Complete") { "Complete" } else { "Failed" };
                let message = format!("Saw completed job: {name}, condition: {condition}");
                plan.events.push(Notice::normal("SawCompletedJob", message));
            }
            _ => {}
        }
        if job.status.has("Complete") {
            status.last_successful_time = status.last_successful_time.max(job.status.completion_time);
        }
    }
    let exists = |active: &ActiveJob| jobs.iter().any(|job| job.metadata.uid == active.uid);
    status.active.retain(|active| {
        let is_missing = !exists(active) && is_gone(active);
        if is_missing {
            plan.events
                .push(Notice::normal("MissingJob", format!("Active job went missing: {}", active.name)));
        }
        !is_missing
    });
}

/// Deletes the oldest finished Jobs beyond the limits of the history.
fn prune_history(plan: &mut Plan, cron_job: &CronJob, jobs: &[Arc<Job>]) {
    let spec = &cron_job.spec;
    for (condition, limit) in
        [("Complete", spec.successful_jobs_history_limit), ("Failed", spec.failed_jobs_history_limit)]
    {
        let Some(limit) = limit else { continue };
        let mut ended: Vec<&Arc<Job>> = jobs.iter().filter(|job| job.status.has(condition)).collect();
        ended.sort_by_key(|job| (job.status.start_time, &job.metadata.name));
        let n_surplus = ended.len().saturating_sub(limit);
        plan.delete.extend(ended.into_iter().take(n_surplus).cloned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(minute: u32, second: u32) -> Timestamp {
        format!("2026-01-01T00:{minute:02}:{second:02}Z").parse().unwrap()
    }

    fn cron_job(spec: Value, status: Value) -> CronJob {
        let mut full =
            json!({"schedule": "*/5 * * * *", "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1});
        json_patch::merge(&mut full, &spec);
        let metadata =
            json!({"name": "c", "namespace": "a", "uid": "c", "creationTimestamp": "2026-01-01T00:00:30Z"});
        serde_json::from_value(json!({"metadata": metadata, "spec": full, "status": status})).unwrap()
    }

    /// A Job of a minute, which runs, or has ended in the next minute.
    fn job(minute: u32, condition: &str) -> Arc<Job> {
        let conditions =
            if condition.is_empty() { json!([]) } else { json!([{"type": condition, "status": "True"}]) };
        let ended = (condition == "Complete").then(|| at(minute + 1, 0).to_string());
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": format!("c-{}", at(minute, 0).as_second() / 60), "namespace": "a", "uid": minute.to_string()},
                "status": {"conditions": conditions, "startTime": at(minute, 0).to_string(), "completionTime": ended},
            }))
            .unwrap(),
        )
    }

    fn planned(cron_job: &CronJob, jobs: &[Arc<Job>], now: Timestamp) -> Plan {
        plan(cron_job, jobs, |_| false, Some(&TimeZone::UTC), now)
    }

    fn reasons(plan: &Plan) -> Vec<&'static str> {
        plan.events.iter().map(|event| event.reason).collect()
    }

    #[test]
    fn a_job_is_created_once_at_each_scheduled_time() {
        let new = cron_job(json!({}), json!({}));
        for (minute, second, created, again) in [
            (4, 59, None, 5),
            (5, 0, Some(5), 10),
            (7, 0, Some(5), 10),
            (12, 0, Some(10), 15),
            (59, 59, Some(55), 60),
        ] {
            let plan = planned(&new, &[], at(minute, second));
            assert_eq!(plan.create, created.map(|minute| at(minute, 0)), "{minute}:{second}");
            let wanted = at(59, 0).checked_add(SignedDuration::from_mins(again - 59)).unwrap();
            assert_eq!(plan.again_at, Some(wanted), "{minute}:{second}");
        }
        let done = cron_job(json!({}), json!({"lastScheduleTime": at(5, 0).to_string()}));
        assert_eq!(planned(&done, &[], at(9, 59)).create, None);
        assert_eq!(planned(&done, &[], at(10, 0)).create, Some(at(10, 0)));
        // The status was not written after the Job was created.
        let forgotten = planned(&new, &[job(5, "")], at(6, 0));
        assert_eq!((forgotten.create, reasons(&forgotten)), (None, vec!["UnexpectedJob"]));
    }

    #[test]
    fn suspension_the_deadline_and_errors_prevent_jobs() {
        for (spec, now, created, reason) in [
            (json!({"suspend": true}), at(5, 0), None, &[][..]),
            (json!({"startingDeadlineSeconds": 60}), at(5, 59), Some(5), &[]),
            (json!({"startingDeadlineSeconds": 60}), at(6, 1), None, &[]),
            (json!({"schedule": "x"}), at(5, 0), None, &["UnparseableSchedule"]),
            (json!({"schedule": "0 0 31 2 *"}), at(5, 0), None, &[]),
            (json!({"schedule": "@every 1s"}), at(5, 0), Some(5), &["TooManyMissedTimes"]),
        ] {
            let plan = planned(&cron_job(spec.clone(), json!({})), &[], now);
            assert_eq!(plan.create, created.map(|minute| at(minute, 0)), "{spec}");
            assert_eq!(reasons(&plan), reason, "{spec}");
        }
        let zoneless = plan(&cron_job(json!({}), json!({})), &[], |_| false, None, at(5, 0));
        assert_eq!((zoneless.create, reasons(&zoneless)), (None, vec!["UnknownTimeZone"]));
    }

    #[test]
    fn the_policy_decides_about_jobs_that_still_run() {
        let running = [job(5, "")];
        let status = json!({"active": [reference(&running[0])], "lastScheduleTime": at(5, 0).to_string()});
        for (policy, creates, deletes, active) in
            [("Allow", true, 0, 1), ("Forbid", false, 0, 1), ("Replace", true, 1, 0)]
        {
            let cron_job = cron_job(json!({"concurrencyPolicy": policy}), status.clone());
            let plan = planned(&cron_job, &running, at(10, 0));
            assert_eq!(
                (plan.create.is_some(), plan.delete.len(), plan.status.active.len()),
                (creates, deletes, active),
                "{policy}"
            );
        }
    }

    #[test]
    fn ended_and_missing_jobs_leave_the_status_and_old_ones_are_deleted() {
        let jobs = [
            (1, "Complete"),
            (2, "Complete"),
            (3, "Failed"),
            (4, "Complete"),
            (5, "Complete"),
            (6, "Failed"),
        ]
        .map(|(minute, condition)| job(minute, condition));
        let active: Vec<ActiveJob> = [&jobs[4], &job(7, "")].map(|job| reference(job)).into();
        let cron_job =
            cron_job(json!({}), json!({"active": active, "lastScheduleTime": at(9, 0).to_string()}));
        let plan = plan(&cron_job, &jobs, |active| active.uid == "7", Some(&TimeZone::UTC), at(9, 0));
        assert!(plan.status.active.is_empty());
        assert_eq!(plan.status.last_successful_time, Some(at(6, 0)));
        let deleted: Vec<&str> = plan.delete.iter().map(|job| job.metadata.uid.as_str()).collect();
        assert_eq!(deleted, ["1", "3"]);
        assert_eq!(reasons(&plan), ["SawCompletedJob", "MissingJob"]);
    }
}
