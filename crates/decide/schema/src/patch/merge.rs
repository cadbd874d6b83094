//! JSON merge patch (RFC 7386): objects are merged, `null` removes, everything else replaces.

use serde_json::Value;

use super::PatchError;
use crate::decode::json_type;

/// The object after the patch.
///
/// # Errors
/// The patch is not an object: an API object cannot become anything else.
pub fn apply(live: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        let found = json_type(patch);
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    let mut object = live.clone();
    merge(&mut object, patch);
    Ok(object)
}

fn merge(live: &mut Value, patch: &Value) {
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => {
            for (name, value) in patch {
                match live.get_mut(name) {
                    _ if value.is_null() => drop(live.shift_remove(name)),
                    Some(current) if !current.is_null() => merge(current, value),
                    _ => drop(live.insert(name.clone(), without_nulls(value))),
                }
            }
        }
        (live, patch) => *live = without_nulls(patch),
    }
}

/// A new value: also in items of lists, fields with null are absent.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            fields.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_with_null_in_items_of_lists_were_values() {
        let live = json!({"list": [{"limits": {"cpu": 1}}], "map": {"a": 1}});
        let patch = json!({"list": [{"limits": {"cpu": 1, "memory": null}}, null], "map": [{"b": null}], "new": [{"c": null}]});
        let merged = json!({"list": [{"limits": {"cpu": 1}}, null], "map": [{}], "new": [{}]});
        assert_eq!(apply(&live, &patch), Ok(merged));
    }

    #[test]
    fn objects_merge_and_the_rest_replaces() {
        let live = json!({"spec": {"replicas": 1, "list": [1, 2], "gone": {"a": 1}}, "kept": true});
        let patch = json!({"spec": {"replicas": 2, "list": [3], "gone": null, "new": {"b": null, "c": 1}}});
        assert_eq!(
            apply(&live, &patch),
            Ok(json!({"spec": {"replicas": 2, "list": [3], "new": {"c": 1}}, "kept": true}))
        );
        assert!(matches!(apply(&live, &json!([])), Err(PatchError::Malformed(_))));
    }
}
