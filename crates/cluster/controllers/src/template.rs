//! Pod templates: equality and hash.
//!
//! Clients write absent fields in different ways: `null`, an empty list, or an empty `resources`.
//! The comparison ignores these differences, except in `affinity`, where an empty selector and an absent one differ.

pub(crate) use berth_control::expand::POD_TEMPLATE_HASH;
use serde_json::{Map, Value};

/// Kubernetes' alphabet for generated names: no vowels, so no words, and nothing easily confused.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Whether the two templates produce the same pods. The hash label is ignored.
pub(crate) fn same_template(a: &Value, b: &Value) -> bool {
    same(a, b, Place::Template)
}

/// A short hash of the template, safe in names and labels. `collisions` selects another hash when the name is
/// taken.
pub(crate) fn template_hash(template: &Value, collisions: i32) -> String {
    let mut hash = Fnv::new();
    feed(template, Place::Template, &mut hash);
    if collisions > 0 {
        hash.write(&collisions.to_le_bytes());
    }
    encode(hash.0)
}

/// A short hash of texts, safe in names.
pub(crate) fn name_hash(texts: &[&str]) -> String {
    let mut hash = Fnv::new();
    texts.iter().for_each(|text| hash.write(text.as_bytes()));
    encode(hash.0)
}

/// The number's decimal digits in [`ALPHABET`].
fn encode(number: u32) -> String {
    let digits = number.to_string();
    digits.bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}

/// The position of a value in a template; it decides which values count as absent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Template,
    TemplateMetadata,
    Labels,
    Affinity,
    Elsewhere,
}

impl Place {
    fn inside(self, key: &str) -> Place {
        match (self, key) {
            (Place::Affinity, _) | (_, "affinity") => Place::Affinity,
            (Place::Template, "metadata") => Place::TemplateMetadata,
            (Place::TemplateMetadata, "labels") => Place::Labels,
            _ => Place::Elsewhere,
        }
    }

    fn counts(self, key: &str, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::Array(array) => self.inside(key) == Place::Affinity || !array.is_empty(),
            Value::Object(map) if map.is_empty() => {
                !matches!(key, "resources" | "labels" | "annotations" | "securityContext" | "metadata")
                    || self.inside(key) == Place::Affinity
            }
            // The patch directive in a stored revision is not part of the template.
            _ => {
                !(self == Place::Labels && key == POD_TEMPLATE_HASH
                    || self == Place::Template && key == "$patch")
            }
        }
    }
}

fn counted(map: &Map<String, Value>, place: Place) -> impl Iterator<Item = (&String, &Value)> {
    map.iter().filter(move |(key, value)| place.counts(key, value))
}

fn same(a: &Value, b: &Value, place: Place) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            counted(a, place).count() == counted(b, place).count()
                && counted(a, place).all(|(key, value)| {
                    b.get(key).is_some_and(|other| {
                        place.counts(key, other) && same(value, other, place.inside(key))
                    })
                })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, place))
        }
        (a, b) => a == b,
    }
}

fn feed(value: &Value, place: Place, hash: &mut Fnv) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<_> = counted(map, place).collect();
            fields.sort_unstable_by_key(|(key, _)| *key);
            hash.write(b"{");
            for (key, value) in fields {
                hash.write(key.as_bytes());
                hash.write(b"\0");
                feed(value, place.inside(key), hash);
            }
            hash.write(b"}");
        }
        Value::Array(array) => {
            hash.write(b"[");
            array.iter().for_each(|value| feed(value, place, hash));
            hash.write(b"]");
        }
        Value::String(text) => {
            hash.write(b"\"");
            hash.write(text.as_bytes());
            hash.write(b"\0");
        }
        other => {
            hash.write(other.to_string().as_bytes());
            hash.write(b"\0");
        }
    }
}

/// FNV-1a, 32 bits: the same on every machine and in every version.
struct Fnv(u32);

impl Fnv {
    fn new() -> Self {
        Fnv(0x811c_9dc5)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_changes_that_affect_pods_change_the_template() {
        let template = json!({
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {}}],
                "affinity": {"podAffinity": {"x": [{"topologyKey": "t", "labelSelector": {}}]}}},
        });
        let changed = |patch: Value| {
            let mut changed = template.clone();
            let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
            json_patch::patch(&mut changed, &patch).unwrap();
            changed
        };
        for (patch, same) in [
            (json!([]), true),
            (json!([{"op": "add", "path": "/metadata/labels/pod-template-hash", "value": "x"}]), true),
            (json!([{"op": "add", "path": "/metadata/creationTimestamp", "value": null}]), true),
            (json!([{"op": "remove", "path": "/spec/containers/0/resources"}]), true),
            (json!([{"op": "add", "path": "/spec/containers/0/args", "value": []}]), true),
            (json!([{"op": "replace", "path": "/spec/containers/0/image", "value": "j"}]), false),
            (json!([{"op": "add", "path": "/metadata/labels/tier", "value": "x"}]), false),
            (json!([{"op": "add", "path": "/spec/nodeSelector", "value": {POD_TEMPLATE_HASH: "x"}}]), false),
            (json!([{"op": "remove", "path": "/spec/affinity/podAffinity/x/0/labelSelector"}]), false),
            (json!([{"op": "add", "path": "/spec/affinity/podAffinity/x/0/namespaces", "value": []}]), false),
        ] {
            let other = changed(patch.clone());
            assert_eq!(same_template(&template, &other), same, "{patch}");
            assert_eq!(same_template(&other, &template), same, "{patch}");
            assert_eq!(template_hash(&template, 0) == template_hash(&other, 0), same, "{patch}");
        }
        assert_ne!(template_hash(&template, 0), template_hash(&template, 1));
        assert!(template_hash(&template, 0).bytes().all(|byte| ALPHABET.contains(&byte)));
    }
}
