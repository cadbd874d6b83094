//! Reviews, which are not stored: SelfSubjectReview, access reviews, TokenReview.

use berth_schema::resource::{
    LOCAL_SUBJECT_ACCESS_REVIEWS, Resource, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS,
};
use http::StatusCode;
use serde_json::{Value, json};

use super::api::Api;
use super::decode;
use super::options::WriteOptions;
use super::reply::Reply;
use crate::authn::API_AUDIENCE;
use crate::request::{ApiRequest, ApiResult, Attributes, Cause, Status, User};
use crate::strategy::now;

/// Makes the status of a review from its content.
type Review = fn(&Api, &ApiRequest, &mut Value) -> ApiResult<Value>;

static REVIEWS: [(&Resource, Review); 6] = [
    (&SELF_SUBJECT_REVIEWS, |_, request, _| Ok(json!({"userInfo": request.user.info()}))),
    (&TOKEN_REVIEWS, token_status),
    (&SELF_SUBJECT_RULES_REVIEWS, |api, request, spec| rules_status(api, &request.user, spec)),
    (&SELF_SUBJECT_ACCESS_REVIEWS, |api, request, spec| {
        check(spec, false)?;
        access_status(api, &request.user, spec)
    }),
    (&SUBJECT_ACCESS_REVIEWS, subject_access_status),
    (&LOCAL_SUBJECT_ACCESS_REVIEWS, subject_access_status),
];

pub fn review(api: &Api, request: &ApiRequest, warnings: &mut Vec<String>) -> ApiResult<Reply> {
    let resource = request.info.resource;
    let options = WriteOptions::read(request)?;
    let mut review = decode::object(request, options.validation, warnings)?;
    let (_, status_of) =
        REVIEWS.iter().find(|(of, _)| std::ptr::eq(*of, resource)).ok_or_else(Status::method_not_allowed)?;
    review["status"] = status_of(api, request, &mut review["spec"])?;
    if *resource == SELF_SUBJECT_REVIEWS
        && let Some(fields) = review.as_object_mut()
    {
        fields.shift_remove("spec");
        fields.insert("metadata".to_owned(), json!({"creationTimestamp": now()}));
    }
    Ok(Reply::value(StatusCode::CREATED, &review))
}

fn subject_access_status(api: &Api, request: &ApiRequest, spec: &mut Value) -> ApiResult<Value> {
    let resource = request.info.resource;
    let namespace = &spec["resourceAttributes"]["namespace"];
    if resource.namespaced && namespace.as_str().unwrap_or_default() != request.info.namespace {
        let field = "spec.resourceAttributes.namespace";
        return Err(invalid(vec![Cause::invalid(field, namespace, "must match metadata.namespace")]));
    }
    check(spec, true)?;
    access_status(api, &subject(spec), spec)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

/// kube-apiserver does not name the kind.
fn invalid(causes: Vec<Cause>) -> Box<Status> {
    Status::invalid_kind("authorization.k8s.io", "", "", causes)
}

/// What is asked, and of whom.
fn check(spec: &Value, has_subject: bool) -> ApiResult {
    let mut causes = Vec::new();
    if spec["resourceAttributes"].is_object() == spec["nonResourceAttributes"].is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.push(Cause::invalid("spec", &Value::Null, why));
    }
    let is_named =
        !text(spec, "user").is_empty() || spec["groups"].as_array().is_some_and(|all| !all.is_empty());
    if has_subject && !is_named {
        causes.push(Cause::invalid("spec.user", "\"\"", "at least one of user or group must be specified"));
    }
    if causes.is_empty() { Ok(()) } else { Err(invalid(causes)) }
}

fn subject(spec: &Value) -> User {
    let texts = |values: &Value| -> Vec<String> {
        values.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(&spec["groups"]),
        extra: extra.map(|(key, values)| (key.clone(), texts(values))).collect(),
    }
}

fn access_status(api: &Api, user: &User, spec: &Value) -> ApiResult<Value> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let what = Attributes {
        verb: text(if resource.is_object() { resource } else { path }, "verb"),
        group: text(resource, "group"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        path: text(path, "path"),
        selected_node: selected_node(&resource["fieldSelector"]["requirements"]),
    };
    Ok(json!({"allowed": api.authorizer.allows(user, &what)}))
}

/// The node that the field selector of an access review requires.
fn selected_node(requirements: &Value) -> &str {
    let is_node =
        |r: &&Value| r["operator"] == "In" && matches!(r["key"].as_str(), Some("spec.nodeName" | "nodeName"));
    match requirements.as_array().into_iter().flatten().find(is_node).map(|r| &r["values"]) {
        Some(Value::Array(values)) if values.len() == 1 => values[0].as_str().unwrap_or_default(),
        _ => "",
    }
}

fn rules_status(api: &Api, user: &User, spec: &Value) -> ApiResult<Value> {
    let namespace = text(spec, "namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let rules = api.authorizer.rules_of(user, namespace);
    let mut status = json!({"resourceRules": rules.resource, "nonResourceRules": rules.non_resource,
        "incomplete": rules.incomplete.is_some()});
    if let Some(why) = rules.incomplete {
        status["evaluationError"] = Value::from(why);
    }
    Ok(status)
}

fn token_status(api: &Api, _request: &ApiRequest, spec: &mut Value) -> ApiResult<Value> {
    if text(spec, "token").is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let requested = spec["audiences"].as_array().map_or(&[][..], Vec::as_slice);
    let requested: Vec<&str> = requested.iter().filter_map(Value::as_str).collect();
    let audiences = if requested.is_empty() { &[API_AUDIENCE][..] } else { &requested };
    let valid = api.authenticator.authenticate(text(spec, "token"), audiences);
    Ok(match valid {
        Some((user, audiences)) => {
            json!({"authenticated": true, "user": user.info(), "audiences": audiences})
        }
        None => json!({"error": "invalid bearer token", "user": {}}),
    })
}
