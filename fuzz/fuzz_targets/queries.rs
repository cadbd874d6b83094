//! Queries of lists, continue tokens and selectors among them: the API server answers any with a list or a status of the
//! client's fault.
#![no_main]

mod server;

use http::Request;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|query: &str| {
    if query.contains("watch") {
        return;
    }
    let request = Request::get(format!("/api/v1/namespaces?{query}"));
    if let Ok(request) = request.body(Full::default()) {
        server::answer(None, request);
    }
});
