//! The version of an API server.

use std::time::Duration;

use berth_api::feature_gates::ServerVersion;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::call::{self, CallError};
use crate::outage_log;

const TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The version of a server; none if it reports none that can be read.
///
/// # Errors
/// There is no answer, or the server refuses it.
pub async fn server_version(client: &kube::Client) -> Result<Option<ServerVersion>, CallError> {
    let version: Value = call::json(client, call::get("/version"), TIMEOUT).await?;
    let text = |field: &str| version[field].as_str().unwrap_or_default();
    Ok(ServerVersion::parse(text("major"), text("minor")))
}

/// The same for a component, which retries until there is an answer. None if the server refuses it.
pub async fn await_server_version(client: &kube::Client) -> Option<ServerVersion> {
    let mut backoff = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
    loop {
        match server_version(client).await {
            Ok(version) => {
                outage_log::succeeded();
                return version;
            }
            Err(error) if matches!(error.code(), Some(401 | 403 | 404)) => {
                tracing::warn!("the version of the server is not known: {error}");
                return None;
            }
            Err(error) => outage_log::failed(|| format!("the version of the server is not known: {error}")),
        }
        tokio::time::sleep(backoff.failed(fastrand::f64())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use berth_api::feature_gates::KubernetesVersion;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    /// A server that answers with these codes, one after another.
    fn server(codes: &'static [u16]) -> kube::Client {
        let n = Arc::new(AtomicUsize::new(0));
        let service = tower::service_fn(move |_: Request<Body>| {
            let code = codes[n.fetch_add(1, Ordering::Relaxed).min(codes.len() - 1)];
            let version = json!({"major": "1", "minor": "36+"}).to_string();
            let response = Response::builder().status(code).body(Body::from(version.into_bytes()));
            async { Ok::<_, Infallible>(response.unwrap()) }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test(start_paused = true)]
    async fn a_component_waits_for_the_version_of_its_server_unless_that_is_refused() {
        let version = await_server_version(&server(&[503, 503, 200])).await.unwrap();
        assert_eq!(version.nearest, KubernetesVersion::V1_36);
        assert_eq!(await_server_version(&server(&[503, 403])).await, None);
    }
}
