//! What is answered: `AdmissionResponse` of `admission.k8s.io/v1`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::request::{API_VERSION, AdmissionRequest, KIND, RequestError};
use crate::rule::Rule;

/// The API server takes no longer warnings than this, in bytes, over all warnings of a request.
const MAX_WARNING_BYTES: usize = 4096;
/// No single message is longer, in bytes.
const MAX_MESSAGE_BYTES: usize = 16 * 1024;
/// No audit annotation is longer, in bytes.
const MAX_AUDIT_BYTES: usize = 4096;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Why the request is refused; none if it is allowed.
    pub denied: Option<Denial>,
    /// Warnings for the user; also present if the request is allowed.
    pub warnings: Vec<String>,
    /// Operations of a JSON patch for the object; empty if it stays as it is.
    pub patch: Vec<Value>,
    /// What was measured, by the name of the rule: the API server adds it to its audit log.
    pub audit: BTreeMap<&'static str, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    pub rule: Rule,
    /// HTTP status: 403, or 422 for what is not valid.
    pub code: u16,
    /// The reason behind the code as Kubernetes names it: `Forbidden`, `Invalid`.
    pub reason: &'static str,
    /// The prefix of a message shown without context, such as `pods "web" is forbidden: `.
    pub subject: String,
    pub message: String,
}

/// Why there is no answer. The caller decides about the request: an API server by `failurePolicy`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReviewError {
    #[error("{0}")]
    BadRequest(String),
    #[error("the state of the cluster is not complete yet; not listed: {0}")]
    NotReady(String),
    #[error("{0} has not been seen yet; the request may be sent again")]
    Unseen(String),
    #[error("the placement quota: {0}")]
    Quota(String),
    #[error("the ledger of the binding guard: {0}")]
    Ledger(String),
    #[error("{0} needs the state of the cluster, which is not followed here")]
    NoState(&'static str),
}

impl From<RequestError> for ReviewError {
    fn from(error: RequestError) -> ReviewError {
        ReviewError::BadRequest(error.to_string())
    }
}

impl Denial {
    /// As kube-apiserver's plugins refuse: `pods "web" is forbidden: MESSAGE`.
    pub fn forbidden(rule: Rule, request: &AdmissionRequest, message: impl Into<String>) -> Denial {
        Denial::forbidden_name(rule, request, request.shown_name(), message)
    }

    /// As [`Denial::forbidden`], with the name that the message is to give.
    pub fn forbidden_name(
        rule: Rule,
        request: &AdmissionRequest,
        name: &str,
        message: impl Into<String>,
    ) -> Denial {
        let subject = format!("{} {name:?} is forbidden: ", request.group_resource());
        Denial { rule, code: 403, reason: "Forbidden", subject, message: message.into() }
    }

    /// As kube-apiserver refuses what is not valid: `Pod "web" is invalid: MESSAGE`.
    pub fn invalid(rule: Rule, kind: &str, name: &str, message: impl Into<String>) -> Denial {
        let subject = format!("{kind} {name:?} is invalid: ");
        Denial { rule, code: 422, reason: "Invalid", subject, message: message.into() }
    }

    pub fn text(&self) -> String {
        format!("{}{}", self.subject, self.message)
    }
}

impl Answer {
    /// Allowed, without warnings.
    pub fn allowed() -> Answer {
        Answer::default()
    }

    pub fn denied(denial: Denial) -> Answer {
        Answer { denied: Some(denial), ..Answer::default() }
    }

    pub fn is_allowed(&self) -> bool {
        self.denied.is_none()
    }

    /// The `AdmissionResponse` for a webhook: the message of a denial has no prefix.
    pub fn response(&self, uid: &str) -> Value {
        self.with_status(uid, Denial::text)
    }

    /// The `AdmissionResponse` for a caller that puts `PLURAL "NAME" is forbidden` before the message of a 403 itself.
    pub fn plugin_response(&self, uid: &str) -> Value {
        self.with_status(uid, |denial| match denial.code {
            403 => denial.message.clone(),
            _ => denial.text(),
        })
    }

    pub fn review(&self, uid: &str) -> Value {
        json!({"apiVersion": API_VERSION, "kind": KIND, "response": self.response(uid)})
    }

    fn with_status(&self, uid: &str, text: impl Fn(&Denial) -> String) -> Value {
        let mut response = json!({"uid": uid, "allowed": self.is_allowed()});
        if let Some(denial) = &self.denied {
            let message = shortened(text(denial), MAX_MESSAGE_BYTES);
            response["status"] = json!({"code": denial.code, "reason": denial.reason, "message": message});
        } else if !self.patch.is_empty() {
            let patch = Value::from(self.patch.clone()).to_string();
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(patch).into();
        }
        if !self.audit.is_empty() {
            let annotation = |(rule, text): (&&'static str, &String)| {
                ((*rule).to_owned(), Value::from(shortened(text.clone(), MAX_AUDIT_BYTES)))
            };
            response["auditAnnotations"] = self.audit.iter().map(annotation).collect();
        }
        let warnings = fitting(&self.warnings);
        if !warnings.is_empty() {
            response["warnings"] = warnings.into();
        }
        response
    }
}

/// Warnings up to the API server's limit; the last one contains the number of omitted ones.
fn fitting(warnings: &[String]) -> Vec<Cow<'_, str>> {
    let mut left = MAX_WARNING_BYTES - 64;
    let mut fitting: Vec<Cow<'_, str>> = Vec::new();
    for (i, warning) in warnings.iter().enumerate() {
        let Some(rest) = left.checked_sub(warning.len()) else {
            fitting.push(format!("and {} more warnings", warnings.len() - i).into());
            break;
        };
        left = rest;
        fitting.push(warning.into());
    }
    fitting
}

fn shortened(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most - 3));
        text.push_str("...");
    }
    text
}
