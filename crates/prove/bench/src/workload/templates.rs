//! The templates that operations create objects from.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use berth_api::read::{Manifest, collect_manifests, decode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Stop;

/// Templates by path, each read once.
pub(super) struct Templates<'a> {
    directory: &'a Path,
    read: HashMap<PathBuf, Manifest>,
}

impl<'a> Templates<'a> {
    /// No templates yet; paths are relative to this directory.
    pub fn new(directory: &'a Path) -> Templates<'a> {
        Templates { directory, read: HashMap::new() }
    }

    /// The template as a typed object.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str, kind: &str) -> Result<T, Stop> {
        let manifest = self.manifest(path)?;
        if manifest.kind != kind {
            return Err(Stop::Failed(format!("{path}: {} instead of {kind}", manifest.kind)));
        }
        decode(manifest).map_err(|e| Stop::Failed(format!("{path}: {e}")))
    }

    /// The template as read.
    pub fn manifest(&mut self, path: &str) -> Result<&Manifest, Stop> {
        let full = self.directory.join(path);
        if !self.read.contains_key(&full) {
            let manifest = read(&full, path)?;
            self.read.insert(full.clone(), manifest);
        }
        Ok(&self.read[&full])
    }
}

fn read(full: &Path, path: &str) -> Result<Manifest, Stop> {
    let text = super::small_text(full).map_err(|e| Stop::Failed(format!("{path}: {e}")))?;
    if text.contains("{{") {
        return Err(Stop::NotSupported(format!("{path}: placeholders in a template")));
    }
    let manifests = collect_manifests(&text, path).map_err(|e| Stop::Failed(e.to_string()))?;
    let Ok([mut manifest]) = <[Manifest; 1]>::try_from(manifests) else {
        return Err(Stop::Failed(format!("{path}: a template must be one object")));
    };
    fold_spread_fields(&mut manifest.value);
    Ok(manifest)
}

/// kube-scheduler ignores the case of field names in templates, and one template depends on that: it has `NodeTaintsPolicy` for `nodeTaintsPolicy`.
fn fold_spread_fields(value: &mut Value) {
    let constraints = value.pointer_mut("/spec/topologySpreadConstraints").and_then(Value::as_array_mut);
    for constraint in constraints.into_iter().flatten().filter_map(Value::as_object_mut) {
        *constraint = std::mem::take(constraint)
            .into_iter()
            .map(|(key, value)| {
                let mut letters = key.chars();
                let first = letters.next().map(|c| c.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect(), value)
            })
            .collect();
    }
}
