//! What selectors see of a device. Equal devices have one shape, for which each selector is evaluated once.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

use berth_api::object::device::{DeviceAttribute, DeviceCapacity};
use berth_rules::SelectedDevice;
use rustc_hash::{FxHashMap, FxHasher};

use super::selector::{Selected, Selector};
use super::work::Meter;

/// Results kept for one shape. Selectors come and go with claims.
const MAX_RESULTS: usize = 256;

/// What selectors see of a device.
pub(crate) struct Shape {
    pub(crate) driver: Arc<str>,
    pub(crate) attributes: BTreeMap<String, DeviceAttribute>,
    pub(crate) capacity: BTreeMap<String, DeviceCapacity>,
    pub(crate) allows_multiple: bool,
    /// By the number of the selector. They follow from the shape alone.
    results: RwLock<FxHashMap<u64, Selected>>,
}

impl Shape {
    pub(super) fn new(
        driver: Arc<str>,
        attributes: BTreeMap<String, DeviceAttribute>,
        capacity: BTreeMap<String, DeviceCapacity>,
        allows_multiple: bool,
    ) -> Shape {
        Shape { driver, attributes, capacity, allows_multiple, results: RwLock::default() }
    }

    /// A hash of the parts that differ between most shapes.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = FxHasher::default();
        (&self.driver, self.allows_multiple).hash(&mut hasher);
        for (name, attribute) in &self.attributes {
            name.hash(&mut hasher);
            match attribute {
                DeviceAttribute::Int(value) => value.hash(&mut hasher),
                DeviceAttribute::Bool(value) => value.hash(&mut hasher),
                DeviceAttribute::String(value) | DeviceAttribute::Version(value) => value.hash(&mut hasher),
                DeviceAttribute::Unset => {}
            }
        }
        for (name, capacity) in &self.capacity {
            (name, capacity.value).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Whether a selector selects devices of this shape; none if that takes more than is left.
    pub(crate) fn selected_by(&self, selector: &Selector, meter: &Meter<'_>) -> Option<Selected> {
        meter.spend(1);
        let known =
            self.results.read().unwrap_or_else(PoisonError::into_inner).get(&selector.number).cloned();
        if known.is_some() {
            return known;
        }
        let device = SelectedDevice {
            driver: &self.driver,
            allow_multiple_allocations: self.allows_multiple,
            attributes: &self.attributes,
            capacity: &self.capacity,
        };
        let result = selector.matches(&device, meter)?;
        let mut results = self.results.write().unwrap_or_else(PoisonError::into_inner);
        if results.len() >= MAX_RESULTS {
            results.clear();
        }
        results.insert(selector.number, result.clone());
        Some(result)
    }

    /// The value of an attribute by its name with domain; attributes without a domain have that of the driver.
    pub(crate) fn attribute(&self, name: &str) -> Option<&DeviceAttribute> {
        self.attributes.get(name).or_else(|| {
            let (domain, id) = name.split_once('/')?;
            self.attributes.get(id).filter(|_| *domain == *self.driver)
        })
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Shape) -> bool {
        (&self.driver, self.allows_multiple) == (&other.driver, other.allows_multiple)
            && self.attributes == other.attributes
            && self.capacity == other.capacity
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shape")
            .field("driver", &self.driver)
            .field("attributes", &self.attributes)
            .finish_non_exhaustive()
    }
}
