//! Watches: resuming, selectors, bookmarks, streamed lists, versions that are too old.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as WebSocketError, Message};

use crate::bad_input::{connect, token};
use crate::support::*;

#[tokio::test]
async fn a_watch_resumes_at_its_last_version() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    let (_, list) = get(&client, PODS).await;
    post(&client, PODS, &pod("b")).await;
    merge(&client, &format!("{PODS}/a"), &json!({"metadata": {"labels": {"x": "y"}}})).await;
    delete(&client, &format!("{PODS}/b"), &Value::Null).await;
    let mut lines =
        watch(&client, &format!("{PODS}?watch=true&resourceVersion={}", version(&list))).await.ok().unwrap();
    for (wanted, name) in [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")] {
        assert_eq!(lines.told().await, (wanted.to_owned(), name.to_owned()));
    }
    post(&client, PODS, &pod("c")).await;
    let event = lines.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("Pod")));
    let (_, stored) = get(&client, &format!("{PODS}/c")).await;
    assert_eq!(event["object"], stored);
    server.shutdown().await;
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn an_object_that_leaves_the_selection_is_deleted_for_the_watcher() {
    let server = server().await;
    let client = admin(&server);
    let mut all = watch(&client, "/api/v1/pods?watch=1").await.ok().unwrap();
    let mut waiting =
        watch(&client, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D").await.ok().unwrap();
    let mut bound =
        watch(&client, "/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3Dn1").await.ok().unwrap();
    post(&client, PODS, &pod("a")).await;
    bind(&client, "a", "n1").await;
    assert_eq!(all.told().await.0, "ADDED");
    assert_eq!(all.told().await.0, "MODIFIED");
    assert_eq!(waiting.told().await.0, "ADDED");
    let left = waiting.next().await.unwrap();
    assert_eq!((&left["type"], &left["object"]["spec"]["nodeName"]), (&json!("DELETED"), &Value::Null));
    let entered = bound.next().await.unwrap();
    assert_eq!((&entered["type"], &entered["object"]["spec"]["nodeName"]), (&json!("ADDED"), &json!("n1")));
    assert_eq!(version(&left["object"]), version(&entered["object"]));
}

#[tokio::test]
async fn lists_are_streamed_and_their_end_is_marked() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    post(&client, PODS, &pod("b")).await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut lines = watch(&client, &format!("{PODS}?{query}")).await.ok().unwrap();
    assert_eq!(lines.told().await, ("ADDED".into(), "a".into()));
    assert_eq!(lines.told().await, ("ADDED".into(), "b".into()));
    let end = lines.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    post(&client, PODS, &pod("c")).await;
    assert_eq!(lines.told().await, ("ADDED".into(), "c".into()));

    let refused = watch(&client, &format!("{PODS}?watch=1&sendInitialEvents=true")).await.err().unwrap();
    assert_eq!((&refused["code"], &refused["reason"]), (&json!(422), &json!("Invalid")));
}

#[tokio::test]
async fn a_watch_ends_with_a_bookmark() {
    let server = server().await;
    let client = admin(&server);
    let (_, list) = get(&client, "/api/v1/nodes").await;
    post(&client, PODS, &pod("a")).await;
    let path = format!(
        "/api/v1/nodes?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion={}",
        version(&list)
    );
    let mut lines = watch(&client, &path).await.ok().unwrap();
    let bookmark = lines.next().await.unwrap();
    assert_eq!((&bookmark["type"], &bookmark["object"]["kind"]), (&json!("BOOKMARK"), &json!("Node")));
    // No node changed, but the bookmark advances the watcher's version.
    let number = |value: &Value| version(value).parse::<u64>().unwrap();
    assert!(number(&bookmark["object"]) > number(&list));
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn watches_from_old_versions_were_refused_instead_of_ending_with_an_error() {
    let server = server().await;
    let client = admin(&server);
    let mut lines = watch(&client, "/api/v1/pods?watch=1&resourceVersion=1").await.ok().unwrap();
    let error = lines.next().await.unwrap();
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(410)));
    assert_eq!((&error["object"]["reason"], lines.next().await), (&json!("Expired"), None));
    let later = "/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=99999999999999";
    let mut lines = watch(&client, later).await.ok().unwrap();
    post(&client, PODS, &pod("a")).await;
    assert_eq!(lines.next().await, None);
    let (code, status) = get(&client, "/api/v1/pods?resourceVersion=99999999999999").await;
    assert_eq!((code.as_u16(), &status["reason"]), (504, &json!("Timeout")));
    assert_eq!(get(&client, "/api/v1/pods?resourceVersion=x").await.0.as_u16(), 400);
}

#[tokio::test]
async fn both_event_apis_serve_the_same_events() {
    let server = server().await;
    let client = admin(&server);
    let mut old = watch(&client, "/api/v1/events?watch=1").await.ok().unwrap();
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "hello", "reason": "Because", "type": "Normal", "action": "Act", "reportingController": "me",
        "reportingInstance": "me-1", "eventTime": "2026-01-01T00:00:00.000000Z"});
    let (code, created) = post(&client, path, &event).await;
    assert_eq!((code.as_u16(), &created["note"]), (201, &json!("hello")), "{created}");
    let seen = old.next().await.unwrap();
    let object = &seen["object"];
    assert_eq!((&object["message"], &object["involvedObject"]["name"]), (&json!("hello"), &json!("p")));
    assert_eq!(object["apiVersion"], "v1");
    // `kubectl get events --sort-by=.lastTimestamp` needs the fields, also if they are not set.
    for time in ["firstTimestamp", "lastTimestamp"] {
        assert_eq!(object.get(time), Some(&Value::Null), "{time}");
    }
    let (_, list) = get(&client, &format!("{path}?fieldSelector=regarding.name%3Dp,reason%3DBecause")).await;
    assert_eq!((names(&list), &list["items"][0]["regarding"]["name"]), (vec!["e"], &json!("p")));
    assert!(list["items"][0].get("kind").is_none(), "the list says the kind of its items");
    let (_, list) = get(&client, "/api/v1/events?fieldSelector=involvedObject.name%3Dother").await;
    assert!(names(&list).is_empty());
}

#[tokio::test]
async fn a_watch_of_one_node_survives_changes_of_others() {
    let server = server().await;
    let client = admin(&server);
    for name in ["mine", "other"] {
        post(&client, PODS, &pod(name)).await;
    }
    let mut own = watch(&client, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3Dn1").await.unwrap();
    let mut unassigned =
        watch(&client, "/api/v1/pods?watch=true&fieldSelector=spec.nodeName%3D").await.unwrap();
    bind(&client, "other", "n2").await;
    merge(&client, &format!("{PODS}/other"), &json!({"metadata": {"labels": {"a": "b"}}})).await;
    let (_, bound) = {
        bind(&client, "mine", "n1").await;
        get(&client, &format!("{PODS}/mine")).await
    };
    let event = own.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("mine")));
    assert_eq!(version(&event["object"]), version(&bound));
    delete(&client, &format!("{PODS}/mine"), &json!({"gracePeriodSeconds": 0})).await;
    assert_eq!(own.told().await, ("DELETED".to_owned(), "mine".to_owned()));
    for wanted in [("ADDED", "mine"), ("ADDED", "other"), ("DELETED", "other"), ("DELETED", "mine")] {
        assert_eq!(unassigned.told().await, (wanted.0.to_owned(), wanted.1.to_owned()));
    }
}

#[tokio::test]
async fn a_watch_over_websocket_sends_each_event_as_a_message() {
    let server = server().await;
    let client = admin(&server);
    post(&client, PODS, &pod("a")).await;
    for (accept, is_protobuf) in [("application/json", false), ("application/vnd.kubernetes.protobuf", true)]
    {
        let mut request = format!("wss://127.0.0.1{PODS}?watch=true").into_client_request().unwrap();
        let headers = request.headers_mut();
        headers.insert("authorization", format!("Bearer {}", token(&server)).parse().unwrap());
        headers.insert("accept", accept.parse().unwrap());
        let (mut socket, answer) =
            tokio_tungstenite::client_async(request, connect(&server).await).await.unwrap();
        assert_eq!(answer.status(), 101);
        let event = socket.next().await.unwrap().unwrap();
        assert_eq!(event.is_binary(), is_protobuf);
        if !is_protobuf {
            let event: Value = serde_json::from_slice(&event.into_data()).unwrap();
            assert_eq!(
                (&event["type"], &event["object"]["metadata"]["name"]),
                (&json!("ADDED"), &json!("a"))
            );
        }
        socket.send(Message::Ping("p".into())).await.unwrap();
        assert!(matches!(socket.next().await, Some(Ok(Message::Pong(_)))));
        for label in ["x", "y"] {
            merge(&client, &format!("{PODS}/a"), &json!({"metadata": {"labels": {"x": label}}})).await;
            assert_eq!(socket.next().await.unwrap().unwrap().is_binary(), is_protobuf);
        }
        socket.close(None).await.unwrap();
        while socket.next().await.is_some() {}
    }
    // A request that is refused is answered as any other.
    let request = "wss://127.0.0.1/api/v1/pods?watch=true".into_client_request().unwrap();
    let refused = tokio_tungstenite::client_async(request, connect(&server).await).await;
    assert!(matches!(refused, Err(WebSocketError::Http(answer)) if answer.status() == 403));
    server.shutdown().await;
}
