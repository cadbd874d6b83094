//! The contents of CertificateSigningRequests: a node that sends any bytes is refused, or the request is its own.
#![no_main]

mod server;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::Full;
use libfuzzer_sys::fuzz_target;
use serde_json::json;

fuzz_target!(|data: &[u8]| {
    let der = STANDARD.encode(data);
    let pem = format!("-----BEGIN CERTIFICATE REQUEST-----\n{der}\n-----END CERTIFICATE REQUEST-----\n");
    for contents in [data, pem.as_bytes()] {
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "fuzz-"},
            "spec": {
                "request": STANDARD.encode(contents), "usages": ["client auth"],
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            },
        });
        let uri = "/apis/certificates.k8s.io/v1/certificatesigningrequests?dryRun=All";
        let request = Request::post(uri).header("content-type", "application/json");
        let request = request.body(Full::from(object.to_string())).expect("a request");
        let (status, answer) = server::answer(Some("node-1"), request);
        let own = || contents.windows(18).any(|part| part == b"system:node:node-1") || contents != data;
        assert!(status.as_u16() != 201 || own(), "{answer}");
    }
});
