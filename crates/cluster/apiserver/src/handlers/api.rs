//! What handlers work with.

use std::sync::Arc;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_schema::resource::Resource;
use tokio_util::sync::CancellationToken;

use super::admission::AdmissionChain;
use crate::authn::Authenticator;
use crate::authz::{Authorizer, HeldPermissions};
use crate::quota::Quotas;
use crate::request::{Attributes, User};
use crate::store::{Claim, Filter, Object, Store};
use crate::strategy::{Context, Lookup};

/// The parts of a server that requests for objects need.
pub struct Api {
    pub store: Store,
    pub authenticator: Authenticator,
    pub authorizer: Authorizer,
    pub admission: AdmissionChain,
    pub quotas: Quotas,
    /// Whether the extensions to Kubernetes' affinity are on.
    pub extensions: bool,
    pub feature_gates: FeatureGates,
    /// Whether new nodes are tainted until they are ready.
    pub taints_new_nodes: bool,
    /// Ends watches.
    pub stop: CancellationToken,
}

impl Api {
    /// The circumstances of a user's request that names a version of the API.
    pub fn context<'a>(
        &'a self,
        user: &'a User,
        requested: &'a Resource,
        subresource: &'a str,
    ) -> Context<'a> {
        let Api { extensions, feature_gates, taints_new_nodes, .. } = *self;
        Context {
            lookup: self,
            user,
            extensions,
            feature_gates,
            taints_new_nodes,
            requested,
            subresource,
            admitted: None,
        }
    }
}

impl Lookup for Api {
    fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.store.get(resource, namespace, name)
    }

    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let filter = namespace.map_or_else(Filter::default, Filter::in_namespace);
        self.store.list(resource, &filter).1
    }

    fn is_claimed(&self, resource: &Resource, claim: &Claim) -> bool {
        self.store.is_claimed(resource, claim)
    }

    fn allows(&self, user: &User, what: &Attributes<'_>) -> bool {
        self.authorizer.allows(user, what)
    }

    fn held(&self, user: &User, namespace: &str) -> HeldPermissions {
        self.authorizer.held(user, namespace)
    }

    fn rules_of_role(&self, role: &NamespacedName) -> Option<Vec<Arc<Object>>> {
        self.authorizer.rules_of_role(role)
    }
}
