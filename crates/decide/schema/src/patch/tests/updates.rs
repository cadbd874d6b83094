//! Updates mixed with applies, and managers that change their operation.

use super::*;

#[test]
fn updates_take_fields_from_appliers() {
    let mut object = deployment();
    object.apply("a", json!({"spec": {"replicas": 3, "paused": true}}));
    object.update("hpa", |object| object["spec"]["replicas"] = 7.into());
    object.managers(json!({
        "a Apply": {"f:spec": {"f:paused": {}}}, "hpa Update": {"f:spec": {"f:replicas": {}}},
    }));
    // The applier that leaves the field out does not reset it.
    object.apply("a", json!({"spec": {"paused": true}}));
    object.spec(json!({"replicas": 7, "paused": true}));
    object.update("hpa", |object| {
        object["spec"].as_object_mut().expect("a spec").remove("paused");
    });
    object.managers(json!({"hpa Update": {"f:spec": {"f:replicas": {}}}}));
}

#[test]
fn creations_are_tracked_as_the_reference_tracks_them() {
    let mut object = deployment();
    object.update("kubectl-create", |object| {
        object["metadata"]["labels"] = json!({"app": "x"});
        object["spec"] = json!({
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
            "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {}, "ports": [{"containerPort": 80, "protocol": "TCP"}]},
            ]}},
        });
    });
    object.managers(json!({"kubectl-create Update": {
        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
        "f:spec": {
            "f:replicas": {},
            "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
            "f:template": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {
                    ".": {}, "f:image": {}, "f:name": {}, "f:resources": {},
                    "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                        ".": {}, "f:containerPort": {}, "f:protocol": {}}},
                }}},
            },
        },
    }}));
}

#[test]
fn status_has_separate_managed_fields() {
    let mut object = pod();
    object.update("kubectl", |object| object["spec"] = json!({"nodeName": "n"}));
    object.update("kubelet/status", |object| object["status"] = json!({"phase": "Running"}));
    object.managers(json!({
        "kubectl Update": {"f:spec": {"f:nodeName": {}}},
        "kubelet Update status": {"f:status": {"f:phase": {}}},
    }));
    let time = |object: &History, at: usize| object.object()["metadata"]["managedFields"][at]["time"].clone();
    assert_eq!(time(&object, 1), "2024-05-01T12:00:02Z");
    object.update("kubelet/status", |object| object["status"]["phase"] = "Succeeded".into());
    assert_eq!(time(&object, 1), "2024-05-01T12:00:03Z", "a change of a managed field gets a new time");
    object.update("kubelet/status", |_| {});
    assert_eq!(time(&object, 1), "2024-05-01T12:00:03Z", "no change, no new time");
    object.apply("a", json!({"spec": {"hostname": "h"}, "status": {"phase": "Failed"}}));
    assert_eq!(object.object()["status"]["phase"], "Succeeded", "an apply of the object leaves the status");
    assert_eq!(
        object.conflict("a/status", json!({"status": {"phase": "Failed"}})),
        "Apply failed with 1 conflict: conflict with \"kubelet\" with subresource \"status\" using v1: .status.phase"
    );
}

#[test]
fn managed_fields_can_be_edited_and_reset() {
    let mut object = deployment();
    object.update("kubectl-client-side-apply", |object| object["spec"] = json!({"replicas": 1}));
    // kubectl's migration of an object to server-side apply.
    object.update("kubectl", |object| {
        let entry = &mut object["metadata"]["managedFields"][0];
        entry["manager"] = "kubectl".into();
        entry["operation"] = "Apply".into();
    });
    object.managers(json!({"kubectl Apply": {"f:spec": {"f:replicas": {}}}}));
    object.apply("kubectl", json!({"spec": {"paused": true}})).spec(json!({"paused": true}));
    for kept in [json!([]), json!([{"operation": "Apply"}]), json!("x"), json!(null), json!([1])] {
        object.update("m", |object| object["metadata"]["managedFields"] = kept);
        object.managers(json!({"kubectl Apply": {"f:spec": {"f:paused": {}}}}));
    }
    object.update("m/status", |object| object["metadata"]["managedFields"] = json!([{}]));
    object.managers(json!({"kubectl Apply": {"f:spec": {"f:paused": {}}}}));
    object.update("m", |object| object["metadata"]["managedFields"] = json!([{}]));
    object.managers(json!({}));
    object.update("m", |object| object["spec"]["replicas"] = 2.into());
    object.managers(json!({}));
    // The first apply starts tracking again. The existing fields belong to another manager.
    assert_eq!(
        object.conflict("a", json!({"spec": {"replicas": 3}})),
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using apps/v1: .spec.replicas"
    );
    object.apply("a", json!({"spec": {"replicas": 2}})).managers(json!({
        "a Apply": {"f:spec": {"f:replicas": {}}},
        "before-first-apply Update": {"f:spec": {"f:paused": {}, "f:replicas": {}}},
    }));
}

#[test]
fn old_updates_are_merged() {
    let mut object = deployment();
    for i in 0..14 {
        object.update(&format!("m{i:02}"), |object| {
            object["metadata"]["labels"][format!("l{i:02}")] = "x".into();
        });
    }
    let entries = object.object()["metadata"]["managedFields"].as_array().expect("entries");
    assert_eq!(entries.len(), 10);
    assert_eq!(entries[0]["manager"], "ancient-changes");
    let labels = &entries[0]["fieldsV1"]["f:metadata"]["f:labels"];
    assert_eq!(
        labels.as_object().map(|l| l.keys().map(String::as_str).collect::<Vec<_>>()),
        Some(vec![".", "f:l00", "f:l01", "f:l02", "f:l03", "f:l04"])
    );
}

#[test]
fn kubectls_annotation_follows_its_applies() {
    let mut object = deployment();
    let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
    object.update("kubectl-client-side-apply", |object| {
        object["metadata"]["annotations"] = json!({last_applied: "{}\n"});
    });
    object.apply("kubectl", json!({"spec": {"replicas": 2}}));
    let annotation = object.object()["metadata"]["annotations"][last_applied].as_str().expect("text");
    let kept: Value = serde_json::from_str(annotation).expect("JSON");
    assert_eq!(kept["spec"], json!({"replicas": 2}));
}

#[test]
fn kubectl_takes_over_what_it_applied_client_side() {
    let mut object = deployment();
    object.update("kubectl-client-side-apply", |object| {
        let applied = json!({"spec": {"replicas": 1, "paused": true}});
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
        object["spec"] = applied["spec"].clone();
    });
    object.update("somebody", |object| object["spec"]["paused"] = false.into());
    assert_eq!(
        object.conflict("kubectl", json!({"spec": {"replicas": 2, "paused": true}})),
        "Apply failed with 1 conflict: conflict with \"somebody\" using apps/v1: .spec.paused"
    );
    object.apply("kubectl", json!({"spec": {"replicas": 2}})).spec(json!({"replicas": 2, "paused": false}));
    assert!(object.conflict("other", json!({"spec": {"replicas": 3}})).contains("\"kubectl\""));
}

#[test]
fn managers_have_names() {
    for (field_manager, agent, expected) in
        [("me", "kubectl/v1", "me"), ("", "kubectl/v1.32 (linux)", "kubectl"), ("", "", "unknown")]
    {
        assert_eq!(manager_name(field_manager, agent), Ok(expected.to_owned()));
    }
    assert!(manager_name(&"x".repeat(129), "").is_err());
    assert!(manager_name("a\nb", "").is_err());
    assert_eq!(manager_name("", &"ü".repeat(100)).map(|name| name.len()), Ok(128));
}
