//! Objects and decisions about volumes in recordings.

use berth_api::object::{DeviceObject, VolumeDecision, VolumeObject};
use berth_api::read::Kind;
use berth_input::recording::RecordedVolumes;
use serde_json::Value;

pub(super) enum Object {
    Volume(Box<VolumeObject>),
    Device(DeviceObject),
}

/// Reads an object of a scenario.
///
/// # Errors
/// It is of another kind, or a field has a wrong type.
pub(super) fn read_object(value: &Value) -> Result<Object, String> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let read = match Kind::of(text("apiVersion"), text("kind")) {
        Some(Kind::Volume(kind)) => {
            VolumeObject::decode(kind, value).map(|object| Object::Volume(Box::new(object)))
        }
        Some(Kind::Device(kind)) => DeviceObject::decode(kind, value).map(Object::Device),
        _ => return Err(format!("{} {} is not about volumes or devices", text("apiVersion"), text("kind"))),
    };
    read.map_err(|error| error.to_string())
}

/// A recorded decision as the engine makes it.
pub(super) fn decision(recorded: &RecordedVolumes) -> VolumeDecision {
    let mut provision = recorded.provision.clone();
    provision.sort_unstable();
    VolumeDecision { bind: recorded.bind.clone().into_iter().collect(), provision }
}
