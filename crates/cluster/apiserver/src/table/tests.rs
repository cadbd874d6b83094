use berth_schema::resource::{RESOURCES, Resource, of_kind};
use serde_json::{Value, json};

use super::*;
use crate::kinds;

const NOW: &str = "2024-05-01T12:00:00Z";

fn shown(resource: &Resource, object: &Value) -> Value {
    let table = table(kinds::columns(resource), object, b"null", true, NOW.parse().expect("a time"));
    serde_json::from_slice(&table).expect("JSON")
}

/// The cells of one object, joined by ` | `; `-` stands for an empty one.
fn cells(api_version: &str, kind: &str, mut object: Value) -> String {
    let resource = of_kind(api_version, kind).expect(kind);
    object["metadata"]["name"] = json!("x");
    object["metadata"]["creationTimestamp"] = json!("2024-05-01T11:00:00Z");
    let table = shown(resource, &object);
    let cells = table["rows"][0]["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), table["columnDefinitions"].as_array().expect("columns").len());
    let shown = cells.iter().map(|cell| match cell {
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    });
    shown.collect::<Vec<_>>().join(" | ")
}

/// `READY STATUS RESTARTS` of a pod.
fn pod(spec: Value, status: Value, deleted: bool) -> String {
    let mut object = json!({"metadata": {}, "spec": spec, "status": status});
    if deleted {
        object["metadata"]["deletionTimestamp"] = json!(NOW);
    }
    let cells = cells("v1", "Pod", object);
    cells.split(" | ").skip(1).take(3).collect::<Vec<_>>().join(" ")
}

#[test]
fn pod_status_summarizes_phase_and_containers() {
    let one = || json!({"containers": [{"name": "a"}]});
    let two = || json!({"containers": [{"name": "a"}, {"name": "b"}]});
    let init = || json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
    let running = |name: &str| json!({"name": name, "ready": true, "state": {"running": {}}});
    let done =
        |name: &str| json!({"name": name, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let cases = [
        (one(), json!({"phase": "Pending"}), "0/1 Pending 0"),
        (one(), json!({"phase": "Running", "containerStatuses": [running("a")]}), "1/1 Running 0"),
        (
            one(),
            json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            "0/1 SchedulingGated 0",
        ),
        (one(), json!({"phase": "Failed", "reason": "Evicted"}), "0/1 Evicted 0"),
        (one(), json!({"phase": "Failed", "reason": "NodeAffinity"}), "0/1 NodeAffinity 0"),
        (one(), json!({"phase": "Succeeded", "containerStatuses": [done("a")]}), "0/1 Completed 0"),
        (
            two(),
            json!({"phase": "Running", "containerStatuses": [done("a"), running("b")]}),
            "1/2 NotReady 0",
        ),
        (
            two(),
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                   "containerStatuses": [done("a"), running("b")]}),
            "1/2 Running 0",
        ),
        (
            one(),
            json!({"phase": "Running", "containerStatuses": [{"name": "a", "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"finishedAt": "2024-05-01T11:55:00Z"}}}]}),
            "0/1 CrashLoopBackOff 3 (5m ago)",
        ),
        (
            one(),
            json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"exitCode": 3}}}]}),
            "0/1 ExitCode:3 0",
        ),
        (
            one(),
            json!({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {"signal": 9}}}]}),
            "0/1 Signal:9 0",
        ),
        (
            init(),
            json!({"phase": "Pending", "initContainerStatuses": [done("i"), {"name": "j", "state": {"running": {}}}]}),
            "0/1 Init:1/2 0",
        ),
        (
            init(),
            json!({"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "restartCount": 2, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
            "0/1 Init:ImagePullBackOff 2",
        ),
        (
            init(),
            json!({"phase": "Pending", "initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}]}),
            "0/1 Init:Error 0",
        ),
        (
            init(),
            json!({"phase": "Pending", "initContainerStatuses": [done("i"), done("j")],
                   "containerStatuses": [{"name": "a", "state": {"waiting": {"reason": "PodInitializing"}}}]}),
            "0/1 PodInitializing 0",
        ),
    ];
    for (spec, status, expected) in cases {
        assert_eq!(pod(spec, status.clone(), false), expected, "{status}");
    }
    let sidecar =
        json!({"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
    let started =
        json!({"name": "s", "ready": true, "started": true, "restartCount": 1, "state": {"running": {}}});
    let status =
        json!({"phase": "Running", "initContainerStatuses": [started], "containerStatuses": [running("a")]});
    assert_eq!(pod(sidecar, status, false), "2/2 Running 1");
}

#[test]
fn deleted_pods_show_terminating_unless_finished() {
    let spec = || json!({"containers": [{"name": "a"}]});
    assert_eq!(pod(spec(), json!({"phase": "Running"}), true), "0/1 Terminating 0");
    assert_eq!(pod(spec(), json!({"phase": "Succeeded"}), true), "0/1 Succeeded 0");
    assert_eq!(pod(spec(), json!({"phase": "Running", "reason": "NodeLost"}), true), "0/1 Unknown 0");
}

#[test]
fn rows_match_kubectl() {
    let template = || {
        json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j:2"}],
                        "nodeSelector": {"disk": "ssd"}}})
    };
    let selector = || {
        json!({"matchLabels": {"app": "x"}, "matchExpressions": [
        {"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]})
    };
    let cases = [
        (
            "v1",
            "Pod",
            json!({"spec": {"nodeName": "n1", "containers": [{}], "readinessGates": [{"conditionType": "g"}]},
                   "status": {"phase": "Running", "podIP": "10.0.0.1", "nominatedNodeName": "n2",
                              "conditions": [{"type": "g", "status": "True"}]}}),
            "x | 0/1 | Running | 0 | 60m | 10.0.0.1 | n1 | n2 | 1/1",
        ),
        (
            "v1",
            "Node",
            json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge"}},
                   "spec": {"unschedulable": true},
                   "status": {"conditions": [{"type": "Ready", "status": "True"}],
                              "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
                              "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Sim"}}}),
            "x | Ready,SchedulingDisabled | edge,worker | 60m | v1.36.0 | 10.1.1.1 | <none> | Sim | <unknown> | \
             <unknown>",
        ),
        (
            "v1",
            "Node",
            json!({}),
            "x | Unknown | <none> | 60m | - | <none> | <none> | <unknown> | <unknown> | <unknown>",
        ),
        (
            "apps/v1",
            "Deployment",
            json!({"spec": {"replicas": 3, "selector": selector(), "template": template()},
                   "status": {"readyReplicas": 2, "updatedReplicas": 1, "availableReplicas": 2}}),
            "x | 2/3 | 1 | 2 | 60m | a,b | i:1,j:2 | !old,app=x,tier in (a,b)",
        ),
        (
            "apps/v1",
            "ReplicaSet",
            json!({"spec": {"replicas": 3, "selector": selector(), "template": template()},
                   "status": {"replicas": 3, "readyReplicas": 2}}),
            "x | 3 | 3 | 2 | 60m | a,b | i:1,j:2 | !old,app=x,tier in (a,b)",
        ),
        (
            "v1",
            "ReplicationController",
            json!({"spec": {"replicas": 1, "selector": {"b": "2", "a": "1"}, "template": template()}}),
            "x | 1 | 0 | 0 | 60m | a,b | i:1,j:2 | a=1,b=2",
        ),
        (
            "apps/v1",
            "StatefulSet",
            json!({"spec": {"replicas": 2, "template": template()}, "status": {"readyReplicas": 1}}),
            "x | 1/2 | 60m | a,b | i:1,j:2",
        ),
        (
            "apps/v1",
            "DaemonSet",
            json!({"spec": {"template": template(), "selector": {"matchLabels": {"a": "b"}}},
                   "status": {"desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberReady": 2,
                              "updatedNumberScheduled": 3, "numberAvailable": 1}}),
            "x | 4 | 3 | 2 | 3 | 1 | disk=ssd | 60m | a,b | i:1,j:2 | a=b",
        ),
        (
            "batch/v1",
            "Job",
            json!({"spec": {"completions": 3, "template": template()},
                   "status": {"succeeded": 1, "startTime": "2024-05-01T11:58:00Z"}}),
            "x | Running | 1/3 | 2m | 60m | a,b | i:1,j:2 | <none>",
        ),
        (
            "batch/v1",
            "Job",
            json!({"spec": {"parallelism": 2}, "status": {"succeeded": 1, "startTime": "2024-05-01T11:58:00Z",
                   "completionTime": "2024-05-01T11:58:30Z",
                   "conditions": [{"type": "Complete", "status": "True"}]}}),
            "x | Complete | 1/1 of 2 | 30s | 60m | - | - | <none>",
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"type": "NodePort", "clusterIP": "10.96.0.1", "selector": {"app": "x"},
                            "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}}),
            "x | NodePort | 10.96.0.1 | <none> | 80:30080/TCP,53/UDP | 60m | app=x",
        ),
        (
            "v1",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "clusterIP": "10.96.0.1"}}),
            "x | LoadBalancer | 10.96.0.1 | <pending> | <none> | 60m | <none>",
        ),
        (
            "v1",
            "Event",
            json!({"type": "Warning", "reason": "FailedScheduling", "message": "no node\n", "count": 4,
                   "firstTimestamp": "2024-05-01T11:00:00Z", "lastTimestamp": "2024-05-01T11:59:00Z",
                   "involvedObject": {"kind": "Pod", "name": "p"}, "source": {"component": "berth"}}),
            "60s | Warning | FailedScheduling | pod/p | - | berth | no node | 60m | 4 | x",
        ),
        (
            "events.k8s.io/v1",
            "Event",
            json!({"type": "Normal", "reason": "Scheduled", "note": "bound", "eventTime": "2024-05-01T11:59:30.000000Z",
                   "regarding": {"kind": "Pod", "name": "p"}, "reportingController": "berth",
                   "reportingInstance": "host"}),
            "30s | Normal | Scheduled | pod/p | - | berth, host | bound | 30s | 1 | x",
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}}),
            "x | 50% | N/A | 1 | 60m",
        ),
        ("coordination.k8s.io/v1", "Lease", json!({"spec": {"holderIdentity": "me"}}), "x | me | 60m"),
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            json!({"value": 10, "globalDefault": true, "preemptionPolicy": "Never"}),
            "x | 10 | true | 60m | Never",
        ),
        (
            "v1",
            "PersistentVolume",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                            "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "fast",
                            "claimRef": {"namespace": "n", "name": "c"}, "volumeMode": "Filesystem"},
                   "status": {"phase": "Bound"}}),
            "x | 1Gi | RWO,RWX | Retain | Bound | n/c | fast | <unset> | - | 60m | Filesystem",
        ),
        (
            "v1",
            "PersistentVolumeClaim",
            json!({"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}}),
            "x | Pending | - | - | - | fast | <unset> | 60m | <unset>",
        ),
        ("v1", "ConfigMap", json!({"data": {"a": "1"}, "binaryData": {"b": ""}}), "x | 2 | 60m"),
        ("v1", "Secret", json!({"type": "Opaque", "data": {"a": ""}}), "x | Opaque | 1 | 60m"),
        ("v1", "ServiceAccount", json!({}), "x | 0 | 60m"),
        ("v1", "Namespace", json!({"status": {"phase": "Active"}}), "x | Active | 60m"),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                   "provisioner": "none"}),
            "x (default) | none | Delete | Immediate | false | 60m",
        ),
        (
            "apps/v1",
            "ControllerRevision",
            json!({"metadata": {"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]}, "revision": 2}),
            "x | statefulset.apps/web | 2 | 60m",
        ),
        (
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            json!({"webhooks": [{}, {}]}),
            "x | 2 | 60m",
        ),
    ];
    for (api_version, kind, object, expected) in cases {
        assert_eq!(cells(api_version, kind, object), expected, "{kind}");
    }
}

#[test]
fn every_resource_has_rows_even_for_malformed_objects() {
    for resource in RESOURCES {
        for object in [json!({}), json!({"metadata": 1, "spec": [], "status": "x"}), json!(null)] {
            let table = shown(resource, &object);
            let columns = table["columnDefinitions"].as_array().map(Vec::len);
            assert_eq!(table["rows"][0]["cells"].as_array().map(Vec::len), columns, "{}", resource.kind);
        }
    }
}

#[test]
fn rows_include_the_given_part_of_the_object() {
    let pods = of_kind("v1", "Pod").expect("pods");
    let object = json!({"metadata": {"name": "a", "resourceVersion": "7"}, "status": {"phase": "Succeeded"}});
    let with = |with_columns| -> Value {
        let table = table(
            kinds::columns(pods),
            &object,
            br#"{"kind":"Pod"}"#,
            with_columns,
            NOW.parse().expect("a time"),
        );
        serde_json::from_slice(&table).expect("JSON")
    };
    let described = with(true);
    assert_eq!(described["metadata"]["resourceVersion"], "7");
    assert_eq!(described["rows"][0]["object"], json!({"kind": "Pod"}));
    assert_eq!(described["rows"][0]["conditions"][0]["reason"], "Succeeded");
    assert_eq!(described["columnDefinitions"][0]["format"], "name");
    assert_eq!(described["columnDefinitions"][5]["priority"], 1);
    assert_eq!(with(false)["columnDefinitions"], Value::Null);
    for (parameter, expected) in
        [("", Some(IncludeObject::Metadata)), ("None", Some(IncludeObject::None)), ("All", None)]
    {
        assert_eq!(IncludeObject::parse(parameter), expected);
    }
}

#[test]
fn rows_are_read_without_managed_fields() {
    let text =
        br#"{"kind":"Pod","metadata":{"name":"a","managedFields":[{"a":[1]}],"labels":{"managedFields":"x"}},
        "status":{"metadata":{"managedFields":1}}}"#;
    let wanted = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"managedFields": "x"}},
        "status": {"metadata": {"managedFields": 1}}});
    assert_eq!(parse(text).expect("JSON"), wanted);
}
