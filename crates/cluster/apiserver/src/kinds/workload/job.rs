//! Jobs.

use std::collections::HashSet;

use berth_api::syntax;
use jiff::Timestamp;

use super::job_status;
use super::shared::{UID_LABEL, Workload, default_labels_from_template, generated_labels};
use crate::kinds::prelude::*;
use crate::kinds::scheduling::{CONSTRAINTS, DISRUPTION, claims};
use crate::strategy::field_rules::Rule::Check;
use crate::strategy::field_rules::{Fields, apply};
use crate::table::duration::human_duration;

/// The restart policies of pods that run to completion.
pub const RESTART_POLICIES: &[&str] = &["OnFailure", "Never"];

/// How many indexes may fail, or run at once.
const MAX_INDEXED: i64 = 100_000;

pub static STRATEGY: Workload = Workload {
    default: default_job,
    complete: set_selector,
    restart_policies: RESTART_POLICIES,
    of_selector: "job",
    check: validate_job,
    check_update: validate_job_update,
    check_status: job_status::validate,
    ..Workload::NEW
};

fn default_job(spec: &mut Map<String, Value>) {
    let said = |spec: &Map<String, Value>, key: &str| spec.get(key).is_some_and(|v| !v.is_null());
    // With parallelism but no completions, completions stay unset: the job is a work queue.
    if !said(spec, "completions") && !said(spec, "parallelism") {
        default(spec, "completions", 1);
    }
    default(spec, "parallelism", 1);
    let limit = if said(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    default(spec, "backoffLimit", limit);
    default(spec, "completionMode", "NonIndexed");
    default(spec, "suspend", false);
    let replacement = if said(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default(spec, "podReplacementPolicy", replacement);
    default_failure_policy(spec);
    default(spec, "manualSelector", false);
}

pub fn default_failure_policy(spec: &mut Map<String, Value>) {
    if let Some(policy) = spec.get_mut("podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            let patterns = items_mut(rule, "onPodConditions").iter_mut();
            patterns
                .filter_map(Value::as_object_mut)
                .for_each(|pattern| default_text(pattern, "status", "True"));
        }
    }
}

/// Gives a new Job its selector and the labels that it selects.
fn set_selector(value: &mut Value, old: &Value) {
    if old.is_null() && value["spec"]["manualSelector"] != true {
        let labels = generated_labels(value).map(|(key, label)| (key, label.clone()));
        if let Some(selector) = object(&mut value["spec"], "selector") {
            default(selector, "matchLabels", json!({}));
            if let Some(of_selector) = selector.get_mut("matchLabels").and_then(Value::as_object_mut) {
                of_selector.insert(UID_LABEL.to_owned(), labels[0].1.clone());
            }
        }
        if let Some(metadata) = object(&mut value["spec"]["template"], "metadata") {
            default(metadata, "labels", json!({}));
            if let Some(of_pods) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
                labels.into_iter().for_each(|(key, label)| default(of_pods, key, label));
            }
        }
    }
    default_labels_from_template(value);
}

/// Validates the spec of a Job, or of the template of a CronJob, which has no defaults.
pub fn validate_job(spec: &Value, causes: &mut Causes) {
    let mode = &spec["completionMode"];
    let indexed = mode == "Indexed";
    if !mode.is_null() {
        causes.one_of("spec.completionMode", mode, &["NonIndexed", "Indexed"]);
    }
    if indexed && spec["completions"].is_null() {
        causes.required("spec.completions", "when completion mode is Indexed");
    }
    if indexed && spec["parallelism"].as_i64().is_some_and(|n| n > MAX_INDEXED) {
        let why = format!("must be less than or equal to {MAX_INDEXED} when completion mode is Indexed");
        causes.invalid("spec.parallelism", &spec["parallelism"], &why);
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        causes.not_negative(&format!("spec.{field}"), &spec[field]);
    }
    if let Some(max) = spec["maxFailedIndexes"].as_i64() {
        if spec["backoffLimitPerIndex"].is_null() {
            causes.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified");
        }
        if spec["completions"].as_i64().is_some_and(|completions| max > completions) {
            let why = "must be less than or equal to completions";
            causes.invalid("spec.maxFailedIndexes", &spec["maxFailedIndexes"], why);
        }
        if max > MAX_INDEXED {
            let why = format!("must be less than or equal to {MAX_INDEXED}");
            causes.invalid("spec.maxFailedIndexes", &spec["maxFailedIndexes"], &why);
        }
    }
    let needs_indexes = |field: &str, causes: &mut Causes| {
        causes.invalid(&format!("spec.{field}"), &spec[field], "requires indexed completion mode");
    };
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if !spec[field].is_null() && (mode.is_null() || mode == "NonIndexed") {
            needs_indexes(field, causes);
        }
    }
    let manager = &spec["managedBy"];
    if manager.as_str().is_some_and(|name| name.split('/').count() != 2 || name.split('/').any(str::is_empty))
    {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        causes.invalid("spec.managedBy", manager, why);
    }
    let (failure, success) = (&spec["podFailurePolicy"], &spec["successPolicy"]);
    if !failure.is_null() {
        validate_failure_policy(spec, causes);
    }
    match (success.is_null(), indexed) {
        (true, _) => {}
        (false, false) => needs_indexes("successPolicy", causes),
        (false, true) => validate_success_policy(success, &spec["completions"], causes),
    }
    if !spec["podReplacementPolicy"].is_null() {
        let policies = if failure.is_null() { &["Failed", "TerminatingOrFailed"][..] } else { &["Failed"] };
        causes.one_of("spec.podReplacementPolicy", &spec["podReplacementPolicy"], policies);
    }
    validate_scheduling(spec, causes);
}

fn validate_failure_policy(spec: &Value, causes: &mut Causes) {
    let pod = &spec["template"]["spec"];
    let containers = items(pod, "containers").iter().chain(items(pod, "initContainers"));
    let containers: HashSet<&str> = containers.map(|container| text(container, "/name")).collect();
    for (i, rule) in items(&spec["podFailurePolicy"], "rules").iter().enumerate() {
        let path = format!("spec.podFailurePolicy.rules[{i}]");
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        let action = &rule["action"];
        if is_empty(action) {
            causes.required(
                &format!("{path}.action"),
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            );
        } else {
            causes.one_of(&format!("{path}.action"), action, &actions);
        }
        if action == "FailIndex" && spec["backoffLimitPerIndex"].is_null() {
            let why = "requires the backoffLimitPerIndex to be set";
            causes.invalid(&format!("{path}.action"), action, why);
        }
        let codes = &rule["onExitCodes"];
        match (codes.is_object(), is_empty(&rule["onPodConditions"])) {
            (true, false) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                causes.invalid(&path, rule, why);
            }
            (false, true) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required".to_owned();
                causes.push(CauseType::FieldValueInvalid, &path, format!("Invalid value: {why}"));
            }
            _ => {}
        }
        if codes.is_object() {
            validate_exit_codes(&format!("{path}.onExitCodes"), codes, &containers, causes);
        }
        for (j, pattern) in items(rule, "onPodConditions").iter().enumerate() {
            let path = format!("{path}.onPodConditions[{j}]");
            let ty = text(pattern, "/type");
            causes.problems(&format!("{path}.type"), &ty.into(), syntax::label_key(ty));
            let status = &pattern["status"];
            causes.one_of(&format!("{path}.status"), status, &["False", "True", "Unknown"]);
        }
    }
}

fn validate_exit_codes(path: &str, codes: &Value, containers: &HashSet<&str>, causes: &mut Causes) {
    let operator = format!("{path}.operator");
    if is_empty(&codes["operator"]) {
        causes.required(&operator, "valid values: [\"In\" \"NotIn\"]");
    } else {
        causes.one_of(&operator, &codes["operator"], &["In", "NotIn"]);
    }
    let container = &codes["containerName"];
    if container.as_str().is_some_and(|name| !containers.contains(name)) {
        let why = "must be one of the container or initContainer names in the pod template";
        causes.invalid(&format!("{path}.containerName"), container, why);
    }
    let values = items(codes, "values");
    if values.is_empty() {
        causes.invalid(&format!("{path}.values"), &codes["values"], "at least one value is required");
    }
    for (i, value) in values.iter().enumerate() {
        if codes["operator"] == "In" && value == 0 {
            let why = "must not be 0 for the In operator";
            causes.invalid(&format!("{path}.values[{i}]"), value, why);
        }
    }
    for i in repeated(values) {
        causes.duplicate(&format!("{path}.values[{i}]"), &values[i]);
    }
    if !values.is_sorted_by_key(Value::as_i64) {
        causes.invalid(&format!("{path}.values"), &codes["values"], "must be ordered");
    }
}

fn validate_success_policy(policy: &Value, completions: &Value, causes: &mut Causes) {
    let rules = items(policy, "rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        causes.required("spec.successPolicy.rules", why);
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = format!("spec.successPolicy.rules[{i}]");
        if rule["succeededCount"].is_null() && rule["succeededIndexes"].is_null() {
            causes.required(&path, "at least one of succeededCount or succeededIndexes must be specified");
        }
        if rule["succeededCount"].as_i64().is_some_and(|count| count < 0) {
            let why = "must be greater than or equal to 0";
            causes.invalid(&format!("{path}.succeededCount"), &rule["succeededCount"], why);
        }
        let all = completions.as_i64();
        if let Some((all, _)) = all.zip(rule["succeededCount"].as_i64()).filter(|(all, count)| count > all) {
            let why = format!("must be less than or equal to {all} (the number of specified completions)");
            causes.invalid(&format!("{path}.succeededCount"), &rule["succeededCount"], &why);
        }
    }
}

fn validate_job_update(new: &Value, old: &Value, causes: &mut Causes) {
    if new["template"] != old["template"] && old["suspend"] != true {
        causes.immutable("spec.template", &Value::from("..."));
    } else if fixed_template(new) != fixed_template(old) {
        causes.immutable("spec.template.spec", &new["template"]["spec"]);
    }
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "successPolicy"] {
        causes.unchanged(&format!("spec.{field}"), &new[field], &old[field]);
    }
    let path = "spec.scheduling";
    match (new["scheduling"].is_null(), old["scheduling"].is_null()) {
        (false, true) => causes.invalid(path, &Value::Null, "field cannot be set once created"),
        (true, false) => causes.invalid(path, &Value::Null, "field cannot be cleared once set"),
        _ => scheduling_change(&new["scheduling"], &old["scheduling"], path, causes),
    }
    if new["completions"] != old["completions"] && new["completionMode"] != "Indexed" {
        causes.immutable("spec.completions", &new["completions"]);
    }
}

/// Of the scheduling, only the required number of pods changes.
fn scheduling_change(new: &Value, old: &Value, path: &str, causes: &mut Causes) {
    let field = format!("{path}.schedulingPolicy");
    let of = |scheduling: &Value| {
        let policy = &scheduling["schedulingPolicy"];
        (!policy.is_null()).then(|| policy["gang"].is_null())
    };
    let why = match (of(new), of(old)) {
        (None, Some(_)) => "field cannot be cleared once set",
        (Some(_), None) => "field cannot be set once created",
        (new, old) if new != old => {
            "the basic/gang policy variant is immutable after creation; only schedulingPolicy.gang.minCount may be updated"
        }
        _ => "",
    };
    if !why.is_empty() {
        causes.invalid(&field, &Value::Null, why);
    }
    for field in ["schedulingConstraints", "disruptionMode", "resourceClaims"] {
        if new[field] != old[field] && !(is_empty(&new[field]) && is_empty(&old[field])) {
            causes.immutable(&format!("{path}.{field}"), &Value::Null);
        }
    }
}

/// Validates `scheduling` of a Job, or of the template of a CronJob.
fn validate_scheduling(spec: &Value, causes: &mut Causes) {
    let (scheduling, path) = (&spec["scheduling"], "spec.scheduling");
    if scheduling.is_null() {
        return;
    }
    let (policy, field) = (&scheduling["schedulingPolicy"], format!("{path}.schedulingPolicy"));
    if !policy.is_null() {
        causes.one_member(&field, policy, &["basic", "gang"]);
    }
    let (min, parallelism) = (&policy["gang"]["minCount"], spec["parallelism"].as_i64().unwrap_or(1));
    match min.as_i64() {
        Some(..1) => {
            causes.invalid(&format!("{field}.gang.minCount"), min, "must be greater than or equal to 1")
        }
        Some(number) if number > parallelism => {
            let why = format!("must not be greater than parallelism ({parallelism})");
            causes.invalid(&format!("{field}.gang.minCount"), min, &why);
        }
        _ => {}
    }
    let rules: Fields = &[
        ("schedulingConstraints", CONSTRAINTS),
        ("disruptionMode", DISRUPTION),
        ("resourceClaims", &[Check(claims)]),
    ];
    apply(scheduling, path, rules, causes);
    let mode = &scheduling["disruptionMode"];
    if !mode["all"].is_null() && mode["single"].is_null() && policy["gang"].is_null() {
        let why = "the disruptionMode `all` is not supported with the Basic scheduling policy";
        causes.invalid(&format!("{path}.disruptionMode"), &"".into(), why);
    }
}

/// What of the pods does not change while the Job is suspended: all but what schedules them, and their resources.
fn fixed_template(spec: &Value) -> Value {
    let mut pod = spec["template"]["spec"].clone();
    if let Some(fields) = pod.as_object_mut() {
        ["nodeSelector", "tolerations", "schedulingGates"]
            .iter()
            .for_each(|field| drop(fields.remove(*field)));
        let affinity = fields.get_mut("affinity").and_then(Value::as_object_mut);
        affinity.and_then(|affinity| affinity.remove("nodeAffinity"));
        if fields.get("affinity").is_some_and(is_empty) {
            fields.remove("affinity");
        }
    }
    for list in ["containers", "initContainers"] {
        for container in items_mut(&mut pod, list).iter_mut().filter_map(Value::as_object_mut) {
            container.remove("resources");
        }
    }
    pod
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::text("Status", "How the job stands.", |row| job_status(row).into()),
    Column::text("Completions", "Pods that succeeded, of those that must.", |row| completions(row).into()),
    Column::text("Duration", "How long the job ran or has been running.", |row| duration(row).into()),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

fn job_status(row: &Row<'_>) -> &'static str {
    let has = |condition: &str| row.condition(condition) == Some("True");
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if row.is_deleted() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions(row: &Row<'_>) -> String {
    let succeeded = row.integer("/status/succeeded");
    match row.at("/spec/completions").and_then(Value::as_i64) {
        Some(completions) => format!("{succeeded}/{completions}"),
        None => match row.integer("/spec/parallelism") {
            parallelism @ 2.. => format!("{succeeded}/1 of {parallelism}"),
            _ => format!("{succeeded}/1"),
        },
    }
}

fn duration(row: &Row<'_>) -> String {
    let time = |pointer: &str| row.text(pointer).and_then(|time| time.parse::<Timestamp>().ok());
    match (time("/status/startTime"), time("/status/completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(row.now).duration_since(start)),
    }
}

#[cfg(test)]
mod tests {
    use berth_schema::resource::{CRON_JOBS, JOBS};

    use super::*;
    use crate::request::{Cause, User};
    use crate::strategy::fake_cluster::FakeCluster;

    #[test]
    fn jobs_selected_the_pods_of_others_and_cron_jobs_were_not_validated_as_jobs() {
        let (cluster, user) = (FakeCluster::default(), User::admin());
        let causes = |job: &Value| {
            let mut spec = json!({"template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
            json_patch::merge(&mut spec, job);
            let of_cron_job = json!({"schedule": "@daily", "jobTemplate": {"spec": &spec}});
            [(&JOBS, spec), (&CRON_JOBS, of_cron_job)].map(|(resource, spec)| {
                let mut object = json!({"apiVersion": "batch/v1", "kind": resource.kind, "metadata": {"name": "x", "uid": "u"}, "spec": spec});
                let context = cluster.context(&user);
                let strategy = crate::kinds::strategy(resource);
                strategy.default(&mut object);
                strategy.prepare_create(&context, &mut object);
                let admitted = strategy.admit_create(&context, resource, &mut object, &mut Vec::new());
                let causes = admitted.err().map(|status| status.details.causes).unwrap_or_default();
                let said = |cause: Cause| format!("{}: {}", cause.field.replace("spec.jobTemplate.", ""), cause.message);
                causes.into_iter().map(said).collect::<Vec<_>>().join("; ")
            })
        };
        let both = |text: &str| [text.to_owned(), text.to_owned()];
        assert_eq!(causes(&json!({})), both(""));
        let [of_job, of_cron_job] = causes(&json!({"selector": {"matchLabels": {"a": "b"}}}));
        assert!(
            of_job.starts_with("spec.selector: ") && of_job.ends_with(": `selector` not auto-generated"),
            "{of_job}"
        );
        assert!(of_cron_job.ends_with(": `selector` will be auto-generated"), "{of_cron_job}");
        let manual = causes(&json!({"manualSelector": true, "selector": {"matchLabels": {"a": "b"}}}));
        assert_eq!(manual[0], "");
        assert!(
            manual[1].ends_with(
                "spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\""
            ),
            "{manual:?}"
        );
        let policy = "spec.podReplacementPolicy: Unsupported value: \"Foo\": supported values: \"Failed\", \"TerminatingOrFailed\"";
        assert_eq!(causes(&json!({"podReplacementPolicy": "Foo"})), both(policy));
        let per_index = "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode";
        assert_eq!(causes(&json!({"backoffLimitPerIndex": 1})), both(per_index));
    }

    #[test]
    fn a_job_selects_its_pods_by_its_uid() {
        let mut job = json!({"metadata": {"name": "w", "uid": "u"}, "spec": {"template": {"spec": {"containers": []}}}});
        set_selector(&mut job, &Value::Null);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({"batch.kubernetes.io/controller-uid": "u"})
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "w");
    }
}
