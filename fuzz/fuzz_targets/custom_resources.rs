//! The schemas of CustomResourceDefinitions with an object, `SCHEMA \0 OBJECT`: a schema is refused, or the object is refused
//! or stored; what was stored is accepted again without a change.
#![no_main]

mod server;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECTS: &str = "/apis/fuzz.example.com/v1/things";

fn send(method: Method, uri: &str, body: &Value) -> (StatusCode, Value) {
    let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
    server::answer(None, request.body(Full::<Bytes>::from(body.to_string())).expect("a request"))
}

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == 0) else { return };
    let Ok(schema) = serde_json::from_slice::<Value>(&data[..end]) else { return };
    let Ok(mut object) = serde_json::from_slice::<Value>(&data[end + 1..]) else { return };
    let mut definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.fuzz.example.com"},
        "spec": {
            "group": "fuzz.example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    let (status, _) = send(Method::POST, DEFINITIONS, &definition);
    if status == StatusCode::CONFLICT {
        let uri = format!("{DEFINITIONS}/things.fuzz.example.com");
        let (_, live) = send(Method::GET, &uri, &Value::Null);
        definition["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
        if send(Method::PUT, &uri, &definition).0 != StatusCode::OK {
            return;
        }
    } else if status != StatusCode::CREATED {
        return;
    }
    if let Some(fields) = object.as_object_mut() {
        for (field, value) in [
            ("apiVersion", json!("fuzz.example.com/v1")),
            ("kind", json!("Thing")),
            ("metadata", json!({"name": "one"})),
        ] {
            fields.insert(field.to_owned(), value);
        }
    }
    let uri = format!("{OBJECTS}?dryRun=All");
    let (status, mut stored) = send(Method::POST, &uri, &object);
    if status == StatusCode::CREATED {
        stored["metadata"] = json!({"name": "one"});
        let (status, mut again) = send(Method::POST, &uri, &stored);
        again["metadata"] = json!({"name": "one"});
        assert_eq!((status, again), (StatusCode::CREATED, stored));
    }
});
