use serde_json::{Value, json};

use super::super::outcome::{INDEX, TRACKING};
use super::super::per_index::FAILURES;
use super::*;

const T0: &str = "2026-01-01T00:00:00Z";

fn at(seconds: i64) -> Timestamp {
    T0.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
}

fn job(spec: Value, status: Value) -> Job {
    serde_json::from_value(json!({"metadata": {"name": "j"}, "spec": spec, "status": status})).unwrap()
}

/// `name:state[:index[:failures before]]`, state one of Running, Succeeded, Failed (at T0; `Failed7` with exit code 7),
/// Deleting.
fn pod(text: &str) -> Arc<Pod> {
    let mut parts = text.split(':');
    let (name, state, index) = (parts.next().unwrap(), parts.next().unwrap(), parts.next());
    let failures = parts.next();
    let code = state.strip_prefix("Failed").filter(|code| !code.is_empty());
    let state = if code.is_some() { "Failed" } else { state };
    let code: i32 = code.map_or(1, |code| code.parse().unwrap());
    let deleting = (state == "Deleting").then_some(T0);
    let phase = if state == "Deleting" { "Running" } else { state };
    let finished = json!([{"name": "c", "state": {"terminated": {"finishedAt": T0, "exitCode": code}}}]);
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "finalizers": [TRACKING], "deletionTimestamp": deleting,
                "annotations": index.map(|index| json!({INDEX: index, FAILURES: failures.unwrap_or("0")}))},
            "status": {"phase": phase, "containerStatuses": (phase != "Running").then_some(finished)},
        }))
        .unwrap(),
    )
}

/// Plans until no pod is left to release; assumes that each status write and finalizer removal succeeds.
fn settled(mut job: Job, pods: &[&str], now: Timestamp) -> (Plan, Job) {
    let mut pods: Vec<Arc<Pod>> = pods.iter().map(|text| pod(text)).collect();
    loop {
        let plan = plan(&job, &pods, now);
        job.status = plan.status.clone();
        if plan.release.is_empty() {
            return (plan, job);
        }
        for pod in &mut pods {
            if plan.release.iter().any(|released| released.metadata.uid == pod.metadata.uid) {
                Arc::make_mut(pod).metadata.finalizers.clear();
            }
        }
    }
}

fn conditions(status: &JobStatus) -> Vec<&str> {
    status.conditions.iter().filter(|c| c.is_true()).map(|c| c.condition_type.as_str()).collect()
}

#[test]
fn pods_are_created_and_deleted_to_match_parallelism() {
    let none: [Option<i32>; 0] = [];
    for (spec, pods, create, n_delete) in [
        (json!({}), vec![], vec![None], 0),
        (json!({"parallelism": 3}), vec!["a:Running"], vec![None; 2], 0),
        (json!({"parallelism": 1}), vec!["a:Running", "b:Running"], none.to_vec(), 1),
        (json!({"parallelism": 0}), vec!["a:Running"], none.to_vec(), 1),
        (json!({"parallelism": 3, "completions": 2}), vec!["a:Succeeded"], vec![None], 0),
        // Work queues: after the first success the controller creates no more pods.
        (json!({"parallelism": 3}), vec!["a:Succeeded", "b:Running"], none.to_vec(), 0),
        (json!({"suspend": true}), vec!["a:Running"], none.to_vec(), 1),
        (json!({"parallelism": 2, "completions": 2}), vec!["a:Running", "b:Deleting"], vec![None], 0),
        (
            json!({"parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed"}),
            vec!["a:Running", "b:Deleting"],
            none.to_vec(),
            0,
        ),
        (
            json!({"parallelism": 2, "completions": 4, "completionMode": "Indexed"}),
            vec!["a:Succeeded:0", "b:Running:2"],
            vec![Some(1)],
            0,
        ),
        (
            json!({"parallelism": 3, "completions": 3, "completionMode": "Indexed"}),
            vec!["a:Running:0", "b:Running:0", "c:Running:9"],
            vec![Some(1), Some(2)],
            2,
        ),
    ] {
        let (plan, _) = settled(job(spec.clone(), json!({})), &pods, at(0));
        assert_eq!((plan.create, plan.delete.len()), (create, n_delete), "{spec} {pods:?}");
    }
}

#[test]
fn a_job_ends_after_its_pods_end_and_are_counted() {
    for (spec, pods, expected, succeeded, failed) in [
        (json!({"completions": 1}), vec!["a:Running"], vec![], 0, 0),
        (json!({"completions": 1}), vec!["a:Succeeded"], vec!["SuccessCriteriaMet", "Complete"], 1, 0),
        (json!({}), vec!["a:Succeeded"], vec!["SuccessCriteriaMet", "Complete"], 1, 0),
        (json!({"completions": 1}), vec!["a:Succeeded", "b:Running"], vec!["SuccessCriteriaMet"], 1, 0),
        (
            json!({"completions": 3, "backoffLimit": 0}),
            vec!["a:Failed"],
            vec!["FailureTarget", "Failed"],
            0,
            1,
        ),
        (json!({"completions": 3, "backoffLimit": 1}), vec!["a:Failed"], vec![], 0, 1),
        (
            json!({"completions": 3, "backoffLimit": 1}),
            vec!["a:Failed", "b:Failed", "c:Running"],
            vec!["FailureTarget"],
            0,
            2,
        ),
        (
            json!({"completions": 2, "completionMode": "Indexed"}),
            vec!["a:Succeeded:0", "b:Succeeded:1"],
            vec!["SuccessCriteriaMet", "Complete"],
            2,
            0,
        ),
        (
            json!({"completions": 2, "completionMode": "Indexed"}),
            vec!["a:Succeeded:0", "b:Succeeded:0"],
            vec![],
            1,
            0,
        ),
    ] {
        let (plan, _) = settled(job(spec.clone(), json!({})), &pods, at(0));
        assert_eq!(conditions(&plan.status), expected, "{spec} {pods:?}");
        assert_eq!((plan.status.succeeded, plan.status.failed), (succeeded, failed), "{spec} {pods:?}");
        assert_eq!(plan.status.completion_time.is_some(), expected.contains(&"Complete"));
    }
}

#[test]
fn backoff_doubles_with_each_failure() {
    let spec = json!({"completions": 5, "parallelism": 1});
    for (pods, pause) in [
        (vec!["a:Failed"], 10),
        (vec!["a:Failed", "b:Failed"], 20),
        (vec!["a:Failed", "b:Failed", "c:Failed"], 40),
    ] {
        let (before, _) = settled(job(spec.clone(), json!({})), &pods, at(pause - 1));
        assert_eq!((before.create.len(), before.look_again), (0, Some(at(pause))), "{pods:?}");
        let (after, _) = settled(job(spec.clone(), json!({})), &pods, at(pause));
        assert_eq!(after.create.len(), 1, "{pods:?}");
    }
}

#[test]
fn active_deadline_and_ttl_are_applied() {
    let running = json!({"startTime": T0});
    let spec = json!({"activeDeadlineSeconds": 30, "ttlSecondsAfterFinished": 60});
    let (early, _) = settled(job(spec.clone(), running.clone()), &["a:Running"], at(29));
    assert_eq!((early.delete.len(), early.look_again), (0, Some(at(30))));
    let (late, ended) = settled(job(spec.clone(), running), &["a:Running"], at(30));
    assert_eq!(late.delete.iter().map(|(_, uncounted)| *uncounted).collect::<Vec<_>>(), [Uncounted::No]);
    let (late, ended) = settled(ended, &["a:Failed"], at(31));
    assert_eq!(conditions(&late.status), ["FailureTarget", "Failed"]);
    assert_eq!(find_condition(&late.status.conditions, "Failed").unwrap().reason, "DeadlineExceeded");
    let (kept, ended) = settled(ended, &[], at(90));
    assert_eq!((kept.expired, kept.look_again), (false, Some(at(91))));
    assert!(settled(ended, &[], at(91)).0.expired);
}

#[test]
fn a_suspended_job_resumes() {
    let spec = json!({"suspend": true, "activeDeadlineSeconds": 5});
    let (plan, mut suspended) = settled(job(spec, json!({"startTime": T0})), &["a:Running"], at(1));
    assert_eq!(plan.delete.iter().map(|(_, uncounted)| *uncounted).collect::<Vec<_>>(), [Uncounted::Yes]);
    assert_eq!((conditions(&plan.status), plan.status.start_time), (vec!["Suspended"], None));
    suspended.spec.suspend = false;
    let (plan, _) = settled(suspended, &[], at(100));
    assert_eq!(
        (plan.status.start_time, plan.look_again, plan.create.len()),
        (Some(at(100)), Some(at(105)), 1)
    );
    assert!(conditions(&plan.status).is_empty());
}

#[test]
fn backoff_limit_per_index_fails_one_index() {
    let spec = json!({"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 1,
        "backoffLimit": 99});
    // A failed pod is kept until its replacement exists, which records one failure more.
    let (plan, kept) = settled(job(spec.clone(), json!({})), &["a:Failed:0:0", "b:Running:1"], at(10));
    assert_eq!(plan.create, [Some(0), Some(2)]);
    assert_eq!(plan.failures[&0], Failures { counted: 1, ignored: 0 });
    assert_eq!(plan.failures[&2], Failures::default());
    assert_eq!((plan.status.failed, plan.status.failed_indexes.as_deref()), (0, Some("")));
    let (plan, _) = settled(kept.clone(), &["a:Failed:0:0", "c:Running:0:1", "b:Running:1"], at(10));
    assert_eq!((plan.status.failed, plan.create), (1, vec![Some(2)]));
    // The backoff of an index depends only on its own failures.
    let (plan, _) = settled(kept.clone(), &["a:Failed:0:0"], at(9));
    assert_eq!((plan.create, plan.look_again), (vec![Some(1), Some(2)], Some(at(10))));
    // At its limit the index fails, and the others continue.
    let (plan, over) = settled(kept, &["c:Failed:0:1", "b:Running:1"], at(9));
    assert_eq!((plan.status.failed_indexes.as_deref(), plan.create), (Some("0"), vec![Some(2)]));
    assert!(conditions(&plan.status).is_empty());
    let (plan, _) = settled(over.clone(), &["b:Succeeded:1", "d:Succeeded:2"], at(9));
    assert_eq!(conditions(&plan.status), ["FailureTarget", "Failed"]);
    assert_eq!(find_condition(&plan.status.conditions, "Failed").unwrap().reason, "FailedIndexes");
    let mut strict = over;
    strict.spec.max_failed_indexes = Some(0);
    let (plan, _) = settled(strict, &["b:Running:1"], at(9));
    assert_eq!(conditions(&plan.status), ["FailureTarget"]);
    assert_eq!(
        find_condition(&plan.status.conditions, "FailureTarget").unwrap().reason,
        "MaxFailedIndexesExceeded"
    );
}

#[test]
fn failure_and_success_policies_apply() {
    let on = |action: &str, codes: &[i32]| json!({"action": action, "onExitCodes": {"operator": "In", "values": codes}});
    let rules = json!({"rules": [on("Ignore", &[3]), on("FailJob", &[42])]});
    let spec = json!({"completions": 2, "backoffLimit": 0, "podFailurePolicy": rules, "podReplacementPolicy": "Failed"});
    let (plan, _) = settled(job(spec.clone(), json!({})), &["a:Failed3"], at(10));
    assert_eq!((plan.status.failed, plan.create.len()), (0, 1), "an ignored failure is replaced");
    let (plan, _) = settled(job(spec.clone(), json!({})), &["a:Failed42", "b:Running"], at(10));
    assert_eq!((conditions(&plan.status), plan.delete.len()), (vec!["FailureTarget"], 1));
    let why = find_condition(&plan.status.conditions, "FailureTarget").unwrap();
    assert_eq!(why.reason, "PodFailurePolicy");
    assert_eq!(
        why.message,
        "Container c for pod /a failed with exit code 42 matching FailJob rule at index 1"
    );
    let (plan, _) = settled(job(spec, json!({})), &["a:Failed1"], at(10));
    assert_eq!(find_condition(&plan.status.conditions, "Failed").unwrap().reason, "BackoffLimitExceeded");

    let spec = json!({"completions": 5, "parallelism": 5, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let (plan, ending) = settled(job(spec, json!({})), &["a:Succeeded:0", "b:Running:1"], at(0));
    assert_eq!((conditions(&plan.status), plan.delete.len()), (vec!["SuccessCriteriaMet"], 1));
    let (plan, _) = settled(ending, &[], at(0));
    let complete = find_condition(&plan.status.conditions, "Complete").unwrap();
    assert_eq!(
        (complete.reason.as_str(), complete.message.as_str()),
        ("SuccessPolicy", "Matched rules at index 0")
    );
}

#[test]
fn policy_fails_an_index_at_once() {
    let rules = json!([{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}}]);
    let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 5,
        "podFailurePolicy": {"rules": rules}, "podReplacementPolicy": "Failed"});
    let (plan, _) = settled(job(spec, json!({})), &["a:Failed7:1:0", "b:Running:0"], at(10));
    assert_eq!((plan.status.failed_indexes.as_deref(), plan.create.len()), (Some("1"), 0));
}
