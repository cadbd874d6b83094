//! The pod fields that decide where a pod may run and that Berth does not evaluate.
//!
//! This is the one list of them. The scheduler does not bind pods with such fields, the enforcer does not evict them, and
//! `simulate`, `explain` and `audit` warn about them. A test compares the list with all fields of a pod.

use std::collections::BTreeMap;

use super::{Container, DeviceClass, PodSpec};

/// The fields of a pod, and whether a pod uses them.
const FIELDS: [(&str, IsUsed); 1] = [("spec.resourceClaims", |spec| !spec.resource_claims.is_empty())];

type IsUsed = fn(&PodSpec) -> bool;

/// The prefix of the resource that every DeviceClass provides under its own name.
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

/// Extended resources whose devices are allocated dynamically, by the name of their device class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceResources {
    by_class: BTreeMap<String, String>,
}

impl DeviceResources {
    /// Adds or changes a device class. Returns whether that changed anything.
    pub fn set(&mut self, class: &DeviceClass) -> bool {
        let name = &class.metadata.name;
        match &class.spec.extended_resource_name {
            Some(resource) => self.by_class.insert(name.clone(), resource.clone()).as_ref() != Some(resource),
            None => self.remove(name),
        }
    }

    /// Removes a device class. Returns whether it had an extended resource.
    pub fn remove(&mut self, class: &str) -> bool {
        self.by_class.remove(class).is_some()
    }

    fn has(&self, resource: &str) -> bool {
        resource.starts_with(DEVICE_CLASS_PREFIX) || self.by_class.values().any(|name| name == resource)
    }
}

/// The fields of a pod that Berth does not support, and those whose support depends on the device classes: paths, and
/// the requested resource of the latter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspectFields(Vec<(String, Option<String>)>);

impl SuspectFields {
    /// The fields of a pod; most pods have none.
    pub fn of(spec: &PodSpec) -> SuspectFields {
        let used = FIELDS.iter().filter(|(_, uses)| uses(spec));
        let mut fields: Vec<_> = used.map(|(path, _)| ((*path).to_owned(), None)).collect();
        for (list, containers) in
            [("initContainers", &spec.init_containers), ("containers", &spec.containers)]
        {
            for (i, Container { resources, .. }) in containers.iter().enumerate() {
                let extended =
                    resources.requests.iter().filter(|(name, q)| name.contains('/') && !q.is_zero());
                fields.extend(extended.map(|(name, _)| {
                    (format!("spec.{list}[{i}].resources.requests[{name}]"), Some(name.clone()))
                }));
            }
        }
        SuspectFields(fields)
    }

    /// Whether their support depends on the device classes.
    pub fn depend_on_device_classes(&self) -> bool {
        self.0.iter().any(|(_, resource)| resource.is_some())
    }

    /// The paths of the fields that Berth does not support with these device classes.
    pub fn unsupported(&self, devices: &DeviceResources) -> Vec<String> {
        let is_unsupported =
            |resource: &Option<String>| resource.as_ref().is_none_or(|name| devices.has(name));
        let unsupported = self.0.iter().filter(|(_, resource)| is_unsupported(resource));
        unsupported.map(|(path, _)| path.clone()).collect()
    }
}

/// The paths of the fields of a pod that Berth does not support.
pub fn unsupported_fields(spec: &PodSpec, devices: &DeviceResources) -> Vec<String> {
    SuspectFields::of(spec).unsupported(devices)
}

/// What is to be said about a pod with such fields.
pub fn unsupported_message(fields: &[String]) -> String {
    format!("Berth does not support {}", fields.join(" and "))
}

/// The paths that [`unsupported_fields`] knows, besides requests of resources.
pub fn unsupported_paths() -> impl Iterator<Item = &'static str> {
    FIELDS.iter().map(|(path, _)| *path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unsupported_fields_are_named() {
        let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}});
        let mut devices = DeviceResources::default();
        let class: DeviceClass = serde_json::from_value(class).unwrap();
        assert!(devices.set(&class) && !devices.set(&class));
        let requests =
            |name: &str, amount: &str| json!({"containers": [{"resources": {"requests": {name: amount}}}]});
        let gpu = "spec.containers[0].resources.requests[example.com/gpu]";
        let implicit = "spec.containers[0].resources.requests[deviceclass.resource.kubernetes.io/gpu]";
        for (spec, expected) in [
            (json!({"containers": [{"name": "c"}]}), vec![]),
            (json!({"resourceClaims": []}), vec![]),
            (json!({"resourceClaims": [{"name": "gpu"}]}), vec!["spec.resourceClaims"]),
            (requests("example.com/gpu", "1"), vec![gpu]),
            (requests("example.com/gpu", "0"), vec![]),
            (requests("example.com/fpga", "1"), vec![]),
            (requests("deviceclass.resource.kubernetes.io/gpu", "1"), vec![implicit]),
        ] {
            let pod: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(unsupported_fields(&pod, &devices), expected, "{spec}");
        }
        assert!(devices.remove("gpu"));
        let pod: PodSpec = serde_json::from_value(requests("example.com/gpu", "1")).unwrap();
        assert_eq!(unsupported_fields(&pod, &devices), Vec::<String>::new());
    }
}
