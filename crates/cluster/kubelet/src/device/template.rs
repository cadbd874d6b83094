//! Templates of simulated devices, and the slices that follow from them.

use berth_api::object::StringMap;
use berth_api::object::device::Device;
use berth_api::read::{DecodeError, Manifest, decode, from_value};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};

use crate::options::Adopt;
use crate::selector::NodeSelection;

/// Devices of a slice at most, and if any of them has taints or counters.
const MAX_DEVICES: usize = 128;
const MAX_DEVICES_WITH_FEATURES: usize = 64;
/// Copies of one device, or of one set of counters, on a node at most.
const MAX_COUNT: i64 = 1024;

/// Devices that one driver publishes for each of some nodes: an object `SimulatedDevices`.
#[derive(Clone, Debug)]
pub struct DeviceTemplate {
    fields: Fields,
    nodes: NodeSelection,
    /// From the allocation of a device to its binding conditions.
    pub(super) binding_delay: SignedDuration,
}

berth_api::object_types! {
    struct Fields {
        driver: String,
        /// A label selector; empty for all nodes.
        nodes: String,
        node_names: Vec<String>,
        /// Devices as in a slice, with `count` and `model` in addition.
        devices: Vec<Map<String, Value>>,
        shared_counters: Vec<Map<String, Value>>,
        binding_delay: String,
        /// Whether the failure conditions become true instead of the binding conditions.
        binding_fails: bool,
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DeviceTemplateError {
    /// A field has a wrong type.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("{object}: {field}: {why}")]
    Field { object: String, field: String, why: String },
}

impl DeviceTemplate {
    pub const KIND: &str = "SimulatedDevices";

    pub fn read(manifest: &Manifest) -> Result<DeviceTemplate, DeviceTemplateError> {
        let fields: Fields = decode(manifest)?;
        let invalid = |field: &str, why: String| DeviceTemplateError::Field {
            object: manifest.to_string(),
            field: field.to_owned(),
            why,
        };
        if manifest.kind != DeviceTemplate::KIND {
            return Err(invalid("kind", format!("must be {}", DeviceTemplate::KIND)));
        }
        if fields.driver.is_empty() {
            return Err(invalid("driver", "the name of the driver is required".to_owned()));
        }
        let adopt = Adopt::Selected { labels: fields.nodes.clone(), names: fields.node_names.clone() };
        let nodes = NodeSelection::parse(&adopt).map_err(|error| invalid("nodes", error.to_string()))?;
        let binding_delay = match fields.binding_delay.as_str() {
            "" => SignedDuration::ZERO,
            text => text.parse().map_err(|_| {
                invalid("bindingDelay", "must be a duration, for example 500ms or 10s".to_owned())
            })?,
        };
        let template = DeviceTemplate { fields, nodes, binding_delay };
        for (list, items) in
            [("devices", &template.fields.devices), ("sharedCounters", &template.fields.shared_counters)]
        {
            for (i, item) in items.iter().enumerate() {
                count_of(item).map_err(|why| invalid(&format!("{list}[{i}].count"), why))?;
                if !item.contains_key("name") && !item.contains_key("model") {
                    return Err(invalid(&format!("{list}[{i}]"), "name or model is required".to_owned()));
                }
            }
        }
        for (i, device) in template.devices("node").iter().enumerate() {
            from_value::<Device>(device)
                .map_err(|error| invalid(&format!("devices (device {i})"), error.to_string()))?;
        }
        Ok(template)
    }

    pub(super) fn driver(&self) -> &str {
        &self.fields.driver
    }

    pub(super) fn binding_fails(&self) -> bool {
        self.fields.binding_fails
    }

    pub(super) fn is_for(&self, node: &str, labels: &StringMap) -> bool {
        self.nodes.matches(node, labels)
    }

    fn devices(&self, node: &str) -> Vec<Value> {
        self.fields.devices.iter().flat_map(|device| copies(device, node)).map(with_full_values).collect()
    }

    /// The slices of a node, in the order of their names; the node owns them, so they are deleted with it.
    pub(super) fn slices(&self, node: &str, uid: &str) -> Vec<Value> {
        let devices = self.devices(node);
        let counters: Vec<Value> =
            self.fields.shared_counters.iter().flat_map(|set| copies(set, node)).map(Value::Object).collect();
        let has_features =
            |device: &Value| !device["taints"].is_null() || !device["consumesCounters"].is_null();
        let max = if devices.iter().any(has_features) { MAX_DEVICES_WITH_FEATURES } else { MAX_DEVICES };
        // The counters of a pool are in a slice of their own.
        let mut parts: Vec<(&str, &[Value])> = Vec::new();
        if !counters.is_empty() {
            parts.push(("sharedCounters", &counters));
        }
        parts.extend(devices.chunks(max).map(|chunk| ("devices", chunk)));
        let n_slices = parts.len();
        let slice = |(i, (field, items)): (usize, (&str, &[Value]))| {
            let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid});
            let name = format!("{node}-{}-{i}", self.driver());
            let pool = json!({"name": node, "generation": 1, "resourceSliceCount": n_slices});
            json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": {"driver": self.driver(), "nodeName": node, "pool": pool, field: items}})
        };
        parts.into_iter().enumerate().map(slice).collect()
    }
}

fn count_of(item: &Map<String, Value>) -> Result<i64, String> {
    match item.get("count") {
        None | Some(Value::Null) => Ok(1),
        Some(count) => {
            let count = count.as_i64().filter(|count| (0..=MAX_COUNT).contains(count));
            count.ok_or_else(|| format!("must be a number from 0 to {MAX_COUNT}"))
        }
    }
}

/// `count` copies, whose names end with their numbers. In texts, `{n}` stands for the number of the copy, and `{node}` for the name
/// of the node.
fn copies(item: &Map<String, Value>, node: &str) -> Vec<Map<String, Value>> {
    let count = count_of(item).unwrap_or_default();
    let copy = |n: i64| {
        let mut copy = item.clone();
        let is_counted = copy.shift_remove("count").is_some();
        let model = copy.shift_remove("model");
        let name =
            copy.get("name").or(model.as_ref()).and_then(Value::as_str).unwrap_or_default().to_lowercase();
        let name = if is_counted && !name.contains("{n}") { format!("{name}-{{n}}") } else { name };
        copy.insert("name".to_owned(), name.into());
        if let Some(model) = model {
            let attributes = copy.entry("attributes").or_insert_with(|| json!({}));
            attributes["model"] = model;
        }
        copy.values_mut().for_each(|value| replace(value, n, node));
        copy
    };
    (0..count).map(copy).collect()
}

fn replace(value: &mut Value, n: i64, node: &str) {
    match value {
        Value::String(text) => *text = text.replace("{n}", &n.to_string()).replace("{node}", node),
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, n, node)),
        Value::Object(fields) => fields.values_mut().for_each(|value| replace(value, n, node)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Attributes, capacities and counters may be written as plain values: `cores: 8` for `cores: {int: 8}`.
fn with_full_values(mut device: Map<String, Value>) -> Value {
    for (name, is_attribute) in [("attributes", true), ("capacity", false)] {
        let Some(Value::Object(values)) = device.get_mut(name) else { continue };
        for value in values.values_mut() {
            let field = match value {
                Value::Object(_) | Value::Array(_) | Value::Null => continue,
                _ if !is_attribute => "value",
                Value::Bool(_) => "bool",
                Value::Number(_) => "int",
                Value::String(_) => "string",
            };
            *value = json!({field: value.take()});
        }
    }
    Value::Object(device)
}

#[cfg(test)]
mod tests {
    use berth_api::read::{ReadError, read_manifests};

    use super::*;

    fn read(text: &str) -> Result<DeviceTemplate, DeviceTemplateError> {
        let mut found = Vec::new();
        read_manifests::<ReadError>(text.as_bytes(), "devices.yaml", &mut |manifest| {
            found.push(manifest);
            Ok(())
        })
        .unwrap();
        DeviceTemplate::read(&found[0])
    }

    const PARTITIONS: &str = "
apiVersion: simulation.berth.dev/v1alpha1
kind: SimulatedDevices
driver: gpu.example.com
nodes: gpu=true
sharedCounters:
- {name: card, count: 2, counters: {memory: {value: 80Gi}}}
devices:
- {model: H100, count: 2, attributes: {uuid: 'GPU-{node}-{n}', nvlink: true, cores: 8}, capacity: {memory: 80Gi},
   consumesCounters: [{counterSet: 'card-{n}', counters: {memory: {value: 80Gi}}}]}
- {name: 'half-{n}-a', model: H100-half, count: 2, capacity: {memory: {value: 40Gi}},
   consumesCounters: [{counterSet: 'card-{n}', counters: {memory: {value: 40Gi}}}]}
- {name: nic, attributes: {vendor: {string: x}}}
";

    #[test]
    fn a_template_becomes_the_slices_of_a_node() {
        let template = read(PARTITIONS).unwrap();
        let labels = StringMap::from([("gpu".to_owned(), "true".to_owned())]);
        assert!(template.is_for("node-1", &labels) && !template.is_for("node-1", &StringMap::new()));
        let slices = template.slices("node-1", "u");
        let [counters, devices] = &slices[..] else { panic!("{slices:?}") };
        assert_eq!(counters["metadata"]["name"], "node-1-gpu.example.com-0");
        assert_eq!(
            counters["spec"]["sharedCounters"][1],
            json!({"name": "card-1", "counters": {"memory": {"value": "80Gi"}}})
        );
        assert_eq!(
            devices["spec"]["pool"],
            json!({"name": "node-1", "generation": 1, "resourceSliceCount": 2})
        );
        let devices = devices["spec"]["devices"].as_array().unwrap();
        let names: Vec<_> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["h100-0", "h100-1", "half-0-a", "half-1-a", "nic"]);
        assert_eq!(
            devices[1]["attributes"],
            json!({"uuid": {"string": "GPU-node-1-1"}, "nvlink": {"bool": true}, "cores": {"int": 8}, "model": {"string": "H100"}})
        );
        assert_eq!(devices[1]["consumesCounters"][0]["counterSet"], "card-1");
        assert_eq!(devices[2]["capacity"], json!({"memory": {"value": "40Gi"}}));
    }

    #[test]
    fn many_devices_take_several_slices() {
        let template =
            read("{apiVersion: v1, kind: SimulatedDevices, driver: d, devices: [{name: x, count: 200}]}")
                .unwrap();
        let slices = template.slices("n", "u");
        let n_devices = |slice: &Value| slice["spec"]["devices"].as_array().unwrap().len();
        assert_eq!(slices.iter().map(n_devices).collect::<Vec<_>>(), [128, 72]);
        assert!(slices.iter().all(|slice| slice["spec"]["pool"]["resourceSliceCount"] == 2));
    }

    #[test]
    fn invalid_templates_are_named_with_their_fields() {
        for (text, why) in [
            ("{apiVersion: v1, kind: Pod, driver: d}", "kind: must be SimulatedDevices"),
            ("{apiVersion: v1, kind: SimulatedDevices}", "driver: the name of the driver is required"),
            ("{apiVersion: v1, kind: SimulatedDevices, driver: d, nodes: 'a in'}", "nodes: "),
            (
                "{apiVersion: v1, kind: SimulatedDevices, driver: d, bindingDelay: soon}",
                "bindingDelay: must be a duration",
            ),
            (
                "{apiVersion: v1, kind: SimulatedDevices, driver: d, devices: [{count: 1}]}",
                "devices[0]: name or model is required",
            ),
            (
                "{apiVersion: v1, kind: SimulatedDevices, driver: d, devices: [{name: x, count: 9999}]}",
                "devices[0].count: must be",
            ),
            ("{apiVersion: v1, kind: SimulatedDevices, driver: d, devices: {}}", "devices"),
            (
                "{apiVersion: v1, kind: SimulatedDevices, driver: d, devices: [{name: x, taints: 1}]}",
                "devices (device 0): ",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
