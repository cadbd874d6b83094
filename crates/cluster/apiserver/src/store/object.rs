//! A stored object: its bytes and the fields that selectors read.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

use super::claim::{Claim, claims_of};
use berth_schema::resource::Resource;

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

/// Writes one line of a watch: an event of a given type around an object's JSON.
pub fn write_frame(out: &mut impl BufMut, event_type: EventType, object: &[u8]) {
    out.put_slice(event_type.prefix());
    out.put_slice(object);
    out.put_slice(SUFFIX);
}

/// The fields that selectors read, and claims.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the resource's selectable fields, in its order.
    pub fields: Box<[Box<str>]>,
    /// The values that no other object may have.
    pub claims: Box<[Claim]>,
}

impl Facts {
    /// Reads the fields from an object.
    pub fn of(resource: &Resource, value: &Value) -> Facts {
        let metadata = &value["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().into();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let mut labels: Box<[(Box<str>, Box<str>)]> =
            labels.map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into())).collect();
        labels.sort_unstable();
        Facts {
            namespace: text("namespace"),
            name: text("name"),
            labels,
            fields: selectable_values(resource, value),
            claims: claims_of(resource, value).into(),
        }
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        let place = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&*self.labels[place].1)
    }
}

fn selectable_values(resource: &Resource, value: &Value) -> Box<[Box<str>]> {
    let read = |pointers: &[&str], default: &str| -> Box<str> {
        match pointers.iter().find_map(|pointer| value.pointer(pointer)) {
            Some(Value::String(text)) if !text.is_empty() => text.as_str().into(),
            Some(Value::Bool(yes)) => yes.to_string().into(),
            Some(Value::Number(number)) => number.to_string().into(),
            _ => default.into(),
        }
    };
    resource.selectable_fields.iter().map(|field| read(field.pointers, field.default)).collect()
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
    /// A whole line of a watch; the object's own bytes lie inside it.
    frame: Bytes,
    frame_type: EventType,
    /// Where in the frame the metadata is.
    metadata: Range<u32>,
    /// The compiled forms that have been asked for.
    compiled: Mutex<Vec<AnyCompiled>>,
}

impl Object {
    /// Serializes an object that is written at `revision`, which becomes its `metadata.resourceVersion`.
    pub fn encode(resource: &Resource, mut value: Value, revision: u64, event_type: EventType) -> Object {
        set_resource_version(&mut value, revision);
        Object::frame_of(resource, &value, revision, event_type)
    }

    /// An object read back from disk.
    ///
    /// # Errors
    /// The bytes are not JSON.
    pub fn decode(
        resource: &Resource,
        bytes: &[u8],
        revision: u64,
        event_type: EventType,
    ) -> Result<Object, serde_json::Error> {
        Ok(Object::frame_of(resource, &serde_json::from_slice(bytes)?, revision, event_type))
    }

    fn frame_of(resource: &Resource, value: &Value, revision: u64, event_type: EventType) -> Object {
        let mut frame = BytesMut::with_capacity(2048);
        frame.put_slice(event_type.prefix());
        let metadata = write_object(&mut frame, value);
        frame.put_slice(SUFFIX);
        Object {
            revision,
            facts: Facts::of(resource, value),
            frame: Bytes::copy_from_slice(&frame),
            frame_type: event_type,
            metadata,
            compiled: Mutex::default(),
        }
    }

    /// The same bytes with other selector fields.
    pub fn with_facts(&self, facts: Facts) -> Object {
        Object {
            revision: self.revision,
            facts,
            frame: self.frame.clone(),
            frame_type: self.frame_type,
            metadata: self.metadata.clone(),
            compiled: Mutex::default(),
        }
    }

    /// The object's JSON.
    pub fn bytes(&self) -> Bytes {
        self.frame.slice(self.frame_type.prefix().len()..self.frame.len() - SUFFIX.len())
    }

    /// The object's JSON, borrowed.
    pub fn json(&self) -> &[u8] {
        &self.frame[self.frame_type.prefix().len()..self.frame.len() - SUFFIX.len()]
    }

    /// The line of a watch for the change that wrote the object, shared by all watchers that see it as such.
    pub fn frame(&self, event_type: EventType) -> Option<Bytes> {
        (event_type == self.frame_type).then(|| self.frame.clone())
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
        serde_json::from_slice(self.json()).unwrap_or_else(|error| {
            tracing::error!(%error, name = %self.facts.name, "a stored object is not JSON");
            Value::Object(Map::new())
        })
    }

    /// Writes the object's JSON as `PartialObjectMetadata`.
    pub fn write_partial(&self, out: &mut impl BufMut) {
        out.put_slice(br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#);
        match &self.frame[self.metadata.start as usize..self.metadata.end as usize] {
            [] => out.put_slice(b"{}"),
            metadata => out.put_slice(metadata),
        }
        out.put_slice(b"}");
    }

    /// The object's JSON as `PartialObjectMetadata`.
    pub fn partial(&self) -> Bytes {
        let mut partial = BytesMut::new();
        self.write_partial(&mut partial);
        partial.freeze()
    }

    /// Approximate memory use in bytes.
    pub fn size(&self) -> usize {
        self.frame.len() + 256
    }
}

/// Appends an object's JSON, and returns the place of its metadata.
fn write_object(out: &mut BytesMut, value: &Value) -> Range<u32> {
    // A JSON value serializes into memory without failing: its keys are strings.
    let write = |out: &mut BytesMut, value: &Value| drop(serde_json::to_writer(out.writer(), value));
    let Value::Object(fields) = value else {
        write(out, value);
        return 0..0;
    };
    let at = |out: &BytesMut| u32::try_from(out.len()).unwrap_or(u32::MAX);
    let mut metadata = 0..0;
    out.put_u8(b'{');
    for (i, (name, field)) in fields.iter().enumerate() {
        if i > 0 {
            out.put_u8(b',');
        }
        let _ = serde_json::to_writer(out.writer(), name);
        out.put_u8(b':');
        let start = at(out);
        write(out, field);
        if name == "metadata" {
            metadata = start..at(out);
        }
    }
    out.put_u8(b'}');
    metadata
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
    fn an_object_and_its_frame_share_bytes() {
        let pods = &PODS;
        let pod = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"x": "1"}},
            "spec": {"nodeName": "m"}});
        let object = Object::encode(pods, pod, 7, EventType::Modified);
        assert_eq!(object.value()["metadata"]["resourceVersion"], "7");
        let frame = object.frame(EventType::Modified).unwrap();
        let line: Value = serde_json::from_slice(&frame).unwrap();
        assert_eq!((line["type"].as_str(), &line["object"]), (Some("MODIFIED"), &object.value()));
        assert_eq!(object.frame(EventType::Added), None);
        assert_eq!(object.facts.label("x"), Some("1"));
        assert_eq!(&*object.facts.fields[0], "m");
        assert_eq!(&*object.facts.fields[4], "false");
        let again = Object::decode(pods, object.json(), 7, EventType::Added).unwrap();
        assert_eq!((again.json(), &again.facts), (object.json(), &object.facts));
        let partial: Value = serde_json::from_slice(&object.partial()).unwrap();
        assert_eq!(partial["metadata"], object.value()["metadata"]);
    }
}
