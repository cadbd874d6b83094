//! Tokens of service accounts: the subresource `serviceaccounts/token`.

use berth_api::object::time::rfc3339;
use berth_rules::admission::Operation;
use berth_rules::admission::node_restriction::token_audiences;
use berth_schema::resource::{NODES, PODS, Resource, SECRETS};
use http::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::api::Api;
use super::decode;
use super::object::find;
use super::options::WriteOptions;
use super::reply::Reply;
use crate::authn::{API_AUDIENCE, Bound, Claims};
use crate::lifecycle::restrict_node;
use crate::request::{ApiRequest, ApiResult, Attributes, Cause, Status};

/// The shortest lifetime of a token in seconds.
const MIN_SECONDS: i64 = 600;
/// The default lifetime of a token in seconds.
const DEFAULT_SECONDS: i64 = 3600;
/// The longest lifetime of a token in seconds: one year. Longer requests are reduced to it.
const MAX_SECONDS: i64 = 366 * 24 * 3600;

/// Answers the creation of a `TokenRequest` for a service account.
pub fn token(api: &Api, request: &ApiRequest, warnings: &mut Vec<String>) -> ApiResult<Reply> {
    let info = &request.info;
    let WriteOptions { dry_run, validation, .. } = WriteOptions::read(request)?;
    let mut sent = decode::object(request, validation, warnings)?;
    if !sent["spec"].is_object() {
        sent["spec"] = json!({});
    }
    let account = find(api, info)?.value();
    let context = api.context(&request.user, request.info.resource, "token");
    restrict_node(&context, info.resource, Operation::Create, &sent, &Value::Null)?;
    let seconds = lifetime(&info.name, &sent["spec"]["expirationSeconds"])?;
    let (bound, pod) = bound(api, request, &sent["spec"]["boundObjectRef"])?;
    let mut audiences: Vec<String> = texts(&sent["spec"]["audiences"]).map(str::to_owned).collect();
    if request.user.node_name().is_some() {
        let pod = pod.as_ref().unwrap_or(&Value::Null);
        restrict_audience(api, request, pod, &audiences)?;
    }
    if audiences.is_empty() {
        audiences.push(API_AUDIENCE.to_owned());
    }
    let now = jiff::Timestamp::now();
    let expires = now + jiff::SignedDuration::from_secs(seconds);
    sent["spec"]["expirationSeconds"] = Value::from(seconds);
    sent["spec"]["audiences"] = json!(audiences);
    let claims = Claims {
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        uid: uid(&account).to_owned(),
        issued: u64::try_from(now.as_second()).unwrap_or_default(),
        expires: u64::try_from(expires.as_second()).unwrap_or_default(),
        audiences,
        bound,
        node: pod.and_then(|pod| {
            let node = api.store.get(&NODES, "", text(&pod["spec"], "nodeName"))?;
            Some((node.facts.name().to_owned(), uid(&node.value()).to_owned()))
        }),
        id: Uuid::new_v4().to_string(),
    };
    let token = if dry_run { String::new() } else { api.authenticator.tokens().service_account(&claims) };
    sent["status"] = json!({"token": token, "expirationTimestamp": rfc3339(expires)});
    Ok(Reply::value(StatusCode::CREATED, &sent))
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn texts(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"], "uid")
}

fn lifetime(account: &str, requested: &Value) -> ApiResult<i64> {
    let seconds = requested.as_i64().unwrap_or(DEFAULT_SECONDS);
    let why = if seconds < MIN_SECONDS {
        "may not specify a duration less than 10 minutes"
    } else if seconds > 1 << 32 {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(seconds.min(MAX_SECONDS));
    };
    let cause = Cause::invalid("spec.expirationSeconds", requested, why);
    Err(Status::invalid_kind("authentication.k8s.io", "TokenRequest", account, vec![cause]))
}

/// The object to which a request binds its token, and that object if it is a pod.
fn bound(api: &Api, request: &ApiRequest, reference: &Value) -> ApiResult<(Option<Bound>, Option<Value>)> {
    if !reference.is_object() {
        return Ok((None, None));
    }
    let info = &request.info;
    let (kind, name, requested) = (text(reference, "kind"), text(reference, "name"), text(reference, "uid"));
    let (resource, namespace): (&Resource, &str) = match (text(reference, "apiVersion"), kind) {
        ("v1", "Pod") => (&PODS, &info.namespace),
        ("v1", "Secret") => (&SECRETS, &info.namespace),
        ("v1", "Node") => (&NODES, ""),
        (version, kind) => {
            return Err(Status::bad_request(format!(
                "cannot bind token to object of type {version}, Kind={kind}"
            )));
        }
    };
    let object = api.store.get(resource, namespace, name).ok_or_else(|| Status::not_found(resource, name))?;
    let object = object.value();
    if !requested.is_empty() && requested != uid(&object) {
        let why = format!(
            "the UID in the bound object reference ({requested}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Status::conflict(info.resource, &info.name, &why));
    }
    if kind == "Pod" && text(&object["spec"], "serviceAccountName") != info.name {
        return Err(Status::bad_request(format!(
            "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
            info.name
        )));
    }
    let bound = Bound { kind: kind.to_owned(), name: name.to_owned(), uid: uid(&object).to_owned() };
    Ok((Some(bound), (kind == "Pod").then_some(object)))
}

/// Refuses a node's request for a token with an audience that the pod does not mount, unless a role allows it.
fn restrict_audience(api: &Api, request: &ApiRequest, pod: &Value, audiences: &[String]) -> ApiResult {
    let info = &request.info;
    let refuse = |why: &str| Err(Status::forbidden(info.resource, &info.name, why));
    let audience = match audiences {
        [] => "",
        [one] => one.as_str(),
        _ => return refuse("node may only request 0 or 1 audiences"),
    };
    let what = Attributes {
        verb: "request-serviceaccounts-token-audience",
        resource: audience,
        namespace: &info.namespace,
        name: &info.name,
        ..Attributes::default()
    };
    let is_default = audience.is_empty() || audience == API_AUDIENCE;
    // Pods here have no volume for the default audience, which Kubernetes adds to every pod.
    let is_mounted = is_default || token_audiences(pod).any(|mounted| mounted == audience);
    if is_mounted || api.authorizer.allows(&request.user, &what) {
        return Ok(());
    }
    refuse(&format!("audience {audience:?} not found in pod spec volume"))
}
