//! A cluster in memory, for tests of rules without a server and without a store.

use std::sync::Arc;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::NamespacedName;
use berth_schema::resource::{PODS, Resource, of_kind};
use serde_json::Value;

use super::interface::{Context, Lookup};
use crate::authz::HeldPermissions;
use crate::request::{Attributes, User};
use crate::store::{Claim, Object};

/// Some objects, and what users may do.
#[derive(Default)]
pub struct FakeCluster {
    objects: Vec<(&'static Resource, Arc<Object>)>,
    /// Verb, resource and name.
    allowed: Vec<[&'static str; 3]>,
}

impl FakeCluster {
    pub fn with(mut self, object: Value) -> FakeCluster {
        let text = |field: &str| object[field].as_str().unwrap();
        let resource = of_kind(text("apiVersion"), text("kind")).unwrap();
        let revision = self.objects.len() as u64 + 1;
        let object = Object::encode(resource, &object, revision);
        self.objects.push((resource, Arc::new(object)));
        self
    }

    /// With a permission of all users.
    pub fn allow(mut self, verb: &'static str, resource: &'static str, name: &'static str) -> FakeCluster {
        self.allowed.push([verb, resource, name]);
        self
    }

    pub fn context<'a>(&'a self, user: &'a User) -> Context<'a> {
        Context {
            lookup: self,
            user,
            extensions: true,
            feature_gates: FeatureGates::default(),
            taints_new_nodes: false,
            requested: &PODS,
            subresource: "",
            admitted: None,
        }
    }
}

impl Lookup for FakeCluster {
    fn get(&self, resource: &Resource, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let mut objects = self.list(resource, Some(namespace)).into_iter();
        objects.find(|object| object.facts.name() == name)
    }

    fn list(&self, resource: &Resource, namespace: Option<&str>) -> Vec<Arc<Object>> {
        let objects = self.objects.iter().filter(|(of, _)| *of == resource).map(|(_, object)| object.clone());
        objects.filter(|object| namespace.is_none_or(|name| object.facts.namespace() == name)).collect()
    }

    fn is_claimed(&self, resource: &Resource, claim: &Claim) -> bool {
        self.list(resource, None).iter().any(|object| object.facts.claims.contains(claim))
    }

    fn allows(&self, _user: &User, what: &Attributes<'_>) -> bool {
        self.allowed.contains(&[what.verb, what.resource, what.name])
    }

    fn held(&self, _user: &User, _namespace: &str) -> HeldPermissions {
        HeldPermissions::default()
    }

    fn rules_of_role(&self, _role: &NamespacedName) -> Option<Vec<Arc<Object>>> {
        None
    }
}
