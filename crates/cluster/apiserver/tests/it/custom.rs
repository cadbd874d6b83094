//! CustomResourceDefinitions and their objects.

use std::time::Duration;

use berth_schema::resource::custom_collection_at;
use http::{Method, Request, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use crate::support::{DataDir, admin, call, get, merge, post, put, send, server, warnings, watch};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const GADGETS: &str = "/apis/example.com/v1/namespaces/default/gadgets";

fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1},
            "replicas": {"type": "integer", "default": 2},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"],
                    "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }},
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "phase": {"type": "string"}}},
    }});
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "kind": "Gadget", "shortNames": ["gd"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)]}})
}

fn gadget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": spec})
}

async fn define(client: &Client) -> Value {
    let (code, made) = post(client, DEFINITIONS, &definition()).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    made
}

/// Waits until a path is not found.
async fn gone(client: &Client, path: &str) {
    for _ in 0..6000 {
        if get(client, path).await.0 == StatusCode::NOT_FOUND {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{path} is still there");
}

#[tokio::test]
async fn a_definition_is_established_and_served() {
    let server = server().await;
    let client = admin(&server);
    assert_eq!(get(&client, GADGETS).await.0, StatusCode::NOT_FOUND);
    let made = define(&client).await;
    let established =
        made["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Established");
    assert_eq!(established.unwrap()["status"], "True");
    assert_eq!(made["status"]["acceptedNames"]["listKind"], "GadgetList");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    let (_, list) = get(&client, "/apis/example.com/v1").await;
    let names: Vec<&Value> = list["resources"].as_array().unwrap().iter().map(|r| &r["name"]).collect();
    assert_eq!(names, ["gadgets", "gadgets/scale", "gadgets/status"]);
    assert_eq!(
        (&list["resources"][0]["singularName"], &list["resources"][0]["shortNames"]),
        (&json!("gadget"), &json!(["gd"]))
    );
    let (_, groups) = get(&client, "/apis").await;
    let group = groups["groups"].as_array().unwrap().iter().find(|g| g["name"] == "example.com").unwrap();
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let (_, document) = get(&client, "/openapi/v3/apis/example.com/v1").await;
    let schema = &document["components"]["schemas"]["com.example.v1.Gadget"];
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Gadget");
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["type"], "integer");
    // `kubectl apply` sends a strategic merge patch if it is offered.
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/gadgets/{name}"]["patch"];
    let offered: Vec<&String> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    let accepted =
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    assert_eq!(offered, accepted);
    let (_, index) = get(&client, "/openapi/v3").await;
    assert!(index["paths"]["apis/example.com/v1beta1"].is_object());
    let (_, old) = get(&client, "/openapi/v2").await;
    assert!(old["definitions"]["com.example.v1.Gadget"].is_object());

    let mut other = definition();
    other["metadata"]["name"] = "widgets.example.com".into();
    other["spec"]["names"] = json!({"plural": "widgets", "kind": "Gadget"});
    let (code, refused) = post(&client, DEFINITIONS, &other).await;
    assert_eq!(code, StatusCode::CREATED);
    assert_eq!(refused["status"]["conditions"][0]["status"], "False", "{refused}");
    assert_eq!(get(&client, "/apis/example.com/v1/widgets").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn objects_are_pruned_defaulted_and_validated() {
    let server = server().await;
    let client = admin(&server);
    define(&client).await;
    let object = gadget("a", json!({"size": 1, "color": "red", "free": {"any": [1]}}));
    let (code, status) = post(&client, &format!("{GADGETS}?fieldValidation=Strict"), &object).await;
    assert_eq!(code, StatusCode::BAD_REQUEST);
    assert!(status["message"].as_str().unwrap().contains("unknown field \"spec.color\""), "{status}");
    assert_eq!(warnings(&client, Method::POST, &format!("{GADGETS}?dryRun=All"), &object).await.len(), 1);
    let (code, made) = post(&client, GADGETS, &object).await;
    assert_eq!(code, StatusCode::CREATED, "{made}");
    assert_eq!(made["spec"], json!({"size": 1, "free": {"any": [1]}, "replicas": 2}));
    assert_eq!(made["metadata"]["generation"], 1);
    for (spec, problem) in [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (json!({"size": "x"}), "spec.size in body must be of type integer"),
        (json!({"size": 1, "ports": [{"name": "a"}, {"name": "a"}]}), "spec.ports[1]: Duplicate value"),
    ] {
        let (code, status) = post(&client, GADGETS, &gadget("b", spec)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
        assert!(status["message"].as_str().unwrap().contains(problem), "{status}");
    }
    let (code, status) = merge(&client, &format!("{GADGETS}/a"), &json!({"spec": {"size": -1}})).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{status}");
    let (code, changed) = merge(&client, &format!("{GADGETS}/a"), &json!({"spec": {"size": 5}})).await;
    assert_eq!((code, &changed["metadata"]["generation"]), (StatusCode::OK, &json!(2)));
    let strategic = "application/strategic-merge-patch+json";
    let (code, _) = send(&client, Method::PATCH, &format!("{GADGETS}/a"), strategic, "{}").await;
    assert_eq!(code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    let wrong = json!({"metadata": {"name": 5}});
    assert_eq!(post(&client, GADGETS, &wrong).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn versions_subresources_tables_and_apply() {
    let server = server().await;
    let client = admin(&server);
    define(&client).await;
    let named = format!("{GADGETS}/a");
    post(&client, GADGETS, &gadget("a", json!({"size": 1}))).await;
    let beta = GADGETS.replace("v1", "v1beta1");
    let (code, shown) = get(&client, &format!("{beta}/a")).await;
    assert_eq!((code, &shown["apiVersion"]), (StatusCode::OK, &json!("example.com/v1beta1")));
    let (code, shown) = put(&client, &format!("{beta}/a"), &shown).await;
    assert_eq!((code, &shown["apiVersion"]), (StatusCode::OK, &json!("example.com/v1beta1")), "{shown}");
    let (_, list) = get(&client, &beta).await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["apiVersion"]),
        (&json!("GadgetList"), &json!("example.com/v1beta1"))
    );
    assert_eq!(get(&client, &named).await.1["apiVersion"], "example.com/v1");

    let status = json!({"status": {"replicas": 2, "phase": "Ready"}, "spec": {"size": 9}});
    let (code, changed) = merge(&client, &format!("{named}/status"), &status).await;
    assert_eq!((code, &changed["spec"]["size"]), (StatusCode::OK, &json!(1)), "{changed}");
    let (_, changed) = merge(&client, &named, &json!({"status": {"phase": "Lost"}})).await;
    assert_eq!(changed["status"]["phase"], "Ready");
    let (code, scale) = merge(&client, &format!("{named}/scale"), &json!({"spec": {"replicas": 7}})).await;
    assert_eq!((code, &scale["status"]["replicas"]), (StatusCode::OK, &json!(2)), "{scale}");
    assert_eq!(get(&client, &named).await.1["spec"]["replicas"], 7);

    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let request = Request::get(GADGETS).header("accept", accept).body(kube::client::Body::empty()).unwrap();
    let bytes = client.send(request).await.unwrap().into_body().collect_bytes().await.unwrap();
    let table: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1]));

    for (manager, port) in [("one", "http"), ("two", "https")] {
        let applied = gadget("applied", json!({"size": 1, "ports": [{"name": port, "port": 80}]}));
        let path = format!("{GADGETS}/applied?fieldManager={manager}");
        let (code, answer) =
            send(&client, Method::PATCH, &path, "application/apply-patch+yaml", applied.to_string()).await;
        assert!(code.is_success(), "{answer}");
    }
    let (_, both) = get(&client, &format!("{GADGETS}/applied")).await;
    assert_eq!(both["spec"]["ports"].as_array().map(Vec::len), Some(2), "{both}");
    assert_eq!(both["metadata"]["managedFields"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn objects_survive_a_restart_and_go_with_their_definition() {
    let dir = DataDir::new();
    let server = dir.server().await;
    let client = admin(&server);
    define(&client).await;
    let mut held = gadget("held", json!({"size": 1}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(post(&client, GADGETS, &held).await.0, StatusCode::CREATED);
    assert_eq!(post(&client, GADGETS, &gadget("a", json!({"size": 1}))).await.0, StatusCode::CREATED);
    server.shutdown().await;

    let server = dir.server().await;
    let client = admin(&server);
    let (_, list) = get(&client, GADGETS).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2), "{list}");
    let mut events = watch(&client, &format!("{GADGETS}?watch=true")).await.unwrap();
    assert_eq!(events.told().await.0, "ADDED");
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    assert!(call(&client, Method::DELETE, &path, &Value::Null).await.0.is_success());
    gone(&client, &format!("{GADGETS}/a")).await;
    let (code, status) = post(&client, GADGETS, &gadget("late", json!({"size": 1}))).await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED, "{status}");
    let released = json!({"metadata": {"finalizers": null}});
    assert!(merge(&client, &format!("{GADGETS}/held"), &released).await.0.is_success());
    gone(&client, &path).await;
    assert_eq!(get(&client, GADGETS).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn malformed_definitions_are_refused_with_paths() {
    let server = server().await;
    let client = admin(&server);
    let cases = [
        (json!({"metadata": {"name": "x.example.com"}}), "metadata.name"),
        (json!({"spec": {"group": "plain"}}), "spec.group"),
        (json!({"spec": {"scope": "Everywhere"}}), "spec.scope"),
        (json!({"spec": {"versions": []}}), "spec.versions"),
        (
            json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}}]}}),
            "spec.validation.openAPIV3Schema.properties[a].type",
        ),
        (
            json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true}]}}),
            "spec.versions[0].schema.openAPIV3Schema",
        ),
        (
            json!({"metadata": {"name": "gadgets.x.k8s.io"}, "spec": {"group": "x.k8s.io"}}),
            "metadata.annotations[api-approved.kubernetes.io]",
        ),
    ];
    for (change, field) in cases {
        let mut malformed = definition();
        json_patch::merge(&mut malformed, &change);
        let (code, status) = post(&client, DEFINITIONS, &malformed).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{field}: {status}");
        let causes = status["details"]["causes"].as_array().unwrap();
        assert!(causes.iter().any(|cause| cause["field"] == field), "{field}: {status}");
    }
}

/// A definition whose `spec` has a schema.
fn with_spec(spec: &Value) -> Value {
    let mut definition = definition();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec.clone();
        version["subresources"] = json!({});
    }
    definition
}

#[tokio::test]
async fn a_small_object_may_not_be_much_work_for_a_schema() {
    let mut any = vec![json!({"maximum": -1}); 20_000];
    any.push(json!({"minimum": 0}));
    let patterns: Vec<Value> =
        (0..2_000).map(|i| json!({"pattern": format!("^(a|b){{1,40}}(cd){{0,{i}}}$")})).collect();
    let cases = [
        // Alternatives times items.
        (json!({"type": "integer", "anyOf": any}), json!(vec![0; 2_000]), "too much work"),
        // Patterns that take long to compile.
        (json!({"type": "string", "allOf": patterns}), json!(["a", "b"]), "too much work"),
        // Defaults times items.
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "default": "x".repeat(100_000)}}}),
            json!(vec![json!({}); 6_000]),
            "with its defaults is larger than",
        ),
    ];
    for (items, spec, why) in cases {
        let server = server().await;
        let client = admin(&server);
        let definition = with_spec(&json!({"type": "array", "items": items}));
        assert_eq!(post(&client, DEFINITIONS, &definition).await.0, StatusCode::CREATED);
        let (code, answer) = post(&client, GADGETS, &gadget("g", spec)).await;
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(why), "{}", answer["message"]);
    }
}

#[tokio::test]
async fn answers_about_objects_do_not_repeat_the_schema_or_the_object() {
    let server = server().await;
    let client = admin(&server);
    let allowed: Vec<String> = (0..5_000).map(|i| format!("{i:0>100}")).collect();
    let mut definition = with_spec(&json!({"type": "array", "items": {"type": "string", "enum": allowed}}));
    let column = json!({"name": "Spec", "type": "string", "jsonPath": ".spec"});
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["additionalPrinterColumns"] = json!(vec![column.clone(); 65]);
    }
    assert_eq!(post(&client, DEFINITIONS, &definition).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["additionalPrinterColumns"] = json!([column]);
    }
    assert_eq!(post(&client, DEFINITIONS, &definition).await.0, StatusCode::CREATED);
    let (code, answer) = post(&client, GADGETS, &gadget("g", json!(vec!["no"; 100]))).await;
    assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.to_string().len() < 1 << 20, "{} bytes", answer.to_string().len());
    let right = json!(vec![allowed[0].clone(); 100]);
    assert_eq!(post(&client, GADGETS, &gadget("g", right)).await.0, StatusCode::CREATED);
    let request = Request::get(GADGETS)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(kube::client::Body::empty());
    let table = client.send(request.unwrap()).await.unwrap().into_body().collect_bytes().await.unwrap();
    let table: Value = serde_json::from_slice(&table).unwrap();
    assert_eq!(table["rows"][0]["cells"][1].as_str().map(str::len), Some(1024));
}

#[tokio::test]
async fn definitions_that_are_only_tried_take_no_room() {
    let server = server().await;
    let client = admin(&server);
    let tried = format!("{DEFINITIONS}?dryRun=All");
    for i in 0..20 {
        let mut definition = definition();
        definition["metadata"]["name"] = json!(format!("tried{i}.example.com"));
        definition["spec"]["names"] = json!({"plural": format!("tried{i}"), "kind": format!("Tried{i}")});
        assert_eq!(post(&client, &tried, &definition).await.0, StatusCode::CREATED);
    }
    let mut registered = (0..).map_while(custom_collection_at);
    assert!(!registered.any(|resource| resource.plural.starts_with("tried")));
}

#[tokio::test]
async fn a_scale_whose_place_is_a_text_is_an_error() {
    let server = server().await;
    let client = admin(&server);
    let mut wrong = definition();
    for path in [".metadata.generation", ".spec.a[0]"] {
        wrong["spec"]["versions"][0]["subresources"]["scale"]["specReplicasPath"] = json!(path);
        assert_eq!(post(&client, DEFINITIONS, &wrong).await.0, StatusCode::UNPROCESSABLE_ENTITY, "{path}");
    }
    let mut deep = definition();
    for version in deep["spec"]["versions"].as_array_mut().unwrap() {
        version["subresources"]["scale"]["specReplicasPath"] = json!(".spec.free.a.b");
    }
    assert_eq!(post(&client, DEFINITIONS, &deep).await.0, StatusCode::CREATED);
    let spec = json!({"size": 1, "free": {"a": "text"}});
    assert_eq!(post(&client, GADGETS, &gadget("g", spec)).await.0, StatusCode::CREATED);
    let (code, answer) =
        merge(&client, &format!("{GADGETS}/g/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(code, StatusCode::BAD_REQUEST, "{answer}");
}

#[tokio::test]
async fn a_status_of_a_custom_resource_changes_no_labels() {
    let server = server().await;
    let client = admin(&server);
    define(&client).await;
    assert_eq!(post(&client, GADGETS, &gadget("g", json!({"size": 1}))).await.0, StatusCode::CREATED);
    let change =
        json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}, "status": {"phase": "on"}});
    let (code, changed) = merge(&client, &format!("{GADGETS}/g/status"), &change).await;
    assert_eq!((code, &changed["status"]["phase"]), (StatusCode::OK, &json!("on")));
    assert!(
        changed["metadata"]["labels"].is_null() && changed["metadata"]["annotations"].is_null(),
        "{changed}"
    );
}

#[tokio::test]
async fn definitions_of_placement_policies_accepted_gt_and_lt_in_selectors() {
    const TEXT: &str =
        include_str!("../../../../../deploy/kustomize/components/placement-policies/crds.yaml");
    let server = server().await;
    let client = admin(&server);
    for definition in TEXT.split("\n---\n") {
        let name = definition.lines().find_map(|line| line.strip_prefix("  name: ")).unwrap();
        let path = format!("{DEFINITIONS}/{name}?fieldManager=m");
        let (code, applied) =
            send(&client, Method::PATCH, &path, "application/apply-patch+yaml", definition).await;
        assert_eq!(code, StatusCode::CREATED, "{applied}");
    }
    let group = "/apis/scheduling.berth.dev/v1alpha1";
    for (path, field) in [
        ("namespaces/default/placementpolicies", "podSelector"),
        ("clusterplacementpolicies", "podSelector"),
        ("clusterplacementpolicies", "namespaceSelector"),
    ] {
        let policy = |operator: &str| {
            let selector = json!({"matchExpressions": [{"key": "a", "operator": operator, "values": ["1"]}]});
            json!({"apiVersion": "scheduling.berth.dev/v1alpha1", "metadata": {"generateName": "p"}, "kind": match path {
                "clusterplacementpolicies" => "ClusterPlacementPolicy",
                _ => "PlacementPolicy",
            }, "spec": {field: selector, "tolerations": [{"key": "a", "operator": "Exists"}]}})
        };
        for operator in ["Gt", "Lt"] {
            let (code, refused) = post(&client, &format!("{group}/{path}"), &policy(operator)).await;
            assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY, "{path}: {refused}");
            let at = format!("spec.{field}.matchExpressions[0].operator");
            assert_eq!(refused["details"]["causes"][0]["field"], at, "{path}: {refused}");
        }
        let (code, created) = post(&client, &format!("{group}/{path}"), &policy("NotIn")).await;
        assert_eq!(code, StatusCode::CREATED, "{path}: {created}");
    }
}
