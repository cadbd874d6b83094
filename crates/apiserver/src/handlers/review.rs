//! Reviews, which are not stored: SelfSubjectReview, access reviews, TokenReview; and TokenRequest.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use berth_api::object::time::rfc3339;
use berth_schema::resource::{
    LOCAL_SUBJECT_ACCESS_REVIEWS, Resource, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS, SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS,
};
use http::StatusCode;
use serde_json::{Value, json};

use super::sent;
use crate::server::status::{Cause, Status};
use crate::server::{ApiRequest, Attributes, Reply, Shared, User, refusal};

/// The shortest lifetime of a token in seconds.
const MIN_TOKEN_SECONDS: i64 = 600;
/// The default lifetime of a token in seconds.
const DEFAULT_TOKEN_SECONDS: i64 = 3600;
/// The longest lifetime of a token in seconds: one year. Longer requests are reduced to it.
const MAX_TOKEN_SECONDS: i64 = 366 * 24 * 3600;

/// Makes the status of a review from its content.
type Review = fn(&Shared, &ApiRequest, &mut Value) -> Result<Value, Box<Status>>;

static REVIEWS: [(&Resource, Review); 6] = [
    (&SELF_SUBJECT_REVIEWS, |_, request, _| Ok(json!({"userInfo": user_info(&request.user)}))),
    (&TOKEN_REVIEWS, token_status),
    (&SELF_SUBJECT_RULES_REVIEWS, |shared, request, spec| rules_status(shared, &request.user, spec)),
    (&SELF_SUBJECT_ACCESS_REVIEWS, |shared, request, spec| access_status(shared, &request.user, spec)),
    (&SUBJECT_ACCESS_REVIEWS, subject_access_status),
    (&LOCAL_SUBJECT_ACCESS_REVIEWS, subject_access_status),
];

/// Answers the creation of a review.
///
/// # Errors
/// The review is malformed.
pub fn review(shared: &Shared, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let resource = request.info.resource;
    let mut review = sent::parse_object(&request.headers, &request.body)?;
    sent::agree_with_path(request, resource.group, resource.version, resource.kind, &mut review)?;
    let (_, status_of) =
        REVIEWS.iter().find(|(of, _)| std::ptr::eq(*of, resource)).ok_or_else(Status::method_not_allowed)?;
    review["status"] = status_of(shared, request, &mut review["spec"])?;
    Ok(Reply::value(StatusCode::CREATED, &review))
}

fn subject_access_status(
    shared: &Shared,
    request: &ApiRequest,
    spec: &mut Value,
) -> Result<Value, Box<Status>> {
    let resource = request.info.resource;
    let namespace = &spec["resourceAttributes"]["namespace"];
    if resource.namespaced && namespace.as_str().unwrap_or_default() != request.info.namespace {
        let field = "spec.resourceAttributes.namespace";
        return Err(invalid(resource.kind, field, namespace, "must match metadata.namespace"));
    }
    access_status(shared, &subject(spec, resource.kind)?, spec)
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_default()
}

fn invalid(kind: &str, field: &str, value: &Value, why: &str) -> Box<Status> {
    let cause = Cause {
        reason: "FieldValueInvalid".to_owned(),
        message: format!("Invalid value: {value}: {why}"),
        field: field.to_owned(),
    };
    Status::invalid_kind("authorization.k8s.io", kind, "", vec![cause])
}

fn subject(spec: &Value, kind: &str) -> Result<User, Box<Status>> {
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let user = User { name: text(spec, "user").to_owned(), groups: groups.collect() };
    if user.name.is_empty() && user.groups.is_empty() {
        return Err(invalid(
            kind,
            "spec.user",
            &Value::from(""),
            "at least one of user or group must be specified",
        ));
    }
    Ok(user)
}

fn access_status(shared: &Shared, user: &User, spec: &Value) -> Result<Value, Box<Status>> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() == path.is_object() {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        return Err(invalid("SelfSubjectAccessReview", "spec", &json!({}), why));
    }
    let what = Attributes {
        verb: text(if resource.is_object() { resource } else { path }, "verb"),
        group: text(resource, "group"),
        resource: text(resource, "resource"),
        subresource: text(resource, "subresource"),
        namespace: text(resource, "namespace"),
        name: text(resource, "name"),
        path: text(path, "path"),
    };
    Ok(if shared.allows(user, &what) {
        json!({"allowed": true})
    } else {
        json!({"allowed": false, "reason": refusal(user, &what)})
    })
}

fn rules_status(shared: &Shared, user: &User, spec: &Value) -> Result<Value, Box<Status>> {
    let namespace = text(spec, "namespace");
    if namespace.is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let rules = shared.rules_of(user, namespace);
    Ok(json!({"resourceRules": rules.resource, "nonResourceRules": rules.non_resource, "incomplete": false}))
}

fn user_info(user: &User) -> Value {
    json!({"username": user.name, "groups": user.groups})
}

fn token_status(shared: &Shared, _request: &ApiRequest, spec: &mut Value) -> Result<Value, Box<Status>> {
    let user = shared.authenticate_token(text(spec, "token"));
    if let Some(spec) = spec.as_object_mut() {
        // The response does not repeat the token.
        spec.remove("token");
    }
    Ok(match user {
        Some(user) => json!({"authenticated": true, "user": user_info(&user)}),
        None => json!({"error": "the token is not valid", "user": {}}),
    })
}

/// Answers the creation of a `TokenRequest` for a service account.
///
/// # Errors
/// The account does not exist, or the requested lifetime is too short.
pub fn token(shared: &Arc<Shared>, request: &ApiRequest) -> Result<Reply, Box<Status>> {
    let info = &request.info;
    let mut token_request = sent::parse_object(&request.headers, &request.body)?;
    sent::agree_with_path(request, "authentication.k8s.io", "v1", "TokenRequest", &mut token_request)?;
    let account = super::find(shared, info)?.value();
    let asked = &token_request["spec"]["expirationSeconds"];
    let seconds = asked.as_i64().unwrap_or(DEFAULT_TOKEN_SECONDS);
    if seconds < MIN_TOKEN_SECONDS {
        let cause = Cause {
            reason: "FieldValueInvalid".to_owned(),
            message: format!("Invalid value: {asked}: may not specify a duration less than 10 minutes"),
            field: "spec.expirationSeconds".to_owned(),
        };
        return Err(Status::invalid_kind("authentication.k8s.io", "TokenRequest", &info.name, vec![cause]));
    }
    let seconds = seconds.min(MAX_TOKEN_SECONDS);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let expires = now.saturating_add(u64::try_from(seconds).unwrap_or_default());
    let uid = text(&account["metadata"], "uid");
    let expires_at = jiff::Timestamp::from_second(i64::try_from(expires).unwrap_or_default())
        .map(rfc3339)
        .map_err(Status::internal)?;
    token_request["spec"]["expirationSeconds"] = Value::from(seconds);
    token_request["status"] = json!({
        "token": shared.tokens.service_account(&info.namespace, &info.name, uid, expires),
        "expirationTimestamp": expires_at,
    });
    Ok(Reply::value(StatusCode::CREATED, &token_request))
}
