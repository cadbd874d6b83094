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

#[derive(Clone)]
pub struct LedgerClient {
    pub client: kube::Client,
    pub namespace: String,
    pub name: String,
    /// The key in `data`.
    pub key: &'static str,
    /// Says in the ConfigMap what it is for.
    pub description: &'static str,
    pub timeout: Duration,
}

/// A ledger as the API server has it.
#[derive(Debug, Default)]
pub struct Ledger<T> {
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
    /// Reads the ledger.
    ///
    /// # Errors
    /// The request failed, or the content is no such ledger: nothing may replace what it counts.
    pub async fn read<T: Default + DeserializeOwned>(&self) -> Result<Ledger<T>, CallError> {
        let path = CONFIG_MAPS.object_path(&self.namespace, &self.name);
        match call::json::<Value>(&self.client, call::get(&path), self.timeout).await {
            Ok(object) => {
                let text = object["data"][self.key].as_str().unwrap_or("{}");
                let content = serde_json::from_str(text).map_err(|error| {
                    let why = format!(
                        "data[{:?}] is no such ledger: {error}; correct it, or delete the ConfigMap",
                        self.key
                    );
                    CallError::unreadable(Method::GET, &path, why)
                })?;
                Ok(Ledger { content, object: Some(object) })
            }
            Err(error) if error.is_not_found() => Ok(Ledger { content: T::default(), object: None }),
            Err(error) => Err(error),
        }
    }

    /// Replaces the content of `before`.
    ///
    /// # Errors
    /// [`CallError::is_conflict`]: another process wrote the ledger meanwhile. The content is not JSON: nothing was written.
    /// Otherwise the result is unknown.
    pub async fn write<T: Serialize>(&self, before: Ledger<T>, content: T) -> Result<Ledger<T>, CallError> {
        let (method, path, mut object) = match before.object {
            Some(object) => (Method::PUT, CONFIG_MAPS.object_path(&self.namespace, &self.name), object),
            None => (Method::POST, CONFIG_MAPS.path(&self.namespace), self.empty()),
        };
        let text = serde_json::to_string(&content)
            .map_err(|error| CallError::not_written(method.clone(), &path, error))?;
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// Content that cannot be written as JSON.
    #[derive(Debug)]
    struct Unwritable;

    impl Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no JSON"))
        }
    }

    fn ledger(answer: impl Fn(Request<Body>) -> Value + Clone + Send + Sync + 'static) -> LedgerClient {
        let service = tower::service_fn(move |request| {
            let body = Body::from(answer(request).to_string().into_bytes());
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        LedgerClient {
            client: kube::Client::new(service, "default"),
            namespace: "n".to_owned(),
            name: "ledger".to_owned(),
            key: KEY,
            description: "",
            timeout: Duration::from_secs(30),
        }
    }

    #[tokio::test]
    async fn content_that_could_not_be_read_counted_as_empty_and_was_replaced() {
        for text in ["{\"evictions\": 1", "{\"evictions\": \"many\"}", "", "[]"] {
            let client = ledger(move |_| json!({"data": {KEY: text}}));
            let error = client.read::<HashMap<String, u64>>().await.unwrap_err().to_string();
            let begin = "GET /api/v1/namespaces/n/configmaps/ledger: the answer cannot be read: data[\"ledger.json\"] is no such ledger: ";
            assert!(
                error.starts_with(begin) && error.ends_with("; correct it, or delete the ConfigMap"),
                "{error}"
            );
        }
        let read = ledger(|_| json!({"data": {"other": "x"}})).read::<HashMap<String, u64>>().await.unwrap();
        assert!(read.content.is_empty() && read.object.is_some());
    }

    #[tokio::test]
    async fn content_that_could_not_be_written_erased_the_ledger() {
        let requests: Arc<Mutex<Vec<Method>>> = Arc::default();
        let seen = requests.clone();
        let client = ledger(move |request| {
            seen.lock().unwrap().push(request.method().clone());
            json!({})
        });
        for object in [None, Some(json!({"data": {KEY: "{\"evictions\": 1}"}}))] {
            let before = Ledger { content: Unwritable, object };
            let error = client.write(before, Unwritable).await.unwrap_err();
            assert!(
                error.is_refusal() && error.to_string().ends_with("cannot be written: no JSON"),
                "{error}"
            );
        }
        assert!(requests.lock().unwrap().is_empty(), "nothing was sent");
    }
}
