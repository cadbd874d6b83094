//! Charges of new pods, written to the ledgers before the pods are allowed.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use berth_api::resource::PLACEMENT_QUOTAS;
use berth_client::call::{self, CallError};
use http::Method;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;

use super::PlacementQuota;
use super::metrics::QuotaMetrics;
use crate::answer::ReviewError;
use crate::state::ChargedPod;

/// Timeout of a request. A webhook has few seconds to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts to write a ledger that others also write.
const MAX_ATTEMPTS: usize = 50;

#[derive(Default)]
pub(crate) struct Ledgers {
    client: OnceLock<kube::Client>,
    /// By namespace: requests of this process do not conflict with each other, nor wait for those of another namespace.
    turns: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
    pub(crate) metrics: QuotaMetrics,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Value>,
}

impl Ledgers {
    /// Starts with a client; charges are not answered before.
    pub(crate) fn start(&self, client: kube::Client) {
        // A second mirror of the same cluster changes nothing.
        let _ = self.client.set(client);
    }

    fn turn(&self, namespace: &str) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        turns.entry(namespace.to_owned()).or_default().clone()
    }

    /// Charges a pod to all quotas of its namespace. Returns why that is refused, if it is.
    pub(crate) async fn charge(
        &self,
        namespace: &str,
        pod: &ChargedPod,
        dry_run: bool,
    ) -> Result<Option<String>, ReviewError> {
        let client = self.client.get().ok_or(ReviewError::NoState("the placement quota"))?;
        let turn = self.turn(namespace);
        let _turn = turn.lock().await;
        for _ in 0..MAX_ATTEMPTS {
            let quotas = list(client, namespace).await?;
            let charged: Result<Vec<_>, String> =
                quotas.iter().map(|quota| Ok((quota, quota.with(quota.charge_to(pod)?)))).collect();
            let (written, refused) = match charged {
                charged if dry_run => return Ok(charged.err()),
                Ok(charged) => (charged, None),
                // A quota that was written before another one refused.
                Err(why) => (
                    quotas.iter().filter_map(|quota| Some((quota, quota.without(pod)?))).collect(),
                    Some(why),
                ),
            };
            let mut is_stale = false;
            for (before, after) in written {
                if before.status == after.status {
                    continue;
                }
                match write(client, &after).await {
                    Ok(_) => {}
                    Err(error) if error.is_conflict() || error.is_not_found() => is_stale = true,
                    Err(error) => return Err(failed(&error)),
                }
            }
            if !is_stale {
                return Ok(refused);
            }
        }
        Err(ReviewError::Quota("too many concurrent changes; send the request again".to_owned()))
    }
}

/// The quotas of a namespace, as they are now; none where the API server does not have the resource.
async fn list(client: &kube::Client, namespace: &str) -> Result<Vec<PlacementQuota>, ReviewError> {
    let request = call::get(&PLACEMENT_QUOTAS.path(namespace));
    match call::json::<List>(client, request, TIMEOUT).await {
        Ok(list) => list
            .items
            .into_iter()
            .map(PlacementQuota::read)
            .collect::<Result<_, _>>()
            .map_err(ReviewError::Quota),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(failed(&error)),
    }
}

/// Writes the status of a quota, unless the quota was changed since it was read. Returns it as it is stored.
pub(super) async fn write(client: &kube::Client, quota: &PlacementQuota) -> Result<Value, CallError> {
    let metadata = &quota.metadata;
    let path = format!("{}/status", PLACEMENT_QUOTAS.object_path(&metadata.namespace, &metadata.name));
    call::json(client, call::with_json(Method::PUT, &path, &quota.object), TIMEOUT).await
}

fn failed(error: &CallError) -> ReviewError {
    ReviewError::Quota(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use berth_engine::{OpportunityCost, Reach};
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn charges_of_a_namespace_waited_for_the_many_quotas_of_another() {
        let service = tower::service_fn(|request: Request<Body>| async move {
            let namespace = request.uri().path().split('/').nth(5).unwrap();
            if namespace == "busy" && request.method() == Method::PUT {
                std::future::pending::<()>().await;
            }
            let quota =
                json!({"metadata": {"name": "q", "namespace": namespace}, "spec": {"hard": {"nodes": 2}}});
            let answer = if request.method() == Method::GET { json!({"items": [quota]}) } else { quota };
            Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
        });
        let ledgers = Ledgers::default();
        ledgers.start(kube::Client::new(service, "default"));
        let reach = Reach { n_nodes: 1, ..Reach::default() };
        let cost = OpportunityCost { average: reach.clone(), largest: reach };
        let pod = ChargedPod { name: "p".to_owned(), uid: "u".to_owned(), node: String::new(), cost };
        let busy = ledgers.charge("busy", &pod, false);
        let other = async {
            tokio::task::yield_now().await;
            ledgers.charge("other", &pod, false).await
        };
        tokio::select! {
            biased;
            _ = busy => panic!("the other charge has waited"),
            charged = other => assert!(matches!(charged, Ok(None))),
        }
    }
}
