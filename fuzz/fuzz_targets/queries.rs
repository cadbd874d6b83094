//! Queries of lists, continue tokens and selectors among them: the API server answers any with a list or a status of the
//! client's fault.
#![no_main]

use std::cell::RefCell;

use berth_apiserver::{InProcessServer, ServerOptions};
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use libfuzzer_sys::fuzz_target;

thread_local! {
    static SERVER: RefCell<Option<(tokio::runtime::Runtime, InProcessServer)>> = const { RefCell::new(None) };
}

fn start() -> (tokio::runtime::Runtime, InProcessServer) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = ServerOptions::default();
    let server = runtime.block_on(InProcessServer::start(&options, &[1; 32], 1, None)).expect("a server");
    (runtime, server)
}

fuzz_target!(|query: &str| {
    SERVER.with_borrow_mut(|cell| {
        let (runtime, server) = cell.get_or_insert_with(start);
        let uri = format!("/api/v1/namespaces?{query}");
        let token = format!("Bearer {}", server.admin_token());
        let request = Request::get(uri).header("authorization", token).body(Empty::<bytes::Bytes>::new());
        let Ok(request) = request else { return };
        if query.contains("watch") {
            return;
        }
        runtime.block_on(async {
            let response = server.respond(request).await;
            let code = response.status().as_u16();
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            assert!(code < 500 || code == 504, "{code}: {query}");
            assert!(serde_json::from_slice::<serde_json::Value>(&body).is_ok(), "{query}");
        });
    });
});
