//! The annotations that make a pod a member of a group without an object.

use super::super::field::{Errors, Path};
use berth_api::object::Pod;
use berth_api::object::group::{
    GROUP_ANNOTATION, GROUP_MIN_ANNOTATION, GROUP_OF_OWNER, GROUP_PREFERRED_TOPOLOGY_ANNOTATION,
    GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_SLICE_SIZE_ANNOTATION, GROUP_SLICE_TOPOLOGY_ANNOTATION,
    TopologyLevel,
};
use berth_api::syntax;

/// Members that a group may require at most.
const MAX_MIN: u32 = 100_000;

pub(super) fn validate_group_annotations(pod: &Pod, errors: &mut Errors) {
    let annotations = &pod.metadata.annotations;
    let root = Path::Root("metadata.annotations");
    match (annotations.get(GROUP_ANNOTATION), annotations.get(GROUP_MIN_ANNOTATION)) {
        (None, None) => {}
        (None, Some(_)) => {
            errors.required(&root.key(GROUP_ANNOTATION), "names the group of which this is the minimum")
        }
        (Some(group), min) => {
            errors.invalid_each(&root.key(GROUP_ANNOTATION), group, syntax::dns_subdomain(group));
            let path = root.key(GROUP_MIN_ANNOTATION);
            match min {
                None if group == GROUP_OF_OWNER => {}
                Some(_) if group == GROUP_OF_OWNER => {
                    errors.forbidden(&path, "the owner of the pods says how many they are");
                }
                None => errors.required(&path, "how many members have to be placed at least"),
                Some(min) if !min.parse().is_ok_and(|min: u32| (1..=MAX_MIN).contains(&min)) => {
                    errors.invalid(&path, min, format!("must be an integer from 1 to {MAX_MIN}"));
                }
                Some(_) => {}
            }
        }
    }
    for name in [GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_SLICE_TOPOLOGY_ANNOTATION] {
        if let Some(key) = annotations.get(name) {
            errors.invalid_each(&root.key(name), key, TopologyLevel::validate_key(key));
        }
    }
    if let Some(keys) = annotations.get(GROUP_PREFERRED_TOPOLOGY_ANNOTATION) {
        for key in keys.split(',').map(str::trim) {
            errors.invalid_each(
                &root.key(GROUP_PREFERRED_TOPOLOGY_ANNOTATION),
                keys,
                TopologyLevel::validate_key(key),
            );
        }
    }
    let (topology, size) = (GROUP_SLICE_TOPOLOGY_ANNOTATION, GROUP_SLICE_SIZE_ANNOTATION);
    let path = root.key(size);
    match (annotations.contains_key(topology), annotations.get(size)) {
        (false, None) => {}
        (false, Some(_)) => {
            errors.required(&root.key(topology), "the node label whose domains take whole slices")
        }
        (true, None) => errors.required(&path, "how many pods a slice has"),
        (true, Some(size)) if !size.parse().is_ok_and(|size: u32| (1..=MAX_MIN).contains(&size)) => {
            errors.invalid(&path, size, format!("must be an integer from 1 to {MAX_MIN}"));
        }
        (true, Some(_)) => {}
    }
}
