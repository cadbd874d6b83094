//! Lifecycles of pods: the status at each second.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PodStatus;
use serde_json::{Value, json};

use super::annotation::PodBehavior;
use super::lifecycle::PodLifecycle;
use super::plan::Plan;
use super::rejection::Rejection;
use super::status::Addresses;
use super::view::PodView;
use crate::options::PodTimings;

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    start() + SignedDuration::from_secs(seconds)
}

/// A pod with one container `c` and these additional fields.
fn pod(metadata: Value, spec: Value) -> PodView {
    let mut pod = json!({
        "metadata": { "name": "p", "namespace": "default", "uid": "u" },
        "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
    });
    let merge = |into: &mut Value, from: Value| {
        for (key, value) in from.as_object().unwrap() {
            into[key] = value.clone();
        }
    };
    merge(&mut pod["metadata"], metadata);
    merge(&mut pod["spec"], spec);
    serde_json::from_value(pod).unwrap()
}

fn plan(pod: &PodView) -> Plan {
    Plan::new(pod, &PodTimings::default(), &PodBehavior::read(&pod.metadata.annotations), &mut || 0.5)
}

fn status(lifecycle: &PodLifecycle) -> PodStatus {
    let ip = |last| std::net::Ipv4Addr::new(10, 0, 0, last);
    lifecycle.status("u", Addresses { host: ip(1), pod: Some(ip(2)) })
}

/// Phase, readiness, restarts, and the container's state and last state, in short.
fn summary(lifecycle: &PodLifecycle) -> String {
    let status = status(lifecycle);
    let ready = status.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    let container = status.container_statuses.and_then(|mut c| c.pop()).unwrap();
    let state = |state: Option<k8s_openapi::api::core::v1::ContainerState>| {
        let state = state.unwrap();
        match (state.waiting, state.running, state.terminated) {
            (Some(waiting), None, None) => waiting.reason.unwrap(),
            (None, Some(_), None) => "running".to_owned(),
            (None, None, Some(t)) => format!("{} {}", t.reason.unwrap(), t.exit_code),
            (None, None, None) => "-".to_owned(),
            _ => panic!("more than one state"),
        }
    };
    format!(
        "{}{} x{} {} / {}",
        status.phase.unwrap(),
        if ready { " ready" } else { "" },
        container.restart_count,
        state(container.state),
        state(container.last_state),
    )
}

/// Every status that would be written until nothing more is due, with its second; at most ten.
fn history(lifecycle: &mut PodLifecycle) -> Vec<String> {
    let mut written = 0;
    let mut history = Vec::new();
    while let Some(due) = lifecycle.due()
        && history.len() < 10
    {
        lifecycle.advance(due);
        if lifecycle.version() != written {
            written = lifecycle.version();
            history.push(format!("{} {}", due.duration_since(start()).as_secs(), summary(lifecycle)));
        }
    }
    history
}

fn written_statuses(metadata: Value, spec: Value) -> Vec<String> {
    history(&mut PodLifecycle::accept(plan(&pod(metadata, spec)), start()))
}

fn annotations(pairs: &[(&str, &str)]) -> Value {
    let pairs: serde_json::Map<_, _> =
        pairs.iter().map(|(k, v)| (format!("berth.dev/{k}"), json!(v))).collect();
    json!({ "annotations": pairs })
}

#[test]
fn a_service_runs_and_is_ready_in_one_write() {
    assert_eq!(written_statuses(json!({}), json!({})), ["1 Running ready x0 running / -"]);
}

#[test]
fn readiness_may_come_later() {
    assert_eq!(
        written_statuses(annotations(&[("ready-after", "3s")]), json!({})),
        ["1 Running x0 running / -", "4 Running ready x0 running / -"]
    );
}

#[test]
fn a_job_s_pod_succeeds() {
    assert_eq!(
        written_statuses(json!({}), json!({ "restartPolicy": "Never" })),
        ["1 Running ready x0 running / -", "6 Succeeded x0 Completed 0 / -"]
    );
}

#[test]
fn a_job_s_pod_fails_for_good_or_until_it_succeeds() {
    let fails = annotations(&[("run-for", "10s"), ("exit-code", "3,0")]);
    assert_eq!(
        written_statuses(fails.clone(), json!({ "restartPolicy": "Never" })),
        ["1 Running ready x0 running / -", "11 Failed x0 Error 3 / -"]
    );
    assert_eq!(
        written_statuses(fails, json!({ "restartPolicy": "OnFailure" })),
        [
            "1 Running ready x0 running / -",
            "11 Running ready x1 running / Error 3",
            "21 Succeeded x1 Completed 0 / -"
        ]
    );
}

#[test]
fn a_service_that_ends_is_restarted_later_and_later() {
    let mut history = written_statuses(annotations(&[("exit-code", "1"), ("run-for", "1s")]), json!({}));
    history.truncate(6);
    assert_eq!(
        history,
        [
            "1 Running ready x0 running / -",
            "2 Running ready x1 running / Error 1",
            "3 Running x1 CrashLoopBackOff / Error 1",
            "13 Running ready x2 running / Error 1",
            "14 Running x2 CrashLoopBackOff / Error 1",
            "34 Running ready x3 running / Error 1",
        ]
    );
}

#[test]
fn what_ends_at_once_is_not_restarted_in_a_tight_loop() {
    let pod = pod(annotations(&[("exit-code", "1"), ("run-for", "0")]), json!({}));
    let timings = PodTimings { restart_backoff: Duration::ZERO, ..PodTimings::default() };
    let mut lifecycle = PodLifecycle::accept(
        Plan::new(&pod, &timings, &PodBehavior::read(&pod.metadata.annotations), &mut || 0.5),
        start(),
    );
    lifecycle.advance(at(1));
    assert!(lifecycle.due().unwrap() > at(1), "{:?}", lifecycle.due());
}

#[test]
fn init_containers_run_in_turn_and_sidecars_stay() {
    let spec = json!({ "initContainers": [
        { "name": "first", "image": "i" },
        { "name": "sidecar", "image": "i", "restartPolicy": "Always" },
        { "name": "second", "image": "i" },
    ]});
    let mut lifecycle =
        PodLifecycle::accept(plan(&pod(annotations(&[("init-run-for", "2s")]), spec)), start());
    let states = |lifecycle: &PodLifecycle| {
        let statuses = status(lifecycle).init_container_statuses.unwrap();
        let state = |s: k8s_openapi::api::core::v1::ContainerStatus| {
            let state = s.state.unwrap();
            let text = match (state.running.is_some(), state.terminated.is_some()) {
                (true, false) => "runs",
                (false, true) => "done",
                _ => "waits",
            };
            format!("{text}{}", if s.ready { "!" } else { "" })
        };
        statuses.into_iter().map(state).collect::<Vec<_>>().join(" ")
    };
    let initialized = |lifecycle: &PodLifecycle| {
        let conditions = status(lifecycle).conditions.unwrap();
        conditions.into_iter().find(|c| c.type_ == "Initialized").map(|c| (c.status, c.message)).unwrap()
    };
    lifecycle.advance(at(1));
    assert_eq!(
        (states(&lifecycle), summary(&lifecycle)),
        ("runs waits waits".into(), "Pending x0 PodInitializing / -".into())
    );
    let message = "containers with incomplete status: [first sidecar second]";
    assert_eq!(initialized(&lifecycle), ("False".to_owned(), Some(message.to_owned())));
    lifecycle.advance(at(3));
    assert_eq!(states(&lifecycle), "done! runs! runs");
    lifecycle.advance(at(5));
    assert_eq!(
        (states(&lifecycle), summary(&lifecycle)),
        ("done! runs! done!".into(), "Running ready x0 running / -".into())
    );
    assert_eq!(initialized(&lifecycle), ("True".to_owned(), None));
}

#[test]
fn a_long_start_is_announced_a_short_one_is_not() {
    let version = |after: &str| {
        PodLifecycle::accept(plan(&pod(annotations(&[("start-after", after)]), json!({}))), start()).version()
    };
    assert_eq!((version("2s"), version("3s")), (0, 1));
    let lifecycle =
        PodLifecycle::accept(plan(&pod(annotations(&[("start-after", "3s")]), json!({}))), start());
    assert_eq!(summary(&lifecycle), "Pending x0 ContainerCreating / -");
}

#[test]
fn deletion_takes_as_long_as_ending_does_but_not_longer_than_the_grace_period() {
    let ends = |stop_after: &str, grace: u64| {
        let mut lifecycle =
            PodLifecycle::accept(plan(&pod(annotations(&[("stop-after", stop_after)]), json!({}))), start());
        lifecycle.advance(at(1));
        lifecycle.delete(Duration::from_secs(grace), at(10));
        assert!(!lifecycle.is_removable());
        lifecycle.due().unwrap().duration_since(at(10)).as_secs()
    };
    assert_eq!((ends("4s", 30), ends("60s", 30)), (4, 30));
}

#[test]
fn a_deleted_service_goes_without_another_status() {
    let mut lifecycle = PodLifecycle::accept(plan(&pod(json!({}), json!({}))), start());
    lifecycle.advance(at(1));
    let version = lifecycle.version();
    lifecycle.delete(Duration::from_secs(30), at(10));
    lifecycle.advance(at(11));
    assert!(lifecycle.is_removable());
    assert_eq!(lifecycle.version(), version);
}

#[test]
fn a_deleted_job_s_pod_tells_that_it_failed() {
    let mut lifecycle = PodLifecycle::accept(
        plan(&pod(annotations(&[("run-for", "1h")]), json!({ "restartPolicy": "Never" }))),
        start(),
    );
    lifecycle.advance(at(1));
    let version = lifecycle.version();
    lifecycle.delete(Duration::from_secs(30), at(10));
    lifecycle.advance(at(11));
    assert!(lifecycle.is_removable() && lifecycle.version() > version);
    assert_eq!(summary(&lifecycle), "Failed x0 Error 143 / -");
}

#[test]
fn a_kept_service_tells_how_it_ended() {
    let metadata =
        json!({ "finalizers": ["example.com/keep"], "annotations": { "berth.dev/stop-after": "60s" } });
    let mut lifecycle = PodLifecycle::accept(plan(&pod(metadata, json!({}))), start());
    lifecycle.advance(at(1));
    lifecycle.delete(Duration::from_secs(30), at(10));
    // A second deletion, with less time.
    lifecycle.delete(Duration::from_secs(5), at(11));
    assert_eq!(lifecycle.due(), Some(at(15)));
    lifecycle.advance(at(15));
    assert_eq!(summary(&lifecycle), "Failed x0 Error 137 / -");
}

#[test]
fn what_does_not_run_is_removed_at_once() {
    let mut lifecycle = PodLifecycle::accept(plan(&pod(json!({}), json!({}))), start());
    lifecycle.delete(Duration::from_secs(30), start());
    assert!(lifecycle.is_removable());
    let ended = json!({ "metadata": { "name": "p" }, "status": { "phase": "Succeeded" } });
    let ended: PodView = serde_json::from_value(ended).unwrap();
    let mut lifecycle = PodLifecycle::resume(&ended, plan(&ended), start());
    assert!(!lifecycle.is_removable() && lifecycle.version() == 0);
    lifecycle.delete(Duration::ZERO, start());
    assert!(lifecycle.is_removable() && lifecycle.version() == 0);
}

#[test]
fn active_deadline_seconds_end_a_pod() {
    let spec = json!({ "restartPolicy": "Never", "activeDeadlineSeconds": 3 });
    let mut lifecycle = PodLifecycle::accept(plan(&pod(json!({}), spec)), start());
    assert_eq!(history(&mut lifecycle), ["1 Running ready x0 running / -", "3 Failed x0 Error 137 / -"]);
    assert_eq!(status(&lifecycle).reason.as_deref(), Some("DeadlineExceeded"));
}

#[test]
fn readiness_gates_hold_back_readiness() {
    let spec = json!({ "readinessGates": [{ "conditionType": "example.com/g" }] });
    let mut lifecycle = PodLifecycle::accept(plan(&pod(json!({}), spec)), start());
    lifecycle.set_readiness_gates(false);
    lifecycle.advance(at(1));
    assert_eq!(summary(&lifecycle), "Running x0 running / -");
    let version = lifecycle.version();
    lifecycle.set_readiness_gates(true);
    assert!(lifecycle.is_ready() && lifecycle.version() > version);
    assert_eq!(summary(&lifecycle), "Running ready x0 running / -");
}

#[test]
fn a_refused_pod_has_failed() {
    let rejection = Rejection { reason: "NodeAffinity".to_owned(), message: "no".to_owned() };
    let lifecycle = PodLifecycle::reject(plan(&pod(json!({}), json!({}))), rejection, start());
    let status = serde_json::to_value(status(&lifecycle)).unwrap();
    assert_eq!(
        status,
        json!({ "phase": "Failed", "reason": "NodeAffinity", "message": "no", "startTime": "2026-01-01T00:00:00Z" })
    );
    assert_eq!((lifecycle.version(), lifecycle.due(), lifecycle.has_ended()), (1, None, true));
}

/// The pod as the API has it after its node wrote the status.
fn stored(pod: &PodView, lifecycle: &PodLifecycle) -> PodView {
    let status = serde_json::from_value(serde_json::to_value(status(lifecycle)).unwrap()).unwrap();
    PodView { status, ..pod.clone() }
}

#[test]
fn a_restarted_node_goes_on_where_it_was() {
    let behavior = annotations(&[("run-for", "10s"), ("ready-after", "2s"), ("exit-code", "1,0")]);
    let pod = pod(behavior, json!({ "restartPolicy": "OnFailure" }));
    let mut lifecycle = PodLifecycle::accept(plan(&pod), start());
    for (then, due) in [(1, 3), (3, 11), (11, 13), (13, 21)] {
        lifecycle.advance(at(then));
        let resumed = PodLifecycle::resume(&stored(&pod, &lifecycle), plan(&pod), at(then));
        assert_eq!(resumed.version(), 0, "nothing is written only because of a restart");
        assert_eq!((resumed.due(), lifecycle.due()), (Some(at(due)), Some(at(due))), "after {then} s");
    }
    let mut resumed = PodLifecycle::resume(&stored(&pod, &lifecycle), plan(&pod), at(100));
    resumed.advance(at(100));
    assert_eq!(summary(&resumed), "Succeeded x1 Completed 0 / -");
}

#[test]
fn the_status_of_a_running_pod_has_the_kubelet_s_shape() {
    let spec = json!({ "initContainers": [{ "name": "i", "image": "x" }] });
    let pod = pod(json!({ "generation": 2 }), spec);
    let mut lifecycle = PodLifecycle::accept(plan(&pod), start());
    lifecycle.advance(at(1));
    let condition = |type_: &str, second: i64| {
        let time = format!("2026-01-01T00:00:0{second}Z");
        json!({ "type": type_, "status": "True", "lastTransitionTime": time, "observedGeneration": 2 })
    };
    assert_eq!(
        serde_json::to_value(status(&lifecycle)).unwrap(),
        json!({
            "phase": "Running",
            "observedGeneration": 2,
            "startTime": "2026-01-01T00:00:00Z",
            "hostIP": "10.0.0.1",
            "hostIPs": [{ "ip": "10.0.0.1" }],
            "podIP": "10.0.0.2",
            "podIPs": [{ "ip": "10.0.0.2" }],
            "conditions": [
                condition("PodReadyToStartContainers", 0),
                condition("Initialized", 1),
                condition("Ready", 1),
                condition("ContainersReady", 1),
            ],
            "initContainerStatuses": [{
                "name": "i", "image": "x", "imageID": "x", "containerID": "berth://u/i/0",
                "ready": true, "started": false, "restartCount": 0, "lastState": {},
                "state": { "terminated": {
                    "containerID": "berth://u/i/0", "exitCode": 0, "reason": "Completed",
                    "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:01Z",
                }},
            }],
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "i", "containerID": "berth://u/c/0",
                "ready": true, "started": true, "restartCount": 0, "lastState": {},
                "state": { "running": { "startedAt": "2026-01-01T00:00:01Z" } },
            }],
        })
    );
}

#[test]
fn a_clock_that_is_set_back_does_not_delay_a_pod() {
    let pod = pod(json!({}), json!({}));
    let mut lifecycle = PodLifecycle::accept(plan(&pod), at(0));
    lifecycle.advance(at(-3600));
    assert_eq!(lifecycle.due(), Some(at(-3599)));
    lifecycle.advance(at(-3599));
    assert!(summary(&lifecycle).starts_with("Running"), "{}", summary(&lifecycle));
}
