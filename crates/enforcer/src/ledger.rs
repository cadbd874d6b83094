//! The ledger: what brakes remember, in a ConfigMap, so that no budget starts anew with a process.
//!
//! An eviction is sent only after it has been written down. A process that is killed in between has counted those it
//! was about to send, never one too few. Writes name the version they replace: of two that take themselves for the leader one
//! fails, and reads what the other one wrote.

use std::time::Duration;

use berth_api::resource::CONFIG_MAPS;
use berth_client::call::{self, CallError};
use http::Method;
use serde_json::{Map, Value, json};

use crate::limiter::Memory;

/// The key of `data` that it stands under.
const KEY: &str = "ledger.json";

/// Where the ledger is.
#[derive(Clone)]
pub(crate) struct LedgerPlace {
    pub(crate) client: kube::Client,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) timeout: Duration,
}

/// The ledger as it is on the server.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) memory: Memory,
    /// The ConfigMap; none if there is none.
    object: Option<Value>,
}

impl Ledger {
    /// `metadata.uid` of the ConfigMap, for events about it.
    pub(crate) fn uid(&self) -> &str {
        self.object.as_ref().and_then(|o| o["metadata"]["uid"].as_str()).unwrap_or_default()
    }
}

impl LedgerPlace {
    fn collection(&self) -> String {
        CONFIG_MAPS.path(&self.namespace)
    }

    /// Reads what is written. What does not make sense is logged and counts as empty: it is the next write's to mend.
    pub(crate) async fn read(&self) -> Result<Ledger, CallError> {
        let path = format!("{}/{}", self.collection(), self.name);
        match call::json::<Value>(&self.client, call::get(&path), self.timeout).await {
            Ok(object) => {
                let text = object["data"][KEY].as_str().unwrap_or("{}");
                let memory = serde_json::from_str(text).unwrap_or_else(|error| {
                    tracing::warn!(path, "what is written there is no ledger, and is replaced: {error}");
                    Memory::default()
                });
                Ok(Ledger { memory, object: Some(object) })
            }
            Err(error) if error.is_not_found() => Ok(Ledger::default()),
            Err(error) => Err(error),
        }
    }

    /// Writes `memory` in the place of `before`.
    ///
    /// # Errors
    /// [`CallError::is_conflict`]: somebody else has written meanwhile. Otherwise it is not known whether it is written.
    pub(crate) async fn write(&self, before: Ledger, memory: Memory) -> Result<Ledger, CallError> {
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
                        "Evictions that Berth's enforcer counts against its limits. To forget them, delete this while \
                         no enforcer runs.",
                },
            },
        })
    }
}
