//! The admission plugin `Priority`: sets a pod's priority from its priority class.

use crate::object::{Pod, PriorityClass};

/// The built-in classes of every cluster.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Sets the pod's priority and preemption policy.
///
/// # Errors
/// The reason why the plugin forbids the pod: its class does not exist, or it contradicts its class.
pub(super) fn resolve(pod: &mut Pod, classes: &[PriorityClass]) -> Result<(), String> {
    let spec = &mut pod.spec;
    let (priority, policy) = if spec.priority_class_name.is_empty() {
        // Several defaults exist only after a race; the lowest value is used, then the first name.
        let default = classes
            .iter()
            .filter(|class| class.global_default)
            .min_by(|a, b| (a.value, &a.metadata.name).cmp(&(b.value, &b.metadata.name)));
        match default {
            Some(class) => {
                spec.priority_class_name.clone_from(&class.metadata.name);
                (class.value, policy_of(class))
            }
            None => (0, "PreemptLowerPriority"),
        }
    } else if let Some(class) = classes.iter().find(|c| c.metadata.name == spec.priority_class_name) {
        (class.value, policy_of(class))
    } else if let Some((_, value)) = BUILT_IN.iter().find(|(name, _)| *name == spec.priority_class_name) {
        (*value, "PreemptLowerPriority")
    } else {
        return Err(format!("no PriorityClass with name {} was found", spec.priority_class_name));
    };
    if let Some(given) = spec.priority.filter(|given| *given != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(given) = spec.preemption_policy.as_deref().filter(|given| *given != policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec.priority = Some(priority);
    spec.preemption_policy = Some(policy.to_owned());
    Ok(())
}

/// Without a list of classes: the built-in ones are known; other pods keep their own priority.
pub(super) fn resolve_built_in(pod: &mut Pod) {
    let spec = &mut pod.spec;
    if spec.priority.is_none() {
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == spec.priority_class_name);
        spec.priority = Some(built_in.map_or(0, |(_, value)| *value));
    }
}

fn policy_of(class: &PriorityClass) -> &str {
    class.preemption_policy.as_deref().unwrap_or("PreemptLowerPriority")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn priority_comes_from_the_class() {
        let classes: Vec<PriorityClass> = serde_json::from_value(json!([
            {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"},
            {"metadata": {"name": "normal"}, "value": 10, "globalDefault": true}]))
        .unwrap();
        for (spec, wanted) in [
            (json!({"priorityClassName": "high"}), Ok(("high", 1000, "Never"))),
            (json!({}), Ok(("normal", 10, "PreemptLowerPriority"))),
            (
                json!({"priorityClassName": "system-node-critical", "priority": 2000001000}),
                Ok(("system-node-critical", 2_000_001_000, "PreemptLowerPriority")),
            ),
            (json!({"priorityClassName": "none"}), Err("no PriorityClass with name none was found")),
            (
                json!({"priorityClassName": "high", "priority": 1}),
                Err(
                    "the integer value of priority (1) must not be provided in pod spec; priority admission controller \
                     computed 1000 from the given PriorityClass name",
                ),
            ),
            (
                json!({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}),
                Err(
                    "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; \
                     priority admission controller computed Never from the given PriorityClass name",
                ),
            ),
        ] {
            let mut pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
            let outcome = resolve(&mut pod, &classes);
            let got = outcome.as_ref().map_err(String::as_str).map(|()| {
                let spec = &pod.spec;
                let policy = spec.preemption_policy.as_deref().unwrap();
                (spec.priority_class_name.as_str(), spec.priority.unwrap(), policy)
            });
            assert_eq!(got, wanted, "{spec}");
        }
    }
}
