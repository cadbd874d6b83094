//! Which resources there are. The table is the one source for routing, discovery, storage and authorization.

mod table;

pub use table::RESOURCES;

/// Where the objects of a resource are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a collection of its own.
    Own,
    /// In the collection of another resource, whose objects are converted: `(group, plural)`.
    Shared(&'static str, &'static str),
    /// Nowhere: a request that is answered and forgotten, such as a `SubjectAccessReview`.
    None,
}

/// A field that field selectors may name, besides `metadata.name` and `metadata.namespace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in a selector, such as `spec.nodeName`.
    pub name: &'static str,
    /// Where the value is in the stored object; the first of these JSON pointers that is there.
    pub pointers: &'static [&'static str],
    /// What an absent value counts as.
    pub default: &'static str,
}

/// A part of a resource with a path of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// The last segment of its path, such as `status`.
    pub name: &'static str,
    /// The group of what is sent and answered, which is not always the resource's.
    pub group: &'static str,
    /// The version of what is sent and answered.
    pub version: &'static str,
    /// The kind of what is sent and answered.
    pub kind: &'static str,
    /// The verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
}

/// A resource of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Kind of one object.
    pub kind: &'static str,
    /// The name in paths.
    pub plural: &'static str,
    /// The name of one, for people.
    pub singular: &'static str,
    /// Abbreviations for people.
    pub short_names: &'static [&'static str],
    /// Groups of resources for people, such as `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// The verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
    /// Parts with a path of their own.
    pub subresources: &'static [Subresource],
    /// Where objects are.
    pub storage: Storage,
    /// Whether an update of what is not there creates it.
    pub create_on_update: bool,
    /// What field selectors may name.
    pub selectable_fields: &'static [SelectableField],
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods` or `deployments.apps`, as messages name a resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The kind of a list of these.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// A subresource by the last segment of its path.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The place among the selectable fields of the one by which many watches select: each node watches its own pods.
    pub fn watched_field(&self) -> Option<usize> {
        self.selectable_fields.iter().position(|field| field.name == "spec.nodeName")
    }

    /// Whether changes of `status` go only through the subresource `status`.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The resource in whose collection the objects are; `None` if they are not stored.
    pub fn stored(&'static self) -> Option<&'static Resource> {
        match self.storage {
            Storage::Own => Some(self),
            Storage::Shared(group, plural) => {
                RESOURCES.iter().find(|r| r.group == group && r.plural == plural && r.storage == Storage::Own)
            }
            Storage::None => None,
        }
    }

    /// The place in [`RESOURCES`].
    pub fn index(&self) -> usize {
        RESOURCES.iter().position(|r| r.group == self.group && r.plural == self.plural).unwrap_or_default()
    }
}

/// The resource at `/apis/GROUP/VERSION/PLURAL`.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    RESOURCES.iter().find(|r| r.group == group && r.version == version && r.plural == plural)
}

/// The stored resource of objects with this `apiVersion` and `kind`.
pub fn of_kind(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    RESOURCES
        .iter()
        .find(|r| r.group == group && r.version == version && r.kind == kind && r.storage != Storage::None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_resources_share_a_path_or_a_kind() {
        for (i, a) in RESOURCES.iter().enumerate() {
            assert_eq!(a.index(), i);
            for b in &RESOURCES[i + 1..] {
                assert!((a.group, a.plural) != (b.group, b.plural), "{}", a.qualified());
                assert!((a.group, a.kind) != (b.group, b.kind), "{}", a.qualified());
            }
            assert!(a.storage == Storage::None || a.stored().is_some(), "{}", a.qualified());
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
