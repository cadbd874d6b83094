//! Carries out what viewers of a console confirm, with requests that lose nothing that others write.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use berth_api::object::{NamespacedName, Taint};
use berth_api::resource::{NODES, PODS};
use berth_client::apply::{ApplyError, apply_one};
use berth_client::call;
use berth_client::{connect, eviction};
use berth_console::writes::Write;
use futures::FutureExt as _;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::{WriteError, WriteFn};

const TIMEOUT: Duration = Duration::from_secs(30);
/// Attempts to change an object that others change at the same time, or to hear whether it is changed.
const ATTEMPTS: usize = 5;
/// Before an attempt to hear whether an object is changed.
const PAUSE: Duration = Duration::from_millis(500);
const FIELD_MANAGER: &str = "berth-console";

/// Writes with the credential of a client.
pub fn as_client(client: Client) -> WriteFn {
    Arc::new(move |change, _| {
        let client = client.clone();
        async move { write(&client, change).await }.boxed()
    })
}

/// Writes with the tokens of viewers, whose rights the API server enforces. `client` has no own credential.
pub fn as_viewers(client: Client) -> WriteFn {
    Arc::new(move |change, token| {
        let client = connect::with_token(&client, &token.unwrap_or_default());
        async move { write(&client.map_err(|error| WriteError::Failed(error.to_string()))?, change).await }
            .boxed()
    })
}

async fn write(client: &Client, write: Write) -> Result<(), WriteError> {
    let written = match write {
        Write::Evict { name, uid, .. } => return evict(client, &name, &uid).await,
        Write::SetLabel { node, key, value, before } => {
            edit(client, &NODES.object_path("", &node), |node| {
                let now = node["metadata"]["labels"][&key].as_str();
                if now != before.as_deref() && now != value.as_deref() {
                    let now =
                        now.map_or_else(|| "was removed".to_owned(), |now| format!("is {key}={now} now"));
                    return Err(format!("the label {key} {now}"));
                }
                Ok(json!({"metadata": {"labels": {&key: value}}}))
            })
            .await
        }
        Write::SetTaint { node, taint: Taint { key, value, effect } } => {
            edit_taints(client, &node, |taints| {
                let is_it = |taint: &&mut Value| taint["key"] == key && taint["effect"] == effect;
                let mut new = json!({"key": key, "effect": effect});
                if !value.is_empty() {
                    new["value"] = value.as_str().into();
                }
                // In its place: a taint that is there already must not be written again because others came after it.
                match taints.iter_mut().find(is_it) {
                    Some(taint) if taint["value"].as_str().unwrap_or("") == value => {}
                    Some(taint) => *taint = new,
                    None => taints.push(new),
                }
            })
            .await
        }
        Write::RemoveTaints { node, key, effect } => {
            let is_removed =
                |taint: &Value| taint["key"] == key && effect.as_ref().is_none_or(|e| taint["effect"] == *e);
            edit_taints(client, &node, |taints| taints.retain(|taint| !is_removed(taint))).await
        }
        Write::Cordon { node } => {
            let path = NODES.object_path("", &node);
            edit(client, &path, |_| Ok(json!({"spec": {"unschedulable": true}}))).await
        }
        Write::Uncordon { node } => {
            let path = NODES.object_path("", &node);
            edit(client, &path, |_| Ok(json!({"spec": {"unschedulable": null}}))).await
        }
        Write::Scale { kind, name, n_replicas, before } => {
            let resource =
                kind.resource().ok_or_else(|| WriteError::Failed("this kind has no replicas".to_owned()))?;
            let path = format!("{}/scale", resource.object_path(name.namespace(), name.name()));
            edit(client, &path, |scale| {
                // Without the field, the server has omitted 0.
                let now = scale["spec"]["replicas"].as_i64().unwrap_or(0);
                match before {
                    Some(before) if now != i64::from(before) && now != i64::from(n_replicas) => {
                        Err(format!("the number of replicas has changed to {now}"))
                    }
                    _ => Ok(json!({"spec": {"replicas": n_replicas}})),
                }
            })
            .await
        }
        Write::Apply { manifest, is_forced } => {
            let applied = apply_one(client, *manifest, FIELD_MANAGER, is_forced).await;
            applied.map_err(|error| failure(&error, matches!(error, ApplyError::Client(_))))
        }
    };
    written.map_err(WriteError::Failed)
}

async fn evict(client: &Client, name: &NamespacedName, uid: &str) -> Result<(), WriteError> {
    let Err(error) = eviction::evict(client, name.namespace(), name.name(), uid, TIMEOUT).await else {
        return Ok(());
    };
    if let Some(reason) = eviction::refused_for_now(&error) {
        return Err(WriteError::Refused(reason));
    }
    // The answer was lost, or the pod has gone otherwise since the list was shown.
    if is_evicted(client, name, uid).await {
        return Ok(());
    }
    Err(WriteError::Failed(failure(&error, !error.is_refusal())))
}

/// Changes the taints of a node, a list that is written as a whole.
async fn edit_taints(client: &Client, node: &str, change: impl Fn(&mut Vec<Value>)) -> Result<(), String> {
    edit(client, &NODES.object_path("", node), |node| {
        let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        change(&mut taints);
        Ok(json!({"spec": {"taints": taints}}))
    })
    .await
}

/// Whether a pod has been evicted, or has ended otherwise.
async fn is_evicted(client: &Client, name: &NamespacedName, uid: &str) -> bool {
    let path = PODS.object_path(name.namespace(), name.name());
    match call::json::<Value>(client, call::get(&path), TIMEOUT).await {
        Ok(pod) => {
            let metadata = &pod["metadata"];
            metadata["uid"] != uid || !metadata["deletionTimestamp"].is_null()
        }
        Err(error) => error.is_not_found(),
    }
}

/// Why a write failed; if an answer of the server is lost, it may have been made.
fn failure(error: &dyn Display, is_lost: bool) -> String {
    if is_lost { format!("{error}: this may have been written") } else { error.to_string() }
}

/// Sends a merge patch of the object as it is now, unless it changes nothing; made again if the object has changed meanwhile, or if it is not
/// known whether it was made. An error of `patch` says why it must not be written.
async fn edit(
    client: &Client,
    path: &str,
    patch: impl Fn(&Value) -> Result<Value, String>,
) -> Result<(), String> {
    let (mut n_left, mut is_lost) = (ATTEMPTS, false);
    loop {
        let object: Value =
            call::json(client, call::get(path), TIMEOUT).await.map_err(|error| failure(&error, is_lost))?;
        let mut patch = patch(&object).map_err(|reason| match is_lost {
            true => failure(&reason, true),
            false => format!("{reason}: nothing is written"),
        })?;
        let mut changed = object.clone();
        json_patch::merge(&mut changed, &patch);
        if changed == object {
            return Ok(());
        }
        patch["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
        let body = patch.to_string().into_bytes();
        let request = call::with_body(Method::PATCH, path, "application/merge-patch+json", body);
        n_left -= 1;
        match call::send(client, request, TIMEOUT, call::MAX_OBJECT_BYTES).await {
            Err(error) if error.is_stale() && n_left > 0 => {}
            Err(error) if !error.is_refusal() && n_left > 0 => {
                is_lost = true;
                tokio::time::sleep(PAUSE).await;
            }
            sent => {
                return sent.map(|_| ()).map_err(|error| failure(&error, is_lost || !error.is_refusal()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::read::collect_manifests;
    use berth_faults::{Fault, TestServer};

    use super::*;

    fn label(before: Option<&str>, value: &str) -> Write {
        let text = str::to_owned;
        Write::SetLabel {
            node: text("a"),
            key: text("x"),
            value: Some(text(value)),
            before: before.map(text),
        }
    }

    async fn server() -> TestServer {
        let server = TestServer::start().await;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"x": "1"}},
            "spec": {"taints": [{"key": "t", "effect": "NoSchedule"}, {"key": "t", "effect": "NoExecute"}]}});
        server.create("/api/v1/nodes", node).await;
        server
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_have_written_is_not_lost() {
        let server = server().await;
        let client = &server.client;
        let error = write(client, label(Some("0"), "2")).await.unwrap_err().to_string();
        assert!(error.contains("the label x is x=1 now"), "{error}");
        write(client, label(Some("1"), "2")).await.unwrap();
        let node = || "a".to_owned();
        let taint = Taint { key: "t".to_owned(), value: "v".to_owned(), effect: "NoSchedule".to_owned() };
        write(client, Write::SetTaint { node: node(), taint }).await.unwrap();
        let removed =
            Write::RemoveTaints { node: node(), key: "t".to_owned(), effect: Some("NoExecute".to_owned()) };
        write(client, removed).await.unwrap();
        write(client, Write::Cordon { node: node() }).await.unwrap();
        let written = server.get("/api/v1/nodes/a").await;
        assert_eq!(written["metadata"]["labels"]["x"], "2");
        let taints = written["spec"]["taints"].as_array().unwrap();
        assert!(taints.contains(&json!({"key": "t", "value": "v", "effect": "NoSchedule"})), "{written}");
        assert!(!written.to_string().contains("NoExecute") && written["spec"]["unschedulable"] == true);
        for _ in 0..2 {
            write(client, Write::Uncordon { node: node() }).await.unwrap();
            let written = server.get("/api/v1/nodes/a").await;
            assert!(written["spec"]["unschedulable"].is_null(), "{written}");
        }

        let apply = async |replicas: u32, is_forced: bool| {
            let text = format!(
                "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: default, resourceVersion: '1'}}, spec: {{replicas: \
                 {replicas}, selector: {{matchLabels: {{a: b}}}}, template: {{metadata: {{labels: {{a: b}}}}, spec: {{containers: [{{name: c, \
                 image: i}}]}}}}}}}}"
            );
            let manifest = Box::new(collect_manifests(&text, "manifest").unwrap().remove(0));
            write(client, Write::Apply { manifest, is_forced }).await
        };
        apply(1, false).await.unwrap();
        let name = berth_api::object::NamespacedName::new("default", "web");
        let scale = |before| Write::Scale {
            kind: berth_api::read::Kind::Deployment,
            name: name.clone(),
            n_replicas: 3,
            before,
        };
        let error = write(client, scale(Some(2))).await.unwrap_err().to_string();
        assert!(error.contains("has changed to 1"), "{error}");
        write(client, scale(Some(1))).await.unwrap();
        let error = apply(5, false).await.unwrap_err().to_string();
        assert!(error.contains("conflict") && error.contains("replicas"), "{error}");
        apply(5, true).await.unwrap();
        let written = server.get("/apis/apps/v1/namespaces/default/deployments/web").await;
        assert_eq!(written["spec"]["replicas"], 5);
        let unknown =
            collect_manifests("{apiVersion: x.example/v1, kind: X, metadata: {name: x}}", "manifest")
                .unwrap()
                .remove(0);
        let unknown = Write::Apply { manifest: Box::new(unknown), is_forced: true };
        let error = write(client, unknown).await.unwrap_err().to_string();
        assert!(error.contains("does not serve this kind"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_answer_is_lost_is_looked_up_and_not_made_again() {
        let server = server().await;
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let pods = PODS.path("default");
        let pod = server.create(&pods, pod).await;
        let proxy = server.proxy();
        proxy.rule(|request| if request.method == Method::GET { Fault::None } else { Fault::LoseAnswer });
        let unreliable = connect::client(proxy.connection()).unwrap();
        let evict = || Write::Evict {
            name: NamespacedName::new("default", "p"),
            uid: pod["metadata"]["uid"].as_str().unwrap().to_owned(),
            is_recreated: false,
        };
        write(&unreliable, Write::Cordon { node: "a".to_owned() }).await.unwrap();
        write(&unreliable, label(Some("1"), "2")).await.unwrap();
        write(&unreliable, evict()).await.unwrap();
        assert_eq!(proxy.n_faults(), 3);
        assert_eq!(server.get("/api/v1/nodes/a").await["metadata"]["labels"]["x"], "2");
        proxy.rule(|_| Fault::LoseAnswer);
        let error = write(&unreliable, evict()).await.unwrap_err().to_string();
        assert!(error.ends_with(": this may have been written"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_lost_answer_no_error_denies_that_the_write_was_made() {
        let server = server().await;
        let proxy = server.proxy();
        let lose_first = || {
            let mut n_patches = 0;
            proxy.rule(move |request| {
                n_patches += usize::from(request.method == Method::PATCH);
                match (&request.method, n_patches) {
                    (&Method::PATCH, 1) => Fault::Answer(500),
                    (&Method::PATCH, _) => Fault::Answer(403),
                    _ => Fault::None,
                }
            });
        };
        let unreliable = connect::client(proxy.connection()).unwrap();
        lose_first();
        let error = write(&unreliable, label(Some("1"), "2")).await.unwrap_err().to_string();
        assert!(error.contains("403") && error.ends_with(": this may have been written"), "{error}");
        lose_first();
        let n_looks = std::cell::Cell::new(0);
        let changed_by_others = |_: &Value| {
            n_looks.set(n_looks.get() + 1);
            match n_looks.get() {
                1 => Ok(json!({"metadata": {"labels": {"x": "2"}}})),
                _ => Err("the label x is x=3 now".to_owned()),
            }
        };
        let error = edit(&unreliable, &NODES.object_path("", "a"), changed_by_others).await.unwrap_err();
        assert_eq!(error, "the label x is x=3 now: this may have been written");
    }

    #[tokio::test(start_paused = true)]
    async fn a_taint_that_is_there_is_not_written_again_when_others_have_come_after_it() {
        let server = server().await;
        let client = &server.client;
        let version = async || server.get("/api/v1/nodes/a").await["metadata"]["resourceVersion"].clone();
        let before = version().await;
        let taint = |value: &str| Write::SetTaint {
            node: "a".to_owned(),
            taint: Taint { key: "t".to_owned(), value: value.to_owned(), effect: "NoSchedule".to_owned() },
        };
        write(client, taint("")).await.unwrap();
        assert_eq!(version().await, before);
        write(client, taint("v")).await.unwrap();
        assert_ne!(version().await, before);
    }

    #[tokio::test(start_paused = true)]
    async fn viewers_write_with_their_own_rights_only() {
        let server = server().await;
        let rbac = "/apis/rbac.authorization.k8s.io/v1";
        let rules = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}]);
        server
            .create(&format!("{rbac}/clusterroles"), json!({"metadata": {"name": "r"}, "rules": rules}))
            .await;
        let binding = json!({"metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "may", "namespace": "default"}]});
        server.create(&format!("{rbac}/clusterrolebindings"), binding).await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        let mut tokens = Vec::new();
        for name in ["may", "may-not"] {
            server.create(accounts, json!({"metadata": {"name": name}})).await;
            let request =
                json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
            let review = server.create(&format!("{accounts}/{name}/token"), request).await;
            tokens.push(review["status"]["token"].as_str().unwrap().to_owned());
        }
        let write = as_viewers(server.client_as(""));
        for token in [Some(tokens.remove(1)), Some("x".to_owned()), Some("a\nb".to_owned()), None] {
            let error = write(label(Some("1"), "2"), token.clone()).await.unwrap_err().to_string();
            assert!(
                ["403", "401", "characters"].iter().any(|part| error.contains(part)),
                "{token:?}: {error}"
            );
        }
        assert_eq!(server.get("/api/v1/nodes/a").await["metadata"]["labels"]["x"], "1");
        write(label(Some("1"), "2"), tokens.pop()).await.unwrap();
        assert_eq!(server.get("/api/v1/nodes/a").await["metadata"]["labels"]["x"], "2");
    }
}
