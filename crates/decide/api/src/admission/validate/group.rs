//! The annotations that make a pod a member of a group without an object.

use super::super::field::{Errors, Path};
use crate::object::Pod;
use crate::object::group::{
    GROUP_ANNOTATION, GROUP_MIN_ANNOTATION, GROUP_OF_OWNER, GROUP_PREFERRED_TOPOLOGY_ANNOTATION,
    GROUP_REQUIRED_TOPOLOGY_ANNOTATION,
};
use crate::syntax;

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
    let topologies = [GROUP_REQUIRED_TOPOLOGY_ANNOTATION, GROUP_PREFERRED_TOPOLOGY_ANNOTATION];
    for name in topologies {
        if let Some(key) = annotations.get(name) {
            errors.invalid_each(&root.key(name), key, syntax::label_key(key));
        }
    }
    if topologies.iter().all(|name| annotations.contains_key(*name)) {
        let why = format!("may not be set together with {GROUP_REQUIRED_TOPOLOGY_ANNOTATION}");
        errors.forbidden(&root.key(GROUP_PREFERRED_TOPOLOGY_ANNOTATION), &why);
    }
}
