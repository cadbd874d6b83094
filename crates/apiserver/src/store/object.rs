//! A stored object: its bytes and the fields that selectors read.

use std::sync::OnceLock;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

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

/// The fields that selectors read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Labels in the order of the object.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the resource's selectable fields, in its order.
    pub fields: Box<[Box<str>]>,
}

impl Facts {
    /// Reads the fields from an object.
    pub fn of(resource: &Resource, value: &Value) -> Facts {
        let metadata = &value["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().into();
        let labels = metadata["labels"].as_object().map(|labels| {
            labels.iter().map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into())).collect()
        });
        Facts {
            namespace: text("namespace"),
            name: text("name"),
            labels: labels.unwrap_or_default(),
            fields: selectable_values(resource, value),
        }
    }

    /// A label's value.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| **k == *key).map(|(_, v)| &**v)
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
    /// The object as `PartialObjectMetadata`, computed on first use.
    partial: OnceLock<Bytes>,
}

impl Object {
    /// Serializes an object that is written at `revision`, which becomes its `metadata.resourceVersion`.
    pub fn encode(resource: &Resource, mut value: Value, revision: u64, event_type: EventType) -> Object {
        set_resource_version(&mut value, revision);
        let mut buffer = BytesMut::with_capacity(2048).writer();
        buffer.get_mut().put_slice(event_type.prefix());
        // A JSON value serializes into memory without failing: its keys are strings.
        let _ = serde_json::to_writer(&mut buffer, &value);
        let mut buffer = buffer.into_inner();
        buffer.put_slice(SUFFIX);
        Object {
            revision,
            facts: Facts::of(resource, &value),
            frame: Bytes::copy_from_slice(&buffer),
            frame_type: event_type,
            partial: OnceLock::new(),
        }
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
        let value: Value = serde_json::from_slice(bytes)?;
        let mut frame = BytesMut::with_capacity(bytes.len() + 40);
        write_frame(&mut frame, event_type, bytes);
        Ok(Object {
            revision,
            facts: Facts::of(resource, &value),
            frame: frame.freeze(),
            frame_type: event_type,
            partial: OnceLock::new(),
        })
    }

    /// The same bytes with other selector fields.
    pub fn with_facts(&self, facts: Facts) -> Object {
        Object {
            revision: self.revision,
            facts,
            frame: self.frame.clone(),
            frame_type: self.frame_type,
            partial: OnceLock::new(),
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

    /// The object, parsed.
    pub fn value(&self) -> Value {
        serde_json::from_slice(self.json()).unwrap_or_else(|error| {
            tracing::error!(%error, name = %self.facts.name, "a stored object is not JSON");
            Value::Object(Map::new())
        })
    }

    /// The object's JSON as `PartialObjectMetadata`.
    pub fn partial(&self) -> Bytes {
        self.partial.get_or_init(|| Bytes::from(partial_metadata(&self.value()).to_string())).clone()
    }

    /// Approximate memory use in bytes.
    pub fn size(&self) -> usize {
        self.frame.len() + 256
    }
}

/// The metadata of an object as a separate object.
pub fn partial_metadata(value: &Value) -> Value {
    serde_json::json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": value["metadata"],
    })
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
    }
}
