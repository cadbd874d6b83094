//! Fields that one version of Kubernetes takes otherwise than another, where that hardly is what is meant.

use std::collections::BTreeMap;

use berth_api::feature_gates::VersionChange;
use berth_api::object::group::GroupKind;
use berth_api::object::{GroupKey, PodGroup};
use berth_rules::admission::Priority;
use serde_json::Value;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::severity::Severity;
use crate::subject::Object;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let gates = input.settings.config.feature_gates;
    let has = |change| gates.has(change);
    for object in &input.objects {
        let spec = &object.raw["spec"];
        match object.kind {
            "PodDisruptionBudget" if is_empty(&spec["selector"]) => {
                let of_namespace = format!("all pods of namespace {}", object.namespace);
                let (message, severity) = match has(VersionChange::EmptyBudgetSelector) {
                    true => (
                        format!(
                            "the budget protects {of_namespace}; before Kubernetes 1.38, preemption passed over it"
                        ),
                        Severity::Info,
                    ),
                    false => (
                        format!(
                            "preemption passes over the budget: it protects {of_namespace} from evictions by the API only (from Kubernetes \
                             1.38 on, also from preemption)"
                        ),
                        Severity::Warning,
                    ),
                };
                let path = "spec.selector".to_owned();
                findings.add_one("budget-selector-empty", object, path, message).severity(severity);
            }
            "DeviceTaintRule" if spec["deviceSelector"].is_null() => {
                let message = "a rule without deviceSelector taints no device";
                findings.add_one("taint-rule-without-selector", object, "spec".to_owned(), message);
            }
            "ResourceClaim" if !has(VersionChange::QualifiedCapacity) => {
                qualified_capacity(object, "spec", spec, findings);
            }
            "ResourceClaimTemplate" if !has(VersionChange::QualifiedCapacity) => {
                qualified_capacity(object, "spec.spec", &spec["spec"], findings);
            }
            _ => {}
        }
    }
    if !has(VersionChange::GroupAgreement) {
        return;
    }
    let classes: Vec<_> = input.inventory.priority_classes.iter().map(|entry| entry.object.clone()).collect();
    let groups = input.inventory.pod_groups.iter().map(|entry| (entry.object.key(), &entry.object));
    let groups: BTreeMap<GroupKey, &PodGroup> = groups.collect();
    // The preemption policy of each group: without a gate, that of its first pod.
    let mut policies: BTreeMap<&GroupKey, String> = BTreeMap::new();
    for subject in input.subjects() {
        let key = GroupKey::of(&subject.pod.object, false).filter(|key| key.kind == GroupKind::Scheduling);
        let Some((key, group)) = key.and_then(|key| groups.get_key_value(&key)) else { continue };
        let [of_pod, of_group] = [&subject.written.spec.priority_class_name, class_of(group)]
            .map(|class| Priority::of_class(class, None, "spec", &classes).ok());
        // Classes that do not exist are other findings.
        let (Some(of_pod), Some(of_group)) = (of_pod, of_group) else { continue };
        let priority = subject.written.spec.priority.unwrap_or(of_pod.value);
        let expected = group.spec.priority.unwrap_or(of_group.value);
        let name = &group.metadata.name;
        if priority != expected {
            let message = format!(
                "the pods have the priority {priority}, and PodGroup {name} has {expected}: from Kubernetes 1.37 on, none of them is placed"
            );
            let path = subject.path("spec.priorityClassName");
            findings.add_one("priority-differs-from-group", &subject.object, path, message);
        }
        let policy = subject.written.spec.preemption_policy.as_deref().unwrap_or(of_pod.policy);
        let of_group = group.spec.preemption_policy.as_deref().unwrap_or(of_group.policy);
        let first = if gates.pod_group_preemption_policy { of_group } else { policy };
        let expected = &*policies.entry(key).or_insert_with(|| first.to_owned());
        if policy != expected {
            let message = format!(
                "the pods have the preemption policy {policy}, and PodGroup {name} or other pods of it have {expected}: from Kubernetes \
                 1.37 on, none of them is placed"
            );
            let path = subject.path("spec.preemptionPolicy");
            findings.add_one("preemption-policy-differs", &subject.object, path, message);
        }
    }
}

fn class_of(group: &PodGroup) -> &String {
    static NONE: String = String::new();
    group.spec.priority_class_name.as_ref().unwrap_or(&NONE)
}

fn is_empty(selector: &Value) -> bool {
    let has_none = |field: &Value| match field {
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        field => field.is_null(),
    };
    selector.is_object() && has_none(&selector["matchLabels"]) && has_none(&selector["matchExpressions"])
}

fn qualified_capacity(object: &Object<'_>, path: &str, spec: &Value, findings: &mut Findings) {
    let list = |value: &'_ Value, field: &str| value[field].as_array().cloned().unwrap_or_default();
    for (i, request) in list(&spec["devices"], "requests").iter().enumerate() {
        let place = format!("{path}.devices.requests[{i}]");
        let exactly = (format!("{place}.exactly"), request["exactly"].clone());
        let alternatives = list(request, "firstAvailable").into_iter().enumerate();
        let alternatives = alternatives.map(|(j, of)| (format!("{place}.firstAvailable[{j}]"), of));
        for (place, request) in [exactly].into_iter().chain(alternatives) {
            let names = request["capacity"]["requests"].as_object().into_iter().flat_map(|all| all.keys());
            for name in names.filter(|name| name.contains('/')) {
                let message =
                    format!("before Kubernetes 1.38, no device has a capacity that is called {name}");
                let path = format!("{place}.capacity.requests[{name}]");
                findings.add_one("capacity-qualified", object, path, message);
            }
        }
    }
}
