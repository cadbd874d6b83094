//! Dynamic resource allocation: what the API server accepts of classes, claims and slices, and what it refuses.

use http::StatusCode;
use serde_json::{Value, json};

use crate::support::{acting_as, admin, get, merge, node, post, put, server};

const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const SLICES: &str = "/apis/resource.k8s.io/v1/resourceslices";
const CLASSES: &str = "/apis/resource.k8s.io/v1/deviceclasses";

fn claim(name: &str, devices: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"devices": devices}})
}

fn gpu(name: &str) -> Value {
    json!({"name": name, "exactly": {"deviceClassName": "gpu"}})
}

/// The messages of the causes, with their fields.
fn causes(answer: &Value) -> Vec<String> {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    causes.map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"]))).collect()
}

#[tokio::test]
async fn requests_of_a_claim_are_defaulted_and_validated() {
    let server = server().await;
    let admin = admin(&server);
    let alternatives = json!({"name": "b", "firstAvailable": [
        {"name": "x", "deviceClassName": "gpu", "allocationMode": "All"}, {"name": "y", "deviceClassName": "gpu"}]});
    let constraints = json!([{"requests": ["a", "b/x"], "matchAttribute": "example.com/numa"}]);
    let valid = claim("valid", json!({"requests": [gpu("a"), alternatives], "constraints": constraints}));
    let (code, made) = post(&admin, CLAIMS, &valid).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    let requests = &made["spec"]["devices"]["requests"];
    assert_eq!(
        requests[0]["exactly"],
        json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1})
    );
    assert_eq!(
        (&requests[1]["firstAvailable"][0]["count"], &requests[1]["firstAvailable"][1]["count"]),
        (&Value::Null, &json!(1))
    );

    let exactly = |fields: Value| {
        let mut request = gpu("a");
        json_patch::merge(&mut request["exactly"], &fields);
        json!({"requests": [request]})
    };
    let path = "spec.devices.requests[0]";
    let nested_loops = format!("{}true{}", "device.attributes.all(a, ".repeat(4), ")".repeat(4));
    for (devices, expected) in [
        (json!({"requests": [{"name": "a"}]}), format!("{path}: Required value: exactly one of `exactly` or")),
        (json!({"requests": [gpu("a"), gpu("a")]}), "spec.devices.requests[1]: Duplicate value: {\"name\":\"a\",\"exactly\":{\"deviceClassName\":\"gpu\"".to_owned()),
        (json!({"requests": [gpu("A")]}), format!("{path}.name: Invalid value: \"A\": a lowercase RFC 1123 label")),
        (exactly(json!({"deviceClassName": ""})), format!("{path}.exactly.deviceClassName: Required value")),
        (exactly(json!({"count": -1})), format!("{path}.exactly.count: Invalid value: -1: must be greater than zero")),
        (
            exactly(json!({"allocationMode": "All", "count": 2})),
            format!("{path}.exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"),
        ),
        (exactly(json!({"selectors": [{}]})), format!("{path}.exactly.selectors[0].cel: Required value")),
        (
            exactly(json!({"selectors": [{"cel": {"expression": "true ".repeat(2049)}}]})),
            format!("{path}.exactly.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"),
        ),
        (
            exactly(json!({"selectors": [{"cel": {"expression": "device.model == 'x'"}}]})),
            format!(
                "{path}.exactly.selectors[0].cel.expression: Invalid value: \"device.model == 'x'\": compilation \
                 failed: ERROR: <input>:1:7: undefined field 'model'"
            ),
        ),
        (
            exactly(json!({"selectors": [{"cel": {"expression": nested_loops}}]})),
            format!("{path}.exactly.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"),
        ),
        (
            exactly(json!({"tolerations": [{"key": "k", "operator": "Exists", "value": "v"}]})),
            format!("{path}.exactly.tolerations[0].value: Invalid value: \"v\": must be empty for operator `Exists`"),
        ),
        (
            exactly(json!({"adminAccess": true})),
            format!("{path}.adminAccess: Forbidden: admin access to devices requires the"),
        ),
        (
            json!({"requests": (0..33).map(|i| gpu(&format!("r{i}"))).collect::<Vec<_>>()}),
            "spec.devices.requests: Too many: 33: must have at most 32 items".to_owned(),
        ),
        (
            json!({"requests": [gpu("a")], "constraints": [{"requests": ["b"], "matchAttribute": "example.com/numa"}]}),
            "spec.devices.constraints[0].requests[0]: Invalid value: \"b\": must be the name of a request".to_owned(),
        ),
        (
            json!({"requests": [gpu("a")], "constraints": [{"matchAttribute": "numa"}]}),
            "spec.devices.constraints[0].matchAttribute: Invalid value: \"numa\": a fully qualified name".to_owned(),
        ),
        (
            json!({"requests": [gpu("a")], "config": [{"opaque": {"driver": "d", "parameters": [1]}}]}),
            "spec.devices.config[0].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object"
                .to_owned(),
        ),
    ] {
        let (code, answer) = post(&admin, CLAIMS, &claim("wrong", devices.clone())).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{devices} {answer}");
        let found = causes(&answer);
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{expected}\n{found:?}");
    }

    let (code, answer) =
        merge(&admin, &format!("{CLAIMS}/valid"), &json!({"spec": {"devices": {"requests": []}}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(causes(&answer)[0].ends_with("field is immutable"), "{answer}");
    let label = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    assert_eq!(merge(&admin, "/api/v1/namespaces/default", &label).await.0, StatusCode::OK);
    let (code, answer) = post(&admin, CLAIMS, &claim("admin", exactly(json!({"adminAccess": true})))).await;
    assert_eq!(code, StatusCode::CREATED, "{answer}");
}

fn allocation() -> Value {
    json!({"devices": {"results": [{"request": "a", "driver": "example.com", "pool": "n1", "device": "gpu-0"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z"})
}

fn consumer(i: usize) -> Value {
    json!({"resource": "pods", "name": format!("p{i}"), "uid": format!("u{i}")})
}

#[tokio::test]
async fn a_status_is_allocated_before_it_is_reserved_and_does_not_change_its_allocation() {
    let server = server().await;
    let admin = admin(&server);
    assert_eq!(
        post(&admin, CLAIMS, &claim("c", json!({"requests": [gpu("a")]}))).await.0,
        StatusCode::CREATED
    );
    let path = format!("{CLAIMS}/c/status");
    let consumers = |n: usize| (0..n).map(consumer).collect::<Vec<_>>();
    let device = json!({"driver": "example.com", "pool": "n1", "device": "gpu-0"});
    let mut changed = allocation();
    changed["allocationTimestamp"] = json!("2026-01-02T00:00:00Z");
    let mut unknown = allocation();
    unknown["devices"]["results"][0]["request"] = "b".into();
    for (status, expected) in [
        (json!({"reservedFor": consumers(1)}), "status.reservedFor: Forbidden: may not be specified when"),
        (
            json!({"devices": [device]}),
            "status.devices[0]: Invalid value: {\"Driver\":\"example.com\",\"Pool\":\"n1\",\"Device\":\"gpu-0\",\"ShareID\":\"\"}: \
             must be an allocated",
        ),
        (
            json!({"allocation": unknown}),
            "status.allocation.devices.results[0].request: Invalid value: \"b\"",
        ),
        (json!({"allocation": allocation(), "reservedFor": consumers(2)}), ""),
        (json!({"allocation": changed}), "status.allocation: Invalid value: "),
        (
            json!({"reservedFor": consumers(257)}),
            "status.reservedFor: Too many: 257: must have at most 256 items",
        ),
        (
            json!({"reservedFor": [consumer(0), consumer(0)]}),
            "status.reservedFor[1]: Duplicate value: {\"resource\":\"pods\",\"name\":\"p0\",\"uid\":\"u0\"}",
        ),
        (json!({"reservedFor": consumers(256)}), ""),
        (json!({"devices": [device]}), ""),
        (
            json!({"devices": [device, device]}),
            "status.devices[1]: Duplicate value: \"example.com/n1/gpu-0/\"",
        ),
    ] {
        let (code, answer) = merge(&admin, &path, &json!({"status": status})).await;
        let found = causes(&answer);
        assert_eq!(code == StatusCode::OK, expected.is_empty(), "{expected} {answer}");
        assert!(
            expected.is_empty() || found.iter().any(|cause| cause.starts_with(expected)),
            "{expected}\n{found:?}"
        );
    }
    let (_, freed) =
        merge(&admin, &path, &json!({"status": {"allocation": null, "reservedFor": null}})).await;
    assert_eq!(freed["status"]["devices"], Value::Null, "statuses go with their devices: {freed}");
}

#[tokio::test]
async fn parts_of_a_status_need_their_own_permissions() {
    let server = server().await;
    let admin = admin(&server);
    assert_eq!(
        post(&admin, CLAIMS, &claim("c", json!({"requests": [gpu("a")]}))).await.0,
        StatusCode::CREATED
    );
    let rules = |rules: Value| json!({"metadata": {"name": "dra"}, "rules": rules});
    let status =
        json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/status"], "verbs": ["patch"]});
    let binding = json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/binding"], "verbs": ["patch"]});
    let driver = json!({"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims/driver"],
        "resourceNames": ["example.com"], "verbs": ["arbitrary-node:update"]});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dra"});
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]);
    let bound = json!({"metadata": {"name": "dra"}, "roleRef": reference, "subjects": subjects});
    assert_eq!(post(&admin, roles, &rules(json!([status]))).await.0, StatusCode::CREATED);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(post(&admin, bindings, &bound).await.0, StatusCode::CREATED);
    let jane = acting_as(&server, "jane", &[]);
    let path = format!("{CLAIMS}/c/status");
    let allocated = json!({"status": {"allocation": allocation()}});
    let device = json!({"driver": "example.com", "pool": "n1", "device": "gpu-0"});
    let reported = json!({"status": {"devices": [device]}});

    let (code, answer) = merge(&jane, &path, &allocated).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{answer}");
    assert!(answer["message"].as_str().unwrap().contains("resourceclaims/binding"), "{answer}");
    let role = format!("{roles}/dra");
    assert_eq!(put(&admin, &role, &rules(json!([status, binding]))).await.0, StatusCode::OK);
    assert_eq!(merge(&jane, &path, &allocated).await.0, StatusCode::OK);
    let (code, answer) = merge(&jane, &path, &reported).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{answer}");
    assert_eq!(put(&admin, &role, &rules(json!([status, driver]))).await.0, StatusCode::OK);
    assert_eq!(merge(&jane, &path, &reported).await.0, StatusCode::OK);
}

fn slice(spec: Value) -> Value {
    let mut slice = json!({"metadata": {"name": "s"}, "spec": {"driver": "example.com", "nodeName": "own",
        "pool": {"name": "own", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]}});
    json_patch::merge(&mut slice["spec"], &spec);
    slice
}

#[tokio::test]
async fn slices_and_classes_are_validated() {
    let server = server().await;
    let admin = admin(&server);
    let device = |fields: Value| {
        let mut device = json!({"name": "gpu-0"});
        json_patch::merge(&mut device, &fields);
        json!({"devices": [device]})
    };
    let many = |n: usize, taints: Value| json!({"devices": (0..n).map(|i| json!({"name": format!("d{i}"), "taints": taints})).collect::<Vec<_>>()});
    let taint = json!([{"key": "a", "effect": "NoExecute"}]);
    let policy = |policy: Value| {
        device(
            json!({"allowMultipleAllocations": true, "capacity": {"memory": {"value": "10Gi", "requestPolicy": policy}}}),
        )
    };
    let range =
        |min: &str, step: &str| policy(json!({"default": "4Gi", "validRange": {"min": min, "step": step}}));
    let attributes = (0..33).map(|i| (format!("a{i}"), json!({"int": 1}))).collect::<serde_json::Map<_, _>>();
    for (spec, expected) in [
        (
            json!({"nodeName": null}),
            "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`",
        ),
        (
            json!({"allNodes": true}),
            "spec: Invalid value: \"{`nodeName`, `allNodes`}\": exactly one of `nodeName`, `nodeSelector`, `allNodes`, \
             `perDeviceNodeSelection` is required, but multiple fields are set",
        ),
        (json!({"allNodes": false}), "spec.allNodes: Invalid value: false: must be either unset or set"),
        (
            json!({"sharedCounters": []}),
            "spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed",
        ),
        (
            json!({"pool": {"resourceSliceCount": 0}}),
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater",
        ),
        (
            json!({"pool": {"name": "a/B"}}),
            "spec.pool.name: Invalid value: \"B\": a lowercase RFC 1123 subdomain",
        ),
        (many(129, json!(null)), "spec.devices: Too many: 129: must have at most 128 items"),
        (many(65, taint), "spec.devices: Too many: 65: must have at most 64 items"),
        (
            device(json!({"attributes": attributes})),
            "spec.devices[0]: Invalid value: 33: the total number of attributes",
        ),
        (
            device(json!({"attributes": {"a": {}}})),
            "spec.devices[0].attributes[a]: Invalid value: \"\": must specify one of: `int`, `bool`",
        ),
        (
            device(json!({"attributes": {"a-b": {"int": 1}}})),
            "spec.devices[0].attributes: Invalid value: \"a-b\": a valid C",
        ),
        (
            device(json!({"attributes": {"v": {"version": "1.02.0"}}})),
            "spec.devices[0].attributes[v].version: Invalid value: \"1.02.0\": must be a string compatible with semver",
        ),
        (
            device(json!({"nodeName": "own"})),
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and",
        ),
        (
            device(json!({"bindingConditions": ["ready"]})),
            "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required",
        ),
        (
            device(json!({"capacity": {"memory": {"value": "1Gi", "requestPolicy": {"default": "1Gi"}}}})),
            "spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true",
        ),
        (
            policy(json!({"default": "3Gi", "validValues": ["1Gi", "2Gi"]})),
            "spec.devices[0].capacity[memory].requestPolicy.validValues: Invalid value: \"3Gi\": default value is not valid",
        ),
        (
            range("5Gi", "1Gi"),
            "spec.devices[0].capacity[memory].requestPolicy.validRange.default: Invalid value: \"4Gi\"",
        ),
        (
            range("1Gi", "2Gi"),
            "spec.devices[0].capacity[memory].requestPolicy.validRange.step: Invalid value: \"4Gi\"",
        ),
        (
            json!({"devices": null, "sharedCounters": [{"name": "g", "counters": {}}]}),
            "spec.sharedCounters[0].counters: Required value",
        ),
    ] {
        let (code, answer) = post(&admin, SLICES, &slice(spec.clone())).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{spec} {answer}");
        let found = causes(&answer);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}\n{found:?}");
    }
    let mut valid = range("2Gi", "1Gi");
    valid["devices"][0]["taints"] = json!([{"key": "a", "effect": "NoExecute"}]);
    valid["devices"][0]["attributes"] =
        json!({"v": {"version": "1.2.0-rc.1+b1"}, "example.org/model": {"string": "x"}});
    let (code, made) = post(&admin, SLICES, &slice(valid)).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert!(made["spec"]["devices"][0]["taints"][0]["timeAdded"].is_string(), "{made}");

    let class = |spec: Value| json!({"metadata": {"name": "gpu"}, "spec": spec});
    for (name, is_valid) in [("cpu", false), ("kubernetes.io/x", false), ("example.com/gpu", true)] {
        let (code, answer) = post(&admin, CLASSES, &class(json!({"extendedResourceName": name}))).await;
        assert_eq!(code == StatusCode::CREATED, is_valid, "{answer}");
    }
    assert_eq!(get(&admin, &format!("{CLASSES}/gpu")).await.1["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_node_publishes_its_own_slices_only() {
    let server = server().await;
    let node = node(&server, "own");
    let (code, answer) = post(&node, SLICES, &slice(json!({"nodeName": "other"}))).await;
    assert_eq!(code, StatusCode::FORBIDDEN, "{answer}");
    assert_eq!(post(&node, SLICES, &slice(json!({}))).await.0, StatusCode::CREATED);
    let (code, answer) =
        merge(&node, &format!("{SLICES}/s"), &json!({"spec": {"pool": {"generation": 2}}})).await;
    assert_eq!((code, &answer["metadata"]["generation"]), (StatusCode::OK, &json!(2)), "{answer}");
}

#[tokio::test]
async fn a_quota_bounds_the_devices_of_a_class() {
    let server = server().await;
    let admin = admin(&server);
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"gpu.deviceclass.resource.k8s.io/devices": "4"}}});
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    assert_eq!(post(&admin, quotas, &quota).await.0, StatusCode::CREATED);
    let count = |count: i64| json!({"name": "a", "exactly": {"deviceClassName": "gpu", "count": count}});
    let choices = json!({"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu", "count": 2},
        {"name": "y", "deviceClassName": "gpu"}, {"name": "z", "deviceClassName": "other", "count": 9}]});
    for (name, requests, is_allowed) in [
        ("three", json!([count(3)]), true),
        ("two", json!([choices]), false),
        ("other", json!([{"name": "a", "exactly": {"deviceClassName": "other", "count": 9}}]), true),
        ("one", json!([count(1)]), true),
    ] {
        let (code, answer) = post(&admin, CLAIMS, &claim(name, json!({"requests": requests}))).await;
        assert_eq!(code == StatusCode::CREATED, is_allowed, "{answer}");
        if !is_allowed {
            let message = answer["message"].as_str().unwrap();
            assert!(
                message.contains("exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=2"),
                "{message}"
            );
        }
    }
}
