//! Device classes.

use std::sync::Arc;

use berth_api::object::device::{DeviceClass, DeviceConfiguration};

use super::selector::Selector;

#[derive(Debug)]
pub(crate) struct ClassRecord {
    pub(crate) name: Arc<str>,
    pub(crate) selectors: Box<[Arc<Selector>]>,
    pub(crate) config: Vec<DeviceConfiguration>,
    /// The extended resource that its devices provide.
    pub(super) resource: Option<Box<str>>,
    /// In seconds since 1970.
    pub(super) created: Option<i64>,
}

impl ClassRecord {
    pub(super) fn compile(class: &DeviceClass, selectors: Box<[Arc<Selector>]>) -> ClassRecord {
        ClassRecord {
            name: class.metadata.name.as_str().into(),
            selectors,
            config: class.spec.config.clone(),
            resource: class.spec.extended_resource_name.as_deref().map(Into::into),
            created: class.metadata.creation_timestamp.map(|time| time.as_second()),
        }
    }

    /// Whether it says the same.
    pub(super) fn is_as(&self, other: &ClassRecord) -> bool {
        self.selectors.iter().map(|s| s.number).eq(other.selectors.iter().map(|s| s.number))
            && (&self.config, &self.resource, &self.created)
                == (&other.config, &other.resource, &other.created)
    }
}
