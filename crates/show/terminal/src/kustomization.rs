//! What kustomizations say of the files beside them. They are not rendered.

use std::fs;
use std::path::{Path, PathBuf};

use berth_api::read::collect_manifests;
use serde_json::Value;

use crate::input::small_text;

/// Whether a file of this name is a kustomization.
pub(crate) fn is_name(name: &str) -> bool {
    ["kustomization.yaml", "kustomization.yml", "Kustomization"].contains(&name)
}

/// The files that a kustomization names as patches, as absolute paths; none if it cannot be read.
pub(crate) fn patches(kustomization: &Path) -> Vec<PathBuf> {
    let Ok(text) = small_text(kustomization) else { return Vec::new() };
    let Ok(manifests) = collect_manifests(&text, &kustomization.display().to_string()) else {
        return Vec::new();
    };
    let directory = kustomization.parent().unwrap_or(Path::new(""));
    let items = |manifest: &Value, field: &str| manifest[field].as_array().cloned().unwrap_or_default();
    let mut files = Vec::new();
    for manifest in manifests.iter().map(|manifest| &manifest.value) {
        // The items are files, or patches.
        files.extend(items(manifest, "patchesStrategicMerge"));
        for field in ["patches", "patchesJson6902"] {
            files.extend(items(manifest, field).iter().map(|patch| patch["path"].clone()));
        }
    }
    let files = files.iter().filter_map(Value::as_str);
    files.filter_map(|file| fs::canonicalize(directory.join(file)).ok()).collect()
}
