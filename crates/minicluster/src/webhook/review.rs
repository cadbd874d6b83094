//! What a webhook is asked and what it answers: `AdmissionReview` of `admission.k8s.io/v1`.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Attributes, Denied};

const API_VERSION: &str = "admission.k8s.io/v1";

/// The question.
pub(super) fn question(uid: &str, attributes: &Attributes<'_>, object: Option<&Value>) -> Value {
    let (group, version, plural) = attributes.resource;
    let resource = json!({ "group": group, "version": version, "resource": plural });
    let (group, version, kind) = attributes.kind;
    let kind = json!({ "group": group, "version": version, "kind": kind });
    let mut request = json!({
        "uid": uid,
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": attributes.name,
        "operation": attributes.operation.as_str(),
        "userInfo": { "username": attributes.user, "groups": attributes.groups },
        "object": object,
        "oldObject": attributes.old_object,
        "dryRun": attributes.dry_run,
        "options": {
            "kind": format!("{}Options", options_kind(attributes)),
            "apiVersion": "meta.k8s.io/v1",
        },
    });
    if !attributes.namespace.is_empty() {
        request["namespace"] = attributes.namespace.into();
    }
    if !attributes.subresource.is_empty() {
        request["subResource"] = attributes.subresource.into();
        request["requestSubResource"] = attributes.subresource.into();
    }
    json!({ "kind": "AdmissionReview", "apiVersion": API_VERSION, "request": request })
}

fn options_kind(attributes: &Attributes<'_>) -> &'static str {
    match attributes.operation.as_str() {
        "CREATE" => "Create",
        "UPDATE" => "Update",
        _ => "Delete",
    }
}

/// An answer that means something.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// Why the request is denied; `None` if it is allowed.
    pub(super) denied: Option<Denied>,
    /// A JSON patch for the object.
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// Reads the answer of the webhook `name`.
///
/// # Errors
/// It is no answer to the question; the text says why.
pub(super) fn answer(name: &str, uid: &str, review: &Value) -> Result<Answer, String> {
    if review["apiVersion"] != API_VERSION || review["kind"] != "AdmissionReview" {
        return Err(format!(
            "expected webhook response of {API_VERSION}, Kind=AdmissionReview, got {}, Kind={}",
            review["apiVersion"].as_str().unwrap_or_default(),
            review["kind"].as_str().unwrap_or_default()
        ));
    }
    let Some(response) = review.get("response").filter(|response| response.is_object()) else {
        return Err("webhook response was absent".to_owned());
    };
    let answered = response["uid"].as_str().unwrap_or_default();
    if answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    if response["allowed"] != true {
        let denied = Some(denial(name, &response["status"]));
        return Ok(Answer { denied, patch: None, warnings });
    }
    Ok(Answer { denied: None, patch: patch(response)?, warnings })
}

fn patch(response: &Value) -> Result<Option<Value>, String> {
    let Some(encoded) = response["patch"].as_str().filter(|patch| !patch.is_empty()) else {
        return match response["patchType"].as_str() {
            Some(_) => Err("webhook returned response.patchType but not response.patch".to_owned()),
            None => Ok(None),
        };
    };
    if response["patchType"] != "JSONPatch" {
        return Err(format!(
            "invalid webhook response.patchType {}: expected JSONPatch",
            response["patchType"]
        ));
    }
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .map_err(|error| format!("response.patch is not base64: {error}"))?;
    serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("response.patch is not JSON: {error}"))
}

fn denial(name: &str, status: &Value) -> Denied {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    Denied {
        code: code.filter(|code| (400..600).contains(code)).unwrap_or(400),
        reason: text("reason").to_owned(),
        message: format!("admission webhook {name:?} denied the request{why}"),
    }
}
