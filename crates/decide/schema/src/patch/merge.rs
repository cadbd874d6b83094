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
    json_patch::merge(&mut object, patch);
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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
