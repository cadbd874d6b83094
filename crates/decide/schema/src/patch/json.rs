//! JSON patch (RFC 6902), with limits on the size that a small patch can produce.

use json_patch::PatchOperation;
use json_patch::jsonptr::Pointer;
use serde_json::Value;

use super::PatchError;
use crate::decode::json_type;

/// Maximum number of operations, as in kube-apiserver.
const MAX_OPERATIONS: usize = 10_000;
/// Bytes that all `copy` operations of a patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Values that the operations of a patch may move or look at, and positions of lists that they may shift. An honest patch
/// of the largest object stays far below it.
const MAX_WORK: usize = 8_000_000;
/// Maximum nesting depth of an object. API objects are far below it. Recursion into deeper objects is not
/// safe.
const MAX_DEPTH: usize = 160;

/// The object after the patch.
///
/// # Errors
/// The patch is malformed, one of its operations fails (including `test`), or the result is too
/// large.
pub fn apply(live: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(list) = patch.as_array() else {
        let found = json_type(patch);
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )));
    };
    if list.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            list.len()
        )));
    }
    let mut object = live.clone();
    let mut spent = Spent::default();
    for (index, operation) in list.iter().enumerate() {
        let refused = |why: String| PatchError::Unprocessable(format!("operation {index}: {why}"));
        let operation = as_in_go(operation, &object);
        let operation: PatchOperation =
            serde::Deserialize::deserialize(&operation).map_err(|error| refused(error.to_string()))?;
        spent.check(&object, &operation)?;
        json_patch::patch_unsafe(&mut object, std::slice::from_ref(&operation))
            .map_err(|error| refused(error.kind.to_string()))?;
    }
    Ok(object)
}

/// An operation as the library of kube-apiserver reads it: negative indices count from the end of a list, `replace` also sets a
/// field that is absent, and `copy` of a field that is absent sets null.
fn as_in_go(operation: &Value, object: &Value) -> Value {
    let mut operation = operation.clone();
    for pointer in ["path", "from"] {
        let Some(path) = operation[pointer].as_str().filter(|path| path.contains("/-")) else { continue };
        let mut at = String::new();
        for token in path.split('/').skip(1) {
            let length = object.pointer(&at).and_then(Value::as_array).map(Vec::len);
            let from_end = token.strip_prefix('-').and_then(|number| number.parse::<usize>().ok());
            at.push('/');
            match length.zip(from_end) {
                Some((length, from_end)) => {
                    let is_added =
                        pointer == "path" && operation["op"] == "add" && path.len() == at.len() + token.len();
                    match (length + usize::from(is_added)).checked_sub(from_end) {
                        Some(index) => at.push_str(&index.to_string()),
                        None => at.push_str(token),
                    }
                }
                None => at.push_str(token),
            }
        }
        operation[pointer] = at.into();
    }
    let parent = operation["path"].as_str().and_then(|path| object.pointer(path.rsplit_once('/')?.0));
    if operation["op"] == "replace" && parent.is_some_and(Value::is_object) {
        operation["op"] = "add".into();
    }
    let from = operation["from"].as_str().filter(|_| operation["op"] == "copy");
    if let Some((source, _)) = from.and_then(|from| from.rsplit_once('/'))
        && object.pointer(source).is_some_and(Value::is_object)
        && from.is_some_and(|from| object.pointer(from).is_none())
    {
        operation = serde_json::json!({"op": "add", "path": operation["path"], "value": null});
    }
    operation
}

/// What the operations so far have cost.
#[derive(Default)]
struct Spent {
    copied: usize,
    work: usize,
}

impl Spent {
    fn check(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), PatchError> {
        let at = |from: &Pointer| object.pointer(from.as_str());
        let path = operation.path();
        let (value, from) = match operation {
            PatchOperation::Add(add) => (Some(&add.value), None),
            PatchOperation::Replace(replace) => (Some(&replace.value), None),
            PatchOperation::Move(moved) => (at(&moved.from), Some(&moved.from)),
            PatchOperation::Copy(copy) => (at(&copy.from), None),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => (None, None),
        };
        // Adding to and removing from a list shifts its items.
        let shifted = |pointer: &Pointer| {
            let list = pointer.parent().and_then(|parent| object.pointer(parent.as_str())?.as_array());
            list.map_or(0, Vec::len)
        };
        self.work += shifted(path) + from.map_or(0, |from| shifted(from));
        let (bytes, n_values, depth) = value.map(extent).unwrap_or_default();
        self.work += n_values;
        if self.work > MAX_WORK {
            return Err(PatchError::TooLarge(format!(
                "the operations of the patch move more than {MAX_WORK} values: send several smaller patches, or a merge patch"
            )));
        }
        if path.tokens().count() + depth > MAX_DEPTH {
            return Err(PatchError::TooLarge(format!(
                "the patch nests values deeper than {MAX_DEPTH} levels"
            )));
        }
        if matches!(operation, PatchOperation::Copy(_)) {
            self.copied += bytes;
            if self.copied > MAX_COPIED {
                return Err(PatchError::TooLarge(format!("the patch copies more than {MAX_COPIED} bytes")));
            }
        }
        Ok(())
    }
}

/// The approximate size of a value in bytes, how many values it has, and its depth, computed without recursion.
fn extent(value: &Value) -> (usize, usize, usize) {
    let (mut bytes, mut n_values, mut deepest) = (0, 0, 0);
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        deepest = deepest.max(depth);
        n_values += 1;
        bytes += 8;
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(fields) => {
                bytes += fields.keys().map(String::len).sum::<usize>();
                open.extend(fields.values().map(|field| (field, depth + 1)));
            }
            _ => {}
        }
    }
    (bytes, n_values, deepest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_are_applied_in_order() {
        let live = json!({"a": {"b": [1, 2]}, "x/y": 1});
        let patch = json!([
            {"op": "test", "path": "/a/b/0", "value": 1},
            {"op": "add", "path": "/a/b/-", "value": 3},
            {"op": "remove", "path": "/a/b/0"},
            {"op": "copy", "from": "/a/b", "path": "/c"},
            {"op": "move", "from": "/a", "path": "/d"},
            {"op": "replace", "path": "/x~1y", "value": 2},
        ]);
        assert_eq!(apply(&live, &patch), Ok(json!({"x/y": 2, "c": [2, 3], "d": {"b": [2, 3]}})));
        let absent = json!([{"op": "copy", "from": "/none", "path": "/c"}]);
        assert_eq!(apply(&json!({}), &absent), Ok(json!({"c": null})));
    }

    #[test]
    fn invalid_operations_are_errors() {
        let live = json!({"a": 1});
        for (patch, expected) in [
            (json!([{"op": "test", "path": "/a", "value": 2}]), "value did not match"),
            (json!([{"op": "remove", "path": "/b"}]), "path is invalid"),
            (json!([{"op": "replace", "path": "/c/b", "value": 1}]), "path is invalid"),
            (json!([{"op": "jump", "path": "/a"}]), "unknown variant `jump`"),
            (json!([{"op": "add", "path": "/a"}]), "missing field `value`"),
        ] {
            let Err(PatchError::Unprocessable(message)) = apply(&live, &patch) else {
                panic!("{patch} must not apply")
            };
            assert!(message.contains(expected), "{message}");
        }
        assert!(matches!(apply(&live, &json!({})), Err(PatchError::Malformed(_))));
    }

    #[test]
    fn negative_indices_and_replaced_absent_fields_were_refused() {
        let live = json!({"a": [1, 2, 3]});
        let patch = json!([
            {"op": "replace", "path": "/a/-1", "value": 4},
            {"op": "remove", "path": "/a/-3"},
            {"op": "replace", "path": "/b", "value": 5},
        ]);
        assert_eq!(apply(&live, &patch), Ok(json!({"a": [2, 4], "b": 5})));
        let beyond = json!([{"op": "remove", "path": "/a/-4"}]);
        assert!(matches!(apply(&live, &beyond), Err(PatchError::Unprocessable(_))));
    }

    #[test]
    fn a_small_patch_cannot_produce_a_huge_object() {
        let live = json!({"a": {"text": "x".repeat(1000)}});
        // Each copy doubles the object: 40 of them would be a petabyte.
        let doubling: Vec<Value> =
            (0..40).map(|i| json!({"op": "copy", "from": "", "path": format!("/a/{i}")})).collect();
        assert!(matches!(apply(&live, &Value::from(doubling)), Err(PatchError::TooLarge(_))));
        let nesting: Vec<Value> =
            (0..20).map(|_| json!({"op": "copy", "from": "/n", "path": "/n/n/n"})).collect();
        let nesting =
            Value::from([vec![json!({"op": "add", "path": "/n", "value": {"n": {}}})], nesting].concat());
        assert!(apply(&live, &nesting).is_ok(), "replacing does not nest");
        let deeper: Vec<Value> =
            (0..200).map(|i| json!({"op": "add", "path": "/d".repeat(i + 1), "value": {}})).collect();
        assert!(matches!(apply(&live, &Value::from(deeper)), Err(PatchError::TooLarge(_))));
        let many = vec![json!({"op": "add", "path": "/b", "value": 1}); MAX_OPERATIONS + 1];
        assert!(matches!(apply(&live, &Value::from(many)), Err(PatchError::TooLarge(_))));
    }

    #[test]
    fn the_work_of_a_patch_is_bounded() {
        let live = json!({"a": vec![0; 5000], "b": {"c": vec![0; 5000]}});
        for operation in [
            json!({"op": "move", "from": "/a/0", "path": "/a/-"}),
            json!({"op": "move", "from": "/b/c", "path": "/b/c"}),
            json!({"op": "add", "path": "/a/0", "value": 1}),
        ] {
            let patch = |n: usize| Value::from(vec![operation.clone(); n]);
            assert!(apply(&live, &patch(500)).is_ok(), "{operation}");
            assert!(matches!(apply(&live, &patch(9000)), Err(PatchError::TooLarge(_))), "{operation}");
        }
    }
}
