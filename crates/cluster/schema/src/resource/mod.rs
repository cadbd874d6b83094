//! The resources that the API server serves: their names come from [`berth_api::resource`], and this table adds verbs,
//! subresources, storage and selectable fields. Routing, discovery, storage and authorization derive from it.

mod custom;
mod table;

use std::ops::Deref;

use crate::types::{Type, type_of};
pub use custom::{Custom, Defined, MAX_CUSTOM, custom_collection, custom_collection_at, defined, has_room};
pub use table::*;

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The storage of a resource's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In its own collection.
    Own,
    /// In the collection of another resource, whose objects are converted.
    Shared(&'static Resource),
    /// Not stored: the request is only answered, such as a `SubjectAccessReview`.
    None,
}

/// A field that field selectors may name, besides `metadata.name` and `metadata.namespace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in a selector, such as `spec.nodeName`.
    pub name: &'static str,
    /// JSON pointers to the value in the stored object; the first one that is present counts.
    pub pointers: &'static [&'static str],
    /// The default of an absent value.
    pub default: &'static str,
}

/// A subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The last segment of its path, such as `status`.
    pub name: &'static str,
    /// The group of request and response bodies, which may differ from the resource's.
    pub group: &'static str,
    /// The version of request and response bodies.
    pub version: &'static str,
    /// The kind of request and response bodies.
    pub kind: &'static str,
    /// The verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
}

/// A resource of the API. Each is a separate `static`, so that its address identifies it.
#[derive(Debug)]
pub struct Resource {
    /// Group, version, kind and name in paths.
    pub names: berth_api::resource::Resource,
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// The verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
    /// Subresources.
    pub subresources: &'static [Subresource],
    /// The storage of the objects.
    pub storage: Storage,
    /// Whether an update of a missing object creates it.
    pub create_on_update: bool,
    /// The fields that field selectors may name.
    pub selectable_fields: &'static [SelectableField],
    /// For a resource that a CustomResourceDefinition defines, what it says.
    pub custom: Option<&'static Custom>,
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for Resource {}

impl Deref for Resource {
    type Target = berth_api::resource::Resource;

    fn deref(&self) -> &Self::Target {
        &self.names
    }
}

impl Resource {
    /// The kind of a list of these.
    pub fn list_kind(&self) -> String {
        self.custom.map_or_else(|| format!("{}List", self.kind), |custom| custom.list_kind.to_owned())
    }

    /// The name of one object.
    pub fn singular(&self) -> String {
        self.custom.map_or_else(|| self.names.singular(), |custom| custom.singular.to_owned())
    }

    /// The type of its objects; `None` if it is not known.
    pub fn ty(&self) -> Option<&'static Type> {
        match self.custom {
            Some(custom) => Some(custom.ty),
            None => type_of(self.group, self.version, self.kind),
        }
    }

    /// A subresource by the last segment of its path.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The index of the selectable field that indexes watches: each node watches its own pods.
    pub fn watched_field(&self) -> Option<usize> {
        self.selectable_fields.iter().position(|field| field.name == "spec.nodeName")
    }

    /// Whether only the subresource `status` can change `status`.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The resource in whose collection the objects are; `None` if they are not stored.
    pub fn stored(&'static self) -> Option<&'static Resource> {
        match self.storage {
            Storage::Own => Some(self),
            Storage::Shared(resource) => Some(resource),
            Storage::None => None,
        }
    }

    /// The index in [`RESOURCES`]; custom resources follow.
    pub fn index(&self) -> usize {
        if let Some(custom) = self.custom {
            return RESOURCES.len() + custom.slot;
        }
        RESOURCES.iter().position(|resource| std::ptr::eq(*resource, self)).unwrap_or_default()
    }
}

/// The resource at `/apis/GROUP/VERSION/PLURAL`.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().copied().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// The stored resource of objects with this `apiVersion` and `kind`.
pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    RESOURCES
        .iter()
        .copied()
        .find(|r| r.group == group && r.version == version && r.kind == kind && r.storage != Storage::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_in_the_collection_of_their_own_or_of_another_resource() {
        for (i, resource) in RESOURCES.iter().enumerate() {
            assert_eq!(resource.index(), i);
            let stored = resource.stored().map(|stored| stored.storage);
            assert!(matches!(stored, None | Some(Storage::Own)), "{}", resource.group_resource());
        }
    }

    #[test]
    fn resources_are_found() {
        assert_eq!(find("apps", "v1", "deployments").unwrap().kind, "Deployment");
        assert_eq!(of_kind("v1", "Pod").unwrap().plural, "pods");
        assert!(of_kind("v1", "Binding").is_none());
        assert!(find("apps", "v1beta1", "deployments").is_none());
        assert_eq!(find("events.k8s.io", "v1", "events").unwrap().stored().unwrap().group, "");
    }
}
