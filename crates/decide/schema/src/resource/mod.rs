//! The resources that the API server serves: their names come from [`berth_api::resource`], and this table adds verbs,
//! subresources, storage, selectable fields and types. Routing, discovery, storage and authorization derive from it.

mod resource_1_37;
mod row;
pub(crate) mod scheduling_1_37;
mod table;

pub use crate::custom::{Defined, MAX_CUSTOM, custom_collection, custom_collection_at, defined, has_room};
pub(crate) use row::{CHANGE, GeneratedType, REFERENCE};
pub use row::{Custom, CustomSchema, Resource, SelectableField, Storage, Subresource};
pub use table::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_in_their_collection_or_in_that_of_another_resource() {
        for (i, resource) in RESOURCES.iter().enumerate() {
            assert_eq!(resource.index(), i);
            let stored = resource.stored().map(|stored| stored.storage);
            assert!(matches!(stored, None | Some(Storage::Own)), "{}", resource.group_resource());
        }
    }

    #[test]
    fn the_table_has_the_resources_of_the_api() {
        let names: Vec<_> = RESOURCES.iter().map(|resource| resource.names).collect();
        assert_eq!(names, berth_api::resource::RESOURCES);
        for resource in RESOURCES {
            let can = |verb: &&str| resource.verbs.contains(verb);
            let Some(stored) = resource.stored().filter(|_| ["delete", "list", "watch"].iter().all(can))
            else {
                assert!(!resource.deletable, "{}", resource.group_resource());
                continue;
            };
            let forms = RESOURCES.iter().filter(|form| form.stored() == Some(stored));
            assert_eq!(forms.filter(|form| form.deletable).count(), 1, "{}", resource.group_resource());
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
