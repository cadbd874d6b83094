//! Names of definitions, and references to them.

use serde_json::{Value, json};

use crate::definitions::{self, REFERENCE};

pub(super) const PATCH_DEFINITION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

pub(super) fn definition_of(group: &str, version: &str, kind: &str) -> Option<String> {
    let found =
        definitions::types().iter().find(|k| k.group == group && k.version == version && k.kind == kind);
    match found {
        Some(found) => Some((found.definition)().into_owned()),
        // As custom resources are named.
        None if group.contains('.') => {
            let reversed: Vec<&str> = group.rsplit('.').collect();
            Some(format!("{}.{version}.{kind}", reversed.join(".")))
        }
        None => None,
    }
}

pub(super) fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({ "group": group, "kind": kind, "version": version })
}

pub(super) fn reference(definition: &str) -> Value {
    json!({ "$ref": format!("{REFERENCE}{definition}") })
}
