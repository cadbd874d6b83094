//! Requests of WebSockets and other upgrades, `PATH \n NAME: VALUE \n ...`: the API server has no streams, so it refuses them
//! with a status, whatever their path and headers.
#![no_main]

mod server;

use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lines = text.lines();
    let path = lines.next().unwrap_or_default();
    if path.contains("watch") {
        return;
    }
    let mut request = Request::get(format!("/api/v1/namespaces/default/pods/web/{path}"))
        .header("connection", "Upgrade")
        .header("upgrade", "websocket");
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_str(value.trim())) {
            request = request.header(name, value);
        }
    }
    if let Ok(request) = request.body(Full::default()) {
        let (status, body) = server::answer(None, request);
        assert!(status.as_u16() >= 400 && body["kind"] == "Status", "{status}: {body}");
    }
});
