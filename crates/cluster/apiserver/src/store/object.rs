//! A stored object: its bytes and the fields that selectors read.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use berth_schema::resource::{PODS, Resource};
use bytes::{BufMut, Bytes};
use serde_json::{Map, Value};

use super::facts::Facts;
use super::shared_text::{SharedParts, Text, TextWriter};

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// The object is new, or entered the watcher's selection.
    Added,
    /// The object changed.
    Modified,
    /// The object was deleted, or left the watcher's selection.
    Deleted,
}

impl EventType {
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
    /// Reads an object.
    fn compile(value: Cow<'_, Value>) -> Self;
}

/// The whole object, parsed. It takes several times the memory of the bytes.
impl Compiled for Value {
    fn compile(value: Cow<'_, Value>) -> Value {
        value.into_owned()
    }
}

/// A compiled form of any type.
pub type AnyCompiled = Arc<dyn Any + Send + Sync>;

/// An object as it was written at one resource version.
#[derive(Debug)]
pub struct Object {
    /// The version it was written at.
    pub revision: u64,
    /// The fields that selectors read.
    pub facts: Facts,
    /// Its JSON.
    text: Text,
    /// Where in the text the metadata is.
    metadata: Range<u32>,
    /// The compiled forms that have been asked for.
    compiled: Mutex<Vec<AnyCompiled>>,
}

impl Object {
    /// Serializes an object that is written at `revision`, which becomes its `metadata.resourceVersion`.
    pub fn encode(resource: &Resource, value: Value, revision: u64) -> Object {
        Object::write(resource, value, revision, (None, None))
    }

    /// As [`Object::encode`], for an object that is kept: it shares parts with others. `previous` is the object before.
    pub fn keep(
        resource: &Resource,
        value: Value,
        revision: u64,
        parts: &SharedParts,
        previous: Option<&Object>,
    ) -> Object {
        Object::write(resource, value, revision, (Some(parts), previous))
    }

    /// An object read back from disk.
    ///
    /// # Errors
    /// The bytes are not JSON.
    pub fn decode(
        resource: &Resource,
        bytes: &[u8],
        revision: u64,
        parts: Option<&SharedParts>,
    ) -> Result<Object, serde_json::Error> {
        Ok(Object::of(resource, &serde_json::from_slice(bytes)?, revision, (parts, None)))
    }

    fn write(resource: &Resource, mut value: Value, revision: u64, sharing: Sharing<'_>) -> Object {
        set_resource_version(&mut value, revision);
        Object::of(resource, &value, revision, sharing)
    }

    fn of(resource: &Resource, value: &Value, revision: u64, (parts, previous): Sharing<'_>) -> Object {
        let mut writer = TextWriter::new(parts, previous.map(|previous| &previous.text));
        let metadata = write_object(&mut writer, resource, value);
        Object {
            revision,
            facts: Facts::of(resource, value),
            text: writer.finish(),
            metadata,
            compiled: Mutex::default(),
        }
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
    pub fn json(&self) -> &Text {
        &self.text
    }

    /// With a compiled form that was made before.
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
        serde_json::from_slice(&self.text.to_vec()).unwrap_or_else(|error| {
            tracing::error!(%error, name = self.facts.name(), "a stored object is not JSON");
            Value::Object(Map::new())
        })
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

    /// The object's JSON as `PartialObjectMetadata`.
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

/// With what an object may share parts: those of all, and the object before.
type Sharing<'a> = (Option<&'a SharedParts>, Option<&'a Object>);

/// Appends an object's JSON, and returns the place of its metadata. What its manager owns, and the specification of a pod
/// but for its node, are the same in many objects.
fn write_object(text: &mut TextWriter<'_>, resource: &Resource, value: &Value) -> Range<u32> {
    let mut metadata = 0..0;
    write_fields(text, value, &mut |text, name, field| match name {
        "metadata" => {
            let start = text.written().len() as u32;
            write_fields(text, field, &mut write_metadata_field);
            metadata = start..text.written().len() as u32;
        }
        "spec" if *resource == PODS => write_spec(text, field),
        _ => write_value(text, field),
    });
    metadata
}

fn write_value(text: &mut TextWriter<'_>, value: &Value) {
    // A JSON value serializes into memory without failing: its keys are strings.
    let _ = serde_json::to_writer(text.written(), value);
}

fn write_name(text: &mut TextWriter<'_>, is_first: bool, name: &str) {
    if !is_first {
        text.written().push(b',');
    }
    let _ = serde_json::to_writer(&mut *text.written(), name);
    text.written().push(b':');
}

type WriteField<'w> = dyn FnMut(&mut TextWriter<'_>, &str, &Value) + 'w;

/// Appends a value; if it has fields, `write` writes them.
fn write_fields(text: &mut TextWriter<'_>, value: &Value, write: &mut WriteField<'_>) {
    let Value::Object(fields) = value else { return write_value(text, value) };
    text.written().push(b'{');
    for (i, (name, field)) in fields.iter().enumerate() {
        write_name(text, i == 0, name);
        write(text, name, field);
    }
    text.written().push(b'}');
}

fn write_metadata_field(text: &mut TextWriter<'_>, name: &str, field: &Value) {
    let Some(entries) = field.as_array().filter(|_| name == "managedFields") else {
        return write_value(text, field);
    };
    text.written().push(b'[');
    for (i, entry) in entries.iter().enumerate() {
        if i > 0 {
            text.written().push(b',');
        }
        write_fields(text, entry, &mut |text, name, field| {
            let start = text.written().len();
            write_value(text, field);
            if name == "fieldsV1" {
                text.share_from(start);
            }
        });
    }
    text.written().push(b']');
}

fn write_spec(text: &mut TextWriter<'_>, spec: &Value) {
    let Value::Object(fields) = spec else { return write_value(text, spec) };
    text.written().push(b'{');
    let mut start = text.written().len();
    for (i, (name, field)) in fields.iter().enumerate() {
        let is_own = name == "nodeName";
        if is_own {
            text.share_from(start);
        }
        write_name(text, i == 0, name);
        write_value(text, field);
        if is_own {
            start = text.written().len();
        }
    }
    text.share_from(start);
    text.written().push(b'}');
}

fn set_resource_version(value: &mut Value, revision: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::from(revision.to_string()));
    }
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
        let mut previous = None;
        for (revision, mut written) in [
            pod("a", None),
            pod("b", None),
            pod("b", Some("m")),
            json!({"metadata": null}),
            json!({"spec": 1}),
            json!({}),
        ]
        .into_iter()
        .enumerate()
        {
            let revision = revision as u64;
            let kept = Object::keep(&PODS, written.clone(), revision, &parts, previous.as_ref());
            let plain = Object::encode(&PODS, written.clone(), revision);
            set_resource_version(&mut written, revision);
            assert_eq!(kept.bytes(), written.to_string());
            assert_eq!((plain.bytes(), plain.partial()), (kept.bytes(), kept.partial()));
            let again = Object::decode(&PODS, &kept.bytes(), revision, Some(&parts)).unwrap();
            assert_eq!((again.bytes(), &again.facts), (kept.bytes(), &kept.facts));
            let partial: Value = serde_json::from_slice(&kept.partial()).unwrap();
            let metadata = written.get("metadata").cloned().unwrap_or_else(|| json!({}));
            assert_eq!(partial["metadata"], metadata);
            let mut line = Vec::new();
            write_frame(&mut line, EventType::Modified, |out| kept.json().write(out));
            let line: Value = serde_json::from_slice(&line).unwrap();
            assert_eq!((line["type"].as_str(), &line["object"]), (Some("MODIFIED"), &written));
            previous = Some(kept);
        }
        let kept = |name, node| Object::keep(&PODS, pod(name, node), 1, &parts, None);
        assert!(kept("c", None).text.own_size() < 300, "{:?}", kept("c", None));
        assert_eq!(kept("c", Some("m")).facts.field(0), Some("m"));
    }
}
