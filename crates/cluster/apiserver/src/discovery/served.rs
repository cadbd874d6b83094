//! The resources that discovery describes.

use std::cmp::Ordering;

use berth_api::feature_gates::FeatureGates;
use berth_api::syntax::compare_versions;
use berth_schema::resource::{METRICS, RESOURCES, Resource};

/// The order in which clients look for a name in the groups; those of custom resources follow, and then metrics.
const GROUPS: [&str; 21] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// The built-in resources whose gates are on, metrics, and these custom ones.
#[derive(Clone, Copy)]
pub(super) struct Served<'c> {
    pub(super) gates: FeatureGates,
    pub(super) custom: &'c [&'static Resource],
}

impl<'c> Served<'c> {
    fn iter(self) -> impl Iterator<Item = &'static Resource> + use<'c> {
        let enabled = RESOURCES.iter().filter(move |resource| resource.is_discoverable(self.gates));
        enabled.chain(&METRICS).chain(self.custom).copied()
    }

    /// The groups with their versions, in the order of discovery; the core group is the empty one.
    pub(super) fn groups(self) -> Vec<(&'static str, Vec<&'static str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for resource in self.iter() {
            match groups.iter_mut().find(|(group, _)| *group == resource.group) {
                Some((_, versions)) if versions.contains(&resource.version) => {}
                Some((_, versions)) => versions.push(resource.version),
                None => groups.push((resource.group, vec![resource.version])),
            }
        }
        // Stable versions first, the newest of each first.
        for (_, versions) in &mut groups {
            versions.sort_by(|a, b| compare_versions(b, a).unwrap_or(Ordering::Equal));
        }
        groups.sort_by_key(|(group, _)| {
            let place = GROUPS.iter().position(|known| known == group);
            (
                place.unwrap_or(GROUPS.len()) + usize::from(*group == METRICS[0].group),
                if place.is_some() { "" } else { *group },
            )
        });
        groups
    }

    pub(super) fn resources(self, group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
        self.iter().filter(move |r| r.group == group && r.version == version)
    }
}
