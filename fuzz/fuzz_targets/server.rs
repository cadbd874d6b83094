//! One API server for all inputs of a target.

use std::cell::RefCell;

use berth_apiserver::{InProcessServer, ServerOptions};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};

thread_local! {
    static SERVER: RefCell<Option<(tokio::runtime::Runtime, InProcessServer)>> = const { RefCell::new(None) };
}

fn start() -> (tokio::runtime::Runtime, InProcessServer) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let options = ServerOptions::default();
    let server = runtime.block_on(InProcessServer::start(&options, &[1; 32], 1, None)).expect("a server");
    (runtime, server)
}

/// The answer to a request of the administrator, or of a node. Whatever the request, it is the client's fault if it fails,
/// and the body is a JSON document.
pub fn answer(node: Option<&str>, mut request: Request<Full<Bytes>>) -> (StatusCode, serde_json::Value) {
    SERVER.with_borrow_mut(|cell| {
        let (runtime, server) = cell.get_or_insert_with(start);
        let token = node.map_or_else(|| server.admin_token().to_owned(), |node| server.node_token(node));
        let authorization = format!("Bearer {token}").parse().expect("a header");
        request.headers_mut().insert("authorization", authorization);
        let of = format!("{} {}", request.method(), request.uri());
        runtime.block_on(async {
            let response = server.respond(request).await;
            let status = response.status();
            let body = response.into_body().collect().await.expect("a body").to_bytes();
            let fault = status.as_u16() < 500 || matches!(status.as_u16(), 501 | 504);
            assert!(fault, "{status}: {of}");
            let body = serde_json::from_slice(&body);
            (status, body.unwrap_or_else(|error| panic!("{of}: {error}")))
        })
    })
}
