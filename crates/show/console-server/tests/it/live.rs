//! A console that follows a cluster: the embedded API server.

use berth_api::resource::{DEVICE_CLASSES, NODES, PODS, SERVICES};
use berth_client::{WatchGroup, connect};
use berth_console::State;
use berth_console_server::Console;
use berth_console_server::live::{Source, follow};
use berth_faults::{Fault, TestServer};
use berth_simulate::SimulationOptions;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::client::{Served, read_until, serve_console};

/// Waits until a page has a text, or has it no more, after each event about a change.
async fn until(served: &Served, path: &str, text: &str, is_there: bool) {
    let (mut events, _) = served.follow().await;
    loop {
        let page = served.get(path).await;
        assert_eq!(page.status, 200);
        if page.body.contains(text) == is_there {
            return;
        }
        assert!(!read_until(&mut events, "data:").await.is_empty(), "the events end");
    }
}

#[tokio::test]
async fn pages_follow_the_cluster_and_say_since_when_they_do_not() {
    let server = TestServer::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"allocatable": {"cpu": "2", "pods": "10"}}});
    server.create(&NODES.path(""), node).await;
    let proxy = server.proxy();
    let client = connect::client(proxy.connection()).unwrap();
    let console = Console::new(State::live("live", SimulationOptions::default()).unwrap());
    let sources = [(NODES, true), (PODS, true), (SERVICES, false), (DEVICE_CLASSES, false)];
    let sources = sources.map(|(resource, is_required)| Source { resource, is_required }).to_vec();
    let (sender, mut ready) = watch::channel(false);
    let stop = CancellationToken::new();
    tokio::spawn(follow(console.clone(), client, WatchGroup::default(), sources, sender, stop.clone()));
    ready.wait_for(|ready| *ready).await.unwrap();
    let served = serve_console(console, true).await;
    let page = served.get("/topology").await.body;
    assert!(page.contains("node-a") && !page.contains("being read"), "{page}");

    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    server.create(&PODS.path("default"), pod).await;
    until(&served, "/pending", "web-0", true).await;
    server.delete_with(&PODS.object_path("default", "web-0"), json!({"gracePeriodSeconds": 0})).await;
    until(&served, "/pending", "web-0", false).await;

    proxy.rule(|_| Fault::LoseAnswer);
    proxy.cut();
    until(&served, "/pending", "Out of date since", true).await;
    assert!(served.get("/topology").await.body.contains("node-a"), "what was known is still shown");
    stop.cancel();
}
