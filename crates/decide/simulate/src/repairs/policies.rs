//! Rules that a placement policy added to the pod: they are changed in the policy, since the workload does not have them.

use berth_api::object::Pod;
use berth_input::policy::{APPLIED_ANNOTATION, PlacementPolicy};
use serde_json::{Value, json};

use super::patch::pointer;

/// Where a rule of a pod comes from.
pub(super) struct Source {
    /// The position of the policy.
    pub(super) policy: usize,
    /// The path of the rule in it.
    pub(super) path: String,
}

/// The policy that added the rule at a path to a pod, which is also given as JSON; none if the pod had it.
pub(super) fn source(policies: &[PlacementPolicy], pod: &Pod, object: &Value, path: &str) -> Option<Source> {
    let applied = pod.metadata.annotations.get(APPLIED_ANNOTATION)?;
    let rule = object.pointer(&pointer(path)?)?;
    let list = path.strip_suffix(']').and_then(|path| path.rsplit_once('['));
    policies.iter().enumerate().find_map(|(policy, object)| {
        if !applied.split(',').any(|key| key.trim() == object.key()) {
            return None;
        }
        let spec = json!({"spec": object.spec});
        let path = match list {
            Some((list, _)) => {
                let position = spec.pointer(&pointer(list)?)?.as_array()?.iter().position(|of| of == rule)?;
                format!("{list}[{position}]")
            }
            None => (spec.pointer(&pointer(path)?)? == rule).then(|| path.to_owned())?,
        };
        Some(Source { policy, path })
    })
}
