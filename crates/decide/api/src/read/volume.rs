//! Objects that decide where pods with volumes may run.

use serde_json::Value;

use super::decode::{DecodeError, decode_at};
use super::kind::Kind;
use super::manifest::display_name;
use crate::object::{VolumeKind, VolumeObject};

impl VolumeObject {
    /// Decodes an object of a kind.
    ///
    /// # Errors
    /// The first field with a wrong type; the error names the object.
    pub fn decode(kind: VolumeKind, value: &Value) -> Result<VolumeObject, DecodeError> {
        let text = |path| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let object = display_name(Kind::Volume(kind).name(), namespace, name);
        Ok(match kind {
            VolumeKind::PersistentVolume => VolumeObject::PersistentVolume(decode_at(value, "", &object)?),
            VolumeKind::PersistentVolumeClaim => {
                VolumeObject::PersistentVolumeClaim(decode_at(value, "", &object)?)
            }
            VolumeKind::StorageClass => VolumeObject::StorageClass(decode_at(value, "", &object)?),
            VolumeKind::CsiNode => VolumeObject::CsiNode(decode_at(value, "", &object)?),
            VolumeKind::CsiDriver => VolumeObject::CsiDriver(decode_at(value, "", &object)?),
            VolumeKind::CsiStorageCapacity => {
                VolumeObject::CsiStorageCapacity(decode_at(value, "", &object)?)
            }
            VolumeKind::VolumeAttachment => VolumeObject::VolumeAttachment(decode_at(value, "", &object)?),
        })
    }
}
