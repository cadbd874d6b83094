//! Errors of the API: `Status` objects with Kubernetes' reasons and messages.

use http::StatusCode;
use serde_json::{Value, json};

use berth_schema::resource::Resource;

/// One of several reasons for a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// Machine-readable, such as `FieldValueInvalid`.
    pub reason: String,
    pub message: String,
    /// Path of the field; may be empty.
    pub field: String,
}

/// The object of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The resource's plural, or the kind for invalid objects.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    /// Seconds until the client should retry; 0 omits the field.
    pub retry_after_seconds: u32,
    /// Whether the details are written even if they are empty.
    pub is_shown: bool,
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: StatusCode,
    /// Machine-readable reason, such as `NotFound`; empty if none fits.
    pub reason: &'static str,
    pub message: String,
    pub details: Details,
    /// `metadata.continue`, with which a list may go on.
    pub list_continue: String,
    /// Texts of the `Warning` headers.
    pub warnings: Vec<String>,
}

impl Status {
    /// A failure with only a message.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Box<Status> {
        let details = Details::default();
        let (message, list_continue) = (message.into(), String::new());
        Box::new(Status { code, reason, message, details, list_continue, warnings: Vec::new() })
    }

    /// A failure as the router of kube-apiserver answers it.
    pub fn of_router(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Box<Status> {
        let mut status = Status::new(code, reason, message);
        status.details.is_shown = true;
        status
    }

    pub fn with_warnings(mut self: Box<Self>, warnings: Vec<String>) -> Box<Status> {
        self.warnings = warnings;
        self
    }

    fn about(mut self: Box<Self>, resource: &Resource, name: &str) -> Box<Status> {
        resource.group.clone_into(&mut self.details.group);
        resource.plural.clone_into(&mut self.details.kind);
        name.clone_into(&mut self.details.name);
        self
    }

    pub fn not_found(resource: &Resource, name: &str) -> Box<Status> {
        let message = format!("{} \"{name}\" not found", resource.group_resource());
        Status::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    pub fn no_such_path() -> Box<Status> {
        Status::of_router(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// The server does not do this; `what` names it and says why.
    pub fn not_implemented(what: impl std::fmt::Display) -> Box<Status> {
        let message = format!("this API server does not support {what}");
        Status::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Box<Status> {
        let message = format!("{} \"{name}\" already exists", resource.group_resource());
        Status::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// The request conflicts with the object's state.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Status> {
        Status::conflict_on(resource.plural, resource.group, name, why)
    }

    /// The same of what is called otherwise than its resource.
    pub fn conflict_on(kind: &str, group: &str, name: &str, why: &str) -> Box<Status> {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        let mut status = Status::new(StatusCode::CONFLICT, "Conflict", message);
        status.details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..Details::default()
        };
        status
    }

    /// An object of this namespace and name does not have the uid or the version that a change requires. kube-apiserver says
    /// under which key it stores the object.
    pub fn precondition(
        resource: &Resource,
        (namespace, name): (&str, &str),
        what: &str,
        wanted: &str,
        is: &str,
    ) -> Box<Status> {
        let key = [storage_prefix(resource), namespace.to_owned(), name.to_owned()];
        let key =
            key.iter().filter(|part| !part.is_empty()).map(String::as_str).collect::<Vec<_>>().join("/");
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {is}"
        );
        Status::conflict(resource, name, &why)
    }

    /// The object changed since the client read it.
    pub fn modified(resource: &Resource, name: &str) -> Box<Status> {
        Status::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// The user lacks the permission, or admission denies the request.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Box<Status> {
        let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let message = format!("{}{named} is forbidden: {why}", resource.group_resource());
        Status::new(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// Fields are invalid. `causes` must not be empty.
    pub fn invalid(resource: &Resource, name: &str, causes: Vec<Cause>) -> Box<Status> {
        Status::invalid_kind(resource.group, resource.kind, name, causes)
    }

    /// Fields of a body of another kind than the resource's are invalid.
    pub fn invalid_kind(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Box<Status> {
        let each: Vec<String> = causes.iter().map(|c| format!("{}: {}", c.field, c.message)).collect();
        let all = match each.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("{qualified} \"{name}\" is invalid: {all}");
        let mut status = Status::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        status.details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        };
        status
    }

    pub fn bad_request(message: impl Into<String>) -> Box<Status> {
        Status::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The resource does not support the verb.
    pub fn method_not_allowed() -> Box<Status> {
        Status::of_router(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// Options of a request are invalid: `kind` is that of the options.
    pub fn invalid_options(kind: &str, causes: &[(&str, &str, String)]) -> Box<Status> {
        let cause = |(reason, field, message): &(&str, &str, String)| Cause {
            reason: (*reason).to_owned(),
            message: message.clone(),
            field: (*field).to_owned(),
        };
        Status::invalid_kind("meta.k8s.io", kind, "", causes.iter().map(cause).collect())
    }

    /// The version is older than the history, or the list's snapshot has expired.
    pub fn expired(message: impl Into<String>) -> Box<Status> {
        Status::new(StatusCode::GONE, "Expired", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Box<Status> {
        let text = message.to_string();
        let message = format!("Internal error occurred: {text}");
        let mut status = Status::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message);
        status.details.causes = vec![Cause { reason: String::new(), message: text, field: String::new() }];
        status
    }

    /// The server is overloaded; the client should retry later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Box<Status> {
        let mut status = Status::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        status.details.retry_after_seconds = retry_after_seconds;
        status
    }

    pub fn to_value(&self) -> Value {
        let mut object = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            object["reason"] = Value::from(self.reason);
        }
        if !self.list_continue.is_empty() {
            object["metadata"]["continue"] = Value::from(self.list_continue.as_str());
        }
        let d = &self.details;
        let mut details = serde_json::Map::new();
        for (key, text) in [("name", &d.name), ("group", &d.group), ("kind", &d.kind), ("uid", &d.uid)] {
            if !text.is_empty() {
                details.insert(key.to_owned(), Value::from(text.as_str()));
            }
        }
        if !d.causes.is_empty() {
            let causes = d.causes.iter().map(|cause| {
                let mut object = serde_json::Map::new();
                for (key, text) in
                    [("reason", &cause.reason), ("message", &cause.message), ("field", &cause.field)]
                {
                    if !text.is_empty() {
                        object.insert(key.to_owned(), Value::from(text.as_str()));
                    }
                }
                Value::Object(object)
            });
            details.insert("causes".to_owned(), causes.collect());
        }
        if d.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".to_owned(), Value::from(d.retry_after_seconds));
        }
        if d.is_shown || !details.is_empty() {
            object["details"] = Value::Object(details);
        }
        object["code"] = Value::from(self.code.as_u16());
        object
    }
}

/// Where kube-apiserver stores the objects of a resource.
fn storage_prefix(resource: &Resource) -> String {
    let prefix = match (resource.group, resource.plural) {
        ("", "endpoints") => "services/endpoints",
        ("", "nodes") => "minions",
        ("", "replicationcontrollers") => "controllers",
        ("", "services") => "services/specs",
        ("networking.k8s.io", "ingresses") => "ingress",
        (group, plural) if resource.custom.is_some() || group.starts_with("api") && group.contains('.') => {
            return format!("{group}/{plural}");
        }
        (_, plural) => plural,
    };
    prefix.to_owned()
}

/// The `Status` of a completed deletion.
pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = json!({ "name": name });
    if !resource.group.is_empty() {
        details["group"] = Value::from(resource.group);
    }
    details["kind"] = Value::from(resource.plural);
    if !uid.is_empty() {
        details["uid"] = Value::from(uid);
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_schema::resource::DEPLOYMENTS;

    #[test]
    fn status_messages_match_kubernetes() {
        let deployments = &DEPLOYMENTS;
        let status = Status::not_found(deployments, "web").to_value();
        assert_eq!(status["message"], "deployments.apps \"web\" not found");
        assert_eq!(status["details"], json!({"name": "web", "group": "apps", "kind": "deployments"}));
        assert_eq!(status["code"], 404);
        let cause = |field: &str| Cause {
            reason: "FieldValueRequired".into(),
            message: "Required value".into(),
            field: field.into(),
        };
        let one = Status::invalid(deployments, "web", vec![cause("spec")]);
        assert_eq!(one.message, "Deployment.apps \"web\" is invalid: spec: Required value");
        let two = Status::invalid(deployments, "web", vec![cause("a"), cause("b")]);
        assert_eq!(two.message, "Deployment.apps \"web\" is invalid: [a: Required value, b: Required value]");
    }
}
