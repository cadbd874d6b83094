//! An HTTPS webhook whose behaviour the test defines.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

type Behaviour = Box<dyn Fn(&str, &Value) -> Option<Value> + Send + Sync>;

/// A running webhook; it ends with the test's runtime.
pub struct Responder {
    address: SocketAddr,
    bundle: Mutex<String>,
    tls: Arc<Mutex<TlsAcceptor>>,
    connections: Arc<AtomicUsize>,
    /// The requests of the reviews it got, oldest first.
    pub seen: Arc<Mutex<Vec<Value>>>,
}

impl Responder {
    /// `behaviour` gets the path and the request of a review and makes its response; without one the
    /// connection hangs.
    pub async fn start(
        behaviour: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    ) -> Responder {
        let (tls, bundle) = certificate();
        let (tls, bundle) = (Arc::new(Mutex::new(tls)), Mutex::new(bundle));
        let connections = Arc::new(AtomicUsize::new(0));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let behaviour: Arc<Behaviour> = Arc::new(Box::new(behaviour));
        tokio::spawn(accept(listener, tls.clone(), connections.clone(), behaviour, seen.clone()));
        Responder { address, bundle, tls, connections, seen }
    }

    /// Changes the certificate for new connections.
    pub fn rotate(&self) {
        let (tls, bundle) = certificate();
        *self.tls.lock().expect("no test panics with it") = tls;
        *self.bundle.lock().expect("no test panics with it") = bundle;
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn bundle(&self) -> String {
        self.bundle.lock().expect("no test panics with it").clone()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A webhook entry with this server's URL, for all pods; `more` is added to the entry.
    pub fn webhook(&self, name: &str, more: Value) -> Value {
        let mut webhook = json!({
            "name": name,
            "clientConfig": {"url": format!("https://{}/{name}", self.address), "caBundle": self.bundle()},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            webhook[field] = value.clone();
        }
        webhook
    }

    /// The same with the webhook as a service.
    pub fn service(&self, name: &str) -> Value {
        let service = json!({"namespace": "default", "name": "hook", "path": format!("/{name}")});
        self.webhook(name, json!({"clientConfig": {"service": service, "caBundle": self.bundle()}}))
    }

    /// The names of the webhooks that were called, in order.
    pub fn called(&self) -> Vec<String> {
        let seen = self.seen.lock().expect("no test panics with it");
        seen.iter().map(|request| request["path"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// A self-signed certificate, which may sign others as those of `openssl req -x509`, and its `caBundle`.
fn certificate() -> (TlsAcceptor, String) {
    let names = ["127.0.0.1", "hook.default.svc"].map(str::to_owned);
    let mut params = rcgen::CertificateParams::new(names).expect("names");
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let signing_key = rcgen::KeyPair::generate().expect("a key");
    let cert = params.self_signed(&signing_key).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .expect("a configuration");
    let bundle = base64::engine::general_purpose::STANDARD.encode(cert.pem());
    (TlsAcceptor::from(Arc::new(config)), bundle)
}

async fn accept(
    listener: TcpListener,
    tls: Arc<Mutex<TlsAcceptor>>,
    connections: Arc<AtomicUsize>,
    behaviour: Arc<Behaviour>,
    seen: Arc<Mutex<Vec<Value>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::SeqCst);
        let tls = tls.lock().expect("no test panics with it").clone();
        let (behaviour, seen) = (behaviour.clone(), seen.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(|request| answer(request, behaviour.clone(), seen.clone()));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    behaviour: Arc<Behaviour>,
    seen: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().trim_start_matches('/').to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut noted = review["request"].clone();
    noted["path"] = path.as_str().into();
    noted["apiVersion"] = review["apiVersion"].clone();
    seen.lock().expect("no test panics with it").push(noted);
    let Some(mut response) = behaviour(&path, &review["request"]) else {
        return std::future::pending().await;
    };
    if response.get("uid").is_none() {
        response["uid"] = review["request"]["uid"].clone();
    }
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::from(review.to_string())))
}
