//! Ledgers: state that several processes share, in a ConfigMap.
//!
//! Writes have a resource version: of two processes that write at the same time, one fails and reads the ledger again. What
//! must not happen twice is done only after it is in the ledger.

use std::time::Duration;

use berth_api::resource::CONFIG_MAPS;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::call::{self, CallError};

/// The key in `data` of ledgers.
pub const KEY: &str = "ledger.json";

/// Reads and writes a ledger.
#[derive(Clone)]
pub struct LedgerClient {
    /// Client of the API server.
    pub client: kube::Client,
    /// Namespace of the ConfigMap.
    pub namespace: String,
    /// Name of the ConfigMap.
    pub name: String,
    /// The key in `data`.
    pub key: &'static str,
    /// Says in the ConfigMap what it is for.
    pub description: &'static str,
    /// Timeout of a request.
    pub timeout: Duration,
}

/// A ledger as the API server has it.
#[derive(Debug, Default)]
pub struct Ledger<T> {
    /// What it contains.
    pub content: T,
    /// The ConfigMap; none if it does not exist.
    object: Option<Value>,
}

impl<T> Ledger<T> {
    /// `metadata.uid` of the ConfigMap, for events about it.
    pub fn uid(&self) -> &str {
        self.object.as_ref().and_then(|o| o["metadata"]["uid"].as_str()).unwrap_or_default()
    }
}

impl LedgerClient {
    /// Reads the ledger. Invalid content is logged and counts as empty; the next write replaces it.
    ///
    /// # Errors
    /// It cannot be read.
    pub async fn read<T: Default + DeserializeOwned>(&self) -> Result<Ledger<T>, CallError> {
        let path = CONFIG_MAPS.object_path(&self.namespace, &self.name);
        match call::json::<Value>(&self.client, call::get(&path), self.timeout).await {
            Ok(object) => {
                let text = object["data"][self.key].as_str().unwrap_or("{}");
                let content = serde_json::from_str(text).unwrap_or_else(|error| {
                    tracing::warn!(path, "the ledger is invalid and will be replaced: {error}");
                    T::default()
                });
                Ok(Ledger { content, object: Some(object) })
            }
            Err(error) if error.is_not_found() => Ok(Ledger { content: T::default(), object: None }),
            Err(error) => Err(error),
        }
    }

    /// Replaces the content of `before`.
    ///
    /// # Errors
    /// [`CallError::is_conflict`]: another process wrote the ledger meanwhile. Otherwise the result is unknown.
    pub async fn write<T: Serialize>(&self, before: Ledger<T>, content: T) -> Result<Ledger<T>, CallError> {
        let text = serde_json::to_string(&content).unwrap_or_else(|_| "{}".to_owned());
        let (method, path, mut object) = match before.object {
            Some(object) => (Method::PUT, CONFIG_MAPS.object_path(&self.namespace, &self.name), object),
            None => (Method::POST, CONFIG_MAPS.path(&self.namespace), self.empty()),
        };
        if !object["data"].is_object() {
            object["data"] = Value::Object(Map::new());
        }
        object["data"][self.key] = Value::String(text);
        let request = call::with_json(method, &path, &object);
        let object = call::json::<Value>(&self.client, request, self.timeout).await?;
        Ok(Ledger { content, object: Some(object) })
    }

    fn empty(&self) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/managed-by": "berth"},
                "annotations": {"kubernetes.io/description": self.description},
            },
        })
    }
}
