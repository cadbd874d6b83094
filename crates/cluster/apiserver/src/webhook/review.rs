//! Request and response of a webhook: `AdmissionReview` of `admission.k8s.io/v1` and `v1beta1`.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{AdmissionAttributes, Denied, ServedForm};
use crate::request::Reason;

/// Values of a response, and of a patch.
const MAX_VALUES: usize = 200_000;

/// The review that is sent to a webhook.
pub(super) fn question(
    version: &str,
    uid: &str,
    attributes: &AdmissionAttributes<'_>,
    form: &ServedForm,
    object: Option<&Value>,
) -> Value {
    let request = request(uid, attributes, form, object);
    json!({ "kind": "AdmissionReview", "apiVersion": format!("admission.k8s.io/{version}"), "request": request })
}

/// The review's request, with the object in the requested form.
pub(super) fn request(
    uid: &str,
    attributes: &AdmissionAttributes<'_>,
    form: &ServedForm,
    object: Option<&Value>,
) -> Value {
    let resource = |form: &ServedForm| {
        let (group, version, plural) = form.resource;
        json!({ "group": group, "version": version, "resource": plural })
    };
    let kind = |form: &ServedForm| {
        let (group, version, kind) = form.kind;
        json!({ "group": group, "version": version, "kind": kind })
    };
    let mut request = json!({
        "uid": uid,
        "kind": kind(form),
        "resource": resource(form),
        "requestKind": kind(&attributes.form),
        "requestResource": resource(&attributes.form),
        "name": attributes.name,
        "operation": attributes.operation.as_str(),
        "userInfo": attributes.user.info(),
        "object": object.map(|object| form.shown(object)),
        "oldObject": attributes.old_object.map(|object| form.shown(object)),
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
    request
}

fn options_kind(attributes: &AdmissionAttributes<'_>) -> &'static str {
    match attributes.operation.as_str() {
        "CREATE" => "Create",
        "UPDATE" => "Update",
        _ => "Delete",
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Answer {
    /// Why the request is denied; `None` if it is allowed.
    pub(super) denied: Option<Denied>,
    pub(super) patch: Option<Value>,
    pub(super) warnings: Vec<String>,
}

/// Reads the response of the webhook `name` to a review of this version. One of `v1beta1` needs no uid and no type of the
/// patch.
///
/// # Errors
/// The response is malformed or belongs to another review; the text is the reason.
pub(super) fn answer(version: &str, name: &str, uid: &str, mut review: Value) -> Result<Answer, String> {
    let api_version = format!("admission.k8s.io/{version}");
    let is_beta = version == "v1beta1";
    if !is_beta && (review["apiVersion"] != api_version || review["kind"] != "AdmissionReview") {
        return Err(format!(
            "expected webhook response of {api_version}, Kind=AdmissionReview, got {}, Kind={}",
            review["apiVersion"].as_str().unwrap_or_default(),
            review["kind"].as_str().unwrap_or_default()
        ));
    }
    let Some(found) = review.get_mut("response").filter(|response| response.is_object()) else {
        return Err("webhook response was absent".to_owned());
    };
    if is_beta {
        found["uid"] = uid.into();
        found["patchType"] =
            found["patch"].as_str().filter(|patch| !patch.is_empty()).map(|_| "JSONPatch").into();
    }
    response(uid, found, |status| denial(name, status))
}

/// Reads an `AdmissionResponse`; `denial` converts its status if it denies the request.
///
/// # Errors
/// The response is malformed or belongs to another review; the text is the reason.
pub(super) fn response(
    uid: &str,
    response: &Value,
    denial: impl Fn(&Value) -> Denied,
) -> Result<Answer, String> {
    let answered = response["uid"].as_str().unwrap_or_default();
    if answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned).collect();
    if response["allowed"] != true {
        let denied = Some(denial(&response["status"]));
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
    read(&bytes).map(Some).map_err(|why| format!("response.patch is not JSON: {why}"))
}

/// Reads the JSON text of a webhook, unless it has many more values than an object that can be stored: each takes some 130 bytes.
pub(super) fn read(text: &[u8]) -> Result<Value, String> {
    let (mut n_values, mut in_string, mut bytes) = (0, false, text.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' => _ = bytes.next(),
            b'[' | b'{' | b',' if !in_string => n_values += 1,
            _ => {}
        }
    }
    if n_values > MAX_VALUES {
        return Err(format!("it has more than {MAX_VALUES} values"));
    }
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

fn denial(name: &str, status: &Value) -> Denied {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let why = match (text("message"), text("reason")) {
        ("", "") => " without explanation".to_owned(),
        ("", reason) => format!(": {reason}"),
        (message, _) => format!(": {message}"),
    };
    Denied {
        code: code(status).unwrap_or(400),
        reason: Reason::named(text("reason")),
        message: format!("admission webhook {name:?} denied the request{why}"),
    }
}

/// The HTTP status of a denial, if it is an error status.
pub(super) fn code(status: &Value) -> Option<u16> {
    let code = u16::try_from(status["code"].as_u64()?).ok()?;
    (400..600).contains(&code).then_some(code)
}
