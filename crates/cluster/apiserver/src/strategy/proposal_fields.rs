//! Fields of the proposals in updates of clients that do not know them: such a client sends an object back without them.

use berth_api::read::pod_spec_pointer;
use serde_json::Value;

use super::fields::object;

pub const ENFORCED: &str = "requiredDuringSchedulingRequiredDuringExecution";

/// Keeps the fields that an update of a whole object lacks, where they cannot change. Returns a warning that names those that the update
/// removes from a template.
pub fn keep_absent(kind: &str, new: &mut Value, old: &Value) -> Option<String> {
    let pointer = pod_spec_pointer(kind)?;
    let lost = lost(pointer, new, old);
    if !cannot_change(kind, old) {
        return warning(&lost);
    }
    for Lost { rules, field } in lost {
        if let (Some(kept), Some(spec)) = (old.pointer(&field), new.pointer_mut(pointer))
            && object(spec, "affinity").is_some()
            && let Some(rules) = object(&mut spec["affinity"], rules)
        {
            rules.insert(ENFORCED.to_owned(), kept.clone());
        }
    }
    None
}

/// A warning that names the fields that a patch removes from a template without naming them: `kubectl rollout undo` replaces
/// the template by one that kubectl has read into its types.
pub fn removed_by_patch(kind: &str, patch: &Value, new: &Value, old: &Value) -> Option<String> {
    let mut lost = lost(pod_spec_pointer(kind)?, new, old);
    if lost.is_empty() || cannot_change(kind, old) {
        return None;
    }
    lost.retain(|Lost { field, .. }| match patch.as_array() {
        Some(operations) => {
            let names = |operation: &Value, key| operation[key].as_str() == Some(field);
            !operations.iter().any(|operation| names(operation, "path") || names(operation, "from"))
        }
        None => patch.pointer(field).is_none(),
    });
    warning(&lost)
}

/// Whether the pod spec of such an object stays as it was created.
fn cannot_change(kind: &str, old: &Value) -> bool {
    kind == "Pod" || (kind == "Job" && old["spec"]["suspend"] != true)
}

/// A field that an object does not have any more.
struct Lost {
    /// The field of `affinity` that it is in.
    rules: &'static str,
    /// As a JSON pointer.
    field: String,
}

fn lost(pointer: &str, new: &Value, old: &Value) -> Vec<Lost> {
    let fields = ["nodeAffinity", "podAffinity", "podAntiAffinity"]
        .map(|rules| Lost { rules, field: format!("{pointer}/affinity/{rules}/{ENFORCED}") });
    let is_set = |object: &Value, field: &str| object.pointer(field).is_some_and(|field| !field.is_null());
    fields.into_iter().filter(|Lost { field, .. }| is_set(old, field) && !is_set(new, field)).collect()
}

fn warning(lost: &[Lost]) -> Option<String> {
    let names = lost.iter().map(|Lost { field, .. }| field.trim_start_matches('/').replace('/', "."));
    let is = if lost.len() == 1 { "is" } else { "are" };
    (!lost.is_empty()).then(|| {
        format!(
            "{} {is} removed by this update: a client that does not know the field sends the object without it",
            names.collect::<Vec<_>>().join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_client_does_not_know_stays_in_pods_and_in_jobs_that_run() {
        let rules = json!([{"topologyKey": "zone"}]);
        let old = json!({"podAffinity": {ENFORCED: rules, "x": 1}, "podAntiAffinity": {ENFORCED: rules}});
        let job = |affinity: &Value, suspend: bool| json!({"spec": {"suspend": suspend, "template": {"spec": {"affinity": affinity}}}});
        let sent = json!({"podAffinity": {"x": 2}});
        let kept = json!({"podAffinity": {ENFORCED: rules, "x": 2}, "podAntiAffinity": {ENFORCED: rules}});
        let mut new = json!({"spec": {"affinity": sent}});
        assert_eq!(keep_absent("Pod", &mut new, &json!({"spec": {"affinity": old}})), None);
        assert_eq!(new["spec"]["affinity"], kept);
        let mut new = job(&sent, false);
        assert_eq!(keep_absent("Job", &mut new, &job(&old, false)), None);
        assert_eq!(new, job(&kept, false));
        // Its template may change before it runs.
        let mut new = job(&sent, true);
        let warning = keep_absent("Job", &mut new, &job(&old, true)).unwrap();
        assert!(
            warning.contains(&format!("spec.template.spec.affinity.podAntiAffinity.{ENFORCED} are removed"))
        );
        assert_eq!(new, job(&sent, true));
        for odd in [json!({"spec": 1}), json!(null), json!({"spec": {"affinity": []}})] {
            let mut new = odd.clone();
            assert_eq!(keep_absent("Pod", &mut new, &json!({"spec": {"affinity": old}})), None);
            assert_eq!(new, odd);
        }
    }

    #[test]
    fn a_patch_warns_about_the_fields_that_it_removes_without_naming_them() {
        let rules = json!([{"topologyKey": "zone"}]);
        let of = |affinity: Value| json!({"spec": {"template": {"spec": {"affinity": affinity}}}});
        let old = of(json!({"podAffinity": {ENFORCED: rules, "x": 1}, "podAntiAffinity": {ENFORCED: rules}}));
        let warned = |kind: &str, patch: Value, new: &Value| {
            removed_by_patch(kind, &patch, new, &old).unwrap_or_default()
        };
        let anti = format!("spec.template.spec.affinity.podAntiAffinity.{ENFORCED} is removed");
        let path = format!("/spec/template/spec/affinity/podAntiAffinity/{ENFORCED}");
        let new = of(json!({"podAffinity": {ENFORCED: rules}}));
        let replaced = json!([{"op": "replace", "path": "/spec/template", "value": new["spec"]["template"]}]);
        assert!(warned("Deployment", replaced, &new).starts_with(&anti));
        assert!(warned("Deployment", of(json!({"podAntiAffinity": null})), &new).starts_with(&anti));
        assert_eq!(warned("Deployment", json!([{"op": "remove", "path": path}]), &new), "");
        assert_eq!(warned("Deployment", of(json!({"podAntiAffinity": {ENFORCED: null}})), &new), "");
        assert_eq!(warned("Deployment", json!({"spec": {"replicas": 2}}), &old), "", "nothing is removed");
        // A running Job: its template cannot change, and the update is refused.
        assert_eq!(warned("Job", json!([]), &new), "");
        let all = warned("Deployment", of(json!(null)), &of(json!(null)));
        assert!(
            all.contains(&format!("podAffinity.{ENFORCED}, spec.template")) && all.contains("are removed")
        );
    }
}
