//! What kustomizations say of the files beside them. They are not rendered.

use std::fs;
use std::path::{Path, PathBuf};

use berth_api::read::collect_manifests;
use serde_json::Value;

/// The fields that name files of whole objects.
const RESOURCES: [&str; 4] = ["resources", "bases", "components", "crds"];

/// Whether a file of this name is a kustomization.
pub(crate) fn is_name(name: &str) -> bool {
    ["kustomization.yaml", "kustomization.yml", "Kustomization"].contains(&name)
}

/// The files that a kustomization with this text names besides its resources, such as patches, as absolute paths; none if it cannot be
/// read.
pub(crate) fn parts(kustomization: &Path, text: &str) -> Vec<PathBuf> {
    let Ok(manifests) = collect_manifests(text, &kustomization.display().to_string()) else {
        return Vec::new();
    };
    let directory = kustomization.parent().unwrap_or(Path::new(""));
    let path = |file: &str| fs::canonicalize(directory.join(file)).ok();
    let (mut resources, mut parts) = (Vec::new(), Vec::new());
    for (field, value) in manifests.iter().filter_map(|manifest| manifest.value.as_object()).flatten() {
        add_texts(value, if RESOURCES.contains(&field.as_str()) { &mut resources } else { &mut parts });
    }
    let resources: Vec<_> = resources.into_iter().filter_map(path).collect();
    // Files of generators are written `key=file`.
    let files = parts.into_iter().filter_map(|text| path(text).or_else(|| path(text.split_once('=')?.1)));
    files.filter(|file| !resources.contains(file)).collect()
}

fn add_texts<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| add_texts(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| add_texts(field, texts)),
        _ => {}
    }
}
