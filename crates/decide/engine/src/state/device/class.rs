//! Device classes and selectors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::object::device::{DeviceClass, DeviceConfiguration};
use berth_api::rules::{DeviceSelector, SelectedDevice};

use super::shape::Selected;

/// A selector of devices. Equal texts are compiled once.
#[derive(Debug)]
pub(crate) struct Selector {
    /// Differs between all selectors of the process.
    pub(crate) number: u64,
    pub(crate) expression: Box<str>,
    /// The error says why the text is no selector.
    compiled: Result<DeviceSelector, Arc<str>>,
}

impl Selector {
    pub(super) fn compile(expression: &str) -> Selector {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let compiled = DeviceSelector::compile(expression);
        let compiled = compiled.map_err(|error| format!("CEL compile error: {error}").into());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Selector { number, expression: expression.into(), compiled }
    }

    pub(super) fn matches(&self, device: &SelectedDevice<'_>) -> Selected {
        let selector = self.compiled.as_ref().map_err(Arc::clone)?;
        selector.matches(device).map_err(|error| format!("CEL runtime error: {error}").into())
    }
}

/// A device class.
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
