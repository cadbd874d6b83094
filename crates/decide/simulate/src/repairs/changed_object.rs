//! The objects that a repair changes, for trying it.

use serde_json::Value;

use berth_api::resource::RESOURCE_CLAIMS;

use super::change::{Change, Repair};
use super::commands::{is_extended, old_pods_first, template_path};

/// Whether the controller of a workload replaces its pods when its template changes.
pub fn has_rollouts(workload: &str) -> bool {
    ["Deployment ", "DaemonSet "].iter().any(|kind| workload.starts_with(kind))
}

impl Change {
    /// A claim of devices, or a template of claims, with the class of this change. None if the change does not concern it.
    pub fn with_class(&self, object: &Value) -> Option<Value> {
        let Change::UseDeviceClass { request, from, to, .. } = self else { return None };
        let mut changed = object.clone();
        let spec = if object["kind"] == RESOURCE_CLAIMS.kind { "/spec" } else { "/spec/spec" };
        let requests = changed.pointer_mut(&format!("{spec}/devices/requests"))?.as_array_mut()?;
        let request = requests.iter_mut().find(|of| of["name"] == *request)?;
        let class = request.pointer_mut("/exactly/deviceClassName").filter(|class| **class == *from)?;
        *class = to.as_str().into();
        Some(changed)
    }
}

impl Repair {
    /// The workload of a pod with the changes of its template or strategy, or the pod itself without them. None if they do not concern the
    /// object.
    pub fn changed(&self, workload: Option<&str>, object: &Value) -> Option<Value> {
        let (prefix, patch) = match workload {
            Some(workload) => (template_path(workload), &self.template_patch),
            None => ("", &self.patch),
        };
        let mut changed = object.clone();
        if workload.is_some()
            && self.changes.iter().any(|change| matches!(change, Change::StopOldPodsFirst { .. }))
        {
            let spec = changed.pointer_mut("/spec")?.as_object_mut()?;
            spec.insert("strategy".to_owned(), old_pods_first());
        }
        let target = changed.pointer_mut(prefix)?;
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(patch.clone())).ok()?;
        json_patch::patch(target, &patch).ok()?;
        for change in &self.changes {
            let Change::RequestLess { container, resource, to, .. } = change else { continue };
            let containers = target.pointer_mut("/spec/containers")?.as_array_mut()?;
            let resources = &mut containers.iter_mut().find(|of| of["name"] == *container)?["resources"];
            resources["requests"][resource] = to.as_str().into();
            if is_extended(resource) && resources["limits"].get(resource).is_some() {
                resources["limits"][resource] = to.as_str().into();
            }
        }
        (changed != *object).then_some(changed)
    }
}
