//! Admission webhooks: the Mutating- and ValidatingWebhookConfigurations of the cluster are called before an
//! object is created, changed or deleted.
//!
//! [`Hook`]s are read from configurations once; [`Webhooks`] calls those that match a request. The rules are
//! those of "Dynamic Admission Control" of the Kubernetes documentation. Not supported: `matchConditions`,
//! which count as true (and [`warnings`] says so), and reviews older than `admission.k8s.io/v1`.

mod call;
mod check;
mod hook;
mod review;

use serde_json::Value;

pub use call::{Resolver, Webhooks};
pub use check::{check, warnings};
pub use hook::Hook;

/// What is done to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// It is new.
    Create,
    /// It changes.
    Update,
    /// It goes.
    Delete,
}

impl Operation {
    /// The word in rules and reviews.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// A request that webhooks are asked about.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// Group, version and plural of the resource.
    pub resource: (&'a str, &'a str, &'a str),
    /// The part of the object; empty for the object itself.
    pub subresource: &'a str,
    /// Group, version and kind of the object.
    pub kind: (&'a str, &'a str, &'a str),
    /// Namespace of the object; empty for cluster-scoped ones.
    pub namespace: &'a str,
    /// Name of the object; may be empty when it is created.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a str,
    /// The groups of who asks.
    pub groups: &'a [String],
    /// The object as it is; `None` when it is created.
    pub old_object: Option<&'a Value>,
    /// Labels of the object's namespace; `None` for cluster-scoped objects.
    pub namespace_labels: Option<&'a Value>,
    /// Whether the request is only tried.
    pub dry_run: bool,
}

/// A webhook, or the lack of its answer, is against the request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    /// HTTP status: what the webhook says, 400 if it says nothing, 500 if it could not be asked.
    pub code: u16,
    /// Machine-readable; what the webhook says, may be empty.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl Denied {
    fn internal(message: impl std::fmt::Display) -> Denied {
        Denied {
            code: 500,
            reason: "InternalError".to_owned(),
            message: format!("Internal error occurred: {message}"),
        }
    }
}

/// What mutating webhooks made of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutated {
    /// The object.
    pub object: Value,
    /// Whether it changed.
    pub changed: bool,
}

#[cfg(test)]
mod tests;
