//! HorizontalPodAutoscalers.

use serde_json::{Value, json};

use super::world::*;

const AUTOSCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn condition<'a>(autoscaler: &'a Value, kind: &str) -> &'a Value {
    let conditions = autoscaler["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|c| c["type"] == kind).unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_follows_the_usage_that_annotations_set() {
    let mut options = options();
    options.autoscaler_sync_period = std::time::Duration::from_millis(200);
    let world = World::with(2, options).await;
    let mut template = template("web", "run");
    template["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "1"}});
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    world.create(DEPLOYMENTS, &deployment).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let metric = json!({"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}});
    let at_once = json!({"stabilizationWindowSeconds": 0});
    let autoscaler = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "minReplicas": 1,
        "maxReplicas": 5, "metrics": [metric], "behavior": {"scaleDown": at_once}}});
    world.create(AUTOSCALERS, &autoscaler).await;
    let path = format!("{AUTOSCALERS}/web");
    // Without usage, the reason is in the status, and the replicas stay.
    let says_why = |hpa: &Value| {
        let active = condition(hpa, "ScalingActive");
        active["reason"] == "FailedGetResourceMetric"
            && active["message"].as_str().is_some_and(|message| message.contains("usage.berth.dev/cpu"))
    };
    world.until("no metrics", &path, says_why).await;

    let ready = |n: usize| move |pods: &[Value]| pods.len() == n && pods.iter().all(is_ready);
    let pods = world.until_listed("two pods", PODS, ready(2)).await;
    let set_usage = async |cpu: &str| {
        for pod in &pods {
            let usage = json!({"metadata": {"annotations": {"usage.berth.dev/cpu": cpu}}});
            world.patch(&format!("{PODS}/{}", name(pod)), usage).await;
        }
    };
    set_usage("900m").await;
    world.until_listed("four pods", PODS, ready(4)).await;
    let scaled = world.until("four replicas", &path, |hpa| hpa["status"]["currentReplicas"] == 4).await;
    assert_eq!(condition(&scaled, "ScalingActive")["status"], "True");
    let current = &scaled["status"]["currentMetrics"][0]["resource"]["current"];
    assert!(current["averageUtilization"].is_i64(), "{current}");
    assert!(scaled["status"]["lastScaleTime"].is_string());
    let events = world.list("/api/v1/namespaces/default/events").await;
    let rescaled = events.iter().find(|event| event["reason"] == "SuccessfulRescale").unwrap();
    let reason = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    assert_eq!(rescaled["message"], reason);
    // Ten times as much: no more than the maximum.
    set_usage("9").await;
    let most = world.until("five replicas", &path, |hpa| hpa["status"]["desiredReplicas"] == 5).await;
    assert_eq!(condition(&most, "ScalingLimited")["reason"], "TooManyReplicas");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_does_not_exist_is_reported() {
    let world = World::new(1).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"});
    let autoscaler =
        json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5}});
    world.create(AUTOSCALERS, &autoscaler).await;
    let path = format!("{AUTOSCALERS}/web");
    let refused =
        world.until("reported", &path, |hpa| condition(hpa, "AbleToScale")["status"] == "False").await;
    let message = condition(&refused, "AbleToScale")["message"].as_str().unwrap().to_owned();
    assert_eq!(
        message,
        "the HPA controller was unable to get the target's current scale: deployments.apps \"none\" not found"
    );
    world.end().await;
}
