//! A stored object: its bytes and the fields that selectors read.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use berth_schema::resource::{PODS, Resource};
use bytes::{BufMut, Bytes};
use serde_json::{Map, Value};

use super::facts::Facts;
use super::json::{Field, Json, write_name};
use super::shared_text::{SharedParts, Text, TextWriter};
use crate::request::note_conversion;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object is new, or entered the watcher's selection.
    Added,
    Modified,
    /// The object was deleted, or left the watcher's selection.
    Deleted,
}

impl EventType {
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }

    fn prefix(self) -> &'static [u8] {
        match self {
            EventType::Added => br#"{"type":"ADDED","object":"#,
            EventType::Modified => br#"{"type":"MODIFIED","object":"#,
            EventType::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

const SUFFIX: &[u8] = b"}\n";

/// Writes one line of a watch: an event of a given type around an object's JSON, which `write` writes.
pub fn write_frame<B: BufMut>(out: &mut B, event_type: EventType, write: impl FnOnce(&mut B)) {
    out.put_slice(event_type.prefix());
    write(out);
    out.put_slice(SUFFIX);
}

/// A form of an object that requests read often, made of its JSON once for each version.
pub trait Compiled: Send + Sync + 'static {
    fn compile(value: Cow<'_, Value>) -> Self;
}

/// The whole object, parsed. It takes several times the memory of the bytes.
impl Compiled for Value {
    fn compile(value: Cow<'_, Value>) -> Value {
        value.into_owned()
    }
}

pub type AnyCompiled = Arc<dyn Any + Send + Sync>;

/// An object as it was written at one resource version.
#[derive(Debug)]
pub struct Object {
    pub revision: u64,
    pub facts: Facts,
    text: Text,
    /// Where in the text the metadata is.
    metadata: Range<u32>,
    /// The compiled forms that have been asked for.
    compiled: Mutex<Vec<AnyCompiled>>,
}

/// An object that is to be written: all but its version.
#[derive(Debug)]
pub struct Draft {
    pub facts: Facts,
    text: Text,
    metadata: Range<u32>,
    /// Where in the text's own part the version is to be written; `None` without metadata.
    version: Option<u32>,
}

impl Draft {
    /// Encodes an object. With `parts`, it shares parts with others that are kept.
    pub fn new(resource: &Resource, object: &Json<'_>, parts: Option<&SharedParts>) -> Draft {
        if *resource == PODS {
            note_conversion();
        }
        let mut text = TextWriter::new(parts);
        let (metadata, version) = write_object(&mut text, resource, object);
        Draft { facts: Facts::of(resource, object), text: text.finish(), metadata, version }
    }

    fn version_field(&self, revision: u64) -> Option<(u32, String)> {
        let at = self.version?;
        let is_first = self.text.own_part().get(..at as usize).is_some_and(|own| own.ends_with(b"{"));
        let comma = if is_first { "" } else { "," };
        Some((at, format!("{comma}\"resourceVersion\":\"{revision}\"")))
    }

    /// The length of the text at a version.
    pub fn len_at(&self, revision: u64) -> usize {
        self.text.len() + self.version_field(revision).map_or(0, |(_, field)| field.len())
    }

    /// The object as it is written at a version, which becomes its `metadata.resourceVersion`.
    pub fn at(self, revision: u64) -> Object {
        let field = self.version_field(revision);
        let Draft { facts, mut text, mut metadata, .. } = self;
        if let Some((at, field)) = field {
            text = text.insert(at, field.as_bytes());
            metadata.end += field.len() as u32;
        }
        Object { revision, facts, text, metadata, compiled: Mutex::default() }
    }

    pub fn unversioned(self) -> Object {
        Draft { version: None, ..self }.at(0)
    }
}

impl Object {
    /// Encodes an object that is written at `revision`, which becomes its `metadata.resourceVersion`.
    pub fn encode(resource: &Resource, value: &Value, revision: u64) -> Object {
        Draft::new(resource, &value.into(), None).at(revision)
    }

    /// The same text with other selector fields.
    pub fn with_facts(&self, facts: Facts) -> Object {
        Object {
            revision: self.revision,
            facts,
            text: self.text.clone(),
            metadata: self.metadata.clone(),
            compiled: Mutex::default(),
        }
    }

    /// The object's JSON.
    pub fn bytes(&self) -> Bytes {
        self.text.to_vec().into()
    }

    /// The object's JSON, in parts.
    pub fn text(&self) -> &Text {
        &self.text
    }

    pub fn with_compiled(self, compiled: Option<AnyCompiled>) -> Object {
        Object { compiled: Mutex::new(compiled.into_iter().collect()), ..self }
    }

    /// A compiled form, made once and kept until the object is replaced.
    pub fn compiled<T: Compiled>(&self) -> Arc<T> {
        self.kept(|value| T::compile(Cow::Owned(value)))
    }

    /// What is made of the object, once, and kept until the object is replaced.
    pub fn kept<T: Send + Sync + 'static>(&self, make: impl FnOnce(Value) -> T) -> Arc<T> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.iter().find_map(|known| known.clone().downcast().ok()) {
            return known;
        }
        let made = Arc::new(make(self.value()));
        compiled.push(made.clone());
        made
    }

    /// The whole object, parsed once; use [`Object::value`] for what is read once.
    pub fn parsed(&self) -> Arc<Value> {
        self.compiled()
    }

    /// Drops the compiled forms: the history keeps the bytes only.
    pub fn drop_compiled(&self) {
        *self.compiled.lock().unwrap_or_else(PoisonError::into_inner) = Vec::new();
    }

    /// The object, parsed again.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.text.to_vec()).unwrap_or_else(|error| self.unreadable(error))
    }

    /// The object, to be parsed in parts from its JSON, [`Object::bytes`].
    pub fn json<'t>(&self, bytes: &'t [u8]) -> Json<'t> {
        Json::object(bytes).unwrap_or_else(|error| self.unreadable(error).into())
    }

    fn unreadable(&self, error: serde_json::Error) -> Value {
        tracing::error!(%error, name = self.facts.name(), "a stored object is not JSON");
        Value::Object(Map::new())
    }

    /// Writes the object's JSON as `PartialObjectMetadata`.
    pub fn write_partial(&self, out: &mut impl BufMut) {
        out.put_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
        match (self.metadata.start as usize, self.metadata.end as usize) {
            (start, end) if start == end => out.put_slice(b"{}"),
            (start, end) => self.text.write_range(out, start, end),
        }
        out.put_slice(b"}");
    }

    pub fn partial(&self) -> Bytes {
        let mut partial = Vec::new();
        self.write_partial(&mut partial);
        partial.into()
    }

    /// Approximate memory use in bytes.
    pub fn size(&self) -> usize {
        self.text.len() + 256
    }
}

/// Appends an object's JSON but for its version. Returns the place of its metadata, and where in the text's own part the version
/// belongs. What its manager owns, and the specification of a pod but for its node, are the same in many objects.
fn write_object(
    text: &mut TextWriter<'_>,
    resource: &Resource,
    object: &Json<'_>,
) -> (Range<u32>, Option<u32>) {
    let (mut metadata, mut version) = (0..0, None);
    let Some(fields) = object.fields() else {
        object.write(text.written());
        return (metadata, version);
    };
    write_fields(text, fields.iter(), &mut |text, name, field| match name {
        "metadata" => {
            let start = text.written().len() as u32;
            version = write_metadata(text, field);
            metadata = start..text.written().len() as u32;
        }
        "spec" if *resource == PODS => write_spec(text, field),
        _ => field.write(text.written()),
    });
    (metadata, version)
}

/// Appends an object whose fields `write` writes. Returns where its bracket is in the text's own part.
fn write_fields<'j>(
    text: &mut TextWriter<'_>,
    fields: impl Iterator<Item = &'j Field<'j>>,
    write: &mut dyn FnMut(&mut TextWriter<'_>, &str, &Json<'_>),
) -> u32 {
    text.written().push(b'{');
    for (i, (name, field)) in fields.enumerate() {
        write_name(text.written(), i == 0, name);
        write(text, name, field);
    }
    let end = text.own_len() as u32;
    text.written().push(b'}');
    end
}

/// Appends metadata without the version, and returns where in the text's own part it belongs.
fn write_metadata(text: &mut TextWriter<'_>, metadata: &Json<'_>) -> Option<u32> {
    let Some(fields) = metadata.fields() else {
        metadata.write(text.written());
        return None;
    };
    let unversioned = fields.iter().filter(|(name, _)| name != "resourceVersion");
    Some(write_fields(text, unversioned, &mut |text, name, field| match name {
        "managedFields" => write_managed_fields(text, field),
        _ => field.write(text.written()),
    }))
}

fn write_managed_fields(text: &mut TextWriter<'_>, entries: &Json<'_>) {
    let Some(entries) = entries.elements() else { return entries.write(text.written()) };
    text.written().push(b'[');
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            text.written().push(b',');
        }
        let Some(fields) = entry.fields() else {
            entry.write(text.written());
            continue;
        };
        write_fields(text, fields.iter(), &mut |text, name, field| {
            let start = text.written().len();
            field.write(text.written());
            if name == "fieldsV1" {
                text.share_from(start);
            }
        });
    }
    text.written().push(b']');
}

fn write_spec(text: &mut TextWriter<'_>, spec: &Json<'_>) {
    let Some(fields) = spec.fields() else { return spec.write(text.written()) };
    text.written().push(b'{');
    let mut start = text.written().len();
    for (i, (name, field)) in fields.iter().enumerate() {
        let is_own = name == "nodeName";
        if is_own {
            text.share_from(start);
        }
        write_name(text.written(), i == 0, name);
        field.write(text.written());
        if is_own {
            start = text.written().len();
        }
    }
    text.share_from(start);
    text.written().push(b'}');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use berth_schema::resource::PODS;

    #[test]
    fn an_object_reads_as_it_was_written_and_shares_parts_with_others() {
        let owned = json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}, "f:spec": {"f:containers": {}, "f:a": {}}});
        let pod = |name: &str, node: Option<&str>| {
            let mut pod = json!({
                "metadata": {"name": name, "namespace": "n", "labels": {"x": "1"},
                    "managedFields": [{"manager": "m", "fieldsV1": owned}, {"manager": "k"}]},
                "spec": {"containers": [{"name": "main", "image": "x".repeat(100)}], "priority": 0},
                "status": {"phase": "Pending"},
            });
            if let Some(node) = node {
                pod["spec"]["nodeName"] = node.into();
                pod["spec"]["z"] = "y".repeat(100).into();
            }
            pod
        };
        let parts = SharedParts::default();
        for (revision, mut written) in [
            pod("a", None),
            pod("b", None),
            pod("b", Some("m")),
            json!({"metadata": {}, "spec": {}}),
            json!({"metadata": null}),
            json!({"spec": 1}),
            json!({}),
        ]
        .into_iter()
        .enumerate()
        {
            let revision = revision as u64;
            let draft = |json: &Json<'_>, parts| Draft::new(&PODS, json, parts);
            let kept = draft(&Json::from(&written), Some(&parts)).at(revision);
            let plain = Object::encode(&PODS, &written, revision);
            assert_eq!(draft(&Json::from(&written), None).unversioned().bytes(), written.to_string());
            if let Some(metadata) = written.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("resourceVersion".to_owned(), revision.to_string().into());
            }
            assert_eq!(kept.bytes(), written.to_string());
            assert_eq!((plain.bytes(), plain.partial()), (kept.bytes(), kept.partial()));
            let read = kept.bytes();
            let again = draft(&Json::object(&read).unwrap(), Some(&parts)).at(revision);
            assert_eq!((again.bytes(), &again.facts), (kept.bytes(), &kept.facts));
            let partial: Value = serde_json::from_slice(&kept.partial()).unwrap();
            let metadata = written.get("metadata").cloned().unwrap_or_else(|| json!({}));
            assert_eq!(partial["metadata"], metadata);
            let mut line = Vec::new();
            write_frame(&mut line, EventType::Modified, |out| kept.text().write(out));
            let line: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!((line["type"].as_str(), &line["object"]), (Some("MODIFIED"), &written));
        }
        let kept = |name, node| Draft::new(&PODS, &pod(name, node).into(), Some(&parts)).at(1);
        assert!(kept("c", None).text.own_size() < 300, "{:?}", kept("c", None));
        assert_eq!(kept("c", Some("m")).facts.field(0), Some("m"));
    }
}
