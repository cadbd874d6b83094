//! Every kind: an object with only what its schema requires lives through all verbs, and malformed ones are refused.

use berth_api::feature_gates::FeatureGates;
use berth_api::feature_gates::KubernetesVersion::{V1_36, V1_37};
use berth_schema::resource::{RESOURCES, Resource, Storage};
use berth_schema::{Scalar, Type, type_of};
use http::{Method, StatusCode};
use kube::Client;
use serde_json::{Map, Value, json};

use crate::support::{
    SIGNING_REQUEST, admin, call, get, merge, post, put, send, server, server_of_all_kinds, watch,
    whole_server_with,
};

/// What validation requires and the schema does not say: the kind, the name, and fields to be merged.
fn needed(kind: &str) -> (&'static str, Value) {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"a": "b"}});
    let workload = json!({"spec": {"selector": selector, "template": template}});
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    let reference =
        json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}});
    match kind {
        "APIService" => (
            "v1.example.com",
            json!({"spec": {"group": "example.com", "version": "v1",
            "service": {"name": "s", "namespace": "default"}, "groupPriorityMinimum": 10, "versionPriority": 1}}),
        ),
        "ClusterRoleBinding" | "RoleBinding" => ("sample", reference),
        "CronJob" => {
            ("sample", json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job}}}}))
        }
        "CSIStorageCapacity" => ("sample", json!({"storageClassName": "c"})),
        "CustomResourceDefinition" => (
            "samples.example.com",
            json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "samples", "kind": "Sample"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}}),
        ),
        "DaemonSet" | "Deployment" | "ReplicaSet" | "StatefulSet" => ("sample", workload),
        "EndpointSlice" => ("sample", json!({"addressType": "IPv4"})),
        "Event" => (
            "sample",
            json!({"involvedObject": {"namespace": "default"}, "metadata": {"namespace": "default"}}),
        ),
        "Ingress" => (
            "sample",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        ),
        "IPAddress" => ("10.1.2.3", json!({"spec": {"parentRef": {"resource": "services", "name": "s"}}})),
        "FlowSchema" => ("sample", json!({"spec": {"priorityLevelConfiguration": {"name": "p"}}})),
        "Job" => ("sample", json!({"spec": {"template": job}})),
        "MutatingAdmissionPolicy" => (
            "sample",
            json!({"spec": {"reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [RULE.parse::<Value>().unwrap()]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]}}),
        ),
        "ValidatingAdmissionPolicy" => (
            "sample",
            json!({"spec": {
            "matchConstraints": {"resourceRules": [RULE.parse::<Value>().unwrap()]},
            "validations": [{"expression": "true"}]}}),
        ),
        "ValidatingAdmissionPolicyBinding" => {
            ("sample", json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}}))
        }
        "PersistentVolume" => (
            "sample",
            json!({"spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        ),
        "PersistentVolumeClaim" => (
            "sample",
            json!({"spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        "Pod" => ("sample", pod),
        "PodGroup" => ("sample", json!({"spec": {"schedulingPolicy": {"basic": {}}}})),
        "CompositePodGroup" => {
            let reference = json!({"workloadName": "w", "templateName": "t"});
            ("sample", json!({"spec": {"workloadRef": reference, "schedulingPolicy": {"basic": {}}}}))
        }
        "DeviceTaintRule" => ("sample", json!({"spec": {"taint": {"key": "a", "effect": "NoSchedule"}}})),
        "HorizontalPodAutoscaler" => {
            ("sample", json!({"spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment"}}}))
        }
        "PodTemplate" => ("sample", json!({"template": template})),
        "IngressClass" => ("sample", json!({"spec": {"controller": "example.com/c"}})),
        "PriorityLevelConfiguration" => {
            let limited = json!({"limitResponse": {"type": "Reject"}});
            ("sample", json!({"spec": {"type": "Limited", "limited": limited}}))
        }
        "ReplicationController" => {
            ("sample", json!({"spec": {"selector": {"a": "b"}, "template": template}}))
        }
        "ResourceSlice" => {
            let pool = json!({"name": "p", "generation": 1, "resourceSliceCount": 1});
            ("sample", json!({"spec": {"driver": "d", "pool": pool, "allNodes": true}}))
        }
        "CertificateSigningRequest" => {
            let request = SIGNING_REQUEST;
            let signer = "example.com/signer";
            ("sample", json!({"spec": {"request": request, "signerName": signer, "usages": ["any"]}}))
        }
        "ControllerRevision" => ("sample", json!({"data": {}})),
        "Service" => ("sample", json!({"spec": {"ports": [{"port": 80}]}})),
        "ServiceCIDR" => ("sample", json!({"spec": {"cidrs": ["10.96.0.0/16"]}})),
        "VolumeAttachment" => ("sample", json!({"spec": {"source": {"persistentVolumeName": "v"}}})),
        "VolumeAttributesClass" => ("sample", json!({"parameters": {"iops": "1"}})),
        "Workload" => {
            let gang = json!({"gang": {"minCount": 2}});
            ("sample", json!({"spec": {"podGroupTemplates": [{"name": "t", "schedulingPolicy": gang}]}}))
        }
        _ => ("sample", json!({})),
    }
}

const RULE: &str =
    r#"{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}"#;

/// A value with the fields that the schema requires.
fn smallest(ty: &'static Type) -> Value {
    match ty {
        Type::Struct(of) => of
            .fields()
            .filter(|(_, field)| field.required)
            .map(|(name, field)| (name.to_owned(), smallest(field.ty())))
            .collect::<Map<_, _>>()
            .into(),
        Type::Map { .. } | Type::Any => json!({}),
        Type::List { .. } => json!([]),
        Type::Scalar(scalar) => match scalar {
            Scalar::String => "a".into(),
            Scalar::Bytes => "YQ==".into(),
            Scalar::Boolean => false.into(),
            Scalar::Quantity | Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => {
                1.into()
            }
            Scalar::Time => "2024-05-01T10:00:00Z".into(),
            Scalar::MicroTime => "2024-05-01T10:00:00.000000Z".into(),
        },
    }
}

/// The kinds that clients create on [`server_of_all_kinds`].
fn created() -> impl Iterator<Item = &'static Resource> {
    let gates = FeatureGates { composite_pod_group: true, ..FeatureGates::default() };
    let all = RESOURCES.iter().copied().filter(move |r| r.is_enabled(gates));
    all.filter(|r| r.storage != Storage::None && r.verbs.contains(&"create"))
}

/// The collection of a kind, and a small object of it.
fn sample(resource: &Resource) -> (String, Value) {
    let ty = type_of(resource.group, resource.version, resource.kind).unwrap();
    let (name, needed) = needed(resource.kind);
    let mut object = smallest(ty);
    json_patch::merge(&mut object, &needed);
    if resource.group == "events.k8s.io" {
        object = json!({"regarding": {"namespace": "default"}, "eventTime": "2024-05-01T10:00:00.000000Z",
            "reportingController": "c", "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal"});
    }
    json_patch::merge(
        &mut object,
        &json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": name}}),
    );
    (resource.path(if resource.namespaced { "default" } else { "" }), object)
}

async fn lives(client: &Client, resource: &'static Resource) {
    let (path, object) = sample(resource);
    let named = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
    let what = format!("{} {}", resource.api_version(), resource.kind);
    let (code, made) = post(client, &path, &object).await;
    assert_eq!(code, StatusCode::CREATED, "{what}: {made}");
    assert_eq!((&made["kind"], &made["apiVersion"]), (&object["kind"], &object["apiVersion"]), "{what}");
    let version = made["metadata"]["resourceVersion"].as_str().unwrap();

    let label = json!({"metadata": {"labels": {"merged": "yes"}}});
    let (code, answer) = merge(client, &named, &label).await;
    assert_eq!(code, StatusCode::OK, "{what}: {answer}");
    let patches = [
        (
            "application/json-patch+json",
            json!([{"op": "add", "path": "/metadata/labels/json", "value": "yes"}]),
        ),
        ("application/strategic-merge-patch+json", json!({"metadata": {"labels": {"strategic": "yes"}}})),
    ];
    for (media_type, patch) in patches {
        let (code, answer) = send(client, Method::PATCH, &named, media_type, patch.to_string()).await;
        assert_eq!(code, StatusCode::OK, "{what} {media_type}: {answer}");
    }
    let mut applied = object.clone();
    applied["metadata"]["labels"] = json!({"applied": "yes"});
    let apply = format!("{named}?fieldManager=test&force=true");
    let (code, answer) =
        send(client, Method::PATCH, &apply, "application/apply-patch+yaml", applied.to_string()).await;
    assert_eq!(code, StatusCode::OK, "{what}: {answer}");
    let (code, read) = get(client, &named).await;
    assert_eq!(code, StatusCode::OK, "{what}: {read}");
    let labels = read["metadata"]["labels"].as_object().unwrap();
    assert!(
        ["merged", "json", "strategic", "applied"].iter().all(|l| labels.contains_key(*l)),
        "{what}: {read}"
    );
    let (code, answer) = put(client, &named, &read).await;
    assert_eq!(code, StatusCode::OK, "{what}: {answer}");
    if resource.has_status() {
        let (code, answer) = merge(client, &format!("{named}/status"), &label).await;
        assert_eq!(code, StatusCode::OK, "{what}: {answer}");
    }

    let (code, list) = get(client, &path).await;
    assert_eq!((code, &list["kind"]), (StatusCode::OK, &json!(format!("{}List", resource.kind))), "{what}");
    let names = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]);
    assert!(names.into_iter().any(|name| *name == object["metadata"]["name"]), "{what}: {list}");
    let from = format!("{path}?watch=true&timeoutSeconds=5&resourceVersion={version}");
    let event = watch(client, &from).await.unwrap().next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("MODIFIED"), &object["kind"]), "{what}");

    let (code, answer) = call(client, Method::DELETE, &named, &json!({"gracePeriodSeconds": 0})).await;
    assert!(code.is_success(), "{what}: {answer}");
}

async fn refuses_what_is_malformed(client: &Client, resource: &'static Resource) {
    let (path, mut object) = sample(resource);
    let what = format!("{} {}", resource.api_version(), resource.kind);
    object["metadata"]["nonsense"] = 1.into();
    let strict = format!("{path}?fieldValidation=Strict");
    let (code, status) = post(client, &strict, &object).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{what}: {status}");
    assert!(
        status["message"].as_str().unwrap().contains(r#"unknown field "metadata.nonsense""#),
        "{what}: {status}"
    );
    let Some(Type::Struct(of)) = type_of(resource.group, resource.version, resource.kind) else {
        panic!("{what}")
    };
    for (name, field) in of.fields().filter(|(name, _)| !["apiVersion", "kind"].contains(name)) {
        let wrong = match field.ty() {
            Type::Any => continue,
            Type::Scalar(_) => json!([1]),
            _ => json!(5),
        };
        let (_, mut object) = sample(resource);
        object[name] = wrong;
        let (code, status) = post(client, &path, &object).await;
        assert_eq!(code, StatusCode::BAD_REQUEST, "{what}.{name}: {status}");
        // Quantities read JSON themselves, and do not know their name.
        let is_named = !matches!(field.ty(), Type::Scalar(Scalar::Quantity));
        assert!(!is_named || status["message"].as_str().unwrap().contains(name), "{what}.{name}: {status}");
    }
}

#[tokio::test]
async fn every_kind_lives_through_all_verbs() {
    let server = server_of_all_kinds().await;
    let client = admin(&server);
    for resource in created().filter(|resource| !["Namespace", "Node"].contains(&resource.kind)) {
        lives(&client, resource).await;
    }
}

#[tokio::test]
async fn every_kind_refuses_unknown_fields_and_wrong_types() {
    let server = server_of_all_kinds().await;
    let client = admin(&server);
    for resource in created() {
        refuses_what_is_malformed(&client, resource).await;
    }
}

#[tokio::test]
async fn required_fields_and_enumerations_are_checked_with_their_paths() {
    let server = server().await;
    let client = admin(&server);
    let ingress = json!({"metadata": {"name": "i"}, "spec": {"rules": [{"http": {"paths": [
        {"path": "/", "pathType": "Regex", "backend": {"service": {"name": "s", "port": {"number": 80}}}},
        {"path": "/", "backend": {"service": {"port": {"number": 80}}}},
    ]}}]}});
    let (code, status) =
        post(&client, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", &ingress).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    let causes: Vec<_> =
        status["details"]["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
    let path = |index: u8, field: &str| format!("spec.rules[0].http.paths[{index}].{field}");
    assert_eq!(causes, [&path(0, "pathType"), &path(1, "pathType")]);
    let policy = json!({"metadata": {"name": "p"}, "spec": {"egress": [{"ports": [{"port": 53}]}]}});
    let (code, made) =
        post(&client, "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", &policy).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert_eq!(made["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(made["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
}

#[tokio::test]
async fn autoscalers_are_served_in_both_versions() {
    let server = server().await;
    let client = admin(&server);
    let of =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let object = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
    let (code, made) = post(&client, &of("v1"), &object).await;
    assert_eq!((code, &made["spec"]["minReplicas"]), (StatusCode::CREATED, &json!(1)), "{made}");
    let (_, second) = get(&client, &format!("{}/a", of("v2"))).await;
    assert_eq!(second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 50, "{second}");
    let (code, first) =
        merge(&client, &format!("{}/a", of("v1")), &json!({"spec": {"targetCPUUtilizationPercentage": 60}}))
            .await;
    assert_eq!((code, &first["apiVersion"]), (StatusCode::OK, &json!("autoscaling/v1")), "{first}");
    let (_, second) = get(&client, &format!("{}/a", of("v2"))).await;
    assert_eq!(second["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 60, "{second}");
}

#[tokio::test]
async fn pod_groups_have_one_policy_and_one_topology() {
    let server = whole_server_with(V1_36.into()).await;
    let client = admin(&server);
    let path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
    let group = |policy: Value, topology: Value| {
        json!({"metadata": {"name": "g"},
            "spec": {"schedulingPolicy": policy, "schedulingConstraints": {"topology": topology}}})
    };
    let fields = async |object: Value| {
        let (_, status) = post(&client, path, &object).await;
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        causes.iter().map(|c| c["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let policy = "spec.schedulingPolicy";
    let (two, topology) = (json!([{"key": "zone"}, {"key": "rack"}]), "spec.schedulingConstraints.topology");
    assert_eq!(fields(group(json!({}), json!([]))).await, [policy]);
    assert_eq!(fields(group(json!({"basic": {}, "gang": {"minCount": 1}}), json!([]))).await, [policy]);
    let min = "spec.schedulingPolicy.gang.minCount";
    assert_eq!(fields(group(json!({"gang": {"minCount": 0}}), json!([]))).await, [min]);
    assert_eq!(fields(group(json!({"gang": {"minCount": -1}}), two)).await, [min, topology]);
    let key = json!([{"key": "a b"}]);
    assert_eq!(fields(group(json!({"basic": {}}), key)).await, [format!("{topology}[0].key")]);

    let gang = group(json!({"gang": {"minCount": 2}}), json!([{"key": "zone"}]));
    let (code, made) = post(&client, path, &gang).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let named = format!("{path}/g");
    let change = json!({"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}});
    let (code, status) = merge(&client, &named, &change).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    assert_eq!(status["details"]["causes"][0]["field"], policy, "{status}");
    let condition = json!({"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let (code, shown) =
        merge(&client, &format!("{named}/status"), &json!({"status": {"conditions": [condition]}})).await;
    assert_eq!((code, &shown["status"]["conditions"][0]["reason"]), (StatusCode::OK, &json!("Scheduled")));
}

#[tokio::test]
async fn pod_groups_and_templates_have_the_priority_of_their_class() {
    let server = whole_server_with(V1_36.into()).await;
    let client = admin(&server);
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    for (name, value, global) in [("high", 1000, false), ("usual", 10, true)] {
        let class = json!({"metadata": {"name": name}, "value": value, "globalDefault": global});
        assert_eq!(post(&client, classes, &class).await.0, StatusCode::CREATED);
    }
    let namespace = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default";
    let groups = format!("{namespace}/podgroups");
    let group = |name: &str, rest: Value| {
        let mut spec = json!({"schedulingPolicy": {"basic": {}}});
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let (_, usual) = post(&client, &groups, &group("usual", json!({}))).await;
    assert_eq!(usual["spec"]["priorityClassName"], "usual", "{usual}");
    assert_eq!((&usual["spec"]["priority"], &usual["spec"]["disruptionMode"]), (&json!(10), &json!("Pod")));
    let (_, high) = post(&client, &groups, &group("high", json!({"priorityClassName": "high"}))).await;
    assert_eq!(high["spec"]["priority"], 1000, "{high}");

    let refused = async |rest: Value| post(&client, &groups, &group("refused", rest)).await;
    let (code, status) = refused(json!({"priorityClassName": "none"})).await;
    assert_eq!(code, StatusCode::FORBIDDEN);
    assert_eq!(
        status["message"],
        "podgroups.scheduling.k8s.io \"refused\" is forbidden: no PriorityClass with name none was found"
    );
    let (code, status) = refused(json!({"priorityClassName": "high", "priority": 5})).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{status}");
    let (code, status) = refused(json!({"disruptionMode": "Job"})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["message"], "Unsupported value: \"Job\": supported values: \"Pod\", \"PodGroup\"");

    for (field, value) in
        [("disruptionMode", json!("PodGroup")), ("priority", json!(7)), ("priorityClassName", json!("usual"))]
    {
        let change = json!({"spec": {field: value}});
        let (code, status) = merge(&client, &format!("{groups}/high"), &change).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        assert_eq!(status["details"]["causes"][0]["field"], format!("spec.{field}"), "{status}");
    }
    let mut kept = high.clone();
    let version = &high["metadata"]["resourceVersion"];
    kept["metadata"] = json!({"name": "high", "labels": {"a": "b"}, "resourceVersion": version});
    kept["spec"].as_object_mut().unwrap().remove("priority");
    let (code, kept) = put(&client, &format!("{groups}/high"), &kept).await;
    assert_eq!((code, &kept["spec"]["priority"]), (StatusCode::OK, &json!(1000)), "{kept}");

    let template = json!({"name": "t", "schedulingPolicy": {"basic": {}}, "priorityClassName": "high"});
    let workload = json!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": [template]}});
    let (code, made) = post(&client, &format!("{namespace}/workloads"), &workload).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert_eq!(made["spec"]["podGroupTemplates"][0]["priority"], 1000);
}

#[tokio::test]
async fn claims_of_pod_groups_name_one_source_and_their_statuses_a_claim() {
    let server = whole_server_with(V1_36.into()).await;
    let client = admin(&server);
    let path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
    let group = |claims: Value| json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": claims}});
    let claim = |name: &str| json!({"name": name, "resourceClaimName": "c"});
    let both = json!({"name": "a", "resourceClaimName": "c", "resourceClaimTemplateName": "t"});
    let cases = [
        (json!([{"name": "a"}]), "spec.resourceClaims[0]"),
        (json!([both]), "spec.resourceClaims[0]"),
        (json!([claim("a"), claim("a")]), "spec.resourceClaims[1]"),
        (json!([claim("a/b")]), "spec.resourceClaims[0].name"),
        (json!([{"name": "a", "resourceClaimName": ".a_b"}]), "spec.resourceClaims[0].resourceClaimName"),
        (json!((0..5).map(|i| claim(&format!("c-{i}"))).collect::<Vec<_>>()), "spec.resourceClaims"),
    ];
    for (claims, field) in cases {
        let (code, status) = post(&client, path, &group(claims)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
    }
    let (code, made) = post(&client, path, &group(json!([claim("a")]))).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let show = async |name: &str| {
        let status = json!({"resourceClaimStatuses": [{"name": name, "resourceClaimName": "c"}]});
        merge(&client, &format!("{path}/g/status"), &json!({"status": status})).await
    };
    let (code, status) = show("other").await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    assert_eq!(status["details"]["causes"][0]["field"], "status.resourceClaimStatuses[0].name", "{status}");
    assert_eq!(show("a").await.0, StatusCode::OK);
}

#[tokio::test]
async fn pod_groups_and_workloads_have_the_form_of_their_version() {
    let (old_server, new_server) = (whole_server_with(V1_36.into()).await, server().await);
    let (old_client, new_client) = (admin(&old_server), admin(&new_server));
    let of = |version: &str, plural: &str| {
        format!("/apis/scheduling.k8s.io/{version}/namespaces/default/{plural}")
    };
    let (old, new) = (of("v1alpha2", "podgroups"), of("v1beta1", "podgroups"));
    let group = |spec: Value| json!({"metadata": {"name": "g"}, "spec": spec});
    let gang = |rest: Value| {
        let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        group(spec)
    };
    let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
    let written = gang(json!({"disruptionMode": "PodGroup", "podGroupTemplateRef": reference}));
    let (code, made) = post(&old_client, &old, &written).await;
    assert_eq!((code, &made["spec"]["disruptionMode"]), (StatusCode::CREATED, &json!("PodGroup")), "{made}");
    assert_eq!(made["spec"]["podGroupTemplateRef"], reference);
    let reference = json!({"workloadName": "w", "templateName": "t"});
    let written = gang(json!({"disruptionMode": {"all": {}}, "workloadRef": reference}));
    let (code, made) = post(&new_client, &new, &written).await;
    assert_eq!(
        (code, &made["apiVersion"]),
        (StatusCode::CREATED, &json!("scheduling.k8s.io/v1beta1")),
        "{made}"
    );
    assert_eq!(
        (&made["spec"]["disruptionMode"], &made["spec"]["workloadRef"]),
        (&json!({"all": {}}), &reference)
    );

    for (client, path, name) in
        [(&old_client, &old, "PodGroupScheduled"), (&new_client, &new, "PodGroupInitiallyScheduled")]
    {
        let condition = json!({"type": name, "status": "True", "reason": "Scheduled", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let status = json!({"status": {"conditions": [condition]}});
        assert_eq!(merge(client, &format!("{path}/g/status"), &status).await.0, StatusCode::OK);
        let (_, list) = get(client, path).await;
        assert_eq!(list["items"][0]["status"]["conditions"][0]["type"], name, "{list}");
    }

    let (code, usual) = post(
        &new_client,
        &new,
        &json!({"metadata": {"name": "usual"}, "spec": {"schedulingPolicy": {"basic": {}}}}),
    )
    .await;
    assert_eq!((code, &usual["spec"]["disruptionMode"]), (StatusCode::CREATED, &json!({"single": {}})));
    // Messages name the fields of the version that the user wrote.
    let refused = async |client: &Client, path: &str, field: &str, value: Value| {
        let mut group = json!({"metadata": {"name": "bad"}, "spec": {"schedulingPolicy": {"basic": {}}}});
        group["spec"][field] = value;
        let (code, status) = post(client, path, &group).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
        causes.iter().map(|c| c["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let both = json!({"single": {}, "all": {}});
    assert_eq!(refused(&new_client, &new, "disruptionMode", both).await, ["spec.disruptionMode"]);
    let reference = json!({"workloadName": "w", "templateName": "A b"});
    let field = "spec.workloadRef.templateName";
    assert_eq!(refused(&new_client, &new, "workloadRef", reference).await, [field]);
    let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "A b"}});
    let field = "spec.podGroupTemplateRef.workload.podGroupTemplateName";
    assert_eq!(refused(&old_client, &old, "podGroupTemplateRef", reference).await, [field]);

    // As in Kubernetes 1.37, the required number of members can change, and nothing else of the policy.
    let change = |policy: Value| json!({"spec": {"schedulingPolicy": policy}});
    let (code, changed) =
        merge(&new_client, &format!("{new}/g"), &change(json!({"gang": {"minCount": 3}}))).await;
    assert_eq!((code, &changed["spec"]["schedulingPolicy"]["gang"]["minCount"]), (StatusCode::OK, &json!(3)));
    for (client, path, policy, field) in [
        (&old_client, &old, json!({"gang": {"minCount": 4}}), "spec.schedulingPolicy"),
        (&new_client, &new, json!({"gang": null, "basic": {}}), "spec.schedulingPolicy.basic"),
    ] {
        let (code, status) = merge(client, &format!("{path}/g"), &change(policy)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
    }
    let other = json!({"spec": {"workloadRef": {"workloadName": "other"}}});
    let (_, status) = merge(&new_client, &format!("{new}/g"), &other).await;
    assert_eq!(status["details"]["causes"][0]["field"], "spec.workloadRef", "{status}");
}

#[tokio::test]
async fn a_version_of_groups_that_1_37_does_not_have_was_answered() {
    let names = ["GenericWorkload", "CompositePodGroup"].map(str::to_owned);
    for gates in
        [V1_36.into(), FeatureGates::of_names(V1_37, &names[..1]), FeatureGates::of_names(V1_37, &names)]
    {
        let server = whole_server_with(gates).await;
        let client = admin(&server);
        let (_, group) = get(&client, "/apis/scheduling.k8s.io").await;
        let versions = group["versions"].as_array().unwrap();
        for version in ["v1alpha2", "v1alpha3", "v1beta1"] {
            let is_listed = versions.iter().any(|listed| listed["version"] == version);
            for plural in ["podgroups", "workloads"] {
                let (code, _) = get(&client, &format!("/apis/scheduling.k8s.io/{version}/{plural}")).await;
                assert_eq!(code == StatusCode::OK, is_listed, "{version} {plural} {gates:?}");
            }
        }
    }
}

#[tokio::test]
async fn pod_groups_that_discovery_does_not_list_were_not_applied() {
    let server = server().await;
    let text = include_str!("../../../../../examples/pod-group/training.yaml");
    let manifests = berth_api::read::collect_manifests(text, "training.yaml").unwrap();
    let n_objects = manifests.len();
    let applied = berth_client::apply::apply(&admin(&server), manifests).await.unwrap();
    assert_eq!((applied.n_objects, applied.skipped.len()), (n_objects, 0));
}
