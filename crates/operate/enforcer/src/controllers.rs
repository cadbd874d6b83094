//! Whether the controllers of pods that are to be moved are there: without its controller, an evicted pod is lost.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use berth_api::object::OwnerReference;
use berth_api::resource::percent_encoded;
use berth_client::call::{self, CallError};
use serde_json::Value;

const ATTEMPTS: usize = 3;

/// Those of these controllers, with their namespaces, that create no pods, by uid, and why the pods that they control stay.
pub(crate) async fn absent(
    client: &kube::Client,
    timeout: Duration,
    controllers: HashSet<(String, OwnerReference)>,
) -> HashMap<String, String> {
    let mut lookup = Lookup { client, timeout, served: HashMap::new() };
    let mut absent = HashMap::new();
    for (namespace, owner) in controllers {
        let problem = match lookup.find(&namespace, &owner).await {
            Ok(Some(found)) if found["metadata"]["uid"] == *owner.uid => {
                if found["metadata"]["deletionTimestamp"].is_null() {
                    continue;
                }
                "is being deleted".to_owned()
            }
            Ok(_) => "does not exist".to_owned(),
            // The server has its kind: it is believed to be there.
            Err(error) if error.code() == Some(403) => continue,
            Err(error) => format!("cannot be read: {error}"),
        };
        let why = format!("its controller {} {} {problem}", owner.kind, owner.name);
        absent.insert(owner.uid, why);
    }
    absent
}

struct Lookup<'a> {
    client: &'a kube::Client,
    timeout: Duration,
    /// The resources of each version of an API group that the server has, by path.
    served: HashMap<String, Value>,
}

impl Lookup<'_> {
    async fn find(&mut self, namespace: &str, owner: &OwnerReference) -> Result<Option<Value>, CallError> {
        let version = match owner.api_version.split_once('/') {
            Some((group, version)) => {
                format!("/apis/{}/{}", percent_encoded(group), percent_encoded(version))
            }
            None => format!("/api/{}", percent_encoded(&owner.api_version)),
        };
        if !self.served.contains_key(&version) {
            let served = self.read(&version).await?.unwrap_or_default();
            self.served.insert(version.clone(), served);
        }
        let is_of_kind = |resource: &&Value| {
            resource["kind"] == *owner.kind
                && resource["name"].as_str().is_some_and(|name| !name.contains('/'))
        };
        let resources = self.served[&version]["resources"].as_array();
        let Some(resource) = resources.and_then(|all| all.iter().find(is_of_kind)) else { return Ok(None) };
        let namespace = match resource["namespaced"].as_bool() {
            Some(true) => format!("/namespaces/{}", percent_encoded(namespace)),
            _ => String::new(),
        };
        let plural = resource["name"].as_str().unwrap_or_default();
        let name = percent_encoded(&owner.name);
        // The enforcer may list the controllers of Kubernetes, whose selectors it watches, and needs no other permission.
        let path = format!("{version}{namespace}/{plural}?fieldSelector=metadata.name%3D{name}");
        Ok(self.read(&path).await?.and_then(|mut list| Some(list["items"].get_mut(0)?.take())))
    }

    /// Reads an object; none if the server does not have it.
    async fn read(&self, path: &str) -> Result<Option<Value>, CallError> {
        let mut attempt = 1;
        loop {
            match call::json(self.client, call::get(path), self.timeout).await {
                Err(error) if error.is_not_found() => return Ok(None),
                Err(error) if attempt == ATTEMPTS || error.is_refusal() => return Err(error),
                Err(_) => attempt += 1,
                found => return found.map(Some),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_faults::TestServer;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn controllers_are_there_with_their_uid_and_without_a_deletion() {
        let server = TestServer::start().await;
        let path = "/apis/apps/v1/namespaces/default/replicasets";
        let labels = json!({"app": "a"});
        for name in ["there", "leaving"] {
            let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let object = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "finalizers": ["a/b"]},
                "spec": {"selector": {"matchLabels": labels}, "template": template}});
            server.create(path, object).await;
        }
        server.send(http::Method::DELETE, &format!("{path}/leaving"), Value::Null).await.unwrap();
        let uid = async |name| server.get(&format!("{path}/{name}")).await["metadata"]["uid"].clone();
        let owner = |api_version: &str, kind: &str, name: &str, uid: &Value| {
            let owner = json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid});
            ("default".to_owned(), serde_json::from_value(owner).unwrap())
        };
        let (there, leaving) = (uid("there").await, uid("leaving").await);
        let controllers = [
            owner("apps/v1", "ReplicaSet", "there", &there),
            owner("apps/v1", "ReplicaSet", "leaving", &leaving),
            owner("apps/v1", "ReplicaSet", "there", &json!("another")),
            owner("v1", "ReplicationController", "gone", &json!("gone")),
            owner("apps/v1", "Widget", "w", &json!("kind")),
            owner("../api/v1", "Pod", "../p?x", &json!("group")),
        ];
        let absent = absent(&server.client, Duration::from_secs(5), controllers.into()).await;
        let expected = [
            (leaving.as_str().unwrap(), "its controller ReplicaSet leaving is being deleted"),
            ("another", "its controller ReplicaSet there does not exist"),
            ("gone", "its controller ReplicationController gone does not exist"),
            ("kind", "its controller Widget w does not exist"),
            ("group", "its controller Pod ../p?x does not exist"),
        ];
        assert_eq!(absent, expected.map(|(uid, why)| (uid.to_owned(), why.to_owned())).into());
    }
}
