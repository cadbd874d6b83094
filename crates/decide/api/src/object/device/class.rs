//! Device classes, and rules that taint devices.

use berth_api_macros::object_type;
use serde_json::Value;

use super::slice::DeviceTaint;
use crate::object::ObjectMeta;

/// A device class: what requests that name it have in common.
#[object_type(Eq)]
pub struct DeviceClass {
    pub metadata: ObjectMeta,
    pub spec: DeviceClassSpec,
}

#[object_type(Eq)]
pub struct DeviceClassSpec {
    /// What a device must satisfy, ANDed.
    pub selectors: Vec<DeviceSelector>,
    /// Configuration of every device that is allocated by the class.
    pub config: Vec<DeviceConfiguration>,
    /// The extended resource that its devices provide.
    pub extended_resource_name: Option<String>,
}

#[object_type(Eq, Hash)]
pub struct DeviceSelector {
    /// The selector as an expression.
    pub cel: Option<CelDeviceSelector>,
}

/// An expression that is true for the selected devices.
#[object_type(Eq, Hash)]
pub struct CelDeviceSelector {
    /// The expression, in the Common Expression Language.
    pub expression: String,
}

/// Configuration for a driver, in a class or a claim.
#[object_type(Eq)]
pub struct DeviceConfiguration {
    /// In a claim: the requests that it is for; empty for all. `REQUEST/SUBREQUEST` names an alternative.
    pub requests: Vec<String>,
    pub opaque: Option<OpaqueDeviceConfiguration>,
}

/// Configuration that only the driver understands.
#[object_type(Eq)]
pub struct OpaqueDeviceConfiguration {
    pub driver: String,
    /// The configuration, as it was written.
    pub parameters: Value,
}

/// A taint for devices that is not published with them.
#[object_type(Eq)]
pub struct DeviceTaintRule {
    pub metadata: ObjectMeta,
    pub spec: DeviceTaintRuleSpec,
}

#[object_type(Eq)]
pub struct DeviceTaintRuleSpec {
    /// The devices; absent for none.
    pub device_selector: Option<DeviceTaintSelector>,
    pub taint: DeviceTaint,
}

/// A selector of devices by their names; an empty selector selects all devices.
#[object_type(Eq, Hash)]
pub struct DeviceTaintSelector {
    pub driver: Option<String>,
    pub pool: Option<String>,
    pub device: Option<String>,
}
