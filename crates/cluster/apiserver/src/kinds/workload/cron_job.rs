//! CronJobs.

use berth_api::syntax::cron::{Schedule, time_zone};

use super::job::{RESTART_POLICIES, default_failure_policy, validate_job};
use super::shared;
use crate::kinds::prelude::*;
use crate::strategy::template;

/// The name of a Job is that of its CronJob and up to eleven more characters.
const MAX_NAME: usize = 52;

pub struct CronJob;

impl Strategy for CronJob {
    fn default(&self, value: &mut Value) {
        let Some(spec) = object(value, "spec") else { return };
        default_text(spec, "concurrencyPolicy", "Allow");
        default(spec, "suspend", false);
        default(spec, "successfulJobsHistoryLimit", 3);
        default(spec, "failedJobsHistoryLimit", 1);
        if let Some(job) = value.pointer_mut("/spec/jobTemplate/spec").and_then(Value::as_object_mut) {
            default_failure_policy(job);
        }
        if let Some(pod) = value.pointer_mut("/spec/jobTemplate/spec/template/spec") {
            template::default_spec(pod);
        }
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if name(value).len() > MAX_NAME {
            causes.invalid("metadata.name", &value["metadata"]["name"], "must be no more than 52 characters");
        }
        let spec = &value["spec"];
        let schedule = text(spec, "/schedule");
        if schedule.is_empty() {
            causes.required("spec.schedule", "");
        } else if schedule.contains("TZ") {
            let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            causes.invalid("spec.schedule", &spec["schedule"], why);
        } else if let Err(error) = schedule.parse::<Schedule>() {
            causes.invalid("spec.schedule", &spec["schedule"], &error.to_string());
        }
        if let Some(zone) = spec["timeZone"].as_str() {
            if zone.is_empty() {
                let why = "timeZone must be nil or non-empty string";
                causes.invalid("spec.timeZone", &spec["timeZone"], why);
            } else if zone.eq_ignore_ascii_case("local") {
                let why =
                    "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
                causes.invalid("spec.timeZone", &spec["timeZone"], why);
            } else if time_zone(zone).is_none() {
                let why = format!("unknown time zone {zone}");
                causes.invalid("spec.timeZone", &spec["timeZone"], &why);
            }
        }
        let policies = ["Allow", "Forbid", "Replace"];
        causes.one_of("spec.concurrencyPolicy", &spec["concurrencyPolicy"], &policies);
        for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            causes.not_negative(&format!("spec.{field}"), &spec[field]);
        }
        let mut of_job = Causes::default();
        let job = &spec["jobTemplate"]["spec"];
        shared::validate_numbers(job, &mut of_job);
        shared::validate_template(context, job, RESTART_POLICIES, &mut of_job);
        validate_job(job, &mut of_job);
        if !job["selector"].is_null() {
            of_job.invalid("spec.selector", &job["selector"], "`selector` will be auto-generated");
        }
        if job["manualSelector"] == true {
            of_job.not_supported("spec.manualSelector", &job["manualSelector"], &["nil", "false"]);
        }
        for mut cause in of_job.0 {
            cause.field = format!("spec.jobTemplate.{}", cause.field);
            causes.0.push(cause);
        }
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::field("Schedule", "When jobs are created, in cron format.", "/spec/schedule"),
    Column::field("Timezone", "Time zone of the schedule.", "/spec/timeZone").or(NONE),
    Column::text("Suspend", "Whether no more jobs are created.", |row| {
        if row.at("/spec/suspend") == Some(&Value::Bool(true)) { "True" } else { "False" }.into()
    }),
    Column::count("Active", "How many jobs are running.", "/status/active"),
    Column::text("Last Schedule", "Time since the last job was created.", |row| {
        let last = row.at("/status/lastScheduleTime").map(|_| row.since("/status/lastScheduleTime"));
        last.map_or(NONE.into(), Value::from)
    }),
    AGE,
    CONTAINERS.with(|row| row.containers("/spec/jobTemplate/spec/template/spec", "name")),
    IMAGES.with(|row| row.containers("/spec/jobTemplate/spec/template/spec", "image")),
    SELECTOR.with(|row| row.selector("/spec/jobTemplate/spec/selector")),
];
