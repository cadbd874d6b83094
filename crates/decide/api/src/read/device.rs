//! Objects of dynamic resource allocation.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::decode::{DecodeError, decode_at};
use super::kind::Kind;
use super::manifest::display_name;
use crate::object::{DeviceKind, DeviceObject};

impl DeviceObject {
    /// Decodes an object of a kind, of any version of its group.
    ///
    /// # Errors
    /// The first field with a wrong type; the error names the object.
    pub fn decode(kind: DeviceKind, value: &Value) -> Result<DeviceObject, DecodeError> {
        let text = |path| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        let object = display_name(Kind::Device(kind).name(), namespace, name);
        let value = &*as_v1(kind, value);
        Ok(match kind {
            DeviceKind::ResourceSlice => DeviceObject::ResourceSlice(decode_at(value, "", &object)?),
            DeviceKind::DeviceClass => DeviceObject::DeviceClass(decode_at(value, "", &object)?),
            DeviceKind::ResourceClaim => DeviceObject::ResourceClaim(decode_at(value, "", &object)?),
            DeviceKind::ResourceClaimTemplate => {
                DeviceObject::ResourceClaimTemplate(decode_at(value, "", &object)?)
            }
            DeviceKind::DeviceTaintRule => DeviceObject::DeviceTaintRule(decode_at(value, "", &object)?),
        })
    }
}

/// The object in the shape of `resource.k8s.io/v1`. Only `v1beta1` differs: there, the fields of a device are in `basic`, and
/// those of a request without alternatives beside its name.
fn as_v1(kind: DeviceKind, value: &Value) -> Cow<'_, Value> {
    if value["apiVersion"] != "resource.k8s.io/v1beta1" {
        return Cow::Borrowed(value);
    }
    let (list, convert): (_, fn(&mut Map<String, Value>)) = match kind {
        DeviceKind::ResourceSlice => ("/spec/devices", device_as_v1),
        DeviceKind::ResourceClaim => ("/spec/devices/requests", request_as_v1),
        DeviceKind::ResourceClaimTemplate => ("/spec/spec/devices/requests", request_as_v1),
        DeviceKind::DeviceClass | DeviceKind::DeviceTaintRule => return Cow::Borrowed(value),
    };
    let mut value = value.clone();
    if let Some(items) = value.pointer_mut(list).and_then(Value::as_array_mut) {
        items.iter_mut().filter_map(Value::as_object_mut).for_each(convert);
    }
    Cow::Owned(value)
}

fn device_as_v1(device: &mut Map<String, Value>) {
    if let Some(Value::Object(fields)) = device.shift_remove("basic") {
        device.extend(fields);
    }
}

fn request_as_v1(request: &mut Map<String, Value>) {
    let has_alternatives =
        request.get("firstAvailable").and_then(Value::as_array).is_some_and(|a| !a.is_empty());
    if has_alternatives || request.contains_key("exactly") {
        return;
    }
    let fields = std::mem::take(request);
    let (named, exactly) = fields.into_iter().partition(|(key, _)| key == "name" || key == "firstAvailable");
    *request = named;
    request.insert("exactly".to_owned(), Value::Object(exactly));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::object::device::DeviceAttribute;

    #[test]
    fn objects_of_v1beta1_are_read_like_those_of_v1() {
        let attributes =
            json!({"model": {"string": "a100", "int": null}, "cores": {"int": 8}, "list": {"ints": [1]}});
        let slice = |version: &str, device: Value| {
            json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceSlice", "metadata": {"name": "s"},
                "spec": {"driver": "d", "nodeName": "n", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                    "devices": [device]}})
        };
        let of = |value: &Value| DeviceObject::decode(DeviceKind::ResourceSlice, value).unwrap();
        let new = of(&slice("v1", json!({"name": "g", "attributes": attributes})));
        let old = of(&slice("v1beta1", json!({"name": "g", "basic": {"attributes": attributes}})));
        assert_eq!(new, old);
        let DeviceObject::ResourceSlice(slice) = new else { panic!("{new:?}") };
        let attributes = &slice.spec.devices[0].attributes;
        let expected = [
            ("cores".to_owned(), DeviceAttribute::Int(8)),
            ("list".to_owned(), DeviceAttribute::Unset),
            ("model".to_owned(), DeviceAttribute::String("a100".to_owned())),
        ];
        assert_eq!(*attributes, expected.into());

        let exactly = json!({"deviceClassName": "gpu", "count": 2});
        let alternatives = json!({"name": "b", "firstAvailable": [{"name": "x", "deviceClassName": "gpu"}]});
        let claim = |version: &str, request: Value| {
            let requests = json!([request, alternatives]);
            json!({"apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceClaim", "metadata": {"name": "c"},
                "spec": {"devices": {"requests": requests}}})
        };
        let of = |value: &Value| DeviceObject::decode(DeviceKind::ResourceClaim, value).unwrap();
        let new = of(&claim("v1beta2", json!({"name": "a", "exactly": exactly})));
        assert_eq!(new, of(&claim("v1beta1", json!({"name": "a", "deviceClassName": "gpu", "count": 2}))));
        let DeviceObject::ResourceClaim(claim) = new else { panic!("{new:?}") };
        let [a, b] = &claim.spec.devices.requests[..] else { panic!("{claim:?}") };
        assert_eq!((a.exactly.as_ref().unwrap().count, b.first_available.len()), (2, 1));
    }

    #[test]
    fn the_status_of_a_claim_is_written_as_it_was_read() {
        let claim = json!({"metadata": {"name": "c", "namespace": "n"}, "spec": {"devices": {}}, "status": {
            "allocation": {"devices": {
                "results": [{"request": "r/s", "driver": "d", "pool": "p", "device": "g", "adminAccess": false,
                    "tolerations": [{"key": "k", "operator": "Exists"}], "bindingConditions": ["ready"], "shareID": "u",
                    "consumedCapacity": {"memory": "10Gi"}}],
                "config": [{"source": "FromClass", "requests": ["r"],
                    "opaque": {"driver": "d", "parameters": {"z": 1, "a": {"deep": [true]}}}}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]},
                "allocationTimestamp": "2026-01-01T00:00:00Z"},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
            "devices": [{"driver": "d", "pool": "p", "device": "g", "data": {"x": 1},
                "networkData": {"interfaceName": "eth0", "ips": ["10.0.0.1/24"]}}]}});
        let DeviceObject::ResourceClaim(read) =
            DeviceObject::decode(DeviceKind::ResourceClaim, &claim).unwrap()
        else {
            panic!("another kind");
        };
        assert!(read.status.is_reserved_for("u") && !read.status.is_reserved_for("v"));
        assert_eq!(serde_json::to_value(&read).unwrap()["status"], claim["status"]);
    }

    #[test]
    fn a_wrong_type_is_named_with_its_object() {
        let slice =
            json!({"metadata": {"name": "s"}, "spec": {"devices": [{"attributes": {"a": {"int": "one"}}}]}});
        let error = DeviceObject::decode(DeviceKind::ResourceSlice, &slice).unwrap_err();
        assert!(error.to_string().starts_with("ResourceSlice s: spec.devices[0].attributes"), "{error}");
    }
}
