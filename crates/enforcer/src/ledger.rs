//! The ledger: the state of the limiter in a ConfigMap, so that a restart never resets the limits.
//!
//! An eviction is sent only after it was written to the ledger. If the enforcer is killed in between, the ledger already
//! counts the evictions that it was about to send. Writes have a resource version: if two processes consider themselves
//! leader, one of the writes fails, and that process reads the ledger again.

use std::time::Duration;

use berth_api::resource::CONFIG_MAPS;
use berth_client::call::{self, CallError};
use http::Method;
use serde_json::{Map, Value, json};

use crate::limiter::LimiterState;

/// The key in `data`.
const KEY: &str = "ledger.json";

/// Reads and writes the ledger.
#[derive(Clone)]
pub(crate) struct LedgerClient {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
}

/// The ledger as the API server has it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) memory: LimiterState,
    /// The ConfigMap; none if it does not exist.
    object: Option<Value>,
}

impl Ledger {
    /// `metadata.uid` of the ConfigMap, for events about it.
    pub(crate) fn uid(&self) -> &str {
        self.object.as_ref().and_then(|o| o["metadata"]["uid"].as_str()).unwrap_or_default()
    }
}

impl LedgerClient {
    fn collection(&self) -> String {
        CONFIG_MAPS.path(&self.namespace)
    }

    /// Reads the ledger. Invalid content is logged and counts as empty; the next write replaces it.
    pub(crate) async fn read(&self) -> Result<Ledger, CallError> {
        let path = format!("{}/{}", self.collection(), self.name);
        match call::json::<Value>(&self.client, call::get(&path), self.timeout).await {
            Ok(object) => {
                let text = object["data"][KEY].as_str().unwrap_or("{}");
                let memory = serde_json::from_str(text).unwrap_or_else(|error| {
                    tracing::warn!(path, "the ledger is invalid and will be replaced: {error}");
                    LimiterState::default()
                });
                Ok(Ledger { memory, object: Some(object) })
            }
            Err(error) if error.is_not_found() => Ok(Ledger::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces `before` by `memory`.
    ///
    /// # Errors
    /// [`CallError::is_conflict`]: another process wrote the ledger meanwhile. Otherwise the result is unknown.
    pub(crate) async fn write(&self, before: Ledger, memory: LimiterState) -> Result<Ledger, CallError> {
        let text = serde_json::to_string(&memory).unwrap_or_else(|_| "{}".to_owned());
        let (method, path, mut object) = match &before.object {
            Some(object) => (Method::PUT, format!("{}/{}", self.collection(), self.name), object.clone()),
            None => (Method::POST, self.collection(), self.empty()),
        };
        if !object["data"].is_object() {
            object["data"] = Value::Object(Map::new());
        }
        object["data"][KEY] = Value::String(text);
        let request = call::with_body(method, &path, "application/json", object.to_string().into_bytes());
        let object = call::json::<Value>(&self.client, request, self.timeout).await?;
        Ok(Ledger { memory, object: Some(object) })
    }

    fn empty(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/managed-by": "berth"},
                "annotations": {
                    "kubernetes.io/description":
                        "Evictions that the limits of Berth's enforcer count. To reset the limits, stop the enforcer and \
                         delete this ConfigMap.",
                },
            },
        })
    }
}
