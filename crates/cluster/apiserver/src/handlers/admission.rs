//! Admission of a request: first the policies and the registered webhooks, then the in-process plugin.

use std::sync::Arc;

use berth_schema::resource::{
    MUTATING_WEBHOOK_CONFIGURATIONS, NAMESPACES, RESOURCES, Resource, SERVICES,
    VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_WEBHOOK_CONFIGURATIONS,
};
use http::StatusCode;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::convert;
use crate::admission::{Admission, Phase};
use crate::custom::{self, CustomResources};
use crate::request::{ApiRequest, ApiResult, CauseType, RequestInfo, Status, User, Verb};
use crate::store::{Derived, Filter, Store, key};
use crate::strategy::fields::{Causes, text};
use crate::strategy::webhook_check::selector;
use crate::webhook::policy::{self, ParamError, ParamKind, Refusal};
use crate::webhook::{AdmissionAttributes, Denied, Hook, Operation, Policy, ServedForm, Webhooks, local};

const GROUP: &str = "admissionregistration.k8s.io";

/// Admission of writes: the webhooks and policies of the cluster, read again when their configurations change, and the plugin that
/// the server was started with.
pub struct AdmissionChain {
    store: Store,
    webhooks: Webhooks,
    /// Ordered by the names of their configurations.
    mutating: Derived<[Hook]>,
    validating: Derived<[Hook]>,
    policies: Derived<[Policy]>,
    custom: CustomResources,
    plugin: Option<Arc<dyn Admission>>,
}

/// The webhooks of all configurations of a resource.
fn hooks(store: &Store, configurations: &Resource) -> Arc<[Hook]> {
    by_name(store, configurations).iter().flat_map(Hook::of).collect()
}

fn policies(store: &Store) -> Arc<[Policy]> {
    let bindings = by_name(store, &VALIDATING_ADMISSION_POLICY_BINDINGS);
    Policy::all(&by_name(store, &VALIDATING_ADMISSION_POLICIES), &bindings).into()
}

fn by_name(store: &Store, resource: &Resource) -> Vec<Value> {
    let (_, mut objects) = store.list(resource, &Filter::default());
    objects.sort_by(|a, b| a.facts.name().cmp(b.facts.name()));
    objects.iter().map(|object| object.value()).collect()
}

/// Resolves a service. Pods are simulated, so only services of type `ExternalName` have an address.
fn resolve(store: &Store, namespace: &str, name: &str, port: u16) -> Result<String, String> {
    let found = store.get(&SERVICES, namespace, name);
    let service = found.ok_or_else(|| format!("service {name:?} not found"))?.parsed();
    let spec = &service["spec"];
    if let (Some("ExternalName"), Some(host)) = (spec["type"].as_str(), spec["externalName"].as_str()) {
        let is_v6 = host.contains(':');
        return Ok(if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") });
    }
    let ports = spec["ports"].as_array().map_or(&[][..], Vec::as_slice);
    if !ports.iter().any(|served| served["port"].as_u64() == Some(u64::from(port))) {
        return Err(format!("no service port {port} found for service {name:?}"));
    }
    Err(format!("no endpoints available for service {name:?}"))
}

pub struct Asked<'a> {
    pub target: &'a RequestInfo,
    pub user: &'a User,
    pub dry_run: bool,
    /// When the request has to be answered: no webhook is waited for beyond that.
    pub deadline: Instant,
}

/// The webhooks and the plugin that review a request in one phase.
struct Review<'a> {
    hooks: Arc<[Hook]>,
    policies: Arc<[Policy]>,
    plugin: Option<&'a dyn Admission>,
    attributes: AdmissionAttributes<'a>,
}

impl AdmissionChain {
    /// Calls the webhooks that are configured in a store, then the plugin.
    pub fn new(store: &Store, plugin: Option<Arc<dyn Admission>>) -> AdmissionChain {
        let services = store.clone();
        let resolver =
            Arc::new(move |namespace: &str, name: &str, port| resolve(&services, namespace, name, port));
        let mutating = |store: &Store| hooks(store, &MUTATING_WEBHOOK_CONFIGURATIONS);
        let validating = |store: &Store| hooks(store, &VALIDATING_WEBHOOK_CONFIGURATIONS);
        AdmissionChain {
            store: store.clone(),
            webhooks: Webhooks::new(resolver),
            mutating: Derived::new(store, &[&MUTATING_WEBHOOK_CONFIGURATIONS], mutating),
            validating: Derived::new(store, &[&VALIDATING_WEBHOOK_CONFIGURATIONS], validating),
            policies: Derived::new(
                store,
                &[&VALIDATING_ADMISSION_POLICIES, &VALIDATING_ADMISSION_POLICY_BINDINGS],
                policies,
            ),
            custom: CustomResources::new(store),
            plugin,
        }
    }

    /// The webhooks, the policies and the plugin that match a request; `None` if there are none. This check must be fast.
    fn review<'a>(
        &'a self,
        asked: &Asked<'a>,
        phase: Phase,
        old: Option<&'a Value>,
        object: Option<&Value>,
        (namespace, name): (&'a str, &'a str),
    ) -> Option<Review<'a>> {
        let resource = asked.target.resource;
        let subresource = asked.target.subresource_name();
        let operation = match (old, object) {
            (None, _) => Operation::Create,
            (Some(_), Some(_)) => Operation::Update,
            (Some(_), None) => Operation::Delete,
        };
        let concerns =
            |plugin: &&dyn Admission| plugin.concerns(phase, operation, resource.plural, subresource);
        let plugin = self.plugin.as_deref().filter(concerns);
        let plugin = plugin.filter(|_| subresource != "status" || changes_labels_or_annotations(object, old));
        let (mut hooks, mut policies) = match phase {
            Phase::Mutating => (self.mutating.get(), Arc::default()),
            Phase::Validating => (self.validating.get(), self.policies.get()),
        };
        // Webhooks and policies do not review their configurations: a broken one could not be repaired otherwise.
        if resource.group == GROUP {
            hooks = Arc::default();
            if !resource.plural.ends_with("webhookconfigurations") {
                policies = Arc::default();
            }
        }
        if hooks.is_empty() && policies.is_empty() && plugin.is_none() {
            return None;
        }
        let attributes = AdmissionAttributes {
            operation,
            form: ServedForm {
                resource: (resource.group, resource.version, resource.plural),
                kind: asked.target.sent_kind(),
                conversion: convert::conversion(resource),
            },
            equivalent: convert::equivalent(resource),
            subresource,
            namespace,
            name,
            user: asked.user,
            old_object: old,
            namespace_object: None,
            dry_run: asked.dry_run,
            deadline: asked.deadline,
        };
        if !hooks.iter().any(|hook| hook.criteria.wants(&attributes).is_some()) {
            hooks = Arc::default();
        }
        if !policies.iter().any(|policy| policy.criteria.wants(&attributes).is_some()) {
            policies = Arc::default();
        }
        if hooks.is_empty() && policies.is_empty() && plugin.is_none() {
            return None;
        }
        Some(Review { hooks, policies, plugin, attributes })
    }

    /// The object's namespace, for the selectors of webhooks and policies.
    fn namespace(&self, review: &Review<'_>) -> Option<Arc<Value>> {
        let namespace = review.attributes.namespace;
        if review.hooks.is_empty() && review.policies.is_empty() || namespace.is_empty() {
            return None;
        }
        Some(self.store.get(&NAMESPACES, "", namespace)?.parsed())
    }

    /// The parameters that a binding's `paramRef` names, for a request in a namespace.
    fn params(
        &self,
        kind: &ParamKind,
        reference: Option<&Value>,
        namespace: &str,
    ) -> Result<Vec<Value>, ParamError> {
        let (group, version) = kind.api_version.split_once('/').unwrap_or(("", &kind.api_version));
        let custom = custom::served(&self.custom.get());
        let is_named = |r: &&&Resource| r.group == group && r.version == version && r.kind == kind.kind;
        let unknown = || ParamError::UnknownKind(format!("{}, Kind={}", kind.api_version, kind.kind));
        let resource = *RESOURCES.iter().chain(&custom).find(is_named).ok_or_else(unknown)?;
        let Some(reference) = reference else { return Ok(vec![Value::Null]) };
        let namespace = match (resource.namespaced, text(reference, "/namespace")) {
            (true, "") if namespace.is_empty() => {
                let why =
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
                return Err(ParamError::Reference(why));
            }
            (true, "") => namespace,
            (true, given) => given,
            (false, "") => "",
            (false, _) => {
                let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
                return Err(ParamError::Reference(why));
            }
        };
        let stored = resource.stored().unwrap_or(resource);
        let found: Vec<_> = match text(reference, "/name") {
            "" => {
                let selector = selector(&reference["selector"]);
                let filter = match resource.namespaced {
                    true => Filter::in_namespace(namespace),
                    false => Filter::default(),
                };
                let (_, all) = self.store.list(stored, &filter);
                let all = all.iter().map(|object| object.value());
                let is_selected = |value: &Value| {
                    let label = |key: &str| value["metadata"]["labels"][key].as_str();
                    selector.as_ref().is_some_and(|selector| selector.matches(label))
                };
                all.filter(is_selected).collect()
            }
            name => self.store.get(stored, namespace, name).iter().map(|object| object.value()).collect(),
        };
        if found.is_empty() && reference["parameterNotFoundAction"] == "Deny" {
            let why = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(ParamError::Reference(why));
        }
        let shown = found.into_iter().map(|value| {
            let mut value = match convert::conversion(resource) {
                Some(conversion) => (conversion.shown)(value),
                None => value,
            };
            value["apiVersion"] = kind.api_version.as_str().into();
            value["kind"] = kind.kind.as_str().into();
            value
        });
        Ok(shown.collect())
    }

    /// Both phases, for an object that is not stored itself: a binding, an eviction.
    pub async fn review_sent(
        &self,
        request: &ApiRequest,
        dry_run: bool,
        sent: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let asked = Asked { target: &request.info, user: &request.user, dry_run, deadline: request.deadline };
        self.mutate(&asked, None, Some(sent), warnings).await?;
        self.validate(&asked, None, Some(sent), warnings).await
    }

    /// Runs mutating admission on an object before the operation. `old` is `None` for a creation, `object` for a deletion. Returns
    /// whether the object changed.
    pub async fn mutate(
        &self,
        asked: &Asked<'_>,
        old: Option<&Value>,
        object: Option<&mut Value>,
        warnings: &mut Vec<String>,
    ) -> ApiResult<bool> {
        let named = object.as_deref().or(old).map(key).unwrap_or_default();
        let named = (named.0.to_owned(), named.1.to_owned());
        let Some(mut review) =
            self.review(asked, Phase::Mutating, old, object.as_deref(), (&named.0, &named.1))
        else {
            return Ok(false);
        };
        let namespace = self.namespace(&review);
        review.attributes.namespace_object = namespace.as_deref();
        let Review { hooks, plugin, attributes, .. } = review;
        let sent = object.as_deref().cloned();
        let mut mutated = self.webhooks.mutate(&hooks, &attributes, sent, warnings).await.map_err(status)?;
        if let Some(plugin) = plugin {
            local::mutate(plugin, &attributes, &mut mutated, warnings)
                .await
                .map_err(|denied| plugin_status(asked.target.resource, &named.1, denied))?;
        }
        match (mutated, object) {
            (Some(mutated), Some(object)) if mutated.changed => {
                let mut new = mutated.object;
                if !new["metadata"].is_object() {
                    new["metadata"] = Map::new().into();
                }
                let is_whole = matches!(asked.target.subresource_name(), "" | "status");
                if is_whole {
                    check_identity(asked.target, old.is_some(), object, &new)?;
                }
                for field in ["apiVersion", "kind"] {
                    keep(&mut new, object, field);
                }
                let is_named = !key(&new).1.is_empty();
                if !(is_whole && is_named && asked.target.verb == Verb::Create) {
                    keep(&mut new["metadata"], &object["metadata"], "name");
                }
                for field in ["namespace", "uid", "creationTimestamp", "deletionTimestamp"] {
                    keep(&mut new["metadata"], &object["metadata"], field);
                }
                *object = new;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Runs validating admission on the final object of the operation; see [`Self::mutate`].
    pub async fn validate(
        &self,
        asked: &Asked<'_>,
        old: Option<&Value>,
        object: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let named = object.or(old).map(key).unwrap_or_default();
        let Some(mut review) = self.review(asked, Phase::Validating, old, object, named) else {
            return Ok(());
        };
        let namespace = self.namespace(&review);
        review.attributes.namespace_object = namespace.as_deref();
        let Review { hooks, policies, plugin, attributes } = review;
        let params = |kind: &ParamKind, reference: Option<&Value>, namespace: &str| {
            self.params(kind, reference, namespace)
        };
        policy::validate(&policies, &attributes, object, &params, warnings)
            .await
            .map_err(|refusal| policy_status(asked.target.resource, named.1, refusal))?;
        self.webhooks.validate(&hooks, &attributes, object, warnings).await.map_err(status)?;
        match plugin {
            Some(plugin) => local::validate(plugin, &attributes, object, warnings)
                .await
                .map_err(|denied| plugin_status(asked.target.resource, named.1, denied)),
            None => Ok(()),
        }
    }
}

/// The answer to a request that a policy refuses: forbidden, with another reason.
fn policy_status(resource: &Resource, name: &str, Refusal { message, reason }: Refusal) -> Box<Status> {
    let mut status = Status::forbidden(resource, name, &message).with_cause(CauseType::Unnamed, "", message);
    (status.code, status.reason) = (reason.code(), reason);
    status
}

/// Whether an update changes labels or annotations of an object.
fn changes_labels_or_annotations(object: Option<&Value>, old: Option<&Value>) -> bool {
    let [object, old] = [object, old].map(|object| object.unwrap_or(&Value::Null));
    ["labels", "annotations"].iter().any(|field| object["metadata"][field] != old["metadata"][field])
}

/// Refuses an object that webhooks made another one: of another kind, in another namespace, or with another name, which only new objects
/// may get.
fn check_identity(target: &RequestInfo, is_update: bool, object: &Value, new: &Value) -> ApiResult {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let [version, kind] = ["apiVersion", "kind"].map(|field| text(&new[field]));
    let is_other = |field: &str, found: &str| !found.is_empty() && object[field] != found;
    if is_other("apiVersion", &version) || is_other("kind", &kind) {
        return Err(Status::internal(format!("no kind {kind:?} is registered for version {version:?}")));
    }
    let [(namespace, name), (old_namespace, old_name)] = [new, object].map(key);
    if !namespace.is_empty() && namespace != old_namespace {
        return Err(Status::other_namespace());
    }
    let mut causes = Causes::default();
    if is_update && !name.is_empty() && name != old_name {
        causes.immutable("metadata.name", &name.into());
    }
    causes.refuse(target.resource, new)
}

/// Restores a field that admission must not change.
fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(new) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => _ = new.insert(field.to_owned(), value.clone()),
        None => _ = new.remove(field),
    }
}

fn status(denied: Denied) -> Box<Status> {
    let mut status = Status::new(denied.reason, denied.message);
    status.code = StatusCode::from_u16(denied.code).unwrap_or(StatusCode::BAD_REQUEST);
    status
}

/// The status of a denial by the in-process plugin, in the format of kube-apiserver's plugins.
fn plugin_status(resource: &Resource, name: &str, denied: Denied) -> Box<Status> {
    if denied.code == StatusCode::FORBIDDEN {
        Status::forbidden(resource, name, &denied.message)
    } else {
        status(denied)
    }
}
