//! Volumes in recordings.

use berth_api::object::{VolumeDecision, VolumeObject};
use berth_api::read::Kind;
use berth_api::recording::RecordedVolumes;
use serde_json::Value;

/// Reads an object of a scenario.
///
/// # Errors
/// It is of another kind, or a field has a wrong type.
pub(super) fn volume_object(value: &Value) -> Result<VolumeObject, String> {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    match Kind::of(text("apiVersion"), text("kind")) {
        Some(Kind::Volume(kind)) => VolumeObject::decode(kind, value).map_err(|error| error.to_string()),
        _ => Err(format!("{} {} is not about volumes", text("apiVersion"), text("kind"))),
    }
}

/// A recorded decision as the engine makes it.
pub(super) fn decision(recorded: &RecordedVolumes) -> VolumeDecision {
    let mut provision = recorded.provision.clone();
    provision.sort_unstable();
    VolumeDecision { bind: recorded.bind.clone().into_iter().collect(), provision }
}
