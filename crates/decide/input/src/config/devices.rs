//! `DynamicResourcesArgs`: the arguments of the plugin that allocates devices.

use core::time::Duration;

use serde_json::{Value, json};

use super::process::warn_without_effect;
use berth_api::read::fields::Fields;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynamicResourcesArgs {
    /// How long the binding conditions of devices may take to become true.
    pub binding_timeout: Duration,
    /// Extension: whether a pod preempts pods of lower priority to get the devices of their claims.
    pub preempt_for_devices: bool,
}

impl Default for DynamicResourcesArgs {
    fn default() -> Self {
        DynamicResourcesArgs { binding_timeout: Duration::from_secs(600), preempt_for_devices: false }
    }
}

impl DynamicResourcesArgs {
    pub(super) fn read(args: &mut Fields<'_>) -> DynamicResourcesArgs {
        let mut read = DynamicResourcesArgs::default();
        if let Some(node) = args.get("filterTimeout") {
            if node.duration().is_some_and(|timeout| timeout.is_negative()) {
                node.invalid("must be zero or positive");
            }
            warn_without_effect(Some(node), "a search for devices ends after a number of steps");
        }
        if let Some(node) = args.get("bindingTimeout")
            && let Some(timeout) = node.duration()
        {
            match Duration::try_from(timeout) {
                Ok(timeout) if timeout >= Duration::from_secs(1) => read.binding_timeout = timeout,
                _ => node.invalid("must be at least 1 second"),
            }
        }
        read.preempt_for_devices = args.extension_flag("preemptForDevices");
        read
    }

    pub(super) fn to_value(self) -> Value {
        let mut value = json!({"bindingTimeout": format!("{}s", self.binding_timeout.as_secs_f64())});
        if self.preempt_for_devices {
            value["preemptForDevices"] = true.into();
        }
        value
    }
}
