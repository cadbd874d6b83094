//! The resources that the garbage collector and the namespace controller delete.

use berth_api::resource::{
    BINDINGS, COMPONENT_STATUSES, HORIZONTAL_POD_AUTOSCALERS_V1, LOCAL_SUBJECT_ACCESS_REVIEWS, NEW_EVENTS,
    RESOURCES, Resource, SELF_SUBJECT_ACCESS_REVIEWS, SELF_SUBJECT_REVIEWS, SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS, group_of,
};

/// Requests without stored objects, second forms of stored objects, and what cannot be watched or deleted.
const EXCLUDED: [Resource; 10] = [
    BINDINGS,
    SELF_SUBJECT_REVIEWS,
    TOKEN_REVIEWS,
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    COMPONENT_STATUSES,
    HORIZONTAL_POD_AUTOSCALERS_V1,
    NEW_EVENTS,
];

/// Every resource with stored objects.
pub(crate) fn stored() -> impl Iterator<Item = &'static Resource> {
    RESOURCES.iter().filter(|resource| !EXCLUDED.contains(resource))
}

/// The stored resource that an owner reference names; its version does not matter.
pub(crate) fn owner_resource(api_version: &str, kind: &str) -> Option<&'static Resource> {
    stored().find(|resource| resource.kind == kind && resource.group == group_of(api_version))
}

#[cfg(test)]
mod tests {
    use berth_api::resource::DEPLOYMENTS;
    use berth_schema::resource::{RESOURCES as SERVED, Resource, Storage};

    use super::*;

    #[test]
    fn every_stored_resource_is_known() {
        let paths = |resources: Vec<String>| std::collections::BTreeSet::from_iter(resources);
        let is_stored = |r: &&&Resource| r.storage == Storage::Own && r.verbs.contains(&"watch");
        let served = SERVED.iter().filter(is_stored);
        let served = served.map(|r| format!("{}/{} {} {}", r.api_version(), r.plural, r.kind, r.namespaced));
        let listed =
            stored().map(|r| format!("{}/{} {} {}", r.api_version(), r.plural, r.kind, r.namespaced));
        assert_eq!(paths(listed.collect()), paths(served.collect()));
        assert_eq!(owner_resource("apps/v1beta1", "Deployment"), Some(&DEPLOYMENTS));
        assert_eq!(owner_resource("v1", "Deployment"), None);
    }
}
