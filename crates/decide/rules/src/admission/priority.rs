//! The admission plugin `Priority`: sets a pod's priority from its priority class.

use berth_api::object::{Pod, PriorityClass};

/// The built-in classes of every cluster.
const BUILT_IN: [(&str, i32); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];
/// The preemption policy of classes that have none.
const PREEMPT: &str = "PreemptLowerPriority";

/// What follows from the name of a priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority<'a> {
    /// The class: the default one of the cluster if none is named, and empty if there is no default.
    pub class: &'a str,
    pub value: i32,
    pub policy: &'a str,
}

impl<'a> Priority<'a> {
    /// That of a class. `given` is the priority that is written beside its name, in `place` (such as `pod spec`).
    ///
    /// # Errors
    /// The reason why the plugin forbids the object: its class does not exist, or it contradicts its class.
    pub fn of_class(
        class: &'a str,
        given: Option<i32>,
        place: &str,
        classes: &'a [PriorityClass],
    ) -> Result<Priority<'a>, String> {
        let of = |class: &'a PriorityClass| {
            let policy = class.preemption_policy.as_deref().unwrap_or(PREEMPT);
            Priority { class: &class.metadata.name, value: class.value, policy }
        };
        let priority = if class.is_empty() {
            // Several defaults exist only after a race; the lowest value is used, then the first name.
            let default = classes
                .iter()
                .filter(|class| class.global_default)
                .min_by(|a, b| (a.value, &a.metadata.name).cmp(&(b.value, &b.metadata.name)));
            default.map_or(Priority { class, value: 0, policy: PREEMPT }, of)
        } else if let Some(class) = classes.iter().find(|c| c.metadata.name == class) {
            of(class)
        } else if let Some((_, value)) = BUILT_IN.iter().find(|(name, _)| *name == class) {
            Priority { class, value: *value, policy: PREEMPT }
        } else {
            return Err(format!("no PriorityClass with name {class} was found"));
        };
        match given.filter(|given| *given != priority.value) {
            Some(given) => Err(format!(
                "the integer value of priority ({given}) must not be provided in {place}; priority admission controller \
                 computed {} from the given PriorityClass name",
                priority.value
            )),
            None => Ok(priority),
        }
    }
}

/// Sets the pod's priority and preemption policy.
///
/// # Errors
/// The reason why the plugin forbids the pod: its class does not exist, or it contradicts its class.
pub(super) fn resolve(pod: &mut Pod, classes: &[PriorityClass]) -> Result<(), String> {
    let spec = &mut pod.spec;
    let named = spec.priority_class_name.clone();
    let priority = Priority::of_class(&named, spec.priority, "pod spec", classes)?;
    if let Some(given) = spec.preemption_policy.as_deref().filter(|given| *given != priority.policy) {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {} from the given PriorityClass name",
            priority.policy
        ));
    }
    spec.priority = Some(priority.value);
    spec.preemption_policy = Some(priority.policy.to_owned());
    spec.priority_class_name = priority.class.to_owned();
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
