//! Resources that CustomResourceDefinitions define.
//!
//! What refers to a resource does so for as long as the process runs: its names are never freed. What a version says about
//! objects, its schema above all, is kept by [`Defined`]: it is read once for all that have the same text, and freed with the last of
//! them, after which another version with the same names takes the place of the resource. The collection of a custom resource
//! depends on group and plural alone, so that objects keep their place when the definition changes.

mod structural;

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError};

use berth_api::resource as names;
use serde_json::Value;

use crate::resource::{CHANGE, Custom, CustomSchema, Resource, Storage, Subresource};

/// How many custom resources can be defined while the process runs.
pub const MAX_CUSTOM: usize = 4096;

/// The resources of one definition.
#[derive(Clone, Debug)]
pub struct Defined {
    /// The version in which objects are stored.
    pub storage: &'static Resource,
    /// The versions that are served, the preferred one first.
    pub served: Vec<&'static Resource>,
    /// What they say about objects.
    _schemas: Vec<Arc<CustomSchema>>,
}

/// One for each custom resource, by slot, for what knows an object's group and plural only.
static COLLECTIONS: Mutex<Vec<&'static Resource>> = Mutex::new(Vec::new());
/// All versions that have been read, by the digest of their names: those with the same names differ in their schemas.
static VERSIONS: LazyLock<Mutex<HashMap<[u64; 2], Vec<&'static Resource>>>> = LazyLock::new(Mutex::default);

/// Texts are compared by a keyed hash of 128 bits, so that they need not be kept.
fn digest(text: &str) -> [u64; 2] {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    KEYS.each_ref().map(|key| key.hash_one(text))
}

fn leak(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

/// The collection of a custom resource by its name (`plural.group`); `None` if there are too many, or the name has no
/// group.
pub fn custom_collection(name: &str) -> Option<&'static Resource> {
    let (plural, group) = name.split_once('.')?;
    let mut all = COLLECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter().find(|known| known.plural == plural && known.group == group) {
        return Some(known);
    }
    if all.len() == MAX_CUSTOM {
        return None;
    }
    let names = names::Resource {
        group: leak(group),
        version: "",
        kind: "",
        plural: leak(plural),
        namespaced: true,
        deletable: true,
        short_names: &[],
    };
    let custom =
        Custom { slot: all.len(), singular: "", list_kind: "", several: false, schema: Mutex::default() };
    let made: &'static Resource =
        Box::leak(Box::new(Resource { custom: Some(Box::leak(Box::new(custom))), ..Resource::new(names) }));
    all.push(made);
    Some(made)
}

/// Whether a custom resource of this name (`plural.group`) is defined or can be.
pub fn has_room(name: &str) -> bool {
    let all = COLLECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    all.len() < MAX_CUSTOM || all.iter().any(|known| known.group_resource() == name)
}

/// The collection in a slot, if it is in use.
pub fn custom_collection_at(slot: usize) -> Option<&'static Resource> {
    COLLECTIONS.lock().unwrap_or_else(PoisonError::into_inner).get(slot).copied()
}

/// The resources of a CustomResourceDefinition. `None` if it is malformed, or if there are too many.
pub fn defined(definition: &Value) -> Option<Defined> {
    let spec = &definition["spec"];
    let text = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let slot = custom_collection(&format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")))?
        .custom?
        .slot;
    let mut versions: Vec<&Value> = spec["versions"].as_array()?.iter().collect();
    versions.sort_by_key(|version| std::cmp::Reverse(priority(version["name"].as_str().unwrap_or_default())));
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    let mut known = VERSIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut schemas = Vec::new();
    let mut read = |version: &Value, storage: Option<&'static Resource>| -> &'static Resource {
        let (several, stored_as) = (versions.len() > 1, storage.map(std::ptr::from_ref));
        let of = |name: &str| version["subresources"][name].is_object();
        let names = format!(
            "{} {} {} {} {several} {stored_as:?} {} {}",
            spec["group"],
            spec["names"],
            spec["scope"],
            version["name"],
            of("scale"),
            of("status")
        );
        let alike = known.entry(digest(&names)).or_default();
        let (resource, schema) = with_schema(spec, version, alike).unwrap_or_else(|schema| {
            let storage = storage.map_or(Storage::Own, Storage::Shared);
            let resource: &Resource = Box::leak(Box::new(of_version(spec, version, slot, storage, &schema)));
            alike.push(resource);
            (resource, schema)
        });
        schemas.push(schema);
        resource
    };
    let storage = read(stored, None);
    let served = versions.iter().filter(|version| version["served"] == true);
    let served = served
        .map(|version| if version["name"] == stored["name"] { storage } else { read(version, Some(storage)) })
        .collect();
    Some(Defined { storage, served, _schemas: schemas })
}

/// One of some resources with the same names that has the schema of a version, or has none any more and gets it; otherwise the
/// schema for a new one.
fn with_schema(
    spec: &Value,
    version: &Value,
    alike: &[&'static Resource],
) -> Result<(&'static Resource, Arc<CustomSchema>), Arc<CustomSchema>> {
    let wanted = digest(&version.to_string());
    let mut free = None;
    for resource in alike {
        let Some(custom) = resource.custom else { continue };
        match custom.schema.lock().unwrap_or_else(PoisonError::into_inner).upgrade() {
            Some(schema) if schema.digest == wanted => return Ok((resource, schema)),
            Some(_) => {}
            None => free = Some((resource, custom)),
        }
    }
    let schema = Arc::new(schema_of(spec, version, wanted));
    let Some((resource, custom)) = free else { return Err(schema) };
    *custom.schema.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&schema);
    Ok((resource, schema))
}

fn schema_of(spec: &Value, version: &Value, digest: [u64; 2]) -> CustomSchema {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let openapi = version["schema"]["openAPIV3Schema"].clone();
    CustomSchema {
        ty: structural::type_of_root(&openapi),
        openapi,
        columns: version["additionalPrinterColumns"].as_array().cloned().unwrap_or_default(),
        scale: version["subresources"].get("scale").filter(|scale| scale.is_object()).cloned(),
        deprecation: (version["deprecated"] == true).then(|| {
            let own = version["deprecationWarning"].as_str().filter(|text| !text.is_empty());
            let (group, kind) = (text(&spec["group"]), text(&spec["names"]["kind"]));
            own.map_or_else(
                || format!("{group}/{} {kind} is deprecated", text(&version["name"])),
                str::to_owned,
            )
        }),
        compiled: OnceLock::new(),
        number: NUMBER.fetch_add(1, Ordering::Relaxed),
        digest,
    }
}

fn of_version(
    spec: &Value,
    version: &Value,
    slot: usize,
    storage: Storage,
    schema: &Arc<CustomSchema>,
) -> Resource {
    let names = &spec["names"];
    let text = |value: &Value| leak(value.as_str().unwrap_or_default());
    let list = |value: &Value| -> &'static [&'static str] {
        value.as_array().into_iter().flatten().map(text).collect::<Vec<_>>().leak()
    };
    let (group, kind) = (text(&spec["group"]), text(&names["kind"]));
    let name = text(&version["name"]);
    let custom = Custom {
        slot,
        singular: match names["singular"].as_str() {
            Some(singular) if !singular.is_empty() => leak(singular),
            _ => leak(&kind.to_ascii_lowercase()),
        },
        list_kind: match names["listKind"].as_str() {
            Some(kind) if !kind.is_empty() => leak(kind),
            _ => leak(&format!("{kind}List")),
        },
        several: spec["versions"].as_array().is_some_and(|versions| versions.len() > 1),
        schema: Mutex::new(Arc::downgrade(schema)),
    };
    let sub = |name, group, version, kind| Subresource {
        name,
        group,
        version,
        kind,
        verbs: CHANGE,
        generated: None,
    };
    let mut subresources = Vec::new();
    if schema.scale.is_some() {
        subresources.push(sub("scale", "autoscaling", "v1", "Scale"));
    }
    if version["subresources"]["status"].is_object() {
        subresources.push(sub("status", group, name, kind));
    }
    let resource_names = names::Resource {
        group,
        version: name,
        kind,
        plural: text(&names["plural"]),
        namespaced: spec["scope"] == "Namespaced",
        deletable: true,
        short_names: list(&names["shortNames"]),
    };
    Resource {
        categories: list(&names["categories"]),
        subresources: subresources.leak(),
        storage,
        custom: Some(Box::leak(Box::new(custom))),
        ..Resource::new(resource_names)
    }
}

/// The order of versions: `v2`, `v1`, `v1beta1`, `v1alpha1`; all others come after these.
fn priority(version: &str) -> (u8, u32, u32) {
    let read = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..end].parse().ok()?;
        Some(match &rest[end..] {
            "" => (3, major, 0),
            rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
                (Some(minor), _) => (2, major, minor.parse().ok()?),
                (_, Some(minor)) => (1, major, minor.parse().ok()?),
                _ => return None,
            },
        })
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_definition_is_read_once_and_keeps_its_collection() {
        let definition = |kind: &str| {
            json!({"spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "gadgets", "kind": kind},
            "conversion": {}, "versions": [
                {"name": "v1beta1", "served": true, "storage": false},
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                {"name": "v2alpha1", "served": false, "storage": false},
            ]}})
        };
        let first = defined(&definition("Gadget")).expect("well-formed");
        let again = defined(&definition("Gadget")).expect("well-formed");
        assert!(std::ptr::eq(first.storage, again.storage));
        let mut other = definition("Gadget");
        other["spec"]["conversion"] = json!({"strategy": "None"});
        other["spec"]["versions"][2]["deprecated"] = true.into();
        let after = defined(&other).expect("well-formed");
        let same = first.served.iter().zip(&after.served).all(|(a, b)| std::ptr::eq(*a, *b));
        assert!(
            same && std::ptr::eq(first.storage, after.storage),
            "what changed concerns no served version"
        );
        let versions: Vec<&str> = first.served.iter().map(|r| r.version).collect();
        assert_eq!(versions, ["v1", "v1beta1"]);
        assert_eq!(first.served[1].stored(), Some(first.storage));
        assert!(first.storage.has_status() && !first.storage.namespaced);
        assert_eq!(
            (first.storage.singular(), first.storage.list_kind()),
            ("gadget".into(), "GadgetList".into())
        );
        let changed = defined(&definition("Widget")).expect("well-formed");
        assert_eq!(changed.storage.index(), first.storage.index());
        assert_eq!(
            custom_collection("gadgets.example.com").map(Resource::index),
            Some(first.storage.index())
        );
        assert!(defined(&json!({})).is_none());
    }

    #[test]
    fn the_schema_of_an_earlier_version_of_a_definition_is_freed_with_the_last_that_uses_it() {
        let definition = |field: &str| {
            let schema = json!({"type": "object", "properties": {field: {"type": "string"}}});
            json!({"spec": {"group": "freed.example.com", "scope": "Cluster", "names": {"plural": "parts", "kind": "Part"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
        };
        let fields = |resource: &Resource| {
            let schema = resource.custom.expect("a custom resource").schema();
            let properties = schema.openapi["properties"].as_object().into_iter().flatten();
            properties.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        let first = defined(&definition("a")).expect("well-formed");
        // A request that began before the change.
        let of_request = first.clone();
        let freed = Arc::downgrade(&first._schemas[0]);
        drop(first);
        let second = defined(&definition("b")).expect("well-formed");
        assert_eq!(
            (fields(of_request.storage), fields(second.storage)),
            (vec!["a".to_owned()], vec!["b".to_owned()])
        );
        let resource = of_request.storage;
        drop(of_request);
        assert!(freed.upgrade().is_none());
        assert!(fields(resource).is_empty());
        // The names of the freed version are used again.
        let third = defined(&definition("c")).expect("well-formed");
        assert!(std::ptr::eq(third.storage, resource));
        assert_eq!(
            (fields(third.storage), fields(second.storage)),
            (vec!["c".to_owned()], vec!["b".to_owned()])
        );
        for i in 0..100 {
            let changed = defined(&definition(&format!("f{i}"))).expect("well-formed");
            assert_eq!(fields(changed.storage), [format!("f{i}")]);
        }
        let names = VERSIONS.lock().unwrap();
        let of_parts = names.values().flatten().filter(|resource| resource.plural == "parts");
        assert_eq!(of_parts.count(), 3);
    }
}
