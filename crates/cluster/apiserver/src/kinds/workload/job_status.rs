//! Validation of the status of a Job, which controllers outside of the cluster may write (`managedBy`).

use jiff::Timestamp;

use crate::kinds::prelude::*;

/// Validates a status and its change. Rules of fields that do not change together are those of kube-apiserver 1.37.
pub fn validate(job: &Value, old: &Value, causes: &mut Causes) {
    let (spec, status, before) = (&job["spec"], &job["status"], &old["status"]);
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        causes.not_negative(&format!("status.{field}"), &status[field]);
    }
    validate_uncounted(&status["uncountedTerminatedPods"], causes);
    let has = |of: &Value, kind: &str| {
        let is_true = |condition: &Value| condition["type"] == kind && condition["status"] == "True";
        items(of, "conditions").iter().any(is_true)
    };
    let [complete, failed, failing, succeeding] =
        ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"].map(|kind| has(status, kind));
    let (was_complete, had_failed) = (has(before, "Complete"), has(before, "Failed"));
    let (is_finished, was_finished) = (complete || failed, was_complete || had_failed);
    let changes = |field: &str| status[field] != before[field];
    let (completes, fails, finishes) =
        (complete != was_complete, failed != had_failed, is_finished != was_finished);
    let count = |of: &Value, field: &str| of[field].as_i64().unwrap_or(0);
    let time = |of: &Value, field: &str| of[field].as_str().and_then(|time| time.parse::<Timestamp>().ok());
    let (start, end) = (time(status, "startTime"), time(status, "completionTime"));
    let refuse = |causes: &mut Causes, is_wrong: bool, why: &str| {
        if is_wrong {
            causes.push(CauseType::FieldValueInvalid, "status.conditions", format!("Invalid value: {why}"));
        }
    };
    refuse(
        causes,
        (completes || fails) && complete && failed,
        "cannot set Complete=True and Failed=true conditions",
    );
    refuse(
        causes,
        completes && complete && failing,
        "cannot set Complete=True and FailureTarget=true conditions",
    );
    if completes || changes("completionTime") {
        if end.is_some() && !complete {
            let why = "cannot set completionTime when there is no Complete=True condition";
            causes.invalid("status.completionTime", &status["completionTime"], why);
        }
        if end.is_none() && complete {
            causes.required("status.completionTime", "completionTime is required for Complete jobs");
        }
    }
    if (changes("startTime") || changes("completionTime"))
        && start.zip(end).is_some_and(|(start, end)| end < start)
    {
        let why = "must be equal to or after `startTime`";
        causes.invalid("status.completionTime", &status["completionTime"], why);
    }
    let why = "cannot set Failed=True condition without the FailureTarget=true condition";
    refuse(causes, (fails || changes("failedIndexes")) && failed && !failing, why);
    let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
    refuse(causes, completes && complete && !succeeding, why);
    if is_finished {
        if (finishes || changes("active")) && count(status, "active") > 0 {
            causes.invalid("status.active", &status["active"], "active>0 is invalid for finished job");
        }
        let is_empty_job = spec["suspend"] == true && spec["completions"] == 0;
        if (finishes || changes("startTime")) && start.is_none() && !is_empty_job {
            causes.required("status.startTime", "startTime is required for finished job");
        }
        let uncounted = &status["uncountedTerminatedPods"];
        let has_uncounted = ["failed", "succeeded"].iter().any(|list| !is_empty(&uncounted[*list]));
        if (finishes || changes("uncountedTerminatedPods")) && has_uncounted {
            causes.invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job");
        }
    }
    validate_indexes(spec, status, before, causes);
    if is_finished && (finishes || changes("terminating")) && count(status, "terminating") > 0 {
        causes.invalid(
            "status.terminating",
            &status["terminating"],
            "terminating>0 is invalid for finished job",
        );
    }
    if !status["ready"].is_null() && count(status, "ready") > count(status, "active") {
        causes.invalid("status.ready", &status["ready"], "cannot set more ready pods than active");
    }
    refuse(causes, succeeding && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    refuse(
        causes,
        succeeding && failing,
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
    );
    for kind in ["Failed", "Complete", "FailureTarget"] {
        let is_lost = has(before, kind) && !has(status, kind);
        refuse(causes, is_lost, &format!("cannot disable the terminal {kind}=True condition"));
    }
    let may_shrink = spec["completionMode"] == "Indexed" && spec["completions"] == spec["parallelism"];
    for field in ["failed", "succeeded"] {
        let is_fixed = field == "failed" || !may_shrink;
        if is_fixed && count(status, field) < count(before, field) {
            let why = format!("cannot decrease the {field} counter");
            causes.invalid(&format!("status.{field}"), &count(status, field).into(), &why);
        }
    }
    if end.is_some() && !before["completionTime"].is_null() && changes("completionTime") {
        causes.immutable("status.completionTime", &status["completionTime"]);
    }
    let suspended = |of: &Value, wanted: &str| {
        let suspended = |condition: &Value| condition["type"] == "Suspended" && condition["status"] == wanted;
        items(of, "conditions").iter().any(suspended)
    };
    let resumes = suspended(before, "True") && suspended(status, "False");
    if !before["startTime"].is_null() && changes("startTime") && spec["suspend"] != true && !resumes {
        let why = "field is immutable for unsuspended job once set";
        causes.invalid("status.startTime", &status["startTime"], why);
    }
    let had_succeeded = has(before, "SuccessCriteriaMet");
    refuse(causes, had_succeeded && !succeeding, "cannot disable the SuccessCriteriaMet=True condition");
    let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
    refuse(causes, was_complete && !had_succeeded && succeeding, why);
}

fn validate_uncounted(uncounted: &Value, causes: &mut Causes) {
    let lists = ["succeeded", "failed"].map(|list| (list, items(uncounted, list)));
    let all: Vec<_> =
        lists.iter().flat_map(|(list, uids)| uids.iter().enumerate().map(move |uid| (list, uid))).collect();
    let again = repeated(all.iter().map(|(_, (_, uid))| uid));
    for (n, (list, (i, uid))) in all.into_iter().enumerate() {
        let path = format!("status.uncountedTerminatedPods.{list}[{i}]");
        if is_empty(uid) {
            causes.invalid(&path, &text(uid, "").into(), "must not be empty");
        } else if again.contains(&n) {
            causes.duplicate(&path, uid);
        }
    }
}

fn validate_indexes(spec: &Value, status: &Value, before: &Value, causes: &mut Causes) {
    let (completions, per_index) = (spec["completions"].as_i64(), &spec["backoffLimitPerIndex"]);
    let [completed, failed] = ["completedIndexes", "failedIndexes"].map(|field| &status[field]);
    let changes = |field: &str| status[field] != before[field];
    for (field, is_checked) in [("completedIndexes", true), ("failedIndexes", !per_index.is_null())] {
        let given = text(&status[field], "");
        if let Some(completions) = completions.filter(|_| is_checked && changes(field))
            && let Err(why) = indexes(given, completions)
        {
            let why = format!("error parsing {field}: {why}");
            causes.invalid(&format!("status.{field}"), &given.into(), &why);
        }
    }
    if changes("completedIndexes") && !is_empty(completed) && spec["completionMode"] != "Indexed" {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        causes.invalid("status.completedIndexes", completed, why);
    }
    if changes("failedIndexes") && per_index.is_null() && !failed.is_null() {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        causes.invalid("status.failedIndexes", failed, why);
    }
    if let Some(completions) = completions.filter(|_| changes("completedIndexes") || changes("failedIndexes"))
        && let Some(index) = overlap(text(completed, ""), text(failed, ""), completions)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        causes.invalid("status.failedIndexes", failed, &why);
    }
}

/// The first index that is in two lists of intervals. What is no interval is left out.
fn overlap(completed: &str, failed: &str, completions: i64) -> Option<i32> {
    let intervals = |text: &'_ str| -> Vec<(i32, i32)> {
        text.split(',').filter_map(|part| interval(part, completions).ok()).collect()
    };
    let (completed, failed) = (intervals(completed), intervals(failed));
    let (mut completed, mut failed) = (completed.iter().peekable(), failed.iter().peekable());
    while let (Some((first, last)), Some((failed_first, failed_last))) = (completed.peek(), failed.peek()) {
        if first <= failed_last && failed_first <= last {
            return Some(*first.max(failed_first));
        }
        if first <= failed_first {
            completed.next()
        } else {
            failed.next()
        };
    }
    None
}

/// The first and the last index of an interval, such as `3-5` or `1`.
fn interval(text: &str, completions: i64) -> Result<(i32, i32), String> {
    let bounds: Vec<&str> = text.split('-').collect();
    if bounds.len() > 2 {
        let why =
            "violates the requirement that an index interval can have at most two parts separated by '-'";
        return Err(format!("the fragment {text:?} {why}"));
    }
    let number = |bound: &&str| {
        let parsed = bound.parse::<i32>();
        let index = parsed.map_err(|_| format!("cannot convert string to integer for index: {bound:?}"))?;
        match i64::from(index) < completions {
            true => Ok(index),
            false => Err(format!("too large index: {bound:?}")),
        }
    };
    let first = number(&bounds[0])?;
    let last = bounds.get(1).map_or(Ok(first), number)?;
    match bounds.len() == 2 && last <= first {
        true => Err(format!("non-increasing order, previous: {first}, current: {last}")),
        false => Ok((first, last)),
    }
}

/// Whether a text is a list of rising intervals of indexes, such as `1,3-5`.
fn indexes(text: &str, completions: i64) -> Result<(), String> {
    let mut before = None;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = interval(part, completions)?;
        if let Some(before) = before.filter(|before| *before >= first) {
            return Err(format!("non-increasing order, previous: {before}, current: {first}"));
        }
        before = Some(last);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEXED: &str = "completions: 9 of 3 at once, by index";

    /// What is wrong with a status that follows another.
    fn problems(spec: &str, status: Value, before: Value) -> Vec<String> {
        let spec = match spec {
            INDEXED => {
                json!({"completions": 9, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1})
            }
            _ => json!({"completions": 9, "parallelism": 3, "completionMode": "NonIndexed"}),
        };
        let job = |status: Value| json!({"spec": spec, "status": status});
        let mut causes = Causes::default();
        validate(&job(status), &job(before), &mut causes);
        causes.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect()
    }

    #[test]
    fn failed_and_completed_indexes_of_a_job_must_not_overlap() {
        let indexes = |completed: &str, failed: &str| {
            problems(INDEXED, json!({"completedIndexes": completed, "failedIndexes": failed}), json!({}))
        };
        assert_eq!(indexes("0,2-4", "1,5-8"), [""; 0]);
        assert_eq!(
            indexes("0,2-4", "1,4-8"),
            [
                "status.failedIndexes: Invalid value: \"1,4-8\": failedIndexes and completedIndexes overlap at index: 4"
            ]
        );
        // What is no interval is an error by itself.
        let [problem, overlap] = &indexes("x,3", "3")[..] else { panic!() };
        assert!(
            problem.contains("error parsing completedIndexes: cannot convert string to integer"),
            "{problem}"
        );
        assert!(overlap.ends_with("overlap at index: 3"), "{overlap}");
    }

    #[test]
    fn indexes_are_rising_intervals_below_the_completions() {
        for (text, expected) in [
            ("", Ok(())),
            ("0,2-4,8", Ok(())),
            ("9", Err("too large index: \"9\"")),
            ("2-2", Err("non-increasing order, previous: 2, current: 2")),
            ("3,1", Err("non-increasing order, previous: 3, current: 1")),
            ("1,,2", Err("cannot convert string to integer for index: \"\"")),
            ("1-2-3", Err("at most two parts separated by '-'")),
        ] {
            let result = indexes(text, 9);
            match expected {
                Ok(()) => assert_eq!(result, Ok(()), "{text}"),
                Err(part) => {
                    assert!(result.as_ref().is_err_and(|why| why.contains(part)), "{text}: {result:?}")
                }
            }
        }
        // An earlier status may be beyond the completions: the Job became smaller.
        let beyond = || json!({"completedIndexes": "20"});
        assert_eq!(problems(INDEXED, beyond(), beyond()), [""; 0]);
        assert_eq!(problems(INDEXED, beyond(), json!({})).len(), 1);
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        assert_eq!(
            problems("", json!({"completedIndexes": "2"}), json!({})),
            [format!("status.completedIndexes: Invalid value: \"2\": {why}")]
        );
    }

    #[test]
    fn a_job_ends_once_and_in_steps() {
        let with = |conditions: &[&str], mut status: Value| {
            let conditions = conditions.iter().map(|kind| json!({"type": kind, "status": "True"}));
            status["conditions"] = conditions.collect();
            status
        };
        let times = || json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:01:00Z"});
        let complete = || with(&["SuccessCriteriaMet", "Complete"], times());
        let started = || json!({"startTime": "2026-01-01T00:00:00Z"});
        let failed = |conditions: &[&str]| with(conditions, started());
        assert_eq!(problems("", complete(), started()), [""; 0]);
        assert_eq!(problems("", failed(&["FailureTarget", "Failed"]), started()), [""; 0]);
        let late = json!({"startTime": "2026-01-02T00:00:00Z", "completionTime": "2026-01-01T00:00:00Z"});
        for (status, before, expected) in [
            (with(&["Complete"], times()), started(), "without the SuccessCriteriaMet=true condition"),
            (failed(&["Failed"]), started(), "without the FailureTarget=true condition"),
            (
                with(&["SuccessCriteriaMet", "Complete"], started()),
                started(),
                "completionTime is required for Complete jobs",
            ),
            (times(), started(), "cannot set completionTime when there is no Complete=True condition"),
            (
                with(&["SuccessCriteriaMet", "Complete"], late),
                json!({}),
                "must be equal to or after `startTime`",
            ),
            (
                started(),
                with(&["FailureTarget"], started()),
                "cannot disable the terminal FailureTarget=True condition",
            ),
            (
                started(),
                with(&["SuccessCriteriaMet"], started()),
                "cannot disable the SuccessCriteriaMet=True condition",
            ),
            (
                json!({"startTime": "2026-01-03T00:00:00Z"}),
                started(),
                "immutable for unsuspended job once set",
            ),
            (json!({"failed": 1}), json!({"failed": 2}), "cannot decrease the failed counter"),
            (json!({"ready": 1}), json!({}), "cannot set more ready pods than active"),
        ] {
            let found = problems("", status.clone(), before);
            assert!(
                found.iter().any(|problem| problem.contains(expected)),
                "{status}: {expected}: {found:?}"
            );
        }
    }
}
