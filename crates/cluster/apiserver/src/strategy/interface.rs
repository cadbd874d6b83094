//! What a kind adds to the rules for all objects, and what its rules see of the cluster.

use std::sync::{Arc, OnceLock};

use berth_api::feature_gates::FeatureGates;
use berth_api::object::{NamespacedName, Pod};
use berth_api::syntax;
use berth_schema::resource::Resource;
use serde_json::Value;

use super::fields::{Causes, is_empty};
use super::metadata;
use crate::authz::HeldPermissions;
use crate::request::{ApiResult, Attributes, User};
use crate::store::{Claim, Object};

/// What the rules for an object see of the rest of the cluster.
pub trait Lookup: Sync {
    fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>>;

    /// The objects of a namespace, or of all, in the order of namespace and name.
    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<Arc<Object>>;

    /// Whether an object of a resource has a value that at most one may have.
    fn is_claimed(&self, resource: &Resource, claim: &Claim) -> bool;

    fn allows(&self, user: &User, what: &Attributes<'_>) -> bool;

    /// What roles and built-in permissions give a user in a namespace (in all namespaces, if it is empty).
    fn held(&self, user: &User, namespace: &str) -> HeldPermissions;

    /// The objects whose rules a role has; `None` if there is no such role.
    fn rules_of_role(&self, role: &NamespacedName) -> Option<Vec<Arc<Object>>>;
}

#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub lookup: &'a dyn Lookup,
    pub user: &'a User,
    /// Whether the extensions to Kubernetes' affinity are on.
    pub extensions: bool,
    pub feature_gates: FeatureGates,
    /// Whether new nodes are tainted until they are ready.
    pub taints_new_nodes: bool,
    /// The resource that the request names: the object may be stored in another version or group.
    pub requested: &'a Resource,
    /// What of the object is written; empty for the object itself.
    pub subresource: &'a str,
    /// The pod that is created, as it is admitted: it is read once for all that looks at it from then on.
    pub admitted: Option<&'a OnceLock<Pod>>,
}

/// The specific rules of one kind. Every method defaults to the behaviour of a resource without specific rules.
pub trait Strategy: Sync {
    /// Sets defaults in a new or changed object. The operation is idempotent.
    fn default(&self, _value: &mut Value) {}

    /// Completes a new object after its defaults: initial status, allocated addresses.
    fn prepare_create(&self, _context: &Context<'_>, _value: &mut Value) {}

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, _old: &Value) {
        if matches!(context.subresource, "" | "scale") {
            self.default(new);
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::dns_subdomain(name)
    }

    /// Validates everything but metadata.
    fn validate(&self, _context: &Context<'_>, _value: &Value, _causes: &mut Causes) {}

    /// The fields that [`Self::validate`] looks at in new objects only.
    fn validated_if_new(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether a change is validated before the object that it makes.
    fn validates_change_first(&self) -> bool {
        false
    }

    /// Validates a change of everything but metadata.
    fn validate_update(&self, _context: &Context<'_>, _new: &Value, _old: &Value, _causes: &mut Causes) {}

    /// Validates an object whose status the subresource `status` sets.
    fn validate_status(&self, _new: &Value, _old: &Value, _causes: &mut Causes) {}

    /// Validates by rules of users, after all else. `old` is the object before a change; what did not change is warned of.
    fn validate_rules(
        &self,
        _new: &Value,
        _old: Option<&Value>,
        _causes: &mut Causes,
        _warnings: &mut Vec<String>,
    ) {
    }

    fn validate_subresource(&self, _context: &Context<'_>, _new: &Value, _old: &Value, _causes: &mut Causes) {
    }

    /// Warns of fields that this server stores and ignores.
    fn warnings(&self, _value: &Value) -> Vec<String> {
        Vec::new()
    }

    fn update_warnings(&self, _context: &Context<'_>, _new: &Value, _old: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Refuses a value that another object has, if this object asks for it. A value that was allocated is allocated again.
    fn validate_claim(&self, _value: &Value, _claim: &Claim, _causes: &mut Causes) {}

    /// Checks whether the user may write this content.
    fn authorize(&self, _context: &Context<'_>, _value: &Value) -> ApiResult {
        Ok(())
    }

    fn authorize_update(&self, _context: &Context<'_>, _new: &Value, _old: &Value) -> ApiResult {
        Ok(())
    }

    /// Validates a new object, or completes what admission decides about it.
    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        value: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        self.validate_new(context, resource, value, warnings)?;
        self.authorize(context, value)
    }

    fn validate_new(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        value: &Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let mut causes = Causes::default();
        metadata::validate(resource, &|name| self.name_problems(name), value, &mut causes);
        self.validate(context, value, &mut causes);
        self.validate_rules(value, None, &mut causes, warnings);
        causes.refuse(resource, value)?;
        warnings.extend(self.warnings(value));
        Ok(())
    }

    /// The objects that exist with every object of this name, such as the service account of a namespace.
    fn dependents(&self, _name: &str) -> Vec<Value> {
        Vec::new()
    }

    /// Why an object must not be deleted, if so.
    fn refuses_deletion(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// How many seconds an object may take to end, with the request's `gracePeriodSeconds`; `None` for kinds without such a period.
    fn grace_seconds(&self, _value: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether finalizers keep an object that is being deleted.
    fn has_finalizers(&self, value: &Value) -> bool {
        !is_empty(&value["metadata"]["finalizers"])
    }

    /// Shows in an object that its deletion has begun.
    fn mark_deleting(&self, _value: &mut Value) {}
}
