//! The resources that discovery describes.

use std::cmp::Ordering;

use berth_api::feature_gates::FeatureGates;
use berth_api::syntax::compare_versions;
use berth_schema::resource::{METRICS, RESOURCES, Resource};

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
        groups
    }

    pub(super) fn resources(self, group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
        self.iter().filter(move |r| r.group == group && r.version == version)
    }
}
