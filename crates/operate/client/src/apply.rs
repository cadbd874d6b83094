//! Applies manifests with server-side apply.
//!
//! Namespaces and other referenced objects come first, the rest in input order. An error does not stop the other objects;
//! all rejections are reported together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use berth_api::read::Manifest;
use berth_api::resource::{NAMESPACES, percent_encoded};
use berth_serve::with_sources;
use http::header::{CONTENT_TYPE, WARNING};
use http::{Method, Request};
use kube::client::{Body, Client};
use kube::core::Status;
use serde_json::{Value, json};

/// The field manager of manifests that a command applies.
const FIELD_MANAGER: &str = "berth-up";
const JSON: &str = "application/json";
const APPLY: &str = "application/apply-patch+yaml";

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The API server rejected objects.
    #[error("{}", Rejection::all(.0))]
    Rejected(Vec<Rejection>),
    #[error("{}", with_sources(&**.0))]
    Client(#[from] Box<kube::Error>),
}

/// An object that the API server rejected, with one line per invalid field.
#[derive(Debug)]
pub struct Rejection {
    lines: Vec<String>,
}

impl Rejection {
    fn new(manifest: &Manifest, status: &Status) -> Rejection {
        let place = format!("{}: {manifest}", manifest.source);
        let causes = status.details.iter().flat_map(|d| &d.causes);
        let of_fields = causes.filter(|c| !c.field.is_empty());
        let mut lines: Vec<_> = of_fields.map(|c| format!("{place}: {}: {}", c.field, c.message)).collect();
        if lines.is_empty() {
            lines.push(format!("{place}: {}", status.message));
        }
        Rejection { lines }
    }

    fn all(rejections: &[Rejection]) -> String {
        rejections.iter().flat_map(|r| &r.lines).cloned().collect::<Vec<_>>().join("\n")
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Objects created or changed.
    pub n_objects: usize,
    /// Warnings of the API server, with the object.
    pub warnings: Vec<String>,
    /// Number of ignored objects by kind and version: kinds that the API server does not serve.
    pub skipped: BTreeMap<String, usize>,
    /// Namespaces that were created because objects use them and no manifest defines them.
    pub namespaces: Vec<String>,
}

/// Applies the manifests.
///
/// # Errors
/// The API server rejected objects, or a request failed.
pub async fn apply(client: &Client, mut manifests: Vec<Manifest>) -> Result<Applied, ApplyError> {
    manifests.sort_by_key(rank);
    manifests.iter_mut().for_each(|m| clear_server_fields(&mut m.value));
    let mut applier = Applier::new(client);
    applier.create_namespaces(&manifests).await?;
    let mut rejected = Vec::new();
    for manifest in &manifests {
        if let Err(status) = applier.apply(manifest).await? {
            rejected.push(Rejection::new(manifest, &status));
        }
    }
    if rejected.is_empty() { Ok(applier.applied) } else { Err(ApplyError::Rejected(rejected)) }
}

/// Applies one object as a field manager, without creating its namespace.
///
/// # Errors
/// The API server rejected the object or does not know its kind, or a request failed.
pub async fn apply_one(
    client: &Client,
    mut manifest: Manifest,
    field_manager: &'static str,
    is_forced: bool,
) -> Result<(), ApplyError> {
    clear_server_fields(&mut manifest.value);
    let mut applier = Applier { field_manager, is_forced, ..Applier::new(client) };
    let status = match applier.apply(&manifest).await? {
        Ok(()) if applier.applied.skipped.is_empty() => return Ok(()),
        Ok(()) => Status::failure("the API server does not serve this kind", "NotFound"),
        Err(status) => status,
    };
    Err(ApplyError::Rejected(vec![Rejection::new(&manifest, &status)]))
}

/// Removes the fields that an API server has written if the object was read from one: applying creates a new object.
fn clear_server_fields(object: &mut Value) {
    const SERVER_FIELDS: [&str; 5] =
        ["creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink"];
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    SERVER_FIELDS.iter().for_each(|field| drop(metadata.remove(*field)));
    if metadata.remove("uid").is_some() {
        // References to owners have uids, which also change.
        metadata.remove("ownerReferences");
    }
}

/// Apply order: referenced objects first; webhooks, which then receive requests for all objects, last.
fn rank(manifest: &Manifest) -> u8 {
    match manifest.kind.as_str() {
        "Namespace" | "CustomResourceDefinition" => 0,
        "PriorityClass" | "RuntimeClass" | "StorageClass" | "ServiceAccount" | "Node"
        | "PersistentVolume" => 1,
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => 3,
        _ => 2,
    }
}

#[derive(Clone, Debug)]
struct Resource {
    plural: String,
    is_namespaced: bool,
}

struct Applier<'a> {
    client: &'a Client,
    field_manager: &'static str,
    /// Whether fields are taken from other field managers.
    is_forced: bool,
    /// By version and kind; none for kinds that the API server does not serve.
    resources: HashMap<(String, String), Option<Resource>>,
    applied: Applied,
}

impl Resource {
    fn path(&self, api_version: &str, namespace: &str) -> String {
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        let namespace = match (self.is_namespaced, namespace) {
            (false, _) => String::new(),
            (true, "") => "/namespaces/default".to_owned(),
            (true, namespace) => format!("/namespaces/{}", percent_encoded(namespace)),
        };
        format!("{root}/{api_version}{namespace}/{}", self.plural)
    }
}

struct Response {
    /// The error status, if the change was rejected.
    result: Result<(), Status>,
    /// The texts of `Warning` headers.
    warnings: Vec<String>,
}

impl<'a> Applier<'a> {
    fn new(client: &'a Client) -> Applier<'a> {
        Applier {
            client,
            field_manager: FIELD_MANAGER,
            is_forced: true,
            resources: HashMap::new(),
            applied: Applied::default(),
        }
    }

    async fn create_namespaces(&mut self, manifests: &[Manifest]) -> Result<(), ApplyError> {
        let defined: BTreeSet<_> =
            manifests.iter().filter(|m| m.kind == "Namespace").map(Manifest::name).collect();
        let mut used: BTreeSet<_> =
            manifests.iter().map(Manifest::namespace).filter(|n| !n.is_empty()).collect();
        used.retain(|name| !defined.contains(name));
        for name in used {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let created = self.send(Method::POST, &NAMESPACES.path(""), JSON, &namespace).await?;
            if created.result.is_ok() {
                self.applied.namespaces.push(name.to_owned());
            }
        }
        Ok(())
    }

    async fn apply(&mut self, manifest: &Manifest) -> Result<Result<(), Status>, ApplyError> {
        let Some(resource) = self.resource(&manifest.api_version, &manifest.kind).await? else {
            let kind = match manifest.kind.as_str() {
                "" => "(no kind)".to_owned(),
                kind => format!("{kind} ({})", manifest.api_version),
            };
            *self.applied.skipped.entry(kind).or_default() += 1;
            return Ok(Ok(()));
        };
        let collection = resource.path(&manifest.api_version, manifest.namespace());
        let response = match manifest.name() {
            // Without a name, it can only be created; the API server generates the name.
            "" => self.send(Method::POST, &collection, JSON, &manifest.value).await?,
            name => {
                let name = percent_encoded(name);
                let (manager, force) = (self.field_manager, self.is_forced);
                let path = format!("{collection}/{name}?fieldManager={manager}&force={force}");
                self.send(Method::PATCH, &path, APPLY, &manifest.value).await?
            }
        };
        let Response { result, warnings } = response;
        self.applied
            .warnings
            .extend(warnings.into_iter().map(|w| format!("{}: {manifest}: {w}", manifest.source)));
        Ok(result.map(|_| self.applied.n_objects += 1))
    }

    async fn resource(&mut self, api_version: &str, kind: &str) -> Result<Option<Resource>, ApplyError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(known) = self.resources.get(&key) {
            return Ok(known.clone());
        }
        let listed = match api_version.contains('/') {
            _ if kind.is_empty() => return Ok(None),
            true => self.client.list_api_group_resources(api_version).await,
            false => self.client.list_core_api_resources(api_version).await,
        };
        let found = match listed {
            Ok(list) => list.resources.into_iter().find(|r| r.kind == kind && !r.name.contains('/')),
            // The answer to an unknown group has no reason: it is plain text.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => return Err(Box::new(error).into()),
        };
        let mut found = found.map(|r| Resource { plural: r.name, is_namespaced: r.namespaced });
        // The embedded API server answers requests about groups that it does not list.
        if found.is_none()
            && let Some(known) = berth_api::resource::Resource::of_kind(api_version, kind)
        {
            let known = Resource { plural: known.plural.to_owned(), is_namespaced: known.namespaced };
            let request = Request::get(format!("{}?limit=1", known.path(api_version, ""))).body(Vec::new());
            let request =
                request.map_err(|error| ApplyError::from(Box::new(kube::Error::HttpError(error))))?;
            found = self.client.request::<Value>(request).await.is_ok().then_some(known);
        }
        self.resources.insert(key, found.clone());
        Ok(found)
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Response, ApplyError> {
        let client_error = |error| ApplyError::Client(Box::new(error));
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type);
        let request = request.body(Body::from(body.to_string().into_bytes()));
        let request = request.map_err(|error| client_error(kube::Error::HttpError(error)))?;
        let response = self.client.send(request).await.map_err(client_error)?;
        let (head, body) = response.into_parts();
        let headers = head.headers.get_all(WARNING).iter().filter_map(|h| h.to_str().ok());
        let warnings = headers.map(warning_text).collect();
        if head.status.is_success() {
            return Ok(Response { result: Ok(()), warnings });
        }
        let bytes = body.collect_bytes().await.map_err(client_error)?;
        let status = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Status::failure(&text, head.status.as_str()).with_code(head.status.as_u16())
        });
        Ok(Response { result: Err(status), warnings })
    }
}

/// The text in `299 - "text"`.
fn warning_text(header: &str) -> String {
    let quoted = header.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"'));
    quoted.map_or(header, |(text, _)| text).replace("\\\"", "\"").replace("\\\\", "\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_group_scope_and_name() {
        let path = |plural: &str, is_namespaced, api_version, namespace| {
            Resource { plural: plural.to_owned(), is_namespaced }.path(api_version, namespace)
        };
        assert_eq!(path("nodes", false, "v1", ""), "/api/v1/nodes");
        assert_eq!(path("pods", true, "v1", ""), "/api/v1/namespaces/default/pods");
        assert_eq!(path("deployments", true, "apps/v1", "a"), "/apis/apps/v1/namespaces/a/deployments");
        assert_eq!(path("pods", true, "v1", "../x?y"), "/api/v1/namespaces/..%2Fx%3Fy/pods");
    }

    #[test]
    fn warnings_are_taken_out_of_their_header() {
        assert_eq!(warning_text(r#"299 - "say \"no\"""#), r#"say "no""#);
        assert_eq!(warning_text("299 - bare"), "299 - bare");
    }

    #[test]
    fn fields_written_by_a_server_are_removed() {
        let mut object =
            json!({"metadata": {"name": "p", "uid": "u", "resourceVersion": "1", "ownerReferences": [{}]}});
        clear_server_fields(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "p"}}));
        let written = json!({"metadata": {"name": "p", "ownerReferences": [{}]}});
        let mut object = written.clone();
        clear_server_fields(&mut object);
        assert_eq!(object, written);
    }

    #[test]
    fn namespaces_come_first_and_webhooks_last() {
        let text = "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n---\n\
            apiVersion: v1\nkind: Pod\n---\napiVersion: v1\nkind: ConfigMap\n---\napiVersion: v1\nkind: Namespace\n";
        let mut manifests = berth_api::read::collect_manifests(text, "a.yaml").unwrap();
        manifests.sort_by_key(rank);
        let kinds: Vec<_> = manifests.iter().map(|m| m.kind.as_str()).collect();
        assert_eq!(kinds, ["Namespace", "Pod", "ConfigMap", "MutatingWebhookConfiguration"]);
    }
}
