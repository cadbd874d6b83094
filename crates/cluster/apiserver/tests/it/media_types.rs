//! Answers in YAML and in the protobuf form.

use berth_schema::protobuf;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::support::*;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The code, the media type and the first frame of an answer, or all of it if it ends.
async fn answer(
    client: &Client,
    method: Method,
    path: &str,
    accept: &str,
    body: &Value,
) -> (u16, String, Vec<u8>) {
    let request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
    let request = request.header(header::CONTENT_TYPE, "application/json");
    let response =
        client.send(request.body(Body::from(body.to_string().into_bytes())).unwrap()).await.unwrap();
    let (parts, mut body) = response.into_parts();
    let media_type = parts.headers[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    let bytes = if path.contains("watch=") {
        body.frame().await.unwrap().unwrap().into_data().unwrap()
    } else {
        body.collect().await.unwrap().to_bytes()
    };
    (parts.status.as_u16(), media_type, bytes.to_vec())
}

/// The fields of a message that are messages or texts, with their numbers.
fn fields(mut message: &[u8]) -> Vec<(u8, &[u8])> {
    let mut fields = Vec::new();
    while let [tag, rest @ ..] = message {
        assert_eq!(tag & 7, 2, "a length follows");
        let n_bytes = rest.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
        let length =
            rest[..n_bytes].iter().rev().fold(0, |length, byte| length << 7 | usize::from(byte & 0x7f));
        let (field, after) = rest[n_bytes..].split_at(length);
        fields.push((tag >> 3, field));
        message = after;
    }
    fields
}

/// The items of a list, each as an object of its own.
fn items(list: &[u8], kind: &str) -> Vec<Value> {
    let envelope = fields(list.strip_prefix(b"k8s\0").unwrap());
    let [(1, type_meta), (2, list)] = envelope[..] else { panic!("{envelope:?}") };
    assert_eq!(fields(type_meta), [(1, &b"v1"[..]), (2, format!("{kind}List").as_bytes())]);
    let list = fields(list);
    assert_eq!(list[0].0, 1, "the metadata");
    let item = |(number, item): &(u8, &[u8])| {
        assert_eq!(*number, 2);
        let object = json!({"apiVersion": "v1", "kind": kind}).to_string();
        let mut whole = protobuf::encode(object.as_bytes()).unwrap();
        // The message comes last, and is empty.
        assert_eq!(whole.pop(), Some(0));
        let mut length = item.len();
        while length > 0x7f {
            whole.push(length as u8 | 0x80);
            length >>= 7;
        }
        whole.push(length as u8);
        whole.extend_from_slice(item);
        protobuf::decode(&whole).unwrap()
    };
    list[1..].iter().map(item).collect()
}

#[tokio::test]
async fn objects_lists_watches_and_errors_are_answered_in_protobuf() {
    let server = server().await;
    let client = admin(&server);
    for name in ["a", "b"] {
        post(&client, PODS, &pod(name)).await;
    }
    let ask = |method, path: String, body: Value| {
        let client = client.clone();
        async move { answer(&client, method, &path, &format!("{PROTOBUF},application/json"), &body).await }
    };
    let (_, object) = get(&client, &format!("{PODS}/a")).await;
    let (code, media_type, bytes) = ask(Method::GET, format!("{PODS}/a"), json!(null)).await;
    assert_eq!((code, media_type.as_str()), (200, PROTOBUF));
    assert_eq!(protobuf::decode(&bytes), Ok(object.clone()));

    let (_, media_type, bytes) = ask(Method::GET, PODS.to_owned(), json!(null)).await;
    assert_eq!(media_type, PROTOBUF);
    let found = items(&bytes, "Pod");
    assert_eq!((found.len(), &found[0]), (2, &object));

    let (_, media_type, bytes) = ask(Method::GET, format!("{PODS}?watch=1"), json!(null)).await;
    assert_eq!(media_type, format!("{PROTOBUF};stream=watch"));
    let (length, frame) = bytes.split_first_chunk::<4>().unwrap();
    let event = &frame[..u32::from_be_bytes(*length) as usize];
    let [(1, event_type), (2, raw)] = fields(event)[..] else { panic!("{event:?}") };
    assert_eq!((event_type, protobuf::decode(fields(raw)[0].1)), (&b"ADDED"[..], Ok(object)));

    let (code, _, bytes) = ask(Method::POST, PODS.to_owned(), pod("c")).await;
    let created = protobuf::decode(&bytes).unwrap();
    assert_eq!((code, &created["metadata"]["name"]), (201, &json!("c")));

    let (code, media_type, bytes) = ask(Method::GET, format!("{PODS}/none"), json!(null)).await;
    assert_eq!((code, media_type.as_str()), (404, PROTOBUF));
    let status = protobuf::decode(&bytes).unwrap();
    assert_eq!(
        (&status["kind"], &status["reason"], &status["code"]),
        (&json!("Status"), &json!("NotFound"), &json!(404))
    );
    server.shutdown().await;
}

#[tokio::test]
async fn a_list_that_is_sent_in_pieces_has_the_length_that_it_says() {
    let server = server().await;
    let client = admin(&server);
    let path = "/api/v1/namespaces/default/configmaps";
    for i in 0..40 {
        let map = json!({"metadata": {"name": format!("c{i:02}")}, "data": {"k": "x".repeat(5000)}});
        post(&client, path, &map).await;
    }
    let (_, _, bytes) = answer(&client, Method::GET, path, PROTOBUF, &json!(null)).await;
    assert_eq!(items(&bytes, "ConfigMap").len(), 40);
    server.shutdown().await;
}

#[tokio::test]
async fn objects_and_lists_are_answered_in_yaml() {
    let server = server().await;
    let client = admin(&server);
    let path = "/api/v1/namespaces/default/configmaps";
    let ask = |path: String| {
        let client = client.clone();
        async move {
            let (code, media_type, bytes) =
                answer(&client, Method::GET, &path, "application/yaml", &json!(null)).await;
            assert_eq!(media_type, "application/yaml");
            (code, serde_saphyr::from_slice::<Value>(&bytes).unwrap())
        }
    };
    let empty = ask(path.to_owned()).await.1;
    assert_eq!((&empty["kind"], &empty["items"]), (&json!("ConfigMapList"), &json!([])));
    for (name, text) in [("a", "one\n\n  two\n"), ("b", "yes")] {
        post(&client, path, &json!({"metadata": {"name": name}, "data": {"text": text}})).await;
    }
    assert_eq!(ask(path.to_owned()).await.1, get(&client, path).await.1);
    assert_eq!(ask(format!("{path}/a")).await.1, get(&client, &format!("{path}/a")).await.1);
    assert_eq!(ask(format!("{path}/none")).await.0, 404);
    assert_eq!(ask(format!("{path}?watch=1")).await.0, 406);
    server.shutdown().await;
}
