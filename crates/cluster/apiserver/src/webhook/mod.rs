//! Admission webhooks: the Mutating- and ValidatingWebhookConfigurations of the cluster are called before an
//! object is created, changed or deleted.
//!
//! [`Hook`]s are read from configurations once; [`Webhooks`] calls those that match a request. The rules are
//! those of "Dynamic Admission Control" of the Kubernetes documentation. Not supported: the variable
//! `authorizer` of `matchConditions`.

mod call;
mod hook;
pub(crate) mod local;
mod review;

use std::borrow::Cow;

use berth_schema::{self as schema, patch};
use serde_json::Value;
use tokio::time::Instant;

pub use berth_rules::admission::Operation;
pub use call::{Resolver, Webhooks};
pub use hook::Hook;

use crate::request::{Reason, User};

#[derive(Clone, Copy, Debug)]
pub struct ServedForm {
    /// Group, version and plural of the resource.
    pub resource: (&'static str, &'static str, &'static str),
    /// Group, version and kind of the request body.
    pub kind: (&'static str, &'static str, &'static str),
    /// How objects in this form become those that are stored, and back; `None` if they are the same.
    pub conversion: Option<Conversion>,
}

/// How two forms of an object become each other.
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    /// From the stored form.
    pub shown: fn(Value) -> Value,
    /// Into the stored form.
    pub stored: fn(Value) -> Value,
}

impl ServedForm {
    /// A stored object in this form.
    fn shown<'v>(&self, object: &'v Value) -> Cow<'v, Value> {
        match self.conversion {
            Some(conversion) => Cow::Owned((conversion.shown)(object.clone())),
            None => Cow::Borrowed(object),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct AdmissionAttributes<'a> {
    pub operation: Operation,
    /// The resource in the form of the request.
    pub form: ServedForm,
    /// The other form in which the same object is served. Webhooks whose rules name it receive that form, unless
    /// their `matchPolicy` is `Exact`.
    pub equivalent: Option<ServedForm>,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// Namespace of the object; empty for cluster-scoped ones.
    pub namespace: &'a str,
    /// Name of the object; may be empty when it is created.
    pub name: &'a str,
    pub user: &'a User,
    /// The object as it is; `None` when it is created.
    pub old_object: Option<&'a Value>,
    /// Labels of the object's namespace; `None` for cluster-scoped objects.
    pub namespace_labels: Option<&'a Value>,
    pub dry_run: bool,
    pub deadline: Instant,
}

/// A webhook denied the request, or its call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denied {
    /// HTTP status: the webhook's code, 400 if it gives none, 500 if the call failed.
    pub code: u16,
    pub reason: Reason,
    pub message: String,
}

impl Denied {
    fn too_many() -> Denied {
        let message = "Too many requests, please try again later.".to_owned();
        Denied { code: 429, reason: Reason::TooManyRequests, message }
    }

    fn internal(message: impl std::fmt::Display) -> Denied {
        Denied {
            code: 500,
            reason: Reason::InternalError,
            message: format!("Internal error occurred: {message}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Mutated {
    pub object: Value,
    pub changed: bool,
}

impl Mutated {
    /// Applies a JSON patch to the object in one of its forms. Returns whether it changed.
    fn patch(&mut self, form: &ServedForm, patch: &Value) -> Result<bool, Denied> {
        let mut patched = patch::json::apply(&form.shown(&self.object), patch)
            .map_err(|error| Denied::internal(error.to_string()))?;
        let (group, version, kind) = form.kind;
        if let Some(ty) = schema::type_of(group, version, kind) {
            schema::decode(ty, &mut patched).map_err(Denied::internal)?;
        }
        if let Some(conversion) = form.conversion {
            patched = (conversion.stored)(patched);
        }
        let changed = patched != self.object;
        self.object = patched;
        self.changed |= changed;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests;
