//! Requests with the identity of a node, over one connection pool for all nodes.

use std::time::Duration;

use berth_client::call::{self, CallError};
use berth_client::connect::{self, ConnectError, Connection};
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Method, Request};
use serde::Serialize;
use serde_json::json;

use crate::options::NodeCredentials;

/// Merges lists by their keys: the patch type that kubelets use for status.
pub(crate) const STRATEGIC_MERGE: &str = "application/strategic-merge-patch+json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
const JSON: &str = "application/json";

pub(crate) struct Caller {
    /// With the credential of the configuration.
    own: kube::Client,
    /// Without a credential, for requests that carry a node's token.
    bare: kube::Client,
    credentials: NodeCredentials,
    timeout: Duration,
}

impl Caller {
    pub(crate) fn new(
        connection: Connection,
        credentials: NodeCredentials,
        timeout: Duration,
    ) -> Result<Caller, ConnectError> {
        let own = connect::client(connection.clone())?;
        let bare = match &credentials {
            NodeCredentials::Impersonate => own.clone(),
            NodeCredentials::Tokens(_) => connect::client(connection.anonymous())?,
        };
        Ok(Caller { own, bare, credentials, timeout })
    }

    /// The client for watches that serve all nodes.
    pub(crate) fn own(&self) -> kube::Client {
        self.own.clone()
    }

    pub(crate) async fn send(&self, node: &str, mut request: Request<Vec<u8>>) -> Result<Bytes, CallError> {
        let client = self.identify(node, &mut request);
        call::send(client, request, self.timeout, call::MAX_OBJECT_BYTES).await
    }

    /// Sends a request with the credential of the configuration.
    pub(crate) async fn send_own(
        &self,
        request: Request<Vec<u8>>,
        max_bytes: usize,
    ) -> Result<Bytes, CallError> {
        call::send(&self.own, request, self.timeout, max_bytes).await
    }

    fn identify(&self, node: &str, request: &mut Request<Vec<u8>>) -> &kube::Client {
        // Node names are DNS names and tokens are printable; the server rejects an empty header.
        let value = |text: String| HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""));
        let headers = request.headers_mut();
        if let NodeCredentials::Tokens(token_of) = &self.credentials
            && let Some(token) = token_of(node)
        {
            let mut bearer = value(format!("Bearer {token}"));
            bearer.set_sensitive(true);
            headers.insert(AUTHORIZATION, bearer);
            return &self.bare;
        }
        headers.insert(HeaderName::from_static("impersonate-user"), value(format!("system:node:{node}")));
        headers
            .insert(HeaderName::from_static("impersonate-group"), HeaderValue::from_static("system:nodes"));
        &self.own
    }
}

fn with_json(
    method: Method,
    path: &str,
    content_type: &'static str,
    body: &impl Serialize,
) -> Request<Vec<u8>> {
    // The bodies are maps with text keys: they always serialize.
    call::with_body(method, path, content_type, serde_json::to_vec(body).unwrap_or_default())
}

pub(crate) fn create(path: &str, object: &impl Serialize) -> Request<Vec<u8>> {
    with_json(Method::POST, path, JSON, object)
}

pub(crate) fn patch(path: &str, content_type: &'static str, body: &impl Serialize) -> Request<Vec<u8>> {
    with_json(Method::PATCH, path, content_type, body)
}

/// Deletes the object with this uid without grace period.
pub(crate) fn delete_now(path: &str, uid: &str) -> Request<Vec<u8>> {
    let options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": { "uid": uid },
    });
    with_json(Method::DELETE, path, JSON, &options)
}
