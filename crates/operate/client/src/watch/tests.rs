use std::convert::Infallible;
use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::object::Pod;
use berth_api::resource::POD_GROUPS;
use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::pages::split;
use super::*;

const PODS: &str = "/api/v1/pods";

/// The server that these tests talk to: it answers by the path and query.
fn server(answer: impl Fn(&str) -> Response<Answer> + Send + Sync + 'static) -> kube::Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move { Ok::<_, Infallible>(answer(&request.uri().to_string())) }
    });
    kube::Client::new(service, "default")
}

type Answer = UnsyncBoxBody<Bytes, Infallible>;

fn status(code: u16) -> Response<Answer> {
    Response::builder().status(code).body(Full::default().boxed_unsync()).unwrap()
}

fn body(value: &Value) -> Response<Answer> {
    Response::new(Full::from(value.to_string()).boxed_unsync())
}

fn stream(lines: impl Stream<Item = Bytes> + Send + 'static) -> Response<Answer> {
    Response::new(StreamBody::new(lines.map(|line| Ok(Frame::data(line)))).boxed_unsync())
}

/// A watch that stays open, after these lines.
fn open(lines: Vec<Value>) -> Response<Answer> {
    let lines: Vec<_> = lines.into_iter().map(|line| Bytes::from(format!("{line}\n"))).collect();
    stream(futures::stream::iter(lines).chain(futures::stream::pending()))
}

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": "1"}})
}

/// The lines of a streaming list of one pod.
fn listed() -> Vec<Value> {
    let end =
        json!({"metadata": {"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}}});
    vec![json!({"type": "ADDED", "object": pod("p")}), json!({"type": "BOOKMARK", "object": end})]
}

fn start(client: &kube::Client, options: WatchOptions) -> mpsc::Receiver<StreamEvent<Pod>> {
    let (sender, events) = mpsc::channel(1);
    tokio::spawn(watch_into(client.clone(), options, sender, |event| event));
    events
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_version_expires_at_once_every_time_makes_pauses() {
    for streaming_lists in [false, true] {
        let (seen, mut requests) = mpsc::unbounded_channel();
        let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}});
        let client = server(move |uri| {
            seen.send(()).unwrap();
            match uri.contains("watch=1") {
                false => body(&json!({"metadata": {"resourceVersion": "1"}, "items": [pod("p")]})),
                true if streaming_lists => open([listed(), vec![gone.clone()]].concat()),
                true => status(410),
            }
        });
        let began = Instant::now();
        let mut events = start(&client, WatchOptions { streaming_lists, ..WatchOptions::new(PODS) });
        tokio::spawn(async move { while events.recv().await.is_some() {} });
        for _ in 0..50 {
            requests.recv().await.unwrap();
        }
        assert!(began.elapsed() > Duration::from_secs(30), "50 requests in {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_was_open_for_long_is_resumed_at_once() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let client = server(move |uri| {
        seen.send(Instant::now()).unwrap();
        open(if uri.contains("sendInitialEvents") { listed() } else { Vec::new() })
    });
    let idle_timeout = Duration::from_secs(90);
    let mut events = start(&client, WatchOptions { idle_timeout, ..WatchOptions::new(PODS) });
    tokio::spawn(async move { while events.recv().await.is_some() {} });
    let first = requests.recv().await.unwrap();
    for n in 1..4 {
        assert_eq!(requests.recv().await.unwrap() - first, idle_timeout * n);
    }
}

#[tokio::test]
async fn a_list_whose_continue_token_repeats_is_an_error() {
    let next = Mutex::new(["b", "a"].into_iter().cycle());
    let client = server(move |_| {
        let token = next.lock().unwrap().next();
        body(&json!({"metadata": {"resourceVersion": "1", "continue": token}, "items": [pod("p")]}))
    });
    let error = list::<Value>(&client, &WatchOptions::new(PODS)).await.unwrap_err().to_string();
    assert_eq!(error, "/api/v1/pods: the server sends the same continue token again");
}

/// A server that ignores `limit` and never ends a list: of a page, or of a streaming list.
fn endless(uri: &str) -> Response<Answer> {
    if uri.contains("watch=1") {
        let line = format!("{}\n", json!({"type": "ADDED", "object": pod("p")}));
        return stream(futures::stream::repeat(Bytes::from(line)));
    }
    let metadata = json!({"resourceVersion": "1", "continue": fastrand::u64(..).to_string()});
    body(&json!({"metadata": metadata, "items": [pod("p"), pod("q")]}))
}

#[tokio::test]
async fn a_list_without_end_ends_the_watch_with_an_error_that_names_resource_limit_and_option() {
    for streaming_lists in [false, true] {
        let group = WatchGroup::with(1 << 20, "raise the limit (--cache-limit)", || None);
        let shared = group.clone();
        let mut events =
            start(&server(endless), WatchOptions { streaming_lists, group, ..WatchOptions::new(PODS) });
        let mut n = 0;
        let failure = loop {
            match events.recv().await.unwrap() {
                StreamEvent::Failed(failure) => break failure.to_string(),
                _ => n += 1,
            }
        };
        assert!(n <= (1 << 20) / 2048 + 2, "{n} objects were delivered");
        for part in ["/api/v1/pods", "1048576 bytes", "--cache-limit"] {
            assert!(failure.contains(part), "{failure}");
        }
        assert_eq!(events.recv().await, None, "it does not begin again");
        assert_eq!(shared.exceeded().await.to_string(), failure);
    }
}

/// The failure that ends a watch of pods.
async fn failure(client: &kube::Client, options: WatchOptions) -> String {
    let mut events = start(client, options);
    loop {
        if let StreamEvent::Failed(failure) = events.recv().await.unwrap() {
            return failure.to_string();
        }
    }
}

#[tokio::test]
async fn an_answer_without_end_was_read_up_to_a_gibibyte_and_then_again() {
    let n_read = Arc::new(AtomicUsize::new(0));
    let counted = n_read.clone();
    let client = server(move |_| {
        let counted = counted.clone();
        let start = Bytes::from_static(br#"{"metadata": {"resourceVersion": "1"}, "items": ["#);
        let item = Bytes::from(format!("{},", pod("p")));
        let items =
            futures::stream::repeat(item).inspect(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
        stream(futures::stream::iter([start]).chain(items))
    });
    let group = WatchGroup::with(1 << 20, "", || None);
    let error =
        failure(&client, WatchOptions { streaming_lists: false, group, ..WatchOptions::new(PODS) }).await;
    assert!(error.starts_with("/api/v1/pods: ") && error.contains("1048576 bytes"), "{error}");
    let n_bytes = n_read.load(Ordering::Relaxed) * pod("p").to_string().len();
    assert!(n_bytes < 1 << 20, "{n_bytes} bytes were read");
}

#[tokio::test]
async fn objects_that_take_more_memory_than_their_text_exceeded_the_limit_by_far() {
    for streaming_lists in [false, true] {
        let group = WatchGroup::with(1 << 30, "", || Some(2 << 30));
        let options = WatchOptions { streaming_lists, group, ..WatchOptions::new(PODS) };
        let error = failure(&server(endless), options).await;
        assert!(error.starts_with("/api/v1/pods: ") && error.contains("memory of the process"), "{error}");
    }
    assert!(super::group::allocated_bytes().is_none_or(|bytes| bytes > 1 << 20));
}

#[tokio::test]
async fn objects_that_a_list_calls_modified_did_not_count() {
    let line = format!("{}\n", json!({"type": "MODIFIED", "object": pod("p")}));
    let client = server(move |_| stream(futures::stream::repeat(Bytes::from(line.clone()))));
    let group = WatchGroup::with(1 << 20, "", || None);
    let error = failure(&client, WatchOptions { group, ..WatchOptions::new(PODS) }).await;
    assert!(error.contains("1048576 bytes"), "{error}");
}

#[tokio::test]
async fn a_limit_that_no_option_sets_names_no_option() {
    let group = WatchGroup::with(1 << 20, "", || None);
    let options = WatchOptions { group, ..WatchOptions::new(PODS) };
    let error = list::<Value>(&server(endless), &options).await.unwrap_err().to_string();
    let expected = "/api/v1/pods: with this list, the objects exceed the limit of 1048576 bytes for their JSON and 2048 bytes \
                    for each, or for the memory of the process";
    assert_eq!(error, expected);
}

#[tokio::test]
async fn the_limit_is_for_all_watches_together_and_deleted_objects_do_not_count() {
    let group = WatchGroup::with(100 << 10, "", || None);
    let changes = (0..1000).flat_map(|i| {
        let of = |kind| json!({"type": kind, "object": pod(&format!("pod-{i}"))});
        [of("ADDED"), of("DELETED")]
    });
    let changes: Vec<Value> = listed().into_iter().chain(changes).collect();
    let client = server(move |uri| if uri.contains("/nodes") { endless(uri) } else { open(changes.clone()) });
    let of = |path| WatchOptions { group: group.clone(), ..WatchOptions::new(path) };
    let mut pods = start(&client, of(PODS));
    for _ in 0..2003 {
        assert!(!matches!(pods.recv().await, Some(StreamEvent::Failed(_)) | None));
    }
    let mut nodes = start(&client, of("/api/v1/nodes"));
    while !matches!(nodes.recv().await.unwrap(), StreamEvent::Failed(_)) {}
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_may_not_be_read_is_reported_until_it_may_and_kept_when_it_may_not_any_more() {
    let code = Arc::new(Mutex::new(403));
    let answered = code.clone();
    let client = server(move |_| match *answered.lock().unwrap() {
        200 => open(listed()),
        code => status(code),
    });
    let path = "/apis/scheduling.k8s.io/v1alpha2/podgroups";
    let mut events =
        start(&client, WatchOptions { idle_timeout: Duration::from_secs(60), ..WatchOptions::new(path) });
    let rule = r#"{apiGroups: ["scheduling.k8s.io"], resources: ["podgroups"], verbs: ["list", "watch"]}"#;
    for _ in 0..3 {
        let StreamEvent::Failed(failure) = events.recv().await.unwrap() else { panic!() };
        assert!(failure.to_string().contains(rule), "{failure}");
    }
    *code.lock().unwrap() = 200;
    while events.recv().await.unwrap() != StreamEvent::InitDone {}
    *code.lock().unwrap() = 403;
    let silent = tokio::time::timeout(Duration::from_secs(600), events.recv()).await;
    assert!(silent.is_err(), "{silent:?}");
}

#[tokio::test(start_paused = true)]
async fn the_newest_version_that_the_server_has_is_watched() {
    for served in ["v1beta1", "v1alpha2"] {
        let client = server(move |uri| if uri.contains(served) { open(listed()) } else { status(404) });
        let options = WatchOptions { missing: Missing::Empty, ..WatchOptions::of(&POD_GROUPS) };
        assert!(options.path.contains("v1beta1"), "{}", options.path);
        let mut events = start(&client, options);
        let mut n_objects = 0;
        loop {
            match events.recv().await.unwrap() {
                StreamEvent::InitDone => break,
                StreamEvent::Failed(failure) => panic!("{served}: {failure}"),
                StreamEvent::Init => {}
                _ => n_objects += 1,
            }
        }
        assert!(n_objects > 0, "{served}: an empty list is no answer of the other version");
    }
    let client = server(|_| status(404));
    let options = WatchOptions { missing: Missing::Empty, ..WatchOptions::of(&POD_GROUPS) };
    let mut events = start(&client, options);
    assert_eq!(events.recv().await.unwrap(), StreamEvent::Init);
    assert_eq!(events.recv().await.unwrap(), StreamEvent::InitDone, "neither is served: an empty list");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_server_does_not_have_was_called_forbidden() {
    let first = async |resources: Option<Value>| {
        let client = server(move |uri| match (&resources, uri.contains("podgroups")) {
            (_, true) => status(403),
            (Some(resources), false) if uri.ends_with("/v1alpha2") => body(&json!({"resources": resources})),
            _ => status(404),
        });
        let options = WatchOptions { missing: Missing::Empty, ..WatchOptions::of(&POD_GROUPS) };
        start(&client, options).recv().await.unwrap()
    };
    assert_eq!(first(None).await, StreamEvent::Init, "an empty list");
    assert_eq!(first(Some(json!([{"name": "priorityclasses"}]))).await, StreamEvent::Init);
    let served = first(Some(json!([{"name": "podgroups"}]))).await;
    assert!(matches!(served, StreamEvent::Failed(WatchFailure::Forbidden { .. })), "{served:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_the_server_does_not_have_is_reported_until_it_has_it() {
    let code = Arc::new(Mutex::new(404));
    let answered = code.clone();
    let client = server(move |_| match *answered.lock().unwrap() {
        200 => open(listed()),
        code => status(code),
    });
    let mut events = start(&client, WatchOptions::new(PODS));
    for _ in 0..3 {
        let StreamEvent::Failed(failure) = events.recv().await.unwrap() else { panic!() };
        assert!(
            failure.to_string().starts_with("/api/v1/pods: the server does not have this resource"),
            "{failure}"
        );
    }
    *code.lock().unwrap() = 200;
    while events.recv().await.unwrap() != StreamEvent::InitDone {}
}

#[tokio::test(start_paused = true)]
async fn when_the_server_answers_one_watch_again_the_others_do_not_wait_any_longer() {
    let ends_at = Instant::now() + Duration::from_secs(600);
    let (seen, mut requests) = mpsc::unbounded_channel();
    // An overloaded server: of twenty resources, it tells nineteen to come again in a minute.
    let client = server(move |uri| {
        if Instant::now() >= ends_at {
            seen.send(()).unwrap();
            return open(listed());
        }
        let mut answer = status(if uri.contains("/r0?") { 503 } else { 429 });
        answer.headers_mut().insert("retry-after", "60".parse().unwrap());
        answer
    });
    let group = WatchGroup::default();
    let options = |i| WatchOptions { group: group.clone(), ..WatchOptions::new(format!("/api/v1/r{i}")) };
    let _watches: Vec<_> = (0..20).map(|i| start(&client, options(i))).collect();
    requests.recv().await.unwrap();
    let first = Instant::now();
    assert!(first - ends_at <= options(0).longest_retry);
    for _ in 1..20 {
        requests.recv().await.unwrap();
    }
    assert!(first.elapsed() <= options(0).first_retry, "{:?}", first.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_watch_on_a_dead_connection_is_started_again_when_another_is_answered() {
    let heals_at = Instant::now() + Duration::from_secs(30);
    let (seen, mut requests) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (is_first, seen) = (request.uri().path() == "/api/v1/r0", seen.clone());
        async move {
            match Instant::now() < heals_at {
                // The one fails at once; the others wait for an answer that was lost.
                true if is_first => Err("no connection"),
                true => future::pending().await,
                false => {
                    seen.send(()).unwrap();
                    Ok(open(listed()))
                }
            }
        }
    });
    let client = kube::Client::new(service, "default");
    let group = WatchGroup::default();
    let options = |i| WatchOptions { group: group.clone(), ..WatchOptions::new(format!("/api/v1/r{i}")) };
    let _watches: Vec<_> = (0..5).map(|i| start(&client, options(i))).collect();
    for _ in 0..5 {
        requests.recv().await.unwrap();
    }
    let took = heals_at.elapsed();
    assert!(took <= Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_page_with_more_objects_than_any_server_has_reason_to_send_is_not_read() {
    let items = vec!["{}"; 500_001].join(",");
    let page = format!(r#"{{"metadata": {{}}, "items": [{items}]}}"#);
    let error = split(page.as_bytes()).err().unwrap().to_string();
    assert!(error.contains("more than 500000 objects in a page"), "{error}");
    assert!(split(br#"{"metadata": {}, "items": null}"#).unwrap().1.is_empty());
}
