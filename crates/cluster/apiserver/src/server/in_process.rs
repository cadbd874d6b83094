//! A server without a listener: the caller passes requests to it. The fault simulation brings them over a simulated network.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;

use super::body::RequestBody;
use super::service::serve;
use super::state::State;
use crate::authn::Tokens;
use crate::bootstrap::bootstrap;
use crate::options::ServerOptions;
use crate::store::{Store, WriteError};

/// A server in memory, without TLS, files or threads. Its tasks run in the runtime that started it and end with it.
pub struct InProcessServer(Arc<State>);

impl InProcessServer {
    /// Starts a server. It has the objects and the history of `previous`, if there is one: what that server
    /// acknowledged, as if it had been restarted.
    ///
    /// # Errors
    /// The first objects cannot be written.
    pub fn start<'a>(
        options: &'a ServerOptions,
        secret: &'a [u8; 32],
        first_revision: u64,
        previous: Option<&'a InProcessServer>,
    ) -> BoxFuture<'a, Result<InProcessServer, WriteError>> {
        // Boxed here: the body of an `async fn` is compiled in each crate that polls it.
        async move {
            let store = match previous {
                Some(previous) => previous.0.api.store.clone(),
                None => Store::in_memory(first_revision, &options.storage),
            };
            bootstrap(&store).await?;
            let url = "https://127.0.0.1:6443".to_owned();
            let state = State::new(store, Tokens::new(secret), url, None, options);
            state.spawn_tasks(options.event_ttl);
            Ok(InProcessServer(Arc::new(state)))
        }
        .boxed()
    }

    pub async fn respond(
        &self,
        request: Request<impl RequestBody>,
    ) -> Response<UnsyncBoxBody<bytes::Bytes, std::convert::Infallible>> {
        serve(self.0.clone(), request).await.map(|body| body.boxed_unsync())
    }

    pub fn admin_token(&self) -> &str {
        self.0.api.authenticator.tokens().admin()
    }

    pub fn node_token(&self, name: &str) -> String {
        self.0.api.authenticator.tokens().node(name)
    }
}

impl Drop for InProcessServer {
    fn drop(&mut self) {
        self.0.api.stop.cancel();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use serde_json::{Value, json};

    use super::*;
    use crate::request::CONVERSIONS;

    #[tokio::test]
    async fn a_new_pod_was_converted_eight_times() {
        let options = ServerOptions::default();
        let server = InProcessServer::start(&options, &[7; 32], 1000, None).await.unwrap();
        let create = async |plural: &str, object: Value| {
            let before = CONVERSIONS.get();
            let uri = format!("/api/v1/namespaces/default/{plural}");
            let request =
                Request::post(uri).header("authorization", format!("Bearer {}", server.admin_token()));
            let request = request.body(Full::new(bytes::Bytes::from(object.to_string()))).unwrap();
            assert_eq!(server.respond(request).await.status(), 201, "{object}");
            CONVERSIONS.get() - before
        };
        let pod = |name: &str| {
            let resources = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "2"}});
            json!({"metadata": {"name": name},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
        };
        let quota =
            json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "9", "limits.cpu": "9"}}});
        create("resourcequotas", quota).await;
        assert_eq!(create("pods", pod("a")).await, 3, "read from the body, read as a pod, written");
        let limit = json!({"type": "Container", "max": {"cpu": "4"}, "default": {"memory": "1Gi"}});
        create("limitranges", json!({"metadata": {"name": "l"}, "spec": {"limits": [limit]}})).await;
        assert_eq!(create("pods", pod("b")).await, 3, "only its resources are read for its defaults");
    }
}
