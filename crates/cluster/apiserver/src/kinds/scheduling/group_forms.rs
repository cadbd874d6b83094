//! PodGroups and Workloads of `scheduling.k8s.io/v1alpha2` (Kubernetes 1.36), and `v1beta1` and `v1alpha3` (1.37). `v1beta1` is stored.

use berth_api::object::group::GROUP_CONDITIONS;
use serde_json::{Map, Value, json};

use crate::strategy::fields::items_mut;

pub const V1ALPHA2: &str = "v1alpha2";

/// From `v1alpha2` to `v1beta1`.
pub fn to_v1beta1(mut value: Value) -> Value {
    value["apiVersion"] = "scheduling.k8s.io/v1beta1".into();
    for_each_spec(&mut value, |spec| {
        match spec.get("disruptionMode").and_then(Value::as_str) {
            Some("PodGroup") => spec["disruptionMode"] = json!({"all": {}}),
            Some("Pod") => spec["disruptionMode"] = json!({"single": {}}),
            _ => {}
        }
        if let Some(mut reference) = spec.shift_remove("podGroupTemplateRef") {
            let mut workload = reference["workload"].take();
            rename(&mut workload, "podGroupTemplateName", "templateName");
            spec.insert("workloadRef".to_owned(), workload);
        }
    });
    rename_condition(&mut value, GROUP_CONDITIONS);
    value
}

/// From `v1beta1` to `v1alpha2`. A disruption mode that does not have exactly one field stays, and validation rejects it.
pub fn to_v1alpha2(mut value: Value) -> Value {
    value["apiVersion"] = "scheduling.k8s.io/v1alpha2".into();
    for_each_spec(&mut value, |spec| {
        let is_set = |mode: &Value, field: &str| mode.get(field).is_some_and(|field| !field.is_null());
        let mode = spec.get("disruptionMode").map(|mode| (is_set(mode, "single"), is_set(mode, "all")));
        match mode {
            Some((false, true)) => spec["disruptionMode"] = json!("PodGroup"),
            Some((true, false)) => spec["disruptionMode"] = json!("Pod"),
            _ => {}
        }
        if let Some(mut workload) = spec.shift_remove("workloadRef") {
            rename(&mut workload, "templateName", "podGroupTemplateName");
            spec.insert("podGroupTemplateRef".to_owned(), json!({ "workload": workload }));
        }
    });
    rename_condition(&mut value, [GROUP_CONDITIONS[1], GROUP_CONDITIONS[0]]);
    value
}

/// The versions of 1.37 differ in their name.
pub fn to_v1alpha3(mut value: Value) -> Value {
    value["apiVersion"] = "scheduling.k8s.io/v1alpha3".into();
    value
}

pub fn from_v1alpha3(mut value: Value) -> Value {
    value["apiVersion"] = "scheduling.k8s.io/v1beta1".into();
    value
}

/// The spec of a group, and the templates of a Workload.
fn for_each_spec(value: &mut Value, change: impl Fn(&mut Map<String, Value>)) {
    let Some(spec) = value.get_mut("spec") else { return };
    items_mut(spec, "podGroupTemplates").iter_mut().filter_map(Value::as_object_mut).for_each(&change);
    spec.as_object_mut().into_iter().for_each(change);
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(fields) = value.as_object_mut()
        && let Some(field) = fields.shift_remove(from)
    {
        fields.insert(to.to_owned(), field);
    }
}

fn rename_condition(value: &mut Value, [from, to]: [&str; 2]) {
    let Some(status) = value.get_mut("status") else { return };
    for condition in items_mut(status, "conditions") {
        if condition["type"] == from {
            condition["type"] = to.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_the_same() {
        let reference = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        let condition = json!({"type": "PodGroupScheduled", "status": "True"});
        let stored = json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": "PodGroup", "podGroupTemplateRef": reference},
            "status": {"conditions": [condition]},
        });
        let shown = to_v1beta1(stored.clone());
        assert_eq!(
            shown["spec"],
            json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}},
                "workloadRef": {"workloadName": "w", "templateName": "t"}})
        );
        assert_eq!(shown["status"]["conditions"][0]["type"], "PodGroupInitiallyScheduled");
        assert_eq!(to_v1alpha2(shown), stored);
        let workload = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "spec": {"podGroupTemplates": [{"name": "t", "disruptionMode": "Pod"}]}});
        let shown = to_v1beta1(workload.clone());
        assert_eq!(shown["spec"]["podGroupTemplates"][0]["disruptionMode"], json!({"single": {}}));
        assert_eq!(to_v1alpha2(shown), workload);
        let both = json!({"spec": {"disruptionMode": {"single": {}, "all": {}}}});
        assert_eq!(to_v1alpha2(both.clone())["spec"], both["spec"]);
    }
}
