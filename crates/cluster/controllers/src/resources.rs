//! The resources that the garbage collector and the namespace controller delete.

use berth_api::resource::{RESOURCES, Resource, group_of};

/// Every resource with stored objects.
pub(crate) fn stored() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|resource| resource.deletable)
}

/// The stored resource that an owner reference names; its version does not matter.
pub(crate) fn owner_resource(api_version: &str, kind: &str) -> Option<&'static Resource> {
    stored().find(|resource| resource.kind == kind && resource.group == group_of(api_version))
}

#[cfg(test)]
mod tests {
    use berth_api::resource::DEPLOYMENTS;

    use super::*;

    #[test]
    fn owners_are_found_whatever_their_version() {
        assert_eq!(owner_resource("apps/v1beta1", "Deployment"), Some(&DEPLOYMENTS));
        assert_eq!(owner_resource("v1", "Deployment"), None);
    }
}
