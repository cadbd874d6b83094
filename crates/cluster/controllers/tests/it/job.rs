//! Jobs.

use berth_api::feature_gates::{FeatureGates, KubernetesVersion};
use serde_json::{Value, json};

use super::world::*;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

fn job(image: &str, spec: Value) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": template("j", image)}});
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    json_patch::merge(&mut job["spec"], &spec);
    job
}

fn has(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|c| c["type"] == kind && c["status"] == "True")
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_completes_and_counts_each_pod_once() {
    let world = World::new(2).await;
    let path = format!("{JOBS}/j");
    let spec = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed"});
    world.create(JOBS, &job("succeed", spec)).await;
    let done = world.until("complete", &path, |job| has(job, "Complete")).await;
    let status = &done["status"];
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(5), &json!("0-4")));
    assert!(has(&done, "SuccessCriteriaMet"));
    assert!(status["completionTime"].is_string() && status["startTime"].is_string(), "{status}");
    let is_released = |pod: &Value| pod["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    world
        .until_listed("its pods are released", PODS, |pods| pods.len() == 5 && pods.iter().all(is_released))
        .await;
    world.delete_with(&path, json!({"propagationPolicy": "Background"})).await;
    world.until_listed("its pods are collected", PODS, |pods| pods.is_empty()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_at_its_limit_and_expires() {
    let world = World::new(1).await;
    let path = format!("{JOBS}/j");
    let spec = json!({"backoffLimit": 0, "completions": 2});
    world.create(JOBS, &job("fail", spec)).await;
    let failed = world.until("failed", &path, |job| has(job, "Failed")).await;
    assert_eq!((&failed["status"]["failed"], &failed["status"]["active"]), (&json!(1), &json!(null)));
    let condition =
        failed["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Failed").unwrap();
    assert_eq!(condition["reason"], "BackoffLimitExceeded");
    world.patch(&path, json!({"spec": {"ttlSecondsAfterFinished": 0}})).await;
    world.until_gone(&path).await;
    world.until_listed("its pods are collected", PODS, |pods| pods.is_empty()).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_suspended_job_has_no_pods_and_a_deleted_one_deletes_its_pods() {
    let world = World::new(1).await;
    let path = format!("{JOBS}/j");
    world.create(JOBS, &job("run", json!({"parallelism": 3, "completions": 3}))).await;
    world.until("running", &path, |job| job["status"]["ready"] == 3).await;
    world.patch(&path, json!({"spec": {"suspend": true}})).await;
    let suspended = world
        .until("suspended", &path, |job| has(job, "Suspended") && job["status"]["active"].is_null())
        .await;
    assert_eq!(suspended["status"]["failed"].as_i64().unwrap_or(0), 0, "being suspended is no failure");
    world.until_listed("no pods", PODS, |pods| pods.is_empty()).await;
    world.patch(&path, json!({"spec": {"suspend": false}})).await;
    world.until("running", &path, |job| job["status"]["ready"] == 3 && !has(job, "Suspended")).await;
    world.delete_with(&path, json!({"propagationPolicy": "Foreground"})).await;
    world.until_gone(&path).await;
    assert!(world.list(PODS).await.is_empty(), "foreground: the pods went first");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_fails_by_its_policy_and_an_index_by_its_limit() {
    let world = World::new(1).await;
    let path = format!("{JOBS}/j");
    let codes = |action: &str| json!({"action": action, "onExitCodes": {"operator": "In", "values": [42]}});
    let spec = json!({"backoffLimit": 9, "podFailurePolicy": {"rules": [codes("FailJob")]}});
    let created = world.create(JOBS, &job("fail-42", spec)).await;
    assert_eq!(created["spec"]["podReplacementPolicy"], "Failed");
    let failed = world.until("failed", &path, |job| has(job, "Failed")).await;
    let reason = |job: &Value| {
        let conditions = job["status"]["conditions"].as_array().unwrap().iter();
        conditions.filter(|c| c["type"] == "Failed").map(|c| c["reason"].clone()).next().unwrap()
    };
    assert_eq!((reason(&failed), &failed["status"]["failed"]), (json!("PodFailurePolicy"), &json!(1)));
    world.delete_with(&path, json!({"propagationPolicy": "Foreground"})).await;
    world.until_gone(&path).await;

    let spec =
        json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 0});
    world.create(JOBS, &job("fail", spec)).await;
    let failed = world.until("failed", &path, |job| has(job, "Failed")).await;
    assert_eq!(reason(&failed), "FailedIndexes");
    assert_eq!((&failed["status"]["failedIndexes"], &failed["status"]["failed"]), (&json!("0,1"), &json!(2)));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_indexed_job_becomes_a_gang_behind_its_feature_gate() {
    let of = |version: &str, plural: &str| {
        format!("/apis/scheduling.k8s.io/{version}/namespaces/default/{plural}")
    };
    let path = format!("{JOBS}/j");
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"});
    let group_of = |pod: &Value| pod["spec"]["schedulingGroup"]["podGroupName"].clone();

    let world = World::new(1).await;
    world.create(JOBS, &job("run", spec.clone())).await;
    let pods = world.until_listed("three pods", PODS, |pods| pods.len() == 3).await;
    assert!(pods.iter().all(|pod| group_of(pod).is_null()), "off by default, as in Kubernetes 1.36");
    assert!(world.list(&of("v1beta1", "podgroups")).await.is_empty());
    world.end().await;

    let mut options = options();
    options.feature_gates = FeatureGates { workload_with_job: true, ..KubernetesVersion::V1_36.into() };
    let world = World::with(1, options).await;
    let made = world.create(JOBS, &job("run", spec)).await;
    let pods = world.until_listed("three pods", PODS, |pods| pods.len() == 3).await;
    let [groups, workloads] = ["podgroups", "workloads"].map(|plural| of("v1alpha2", plural));
    let (group, workload) = (&world.list(&groups).await[0], &world.list(&workloads).await[0]);
    for pod in &pods {
        assert_eq!(group_of(pod), group["metadata"]["name"]);
    }
    assert_eq!(group["spec"]["schedulingPolicy"], json!({"gang": {"minCount": 3}}));
    let template = &workload["spec"]["podGroupTemplates"][0]["name"];
    let reference = json!({"workloadName": workload["metadata"]["name"], "podGroupTemplateName": template});
    assert_eq!(group["spec"]["podGroupTemplateRef"]["workload"], reference);
    let controller = json!({"apiGroup": "batch", "kind": "Job", "name": "j"});
    assert_eq!((template, &workload["spec"]["controllerRef"]), (&json!("j-worker-0"), &controller));
    let owners = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array().unwrap().iter();
        owners.map(|owner| owner["uid"].clone()).collect::<Vec<_>>()
    };
    let (job_uid, workload_uid) = (made["metadata"]["uid"].clone(), workload["metadata"]["uid"].clone());
    assert_eq!(owners(workload), std::slice::from_ref(&job_uid));
    assert_eq!(owners(group), [job_uid, workload_uid]);

    world.delete_with(&format!("{PODS}/{}", name(&pods[0])), json!({"gracePeriodSeconds": 0})).await;
    let is_replaced = |all: &[Value]| all.len() == 3 && all.iter().all(|pod| name(pod) != name(&pods[0]));
    let pods = world.until_listed("a replacement", PODS, is_replaced).await;
    assert!(pods.iter().all(|pod| group_of(pod) == group["metadata"]["name"]), "the replacement is a member");
    world.delete_with(&path, json!({"propagationPolicy": "Background"})).await;
    for objects in [PODS, &groups, &workloads] {
        world.until_listed("all is collected", objects, |objects| objects.is_empty()).await;
    }
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_group_of_a_job_was_written_in_a_version_that_1_37_does_not_have() {
    let of = |plural: &str| format!("/apis/scheduling.k8s.io/v1beta1/namespaces/default/{plural}");
    let mut options = options();
    options.feature_gates.workload_with_job = true;
    let world = World::with(1, options).await;
    world.create(JOBS, &job("run", json!({"completions": 2, "parallelism": 2}))).await;
    world.until_listed("two pods", PODS, |pods| pods.len() == 2).await;
    let (group, workload) = (&world.list(&of("podgroups")).await[0], &world.list(&of("workloads")).await[0]);
    let reference = json!({"workloadName": workload["metadata"]["name"], "templateName": "j-pgt-0"});
    assert_eq!(group["spec"]["workloadRef"], reference);
    assert_eq!(group["metadata"]["ownerReferences"][1]["apiVersion"], "scheduling.k8s.io/v1beta1");
    world.delete_with(&format!("{JOBS}/j"), json!({"propagationPolicy": "Background"})).await;
    for objects in [PODS, &of("podgroups"), &of("workloads")] {
        world.until_listed("all is collected", objects, |objects| objects.is_empty()).await;
    }
    world.end().await;
}
