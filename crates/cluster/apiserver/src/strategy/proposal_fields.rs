//! Fields of the proposals in updates of clients that do not know them: such a client sends an object back without them.

use berth_api::read::pod_spec_pointer;
use serde_json::Value;

use super::fields::object;

pub const ENFORCED: &str = "requiredDuringSchedulingRequiredDuringExecution";

/// Keeps the fields that an update of a whole object lacks, where they cannot change. Returns a warning that names those that the update
/// removes from a template.
pub fn keep_absent(kind: &str, new: &mut Value, old: &Value) -> Option<String> {
    let pointer = pod_spec_pointer(kind)?;
    let cannot_change = kind == "Pod" || (kind == "Job" && old["spec"]["suspend"] != true);
    let mut removed = Vec::new();
    for rules in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
        let field = format!("{pointer}/affinity/{rules}/{ENFORCED}");
        let is_set = |object: &Value| object.pointer(&field).is_some_and(|field| !field.is_null());
        if !is_set(old) || is_set(new) {
            continue;
        }
        if !cannot_change {
            removed.push(field.trim_start_matches('/').replace('/', "."));
        } else if let (Some(kept), Some(spec)) = (old.pointer(&field), new.pointer_mut(pointer))
            && object(spec, "affinity").is_some()
            && let Some(rules) = object(&mut spec["affinity"], rules)
        {
            rules.insert(ENFORCED.to_owned(), kept.clone());
        }
    }
    let is = if removed.len() == 1 { "is" } else { "are" };
    (!removed.is_empty()).then(|| {
        format!(
            "{} {is} removed by this update: a client that does not know the field sends the object without it",
            removed.join(", ")
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
}
