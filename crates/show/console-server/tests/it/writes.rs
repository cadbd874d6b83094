//! Writes to the cluster: only of a list that a viewer has confirmed, and never on behalf of another site.

use std::sync::{Arc, Mutex};

use berth_console::Update;
use berth_console_server::{AccessToken, Authenticator, Console, WriteError, WriteFn};
use berth_input::inventory::Inventory;

use crate::client::{Served, serve, serve_with, state};

/// What was written, with the token of the viewer.
pub type Written = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// A writer that only notes what it is given, and fails for texts with `failing`.
pub fn writer(failing: &'static str) -> (WriteFn, Written) {
    let written = Written::default();
    let writes = written.clone();
    let write: WriteFn = Arc::new(move |write, token| {
        let (text, writes) = (write.to_string(), writes.clone());
        Box::pin(async move {
            if !failing.is_empty() && text.contains(failing) {
                return Err(WriteError::Failed("budget <web>".to_owned()));
            }
            writes.lock().unwrap().push((text, token));
            Ok(())
        })
    });
    (write, written)
}

fn node(label: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: a, labels: {{x: {label}}}}}, status: {{allocatable: {{cpu: 2, pods: 10}}}}}}"
    )
}

async fn served(failing: &'static str) -> (Served, Written) {
    let (write, written) = writer(failing);
    let token = Authenticator::Token(AccessToken::random().unwrap());
    (serve_with(Console::new(state(&node("old"))), true, token, Some(write)).await, written)
}

fn texts(written: &Written) -> Vec<String> {
    written.lock().unwrap().iter().map(|(text, _)| text.clone()).collect()
}

const QUERY: &str = "set-label=a+x%3D1&set-label=a+y%3D2&set-label=a+z%3D3";

/// The digest of a page that asks for confirmation.
pub fn digest(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"digest\" value=\"").unwrap_or_else(|| panic!("{page}"));
    rest.split_once('"').unwrap().0.to_owned()
}

async fn confirmed(served: &Served, query: &str) -> String {
    let path = format!("/what-if/confirm?{query}");
    let page = served.post(&path, &[served.bearer(), served.origin()], "").await;
    assert_eq!(page.status, 200, "{}", page.body);
    digest(&page.body)
}

/// The status of the answer and its page; that of the list, if something is written.
async fn apply(served: &Served, query: &str, digest: &str) -> (u16, String) {
    let headers = [served.bearer(), served.origin()];
    let answer = served.post(&format!("/what-if/apply?{query}"), &headers, &format!("digest={digest}")).await;
    match answer.status {
        303 => {
            let page = served.get(answer.header("location").unwrap()).await;
            (page.status, page.body)
        }
        status => (status, answer.body),
    }
}

#[tokio::test]
async fn what_a_viewer_confirms_is_written_in_order() {
    let (served, written) = served("").await;
    let page = served.get(&format!("/what-if?{QUERY}")).await.body;
    assert!(page.contains("action=\"/what-if/confirm?set-label=a+x%3D1&amp;"), "{page}");
    let digest = confirmed(&served, QUERY).await;
    assert!(texts(&written).is_empty());
    let (status, page) = apply(&served, QUERY, &digest).await;
    assert!(status == 200 && page.contains("3 of 3 changes written"), "{page}");
    let labels = ["x=1 of node a (now x=old)", "y=2 of node a (now not set)", "z=3 of node a (now not set)"];
    assert_eq!(texts(&written), labels.map(|label| format!("Set the label {label}")));
}

#[tokio::test]
async fn the_first_failure_ends_the_writes() {
    let (served, written) = served("y=2").await;
    let digest = confirmed(&served, QUERY).await;
    let (_, page) = apply(&served, QUERY, &digest).await;
    for text in ["1 of 3 changes written", "Failed: budget &lt;web&gt;", "Not tried"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(texts(&written), ["Set the label x=1 of node a (now x=old)"]);
}

#[tokio::test]
async fn a_list_that_waits_for_a_budget_is_shown_until_it_is_stopped() {
    let refuse: WriteFn = Arc::new(|_, _| {
        let reason = "blocked by PodDisruptionBudget pg: 0 disruptions allowed".to_owned();
        Box::pin(async { Err(WriteError::Refused(reason)) })
    });
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: shop}, spec: {nodeName: a, containers: [{name: c, image: i}]}}";
    let token = Authenticator::Token(AccessToken::random().unwrap());
    let console = Console::new(state(&format!("{}\n---\n{pod}", node("old"))));
    let served = serve_with(console, true, token, Some(refuse)).await;
    let query = "evict=shop/web-0";
    let form = format!("digest={}", confirmed(&served, query).await);
    let headers = [served.bearer(), served.origin()];
    let answer = served.post(&format!("/what-if/apply?{query}"), &headers, &form).await;
    let location = answer.header("location").unwrap().to_owned();
    let (_, list) = location.split_once('?').unwrap();
    let (mut events, _) = served.follow().await;
    loop {
        let page = served.get(&location).await;
        assert_eq!(page.status, 200, "{}", page.body);
        let waits = "Waiting: blocked by PodDisruptionBudget pg: 0 disruptions allowed, tried again";
        assert!(page.body.contains(waits) && !page.body.contains("data-still"), "{}", page.body);
        let n_tried =
            page.body.split_once("(tried ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
        if n_tried.is_some_and(|n: u32| n >= 3) {
            break;
        }
        assert!(
            !crate::client::read_until(&mut events, "data:").await.is_empty(),
            "the page follows the list"
        );
    }
    // Others cannot stop it, and an address of no list says so.
    let stop = format!("/what-if/stop?{list}");
    assert_eq!(served.post(&stop, &[served.bearer()], "").await.status, 403);
    assert_eq!(served.post(&stop, &[served.origin()], "").await.status, 401);
    assert_eq!(served.post("/what-if/stop?list=x", &headers, "").await.status, 404);
    assert_eq!(served.get("/what-if/applied?list=x").await.status, 404);
    let answer = served.post(&stop, &headers, "").await;
    assert_eq!((answer.status, answer.header("location")), (303, Some(location.as_str())));
    let page = served.get(&location).await.body;
    for text in
        ["0 of 1 change written", "Failed: blocked by PodDisruptionBudget pg", "Write the rest: 1 change"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[tokio::test]
async fn a_forged_or_outdated_digest_writes_nothing_and_shows_the_list_again() {
    let (served, written) = served("").await;
    let digest_of_all = confirmed(&served, QUERY).await;
    let others = [
        String::new(),
        "x".to_owned(),
        "A".repeat(43),
        confirmed(&served, "set-label=a+x%3D1").await,
        digest_of_all.to_lowercase(),
    ];
    for other in &others {
        let (status, page) = apply(&served, QUERY, other).await;
        assert!(status == 409 && page.contains("Nothing was written"), "{other}: {status} {page}");
        assert_eq!(digest(&page), digest_of_all, "it can be confirmed again");
    }
    // The list of another console, and changes of the request after the confirmation.
    let (other, _) = self::served("").await;
    assert_eq!(apply(&other, QUERY, &digest_of_all).await.0, 409);
    let more = format!("{QUERY}&taint=a+k:NoExecute");
    assert_eq!(apply(&served, &more, &digest_of_all).await.0, 409);
    // The cluster has changed since: the viewer has not seen what would be overwritten.
    let changed = Inventory::from_text(&node("new")).unwrap().nodes.remove(0).object;
    served.console.update(|state| state.apply([Update::node(changed)], |error| panic!("{error}"))).await;
    let (status, page) = apply(&served, QUERY, &digest_of_all).await;
    assert!(status == 409 && page.contains("(now x=new)"), "{page}");
    assert!(texts(&written).is_empty());
}

#[tokio::test]
async fn other_sites_and_requests_without_origin_token_or_post_write_nothing() {
    let (served, written) = served("").await;
    let digest = confirmed(&served, QUERY).await;
    let (path, form) = (format!("/what-if/apply?{QUERY}"), format!("digest={digest}"));
    let (bearer, origin, port) = (served.bearer(), served.origin(), served.address.port());
    let foreign = |header: &str| [bearer.clone(), header.to_owned()];
    for (headers, status) in [
        (&foreign("Origin: http://attacker.example")[..], 403),
        (&foreign("Origin: null"), 403),
        (&foreign(&format!("Origin: http://localhost:{port}")), 403),
        (&foreign(&format!("Origin: https://{}", served.address)), 403),
        (&foreign("Sec-Fetch-Site: same-site"), 403),
        (&[bearer.clone(), origin.clone(), "Sec-Fetch-Site: cross-site".to_owned()], 403),
        (&foreign("X: without an origin"), 403),
        (std::slice::from_ref(&origin), 401),
        (&[origin.clone(), format!("Authorization: Bearer {}", "A".repeat(43))], 401),
        (&[origin.clone(), format!("Cookie: berth-console-1={}", served.token.secret())], 401),
    ] {
        let answer = served.post(&path, headers, &form).await;
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.body);
    }
    let mut headers = vec![served.host(), bearer.clone(), origin.clone()];
    for line in [format!("GET {path}&{form}"), format!("HEAD {path}&{form}"), format!("GET {path}")] {
        let answer = served.send(&line, &headers, b"").await;
        // Either the parameters of a page, or no page.
        assert_eq!(answer.status, 404, "{line}");
    }
    for method in ["PUT", "PATCH", "DELETE"] {
        assert_eq!(served.send(&format!("{method} {path}&{form}"), &headers, b"").await.status, 405);
    }
    headers.extend(["Content-Type: text/plain".to_owned(), format!("Content-Length: {}", form.len())]);
    assert_eq!(served.send(&format!("POST {path}"), &headers, form.as_bytes()).await.status, 415);
    let foreign_host = ["Host: attacker.example".to_owned(), bearer, origin];
    assert_eq!(served.send(&format!("POST {path}&{form}"), &foreign_host, b"").await.status, 421);
    assert!(texts(&written).is_empty());
    assert_eq!(apply(&served, QUERY, &digest).await.0, 200);
}

#[tokio::test]
async fn a_console_that_allows_no_changes_has_no_path_that_writes() {
    let served = serve(&node("old"), true).await;
    let headers = [served.bearer(), served.origin()];
    assert!(!served.get(&format!("/what-if?{QUERY}")).await.body.contains("Apply"));
    for path in ["confirm", "apply", "stop", "applied"] {
        let answer = served.post(&format!("/what-if/{path}?{QUERY}"), &headers, "digest=x").await;
        assert_eq!(answer.status, 404, "{}", answer.body);
    }
}
