//! Pages, the token, and pages that follow the state.

use berth_console::State;

use crate::client::{Served, read_until, serve, state};

const NODE: &str =
    "{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 2, pods: 10}}}";

/// The cluster has a pod `web` without a node now.
async fn add_pending_pod(served: &Served) {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}";
    let changed = state(&format!("{NODE}\n---\n{pod}"));
    let replace = |state: &mut State| {
        *state = changed;
        true
    };
    served.console.update(replace).await;
}

#[tokio::test]
async fn the_token_of_the_url_becomes_a_cookie() {
    let served = serve(NODE, false).await;
    let secret = served.token.secret();
    let first = served.send(&format!("GET /pending?token={secret}&q=a%26b"), &[served.host()], b"").await;
    assert_eq!((first.status, first.header("location")), (303, Some("/pending?q=a%26b")));
    let cookie = first.header("set-cookie").unwrap();
    let expected =
        format!("berth-console-{}={secret}; Path=/; HttpOnly; SameSite=Strict", served.address.port());
    assert_eq!(cookie, expected);

    let cookie = format!("Cookie: other=1; berth-console-{}={secret}", served.address.port());
    let page = served.send("GET /pending", &[served.host(), cookie], b"").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("All pods have a node"), "{}", page.body);
    assert!(!page.body.contains(secret) && !page.head.contains(secret));
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("x-frame-options", "DENY"),
    ] {
        assert_eq!(page.header(name), Some(value));
    }
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    assert!(!policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[tokio::test]
async fn open_pages_are_told_about_changes_and_show_them() {
    let served = serve(NODE, true).await;
    assert!(served.get("/pending").await.body.contains("All pods have a node"));
    let (mut stream, mut text) = served.follow().await;
    assert!(text.to_ascii_lowercase().contains("content-type: text/event-stream"), "{text}");
    if !text.contains("data: 1") {
        text += &read_until(&mut stream, "data: 1").await;
    }
    add_pending_pod(&served).await;
    read_until(&mut stream, "data: 2").await;
    assert!(served.get("/pending").await.body.contains("web"));
}

#[tokio::test]
async fn a_change_that_shows_nowhere_renders_no_page_again() {
    let served = serve(NODE, true).await;
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: i}]}}";
    let changed = state(&format!("{NODE}\n---\n{pod}"));
    let before = served.get("/pending").await.body;
    // A page is rendered once for each version.
    served
        .console
        .update(|state| {
            *state = changed;
            false
        })
        .await;
    assert_eq!(served.get("/pending").await.body, before);
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let served = serve(NODE, true).await;
    let tag = served.get("/pending").await.header("etag").unwrap().to_owned();
    let again = async || {
        let headers = [served.host(), served.bearer(), format!("If-None-Match: {tag}")];
        served.send("GET /pending", &headers, b"").await
    };
    served.console.update(|_| true).await;
    let same = again().await;
    assert_eq!((same.status, same.body.as_str()), (304, ""));
    // Only viewers learn even that.
    let headers = [served.host(), format!("If-None-Match: {tag}")];
    assert_eq!(served.send("GET /pending", &headers, b"").await.status, 401);
    add_pending_pod(&served).await;
    let other = again().await;
    assert!(other.status == 200 && other.body.contains("web"), "{}", other.body);
}

#[tokio::test]
async fn a_state_that_does_not_change_has_no_events() {
    let served = serve(NODE, false).await;
    let headers = [served.host(), served.bearer(), "Accept: text/event-stream".to_owned()];
    assert_eq!(served.send("GET /events", &headers, b"").await.status, 204);
}

#[tokio::test]
async fn a_panic_harms_no_other_page() {
    let served = serve(NODE, true).await;
    served.console.update(|_| panic!("a bug")).await;
    let page = served.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("Overview"), "{}", page.body);
}
