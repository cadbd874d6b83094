//! Fields that are dropped while their feature gate is off, but for objects that have them already.

use berth_api::feature_gates::FeatureGates;
use berth_api::read::pod_spec_pointer;
use berth_schema::resource::Resource;
use serde_json::Value;

/// The gate, the resource (empty: pods and all that have a template of pods), and the path of the field in it, where `[]` stands for the
/// items of a list, `{}` for the values of a map, and `|` is between fields of which each may be meant.
const FIELDS: &[(&str, &str, &str)] = &[
    ("CSIVolumeHealth", "csinodes", "status.storageHealth"),
    ("CoordinatedLeaderElection", "leases", "spec.preferredHolder"),
    ("CoordinatedLeaderElection", "leases", "spec.strategy"),
    ("DRADerivedAttributes", "resourceclaims", "spec.devices.requests[].exactly.derivedAttributes"),
    ("DRADerivedAttributes", "resourceclaims", "spec.devices.requests[].firstAvailable[].derivedAttributes"),
    (
        "DRADerivedAttributes",
        "resourceclaimtemplates",
        "spec.spec.devices.requests[].exactly.derivedAttributes",
    ),
    (
        "DRADerivedAttributes",
        "resourceclaimtemplates",
        "spec.spec.devices.requests[].firstAvailable[].derivedAttributes",
    ),
    (
        "DRADeviceCompatibilityGroups",
        "resourceslices",
        "spec.devices[].consumesCounters[].compatibilityGroups",
    ),
    ("DRAListTypeAttributes", "resourceslices", "spec.devices[].attributes{}.bools"),
    ("DRAListTypeAttributes", "resourceslices", "spec.devices[].attributes{}.ints"),
    ("DRAListTypeAttributes", "resourceslices", "spec.devices[].attributes{}.strings"),
    ("DRAListTypeAttributes", "resourceslices", "spec.devices[].attributes{}.versions"),
    ("DRANodeAllocatableResources", "pods", "status.nodeAllocatableResourceClaimStatuses"),
    ("DRANodeAllocatableResources", "resourceslices", "spec.devices[].nodeAllocatableResourceMappings"),
    ("DRANodeAllocatableResources", "resourceslices", "spec.devices[].nodeAllocatableResources"),
    ("DRAOptionalNodeOperations", "resourceclaims", "status.allocation.devices.results[].skipNodeOperations"),
    ("DRAOptionalNodeOperations", "resourceslices", "spec.skipNodeOperations"),
    ("DRAPartitionableDevicesType", "resourceslices", "spec.partitionTypeAttribute"),
    ("EmptyDirVolumeMode", "", "volumes[].emptyDir.mode"),
    ("EvictionRequestAPI", "", "evictionResponders"),
    (
        "GRPCContainerProbeTLS",
        "",
        "containers[]|initContainers[]|ephemeralContainers[].livenessProbe|readinessProbe|startupProbe.grpc.mode",
    ),
    (
        "H2CContainerProbe",
        "",
        "containers[]|initContainers[]|ephemeralContainers[].livenessProbe|readinessProbe|startupProbe.httpGet.protocol",
    ),
    (
        "H2CContainerProbe",
        "",
        "containers[]|initContainers[]|ephemeralContainers[].lifecycle.postStart|preStop.httpGet.protocol",
    ),
    ("InPlacePodVerticalScalingSchedulerPreemption", "nodes", "spec.podPreemptionPolicy"),
    ("VolumeLimitScaling", "csidrivers", "spec.preventPodSchedulingIfMissing"),
];

/// Drops the fields of an object whose gates are off, where the object that it replaces has none of them.
pub fn drop_gated(gates: FeatureGates, resource: &Resource, new: &mut Value, old: Option<&Value>) {
    if resource.custom.is_some() {
        return;
    }
    for (gate, plural, path) in FIELDS {
        let prefix = match *plural {
            "" => pod_spec_pointer(resource.kind),
            plural => (plural == resource.plural).then_some(""),
        };
        let Some(prefix) = prefix.filter(|_| !gates.is_on(gate)) else { continue };
        let segments: Vec<&str> =
            prefix.split('/').chain(path.split('.')).filter(|part| !part.is_empty()).collect();
        let is_used = |old: &Value| {
            FIELDS.iter().any(|(of, named, path)| {
                (of, named) == (gate, plural) && {
                    let segments = prefix.split('/').chain(path.split('.')).filter(|part| !part.is_empty());
                    has(old, &segments.collect::<Vec<_>>())
                }
            })
        };
        if has(new, &segments) && !old.is_some_and(is_used) {
            remove(new, &segments);
        }
    }
}

fn has(value: &Value, path: &[&str]) -> bool {
    let [first, rest @ ..] = path else { return !value.is_null() };
    if first.contains('|') {
        return first.split('|').any(|field| has(value, &[&[field], rest].concat()));
    }
    if let Some(list) = first.strip_suffix("[]") {
        return value[list].as_array().into_iter().flatten().any(|item| has(item, rest));
    }
    if let Some(map) = first.strip_suffix("{}") {
        return value[map].as_object().into_iter().flatten().any(|(_, entry)| has(entry, rest));
    }
    value.get(first).is_some_and(|field| has(field, rest))
}

fn remove(value: &mut Value, path: &[&str]) {
    let [first, rest @ ..] = path else { return };
    if first.contains('|') {
        first.split('|').for_each(|field| remove(value, &[&[field], rest].concat()));
    } else if let Some(list) = first.strip_suffix("[]") {
        let list = value.get_mut(list).and_then(Value::as_array_mut);
        list.into_iter().flatten().for_each(|item| remove(item, rest));
    } else if let Some(map) = first.strip_suffix("{}") {
        let map = value.get_mut(map).and_then(Value::as_object_mut);
        map.into_iter().flatten().for_each(|(_, entry)| remove(entry, rest));
    } else if rest.is_empty() {
        value.as_object_mut().map(|fields| fields.shift_remove(*first));
    } else if let Some(field) = value.get_mut(first) {
        remove(field, rest);
    }
}

#[cfg(test)]
mod tests {
    use berth_api::feature_gates::{GateSetting, KubernetesVersion};
    use berth_schema::resource::{DEPLOYMENTS, RESOURCE_SLICES};
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_gates_that_are_off_were_kept() {
        let gates = |names: &str| {
            let settings: Vec<_> =
                names.split(',').map(|name| GateSetting::parse(&format!("{name}=true")).unwrap()).collect();
            FeatureGates::new(KubernetesVersion::V1_37, &settings)
        };
        let slice = json!({"spec": {"devices": [{"name": "a", "attributes": {"x": {"ints": [1]}, "y": {"int": 1}}}]}});
        let dropped = |gates, old: Option<&Value>| {
            let mut new = slice.clone();
            drop_gated(gates, &RESOURCE_SLICES, &mut new, old);
            new != slice
        };
        assert!(dropped(gates("DRADerivedAttributes"), None));
        assert!(!dropped(gates("DRAListTypeAttributes"), None));
        let used = json!({"spec": {"devices": [{"attributes": {"z": {"strings": ["a"]}}}]}});
        assert!(!dropped(gates("DRADerivedAttributes"), Some(&used)), "the old slice has lists");
        let template = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
        let mut deployment =
            template(json!({"evictionResponders": [], "volumes": [{"emptyDir": {"mode": 1}}]}));
        drop_gated(gates("EvictionRequestAPI"), &DEPLOYMENTS, &mut deployment, None);
        assert_eq!(deployment, template(json!({"evictionResponders": [], "volumes": [{"emptyDir": {}}]})));
    }

    #[test]
    fn every_gate_is_known() {
        // Their fields are dropped in any case.
        let always_off = ["CSIVolumeHealth", "CoordinatedLeaderElection"];
        for (gate, ..) in FIELDS.iter().filter(|(gate, ..)| !always_off.contains(gate)) {
            let setting = GateSetting::parse(&format!("{gate}=true")).expect(gate);
            assert!(FeatureGates::new(KubernetesVersion::V1_37, &[setting]).is_on(gate), "{gate}");
        }
    }
}
