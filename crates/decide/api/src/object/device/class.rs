//! Device classes, and rules that taint devices.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::slice::DeviceTaint;
use crate::object::{ObjectMeta, nullable};

/// A device class: what requests that name it have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClass {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: DeviceClassSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// What a device must satisfy, ANDed.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub selectors: Vec<DeviceSelector>,
    /// Configuration of every device that is allocated by the class.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<DeviceConfiguration>,
    /// The extended resource that its devices provide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceSelector {
    /// The selector as an expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cel: Option<CelDeviceSelector>,
}

/// An expression that is true for the selected devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CelDeviceSelector {
    /// The expression, in the Common Expression Language.
    #[serde(deserialize_with = "nullable")]
    pub expression: String,
}

/// Configuration for a driver, in a class or a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceConfiguration {
    /// In a claim: the requests that it is for; empty for all. `REQUEST/SUBREQUEST` names an alternative.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque: Option<OpaqueDeviceConfiguration>,
}

/// Configuration that only the driver understands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OpaqueDeviceConfiguration {
    #[serde(deserialize_with = "nullable")]
    pub driver: String,
    /// The configuration, as it was written.
    #[serde(deserialize_with = "nullable")]
    pub parameters: Value,
}

/// A taint for devices that is not published with them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaintRule {
    #[serde(deserialize_with = "nullable")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "nullable")]
    pub spec: DeviceTaintRuleSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaintRuleSpec {
    /// The devices; absent for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_selector: Option<DeviceTaintSelector>,
    #[serde(deserialize_with = "nullable")]
    pub taint: DeviceTaint,
}

/// A selector of devices by their names; an empty selector selects all devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceTaintSelector {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}
