//! No request costs more than linear work in its size: every list and map of every kind is filled, with equal and with
//! different elements, and the processor time of this thread is compared between two sizes.
//!
//! Four times the elements take four times as long where the work is linear, and sixteen times where it is quadratic. Only
//! requests that take long at all are compared, so that noise does not matter.

use std::collections::HashSet;
use std::time::Duration;

use berth_api::feature_gates::FeatureGates;
use berth_apiserver::{InProcessServer, ServerOptions};
use berth_schema::resource::{RESOURCES, Resource};
use berth_schema::{Scalar, Type, type_of};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Map, Value, json};

/// A large size has this many times the elements of a small one.
const GROWTH: usize = 4;
/// Fewer than this for the large size are not compared.
const NOTICEABLE: Duration = Duration::from_millis(150);
/// More than this for the large size, as a multiple of the small one, is not linear.
const TOLERATED: u32 = 9;

struct Server {
    server: InProcessServer,
    token: String,
}

impl Server {
    async fn start() -> Server {
        let feature_gates = FeatureGates { composite_pod_group: true, ..FeatureGates::default() };
        let options = ServerOptions { feature_gates, ..ServerOptions::default() };
        let server = InProcessServer::start(&options, &[7; 32], 1, None).await.unwrap();
        let token = server.admin_token().to_owned();
        Server { server, token }
    }

    /// Sends a request; the status, the answer and the processor time.
    async fn send(
        &self,
        method: &Method,
        path: &str,
        media_type: &str,
        body: &str,
    ) -> (u16, Value, Duration) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", media_type)
            .body(Full::new(Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        let before = processor_time();
        let response = self.server.respond(request).await;
        let (code, bytes) =
            (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes());
        (code, serde_json::from_slice(&bytes).unwrap_or_default(), processor_time() - before)
    }
}

/// The processor time of this thread, in which the server in process does all its work.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// A field with many elements: its path, and how an element is made.
struct Place {
    path: Vec<String>,
    ty: &'static Type,
}

/// The lists and maps below a type. Deeper structs are visited once among all kinds: their code is the same.
fn places(
    ty: &'static Type,
    path: &mut Vec<String>,
    inside: &mut Vec<*const Type>,
    seen: &mut HashSet<(String, String)>,
    found: &mut Vec<Place>,
) {
    if inside.contains(&std::ptr::from_ref(ty)) {
        return;
    }
    inside.push(ty);
    match ty {
        Type::Struct(of) => {
            let mut fields: Vec<_> = of.fields().collect();
            fields.sort_by_key(|(name, _)| *name);
            for (name, field) in fields {
                let is_shallow = path.len() < 2 && path.first().is_none_or(|first| first != "metadata");
                if !seen.insert((of.name.clone(), name.to_owned())) && !is_shallow {
                    continue;
                }
                path.push(name.to_owned());
                places(field.ty(), path, inside, seen, found);
                path.pop();
            }
        }
        Type::List { items, .. } => {
            found.push(Place { path: path.clone(), ty });
            path.push("0".to_owned());
            places(items.get(), path, inside, seen, found);
            path.pop();
        }
        Type::Map { values, .. } => {
            found.push(Place { path: path.clone(), ty });
            path.push("k".to_owned());
            places(values.get(), path, inside, seen, found);
            path.pop();
        }
        Type::Scalar(_) | Type::Any => {}
    }
    inside.pop();
}

/// A value of a type; different numbers make different values. `field` chooses among the values that an enumeration has.
fn sample(ty: &'static Type, field: &str, number: usize, depth: usize) -> Value {
    match ty {
        Type::Scalar(scalar) => match scalar {
            Scalar::String => match field {
                "effect" => "NoSchedule".into(),
                "operator" => "Exists".into(),
                "protocol" => "TCP".into(),
                "image" => "i".into(),
                "apiVersion" => "v1".into(),
                "ip" | "hostIP" | "podIP" => format!("10.{}.{}.1", number / 250, number % 250).into(),
                _ => format!("a{number}").into(),
            },
            Scalar::Bytes => "YQ==".into(),
            Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => {
                (number % 30_000 + 1).into()
            }
            Scalar::Boolean => false.into(),
            Scalar::Quantity => (number + 1).to_string().into(),
            Scalar::Time => "2024-01-01T00:00:00Z".into(),
            Scalar::MicroTime => "2024-01-01T00:00:00.000000Z".into(),
        },
        Type::Any => Value::from(number),
        Type::Struct(of) => {
            let mut fields: Vec<_> = of.fields().filter(|_| depth < 2).collect();
            fields.sort_by_key(|(name, _)| *name);
            let scalars = fields.into_iter().filter(|(name, field)| {
                matches!(field.ty(), Type::Scalar(Scalar::String | Scalar::Int32))
                    && !matches!(*name, "value" | "values" | "generateName" | "policy" | "action")
            });
            let fields = scalars
                .take(6)
                .map(|(name, field)| (name.to_owned(), sample(field.ty(), name, number, depth + 1)));
            Value::Object(fields.collect())
        }
        Type::List { items, .. } => json!([sample(items.get(), field, number, depth + 1)]),
        Type::Map { values, .. } => json!({"k": sample(values.get(), field, number, depth + 1)}),
    }
}

/// A field with `n` elements.
fn filled(ty: &'static Type, field: &str, n: usize, equal: bool) -> Value {
    let number = |i| if equal { 1 } else { i };
    match ty {
        Type::List { items, .. } => (0..n).map(|i| sample(items.get(), field, number(i), 0)).collect(),
        Type::Map { values, .. } => {
            let entries = (0..n).map(|i| (format!("k{i}"), sample(values.get(), field, number(i), 0)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        _ => Value::Null,
    }
}

/// Sets a field, and creates the objects and lists on the way to it.
fn put(object: &mut Value, path: &[String], value: Value) {
    let Some((name, rest)) = path.split_first() else {
        *object = value;
        return;
    };
    let next = if name == "0" && (object.is_null() || object.is_array()) {
        if !object.is_array() {
            *object = json!([null]);
        }
        &mut object[0]
    } else {
        &mut object[name.as_str()]
    };
    put(next, rest, value);
}

/// A small object of a kind, valid if possible.
fn small(resource: &Resource, name: &str) -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}});
    let mut object =
        json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": name}});
    match resource.kind {
        "Pod" => object["spec"] = json!({"containers": containers}),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            object["spec"] = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
        }
        "ReplicationController" => object["spec"] = json!({"selector": {"a": "b"}, "template": template}),
        "Job" => {
            object["spec"] = json!({"template": template});
            object["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
        }
        "Service" => object["spec"] = json!({"ports": [{"port": 80}]}),
        "ClusterRoleBinding" | "RoleBinding" => {
            object["roleRef"] = json!({"kind": "ClusterRole", "name": "cluster-admin"});
        }
        _ => {}
    }
    object
}

fn path_of(resource: &Resource, name: &str) -> String {
    let root =
        if resource.group.is_empty() { "/api/".to_owned() } else { format!("/apis/{}/", resource.group) };
    let namespace = if resource.namespaced { "/namespaces/default" } else { "" };
    let name = if name.is_empty() { String::new() } else { format!("/{name}") };
    format!("{root}{}{namespace}/{}{name}", resource.version, resource.plural)
}

/// How many elements fill the larger request: small elements are more.
fn n_elements(ty: &'static Type) -> usize {
    match ty {
        Type::List { items, .. } if matches!(items.get(), Type::Struct(_)) => 1500,
        _ => 4000,
    }
}

/// Creates the object, and if it is accepted, changes it in every way; the processor time of each request.
async fn requests(
    server: &Server,
    resource: &Resource,
    place: &Place,
    n: usize,
    equal: bool,
) -> Vec<(&'static str, Duration)> {
    let field = place.path.iter().rev().find(|name| *name != "0").map_or("", String::as_str);
    let many = filled(place.ty, field, n, equal);
    let mut object = small(resource, "full");
    put(&mut object, &place.path, many.clone());
    let (code, answer, time) =
        server.send(&Method::POST, &path_of(resource, ""), "application/json", &object.to_string()).await;
    assert!(code < 500, "{} {}: {answer}", resource.kind, place.path.join("."));
    let mut times = vec![("POST", time)];
    if code != 201 {
        return times;
    }
    let path = path_of(resource, "full");
    let mut reversed = many;
    match &mut reversed {
        Value::Array(items) => items.reverse(),
        Value::Object(entries) => *entries = std::mem::take(entries).into_iter().rev().collect(),
        _ => {}
    }
    put(&mut object, &place.path, reversed);
    object["metadata"]["labels"]["changed"] = "x".into();
    let full = object.to_string();
    let mut without = json!({});
    let nulls = match place.ty {
        Type::Map { .. } => (0..n).map(|i| (format!("k{i}"), Value::Null)).collect::<Map<_, _>>().into(),
        _ => Value::Null,
    };
    put(&mut without, &place.path, nulls);
    let removed = if place.path.contains(&"0".to_owned()) { json!({}) } else { without };
    for (what, method, media_type, query, body) in [
        ("PUT", Method::PUT, "application/json", "", &full),
        ("strategic merge patch", Method::PATCH, "application/strategic-merge-patch+json", "", &full),
        ("apply", Method::PATCH, "application/apply-patch+yaml", "?fieldManager=m&force=true", &full),
        ("apply again", Method::PATCH, "application/apply-patch+yaml", "?fieldManager=o", &full),
        ("removal", Method::PATCH, "application/strategic-merge-patch+json", "", &removed.to_string()),
        (
            "apply of less",
            Method::PATCH,
            "application/apply-patch+yaml",
            "?fieldManager=m&force=true",
            &small(resource, "full").to_string(),
        ),
    ] {
        let (code, answer, time) = server.send(&method, &format!("{path}{query}"), media_type, body).await;
        // As kube-apiserver answers items that nothing tells apart.
        let text = answer.to_string();
        let is_untyped =
            ["create typed patch object", "declared merge key"].iter().any(|why| text.contains(why));
        assert!(code < 500 || is_untyped, "{what} {} {}: {answer}", resource.kind, place.path.join("."));
        times.push((what, time));
    }
    // Twice: finalizers and grace periods.
    server
        .send(&Method::PATCH, &path, "application/merge-patch+json", r#"{"metadata":{"finalizers":null}}"#)
        .await;
    server.send(&Method::DELETE, &format!("{path}?gracePeriodSeconds=0"), "application/json", "").await;
    times
}

#[tokio::test]
async fn work_is_linear_in_every_list_and_map_of_every_kind() {
    let server = Server::start().await;
    let mut seen = HashSet::new();
    let (mut n_requests, mut slow) = (0, Vec::new());
    // Pods first: most types are below theirs.
    let mut resources: Vec<&Resource> =
        RESOURCES.iter().copied().filter(|r| r.verbs.contains(&"create")).collect();
    resources.sort_by_key(|resource| resource.kind != "Pod");
    for resource in resources {
        let Some(ty) = type_of(resource.group, resource.version, resource.kind) else { continue };
        let mut found = Vec::new();
        places(ty, &mut Vec::new(), &mut Vec::new(), &mut seen, &mut found);
        for place in found {
            for equal in [true, false] {
                let n = n_elements(place.ty);
                let large = requests(&server, resource, &place, n, equal).await;
                n_requests += large.len();
                if large.iter().all(|(_, time)| *time < NOTICEABLE) {
                    continue;
                }
                let small = requests(&server, resource, &place, n / GROWTH, equal).await;
                // What the server does at intervals may have fallen into a request, not twice.
                let again = requests(&server, resource, &place, n, equal).await;
                let large = large.into_iter().zip(again).map(|((what, a), (_, b))| (what, a.min(b)));
                for ((what, large), (_, small)) in large.zip(small) {
                    if large >= NOTICEABLE && large > small * TOLERATED {
                        let place = place.path.join(".");
                        slow.push(format!(
                            "{what} {} {place} equal={equal}: {small:?}, {large:?}",
                            resource.kind
                        ));
                    }
                }
            }
        }
    }
    assert!(n_requests > 1000, "{n_requests}");
    assert!(slow.is_empty(), "not linear:\n{}", slow.join("\n"));
}
