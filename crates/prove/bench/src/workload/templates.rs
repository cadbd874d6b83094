//! The templates that operations create objects from.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use berth_api::read::{Manifest, collect_manifests, decode};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Stop;

/// Templates by path, each read once.
pub(super) struct Templates<'a> {
    directory: &'a Path,
    read: HashMap<PathBuf, Template>,
    /// Numbers that placeholders name.
    params: BTreeMap<String, usize>,
}

struct Template {
    /// If it has placeholders.
    text: Option<String>,
    /// The object of the number that was asked for last.
    manifest: Manifest,
    number: usize,
}

impl<'a> Templates<'a> {
    /// No templates yet; paths are relative to this directory.
    pub fn new(directory: &'a Path) -> Templates<'a> {
        Templates { directory, read: HashMap::new(), params: BTreeMap::new() }
    }

    /// Sets the numbers that placeholders name.
    pub fn set_params(&mut self, params: &BTreeMap<String, usize>) {
        if self.params != *params {
            self.params.clone_from(params);
            self.read.clear();
        }
    }

    /// The first object of a template.
    pub fn get<T: DeserializeOwned>(&mut self, path: &str, kind: &str) -> Result<T, Stop> {
        self.numbered(path, kind, 0)
    }

    /// The object of a number.
    pub fn numbered<T: DeserializeOwned>(
        &mut self,
        path: &str,
        kind: &str,
        number: usize,
    ) -> Result<T, Stop> {
        let manifest = self.manifest(path, number)?;
        if manifest.kind != kind {
            return Err(Stop::Failed(format!("{path}: {} instead of {kind}", manifest.kind)));
        }
        decode(manifest).map_err(|e| Stop::Failed(format!("{path}: {e}")))
    }

    /// Whether objects differ by their numbers.
    pub fn has_placeholders(&mut self, path: &str) -> Result<bool, Stop> {
        self.manifest(path, 0)?;
        Ok(self.read[&self.directory.join(path)].text.is_some())
    }

    /// The object of a number, as read.
    pub fn manifest(&mut self, path: &str, number: usize) -> Result<&Manifest, Stop> {
        let full = self.directory.join(path);
        let template = match self.read.entry(full) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(entry) => {
                let text =
                    super::small_text(entry.key()).map_err(|e| Stop::Failed(format!("{path}: {e}")))?;
                let manifest = read(&text, path, number, &self.params)?;
                let text = text.contains("{{").then_some(text);
                entry.insert(Template { text, manifest, number })
            }
        };
        if let Some(text) = template.text.as_ref().filter(|_| template.number != number) {
            template.manifest = read(text, path, number, &self.params)?;
            template.number = number;
        }
        Ok(&template.manifest)
    }
}

fn read(text: &str, path: &str, number: usize, params: &BTreeMap<String, usize>) -> Result<Manifest, Stop> {
    let text = fill_in(text, number, params).map_err(|placeholder| {
        Stop::NotSupported(format!("{path}: the placeholder {placeholder} in a template"))
    })?;
    let manifests = collect_manifests(&text, path).map_err(|e| Stop::Failed(e.to_string()))?;
    let Ok([mut manifest]) = <[Manifest; 1]>::try_from(manifests) else {
        return Err(Stop::Failed(format!("{path}: a template must be one object")));
    };
    fold_spread_fields(&mut manifest.value);
    Ok(manifest)
}

/// Replaces `{{.Index}}` by the number of the object, and `{{DivideInt .Index 5}}` and `{{Mod .Index 5}}` by what follows from it; for
/// `5`, there may be `.NAME` of a parameter. The error is the placeholder that is not known.
fn fill_in(text: &str, number: usize, params: &BTreeMap<String, usize>) -> Result<String, String> {
    let value = |word: &str| match word.strip_prefix('.') {
        Some(name) => params.get(name).copied(),
        None => word.parse().ok(),
    };
    let mut parts = text.split("{{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (placeholder, rest) = part.split_once("}}").unwrap_or((part, ""));
        let words: Vec<&str> = placeholder.split_whitespace().collect();
        let found = match *words {
            [".Index"] => Some(number),
            ["DivideInt", ".Index", by] => value(by).and_then(|by| number.checked_div(by)),
            ["Mod", ".Index", by] => value(by).and_then(|by| number.checked_rem(by)),
            _ => None,
        };
        filled += &found.ok_or_else(|| format!("{{{{{placeholder}}}}}"))?.to_string();
        filled += rest;
    }
    Ok(filled)
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
