//! The resources that discovery describes.

use berth_api::feature_gates::FeatureGates;
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
        groups
    }

    pub(super) fn resources(self, group: &str, version: &str) -> impl Iterator<Item = &'static Resource> {
        self.iter().filter(move |r| r.group == group && r.version == version)
    }
}
