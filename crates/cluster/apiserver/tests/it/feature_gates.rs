//! Features that gates turn on.

use berth_api::feature_gates::FeatureGates;
use http::StatusCode;
use serde_json::{Value, json};

use crate::support::*;

fn pod(name: &str, operator: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": [
        {"key": "sla", "operator": operator, "value": value, "effect": "NoSchedule"}]}})
}

/// Enhancement 5471: "When TaintTolerationComparisonOperators=false, the API server rejects pods using the new operators."
#[tokio::test]
async fn tolerations_that_compare_are_accepted_with_their_gate() {
    let more = json!({"spec": {"tolerations": [{"key": "more", "operator": "Lt", "value": "x"}]}});
    for is_on in [false, true] {
        let gates = FeatureGates { taint_toleration_comparison_operators: is_on, ..FeatureGates::default() };
        let server = server_with(gates).await;
        let client = admin(&server);
        let accepted = if is_on { StatusCode::CREATED } else { StatusCode::UNPROCESSABLE_ENTITY };
        assert_eq!(post(&client, PODS, &pod("p", "Gt", "950")).await.0, accepted);
        let (code, refused) = post(&client, PODS, &pod("q", "Gt", "95.5")).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
        let field = if is_on { "spec.tolerations[0].value" } else { "spec.tolerations[0].operator" };
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
        // An update is validated as a creation is.
        assert_eq!(post(&client, PODS, &pod("r", "Exists", "")).await.0, StatusCode::CREATED);
        let (_, mut stored) = get(&client, &format!("{PODS}/r")).await;
        let added = more["spec"]["tolerations"][0].clone();
        stored["spec"]["tolerations"].as_array_mut().unwrap().push(added);
        let (code, refused) = put(&client, &format!("{PODS}/r"), &stored).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    }
}

/// Enhancement 5030: the field exists with its gate; a value that is there already stays.
#[tokio::test]
async fn the_requirement_of_a_csi_driver_needs_its_gate() {
    let driver = json!({"metadata": {"name": "d"}, "spec": {"preventPodSchedulingIfMissing": true}});
    for volume_limit_scaling in [false, true] {
        let server = server_with(FeatureGates { volume_limit_scaling, ..FeatureGates::default() }).await;
        let (_, created) = post(&admin(&server), "/apis/storage.k8s.io/v1/csidrivers", &driver).await;
        let stored = &created["spec"]["preventPodSchedulingIfMissing"];
        assert_eq!(stored.as_bool(), volume_limit_scaling.then_some(true), "{created}");
    }
}

/// Enhancement 5517: the fields of devices and pods exist with their gate.
#[tokio::test]
async fn devices_take_of_their_node_with_the_gate_only() {
    const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |mappings: Value| {
        json!({"metadata": {"name": "s"}, "spec": {"driver": "d.example", "nodeName": "n",
            "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "a", "nodeAllocatableResourceMappings": mappings}]}})
    };
    let mappings =
        json!({"cpu": {"allocationMultiplier": "2"}, "hugepages-2Mi": {"capacityKey": "d.example/pages"}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "named"}],
        "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}]}});
    let status = |claim: &str, amount: &str| {
        json!({"status": {"nodeAllocatableResourceClaimStatuses": [
            {"resourceClaimName": claim, "containers": ["c"], "resources": {"cpu": amount}}]}})
    };
    for is_on in [false, true] {
        let gates = FeatureGates { dra_node_allocatable_resources: is_on, ..FeatureGates::default() };
        let server = server_with(gates).await;
        let client = admin(&server);
        let (code, created) = post(&client, SLICES, &slice(mappings.clone())).await;
        assert_eq!(code, StatusCode::CREATED, "{created}");
        let stored = &created["spec"]["devices"][0]["nodeAllocatableResourceMappings"];
        assert_eq!(*stored, if is_on { mappings.clone() } else { Value::Null });
        let mut changed = created.clone();
        changed["spec"]["devices"] = slice(mappings.clone())["spec"]["devices"].clone();
        let (_, changed) = put(&client, &format!("{SLICES}/s"), &changed).await;
        assert_eq!(changed["spec"]["devices"], created["spec"]["devices"]);

        assert_eq!(post(&client, PODS, &pod).await.0, StatusCode::CREATED);
        let path = format!("{PODS}/p/status");
        let (code, answer) = merge(&client, &path, &status("named", "2")).await;
        assert_eq!(code, StatusCode::OK, "{answer}");
        let stored = &answer["status"]["nodeAllocatableResourceClaimStatuses"];
        assert_eq!(stored[0]["resources"], if is_on { json!({"cpu": "2"}) } else { Value::Null });
        if !is_on {
            continue;
        }
        for (change, field) in [
            (status("another", "2"), "status.nodeAllocatableResourceClaimStatuses[0].resourceClaimName"),
            (status("named", "-2"), "status.nodeAllocatableResourceClaimStatuses[0].resources[cpu]"),
        ] {
            let (code, refused) = merge(&client, &path, &change).await;
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
            assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
        }
        let (_, mut larger) = get(&client, &format!("{PODS}/p")).await;
        larger["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "1"});
        let (code, refused) = put(&client, &format!("{PODS}/p/resize"), &larger).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
        assert!(
            refused["message"]
                .as_str()
                .unwrap()
                .contains("pods with node allocatable resource claims cannot be resized")
        );
        for (mappings, expected) in [
            (
                json!({"example.com/gpu": {"allocationMultiplier": "1"}}),
                "Invalid value: \"example.com/gpu\": must be a node",
            ),
            (
                json!({"cpu": {"allocationMultiplier": "-1"}}),
                "Invalid value: \"-1\": must be greater than or equal to 0",
            ),
            (json!({"memory": {"capacityKey": "a-b"}}), "Invalid value: \"a-b\""),
        ] {
            let (code, refused) = post(&client, SLICES, &slice(mappings)).await;
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
            let message = refused["details"]["causes"][0]["message"].as_str().unwrap();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}

/// Enhancement 6012: "CompositePodGroup API enablement is toggled by the CompositePodGroup feature gate."
#[tokio::test]
async fn composite_pod_groups_are_served_with_their_gate() {
    const VERSION: &str = "/apis/scheduling.k8s.io/v1alpha3";
    const GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups";
    let composites = format!("{VERSION}/namespaces/default/compositepodgroups");
    let composite = |spec: Value| {
        let mut object = json!({"metadata": {"name": "job"}, "spec": {"schedulingPolicy": {"gang": {"minGroupCount": 2}},
            "workloadRef": {"workloadName": "job", "templateName": "job"}}});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object
    };
    let group = |name: &str, spec: Value| {
        let mut object = json!({"metadata": {"name": name}, "spec": {"schedulingPolicy": {"basic": {}},
            "workloadRef": {"workloadName": "job", "templateName": "workers"},
            "parentCompositePodGroupName": "job", "preemptionPolicy": "PreemptLowerPriority"}});
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        object
    };

    let server = server().await;
    let client = admin(&server);
    assert_eq!(post(&client, &composites, &composite(json!({}))).await.0, StatusCode::NOT_FOUND);
    assert_eq!(get(&client, VERSION).await.0, StatusCode::NOT_FOUND);
    let (code, made) = post(&client, GROUPS, &group("g", json!({}))).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert!(made["spec"]["parentCompositePodGroupName"].is_null(), "{made}");
    assert!(made["spec"]["preemptionPolicy"].is_null(), "{made}");

    let gates = FeatureGates {
        composite_pod_group: true,
        pod_group_preemption_policy: true,
        ..FeatureGates::default()
    };
    let server = server_with(gates).await;
    let client = admin(&server);
    let class = json!({"metadata": {"name": "usual"}, "value": 10, "globalDefault": true});
    assert_eq!(
        post(&client, "/apis/scheduling.k8s.io/v1/priorityclasses", &class).await.0,
        StatusCode::CREATED
    );
    let (_, version) = get(&client, VERSION).await;
    assert_eq!(version["resources"][0]["name"], "compositepodgroups", "{version}");
    for (spec, field) in [
        (json!({"schedulingPolicy": {}}), "spec.schedulingPolicy"),
        (
            json!({"schedulingPolicy": {"gang": {"minGroupCount": 0}}}),
            "spec.schedulingPolicy.gang.minGroupCount",
        ),
        (
            json!({"schedulingPolicy": {"gang": {"minGroupCount": -1}}}),
            "spec.schedulingPolicy.gang.minGroupCount",
        ),
        (json!({"workloadRef": null}), "spec.workloadRef"),
        (
            json!({"workloadRef": {"workloadName": "a/b", "templateName": "t"}}),
            "spec.workloadRef.workloadName",
        ),
        (json!({"parentCompositePodGroupName": "a_b"}), "spec.parentCompositePodGroupName"),
        (
            json!({"schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}}),
            "spec.schedulingConstraints.topology",
        ),
        (json!({"disruptionMode": {"single": {}, "all": {}}}), "spec.disruptionMode"),
    ] {
        let (code, refused) = post(&client, &composites, &composite(spec)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{refused}");
    }
    let (code, made) = post(&client, &composites, &composite(json!({}))).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert_eq!(made["spec"]["disruptionMode"], json!({"single": {}}));
    assert_eq!(
        (&made["spec"]["priorityClassName"], &made["spec"]["priority"]),
        (&json!("usual"), &json!(10))
    );
    let named = format!("{composites}/job");
    let change = json!({"spec": {"schedulingPolicy": {"gang": {"minGroupCount": 3}}}});
    let (code, refused) = merge(&client, &named, &change).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    let condition = json!({"type": "CompositePodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let status = json!({"status": {"conditions": [condition]}});
    assert_eq!(merge(&client, &format!("{named}/status"), &status).await.0, StatusCode::OK);

    let (code, made) = post(&client, GROUPS, &group("g", json!({}))).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert_eq!(made["spec"]["parentCompositePodGroupName"], "job");
    assert_eq!(made["spec"]["preemptionPolicy"], "PreemptLowerPriority");
    let (code, refused) =
        merge(&client, &format!("{GROUPS}/g"), &json!({"spec": {"parentCompositePodGroupName": "x"}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    let (code, refused) = post(&client, GROUPS, &group("h", json!({"workloadRef": null}))).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{refused}");
    let cause = &refused["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.workloadRef", "{refused}");
    assert_eq!(cause["message"], "Required value: must be set when parentCompositePodGroupName is set");
}
