use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::History;
use super::metric::{Measured, MetricFailure, Proposal};
use crate::view::{HorizontalPodAutoscaler, PodMetrics, ScaledPod};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

/// A pod that requests one CPU, started long ago.
fn pod(name: &str, ready: &str) -> ScaledPod {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "startTime": at(-10_000).to_string(), "conditions":
            [{"type": "Ready", "status": ready, "lastTransitionTime": at(-9_000).to_string()}]},
    }))
    .unwrap()
}

fn usage(name: &str, cpu: &str) -> PodMetrics {
    serde_json::from_value(json!({"metadata": {"name": name}, "timestamp": at(0).to_string(), "window": "1s",
        "containers": [{"name": "c", "usage": {"cpu": cpu}}]}))
    .unwrap()
}

/// What a metric asks for, of pods with this usage each; none for pods without metrics.
fn proposal(target: Value, pods: &[Option<&str>]) -> Result<Proposal, MetricFailure> {
    let names: Vec<String> = (0..pods.len()).map(|i| format!("p{i}")).collect();
    let metrics: Vec<_> =
        names.iter().zip(pods).filter_map(|(name, cpu)| Some(usage(name, (*cpu)?))).collect();
    let pods: Vec<_> = names.iter().map(|name| pod(name, "True")).collect();
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    Measured {
        current_replicas: pods.len() as i32,
        pods: &pods,
        metrics: &metrics,
        tolerances: (0.1, 0.1),
        now: at(0),
    }
    .proposal(&serde_json::from_value(metric).unwrap())
}

#[test]
fn replicas_are_proportional_to_the_usage() {
    let half = || json!({"type": "Utilization", "averageUtilization": 50});
    for (pods, wanted) in [
        (vec![Some("900m"), Some("900m")], 4),
        (vec![Some("500m"), Some("520m")], 2),
        (vec![Some("100m"), Some("100m"), Some("100m")], 1),
        // Pods without metrics use nothing when the workload grows, and all they request when it shrinks.
        (vec![Some("900m"), Some("900m"), None, None], 4),
        (vec![Some("10m"), None], 2),
    ] {
        assert_eq!(proposal(half(), &pods).unwrap().replicas, wanted, "{pods:?}");
    }
    let value = json!({"type": "AverageValue", "averageValue": "300m"});
    assert_eq!(proposal(value, &[Some("900m"), Some("900m")]).unwrap().replicas, 6);
    let found = proposal(half(), &[Some("900m")]).unwrap();
    assert_eq!(
        found.status["resource"]["current"],
        json!({"averageUtilization": 90, "averageValue": "900m"})
    );
    assert_eq!(found.metric, "cpu resource utilization (percentage of request)");
}

#[test]
fn without_usage_or_requests_the_reason_is_given() {
    let half = json!({"type": "Utilization", "averageUtilization": 50});
    let failure = proposal(half.clone(), &[None]).unwrap_err();
    assert_eq!(failure.reason, "FailedGetResourceMetric");
    assert!(failure.message.contains("annotation usage.berth.dev/cpu"), "{}", failure.message);
    let mut without = pod("p0", "True");
    without.spec.containers[0].resources.requests = Default::default();
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": half}});
    let failure = Measured {
        current_replicas: 1,
        pods: &[without],
        metrics: &[usage("p0", "1")],
        tolerances: (0.1, 0.1),
        now: at(0),
    }
    .proposal(&serde_json::from_value(metric).unwrap())
    .unwrap_err();
    assert!(
        failure.message.ends_with("missing request for cpu in container c of Pod p0"),
        "{}",
        failure.message
    );
}

#[test]
fn metrics_of_pods_are_read_from_annotations_and_others_have_no_source() {
    let ask = |metric: Value, values: &[&str]| {
        let pods: Vec<ScaledPod> = (0..2)
            .map(|i| {
                let mut pod = pod(&format!("p{i}"), "True");
                let value =
                    values.get(i).map(|value| ("usage.berth.dev/pods.qps".to_owned(), (*value).to_owned()));
                pod.metadata.annotations.extend(value);
                pod
            })
            .collect();
        let measured =
            Measured { current_replicas: 2, pods: &pods, metrics: &[], tolerances: (0.1, 0.1), now: at(0) };
        measured.proposal(&serde_json::from_value(metric).unwrap())
    };
    let qps = || json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "100"}}});
    let found = ask(qps(), &["300", "100"]).unwrap();
    assert_eq!((found.replicas, found.metric.as_str()), (4, "pods metric qps"));
    let status =
        json!({"type": "Pods", "pods": {"metric": {"name": "qps"}, "current": {"averageValue": "200000m"}}});
    assert_eq!(found.status, status);
    // A pod without a value has the target when the workload shrinks, and nothing when it grows.
    assert_eq!(ask(qps(), &["10"]).unwrap().replicas, 2);
    let failure = ask(qps(), &[]).unwrap_err();
    assert_eq!(failure.reason, "FailedGetPodsMetric");
    assert!(failure.message.contains("no pod has the annotation usage.berth.dev/pods.qps"), "{failure:?}");
    for (kind, reason) in [("Object", "FailedGetObjectMetric"), ("External", "FailedGetExternalMetric")] {
        assert_eq!(ask(json!({"type": kind}), &[]).unwrap_err().reason, reason);
    }
}

fn autoscaler(behavior: Value) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({"spec": {"minReplicas": 1, "maxReplicas": 100, "behavior": behavior}}))
        .unwrap()
}

#[test]
fn replicas_rise_at_once_and_fall_after_the_window() {
    let plain = autoscaler(json!({}));
    let mut history = History::starting_with(3, at(0));
    let up = history.decide(&plain, 3, 20, at(0));
    assert_eq!((up.replicas, up.limited.unwrap().0), (7, "ScaleUpLimit"), "four more, or twice as many");
    history.changed(3, 7, at(0));
    assert_eq!(history.decide(&plain, 7, 20, at(5)).replicas, 7, "not more in the same period");
    assert_eq!(history.decide(&plain, 7, 20, at(20)).replicas, 14);
    history.changed(7, 14, at(20));
    let down = history.decide(&plain, 14, 2, at(40));
    assert_eq!((down.replicas, down.able.0), (14, "ScaleDownStabilized"));
    assert_eq!(history.decide(&plain, 14, 2, at(340)).replicas, 2);
}

#[test]
fn policies_and_their_selection_limit_the_change() {
    let rules = |select: &str| {
        let policies = json!([{"type": "Pods", "value": 1, "periodSeconds": 60},
            {"type": "Percent", "value": 50, "periodSeconds": 60}]);
        let rules = json!({"selectPolicy": select, "stabilizationWindowSeconds": 0, "policies": policies});
        autoscaler(json!({"scaleUp": rules, "scaleDown": rules}))
    };
    for (select, up, down) in [("Max", 15, 5), ("Min", 11, 9), ("Disabled", 10, 10)] {
        let decide = |wanted| History::default().decide(&rules(select), 10, wanted, at(0)).replicas;
        assert_eq!((decide(90), decide(1)), (up, down), "{select}");
    }
    let range = History::default().decide(&rules("Max"), 2, 1, at(0));
    assert_eq!((range.replicas, range.limited), (1, None));
}
