//! Errors of the API: `Status` objects with Kubernetes' reasons and messages.

use http::StatusCode;
use serde_json::{Value, json};

use berth_schema::resource::Resource;

/// Names of the API, each spelled as its variant; a value without a name is the default.
macro_rules! names {
    ($($(#[$doc:meta])* $of:ident: $($name:ident)*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $of {
            #[default]
            Unnamed,
            $($name,)*
        }

        impl $of {
            pub fn as_str(self) -> &'static str {
                match self {
                    $of::Unnamed => "",
                    $($of::$name => stringify!($name),)*
                }
            }

            /// The variant of a name; [`Self::Unnamed`] for other texts.
            pub fn named(name: &str) -> $of {
                match name {
                    $(stringify!($name) => $of::$name,)*
                    _ => $of::Unnamed,
                }
            }
        }
    )*};
}

names! {
    /// Why a request failed, for programs.
    Reason: AlreadyExists BadRequest Conflict Expired Forbidden Gone InternalError Invalid MethodNotAllowed NotAcceptable NotFound
        NotImplemented RequestEntityTooLarge ServerTimeout ServiceUnavailable Timeout TooManyRequests Unauthorized
        UnsupportedMediaType;
    /// What is wrong with one field, or with the whole request.
    CauseType: DisruptionBudget FieldManagerConflict FieldValueDuplicate FieldValueForbidden FieldValueInvalid FieldValueNotFound
        FieldValueNotSupported FieldValueRequired FieldValueTooLong FieldValueTooMany FieldValueTypeInvalid NamespaceTerminating
        NodeCapacity ResourceVersionTooLarge UnsupportedPlatform;
}

impl Reason {
    /// The code of a failure for this reason, unless it says another.
    pub fn code(self) -> StatusCode {
        match self {
            Reason::AlreadyExists | Reason::Conflict => StatusCode::CONFLICT,
            Reason::BadRequest => StatusCode::BAD_REQUEST,
            Reason::Expired | Reason::Gone => StatusCode::GONE,
            Reason::Forbidden => StatusCode::FORBIDDEN,
            Reason::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            Reason::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Reason::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Reason::NotFound => StatusCode::NOT_FOUND,
            Reason::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            Reason::RequestEntityTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Reason::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Reason::Timeout => StatusCode::GATEWAY_TIMEOUT,
            Reason::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Reason::Unauthorized => StatusCode::UNAUTHORIZED,
            Reason::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Reason::Unnamed | Reason::InternalError | Reason::ServerTimeout => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

/// One of several reasons for a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    pub cause_type: CauseType,
    pub message: String,
    /// Path of the field; may be empty.
    pub field: String,
}

impl Cause {
    pub fn new(cause_type: CauseType, field: impl Into<String>, message: impl Into<String>) -> Cause {
        Cause { cause_type, field: field.into(), message: message.into() }
    }

    pub fn invalid(field: &str, value: impl std::fmt::Display, why: &str) -> Cause {
        Cause::new(CauseType::FieldValueInvalid, field, format!("Invalid value: {value}: {why}"))
    }

    pub fn forbidden(field: &str, why: &str) -> Cause {
        Cause::new(CauseType::FieldValueForbidden, field, format!("Forbidden: {why}"))
    }

    /// `supported` are the values as they are written.
    pub fn not_supported(field: &str, value: impl std::fmt::Display, supported: &str) -> Cause {
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Cause::new(CauseType::FieldValueNotSupported, field, message)
    }
}

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub code: StatusCode,
    pub reason: Reason,
    pub message: String,
    pub details: Details,
    /// `metadata.continue`, with which a list may go on.
    pub list_continue: String,
    pub warnings: Vec<String>,
}

/// What a request gets, or the failure that answers it.
pub type ApiResult<T = ()> = Result<T, Box<Status>>;

impl Status {
    pub fn new(reason: Reason, message: impl Into<String>) -> Box<Status> {
        let details = Details::default();
        let (message, list_continue) = (message.into(), String::new());
        Box::new(Status {
            code: reason.code(),
            reason,
            message,
            details,
            list_continue,
            warnings: Vec::new(),
        })
    }

    /// A failure as the router of kube-apiserver answers it.
    pub fn of_router(reason: Reason, message: impl Into<String>) -> Box<Status> {
        let mut status = Status::new(reason, message);
        status.details.is_shown = true;
        status
    }

    pub fn with_warnings(mut self: Box<Self>, warnings: Vec<String>) -> Box<Status> {
        self.warnings = warnings;
        self
    }

    pub fn with_cause(
        mut self: Box<Self>,
        cause_type: CauseType,
        field: &str,
        message: impl Into<String>,
    ) -> Box<Status> {
        self.details.causes = vec![Cause::new(cause_type, field, message)];
        self
    }

    fn about(self: Box<Self>, resource: &Resource, name: &str) -> Box<Status> {
        self.named(resource.plural, resource.group, name)
    }

    fn named(mut self: Box<Self>, kind: &str, group: &str, name: &str) -> Box<Status> {
        let Details { kind: of_kind, group: of_group, name: of_name, .. } = &mut self.details;
        (*of_kind, *of_group, *of_name) = (kind.to_owned(), group.to_owned(), name.to_owned());
        self
    }

    pub fn not_found(resource: &Resource, name: &str) -> Box<Status> {
        let message = format!("{} \"{name}\" not found", resource.group_resource());
        Status::new(Reason::NotFound, message).about(resource, name)
    }

    pub fn no_such_path() -> Box<Status> {
        Status::of_router(Reason::NotFound, "the server could not find the requested resource")
    }

    /// The server does not do this; `what` names it and says why.
    pub fn not_implemented(what: impl std::fmt::Display) -> Box<Status> {
        let message = format!("this API server does not support {what}");
        Status::new(Reason::NotImplemented, message)
    }

    pub fn already_exists(resource: &Resource, name: &str) -> Box<Status> {
        let message = format!("{} \"{name}\" already exists", resource.group_resource());
        Status::new(Reason::AlreadyExists, message).about(resource, name)
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Box<Status> {
        Status::conflict_on(resource.plural, resource.group, name, why)
    }

    /// The same of what is called otherwise than its resource.
    pub fn conflict_on(kind: &str, group: &str, name: &str, why: &str) -> Box<Status> {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let message = format!("Operation cannot be fulfilled on {qualified} \"{name}\": {why}");
        Status::new(Reason::Conflict, message).named(kind, group, name)
    }

    /// An object of this namespace and name does not have the uid or the version that a change requires. kube-apiserver says
    /// under which key it stores the object.
    pub fn precondition(
        resource: &Resource,
        namespace: &str,
        name: &str,
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
        Status::new(Reason::Forbidden, message).about(resource, name)
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
        let mut status = Status::new(Reason::Invalid, message);
        status.details.causes = causes;
        status.named(kind, group, name)
    }

    pub fn bad_request(message: impl Into<String>) -> Box<Status> {
        Status::new(Reason::BadRequest, message)
    }

    pub fn other_namespace() -> Box<Status> {
        Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    pub fn method_not_allowed() -> Box<Status> {
        let message = "the server does not allow this method on the requested resource";
        Status::of_router(Reason::MethodNotAllowed, message)
    }

    /// Options of a request are invalid: `kind` is that of the options.
    pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Box<Status> {
        Status::invalid_kind("meta.k8s.io", kind, "", causes)
    }

    /// The version is older than the history, or the list's snapshot has expired.
    pub fn expired(message: impl Into<String>) -> Box<Status> {
        Status::new(Reason::Expired, message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Box<Status> {
        let text = message.to_string();
        let message = format!("Internal error occurred: {text}");
        let status = Status::new(Reason::InternalError, message);
        status.with_cause(CauseType::Unnamed, "", text)
    }

    /// The server is overloaded; the client should retry later.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Box<Status> {
        let mut status = Status::new(Reason::TooManyRequests, message);
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
        if self.reason != Reason::Unnamed {
            object["reason"] = Value::from(self.reason.as_str());
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
                let Cause { cause_type, message, field } = cause;
                for (key, text) in [("reason", cause_type.as_str()), ("message", message), ("field", field)] {
                    if !text.is_empty() {
                        object.insert(key.to_owned(), Value::from(text));
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
        let cause = |field: &str| Cause::new(CauseType::FieldValueRequired, field, "Required value");
        let one = Status::invalid(deployments, "web", vec![cause("spec")]);
        assert_eq!(one.message, "Deployment.apps \"web\" is invalid: spec: Required value");
        let two = Status::invalid(deployments, "web", vec![cause("a"), cause("b")]);
        assert_eq!(two.message, "Deployment.apps \"web\" is invalid: [a: Required value, b: Required value]");
    }
}
