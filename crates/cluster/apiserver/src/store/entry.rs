//! Objects and their changes as records.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;

use berth_schema::resource::{RESOURCES, Resource, Storage, custom_collection};
use serde::{Deserialize, Serialize};

use super::collections::Collections;
use super::facts::Facts;
use super::json::Json;
use super::object::{Draft, EventType, Object};
use super::record::{Kind, write_record};
use super::shared_text::SharedParts;

/// A checked change that is to be stored.
#[derive(Debug)]
pub struct Decided {
    pub resource: &'static Resource,
    pub event_type: EventType,
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
}

/// The first line of a record's text. The object's JSON follows.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    #[serde(rename = "r")]
    resource: String,
    /// The selector fields before the change; absent if there was no object.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    previous: Option<Seen<'a>>,
}

#[derive(Serialize, Deserialize)]
struct Seen<'a> {
    /// Labels and selectable fields before the change, if the change modified them.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    different: Option<(Labels<'a>, Fields<'a>)>,
}

type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;
type Fields<'a> = Vec<Cow<'a, str>>;

/// Appends a change.
///
/// # Errors
/// The object is too large.
pub fn write_change(out: &mut Vec<u8>, change: &Decided) -> io::Result<()> {
    let facts = &change.object.facts;
    let previous = change.previous.as_ref().map(|previous| {
        let before = &previous.facts;
        let labels = || before.labels().map(|(key, value)| (key.into(), value.into())).collect();
        let fields = || before.fields().map(Into::into).collect();
        Seen { different: (!before.is_selected_as(facts)).then(|| (labels(), fields())) }
    });
    let kind = match change.event_type {
        EventType::Added => Kind::Added,
        EventType::Modified => Kind::Modified,
        EventType::Deleted => Kind::Deleted,
    };
    write(out, kind, change.resource, previous, &change.object)
}

/// Appends an object as it was before the changes in the file.
///
/// # Errors
/// The object is too large.
pub fn write_object(out: &mut Vec<u8>, resource: &Resource, object: &Object) -> io::Result<()> {
    write(out, Kind::Object, resource, None, object)
}

fn write(
    out: &mut Vec<u8>,
    kind: Kind,
    resource: &Resource,
    previous: Option<Seen<'_>>,
    object: &Object,
) -> io::Result<()> {
    let header = serde_json::to_vec(&Header { resource: resource.group_resource(), previous })?;
    let text: Vec<&[u8]> = [&header[..], b"\n"].into_iter().chain(object.text().parts()).collect();
    write_record(out, kind, object.revision, &text)
}

#[derive(Debug)]
pub struct Entry {
    resource: &'static Resource,
    object: Arc<Object>,
    /// `None`: the object as it was before the changes in the file.
    change: Option<(EventType, Option<Facts>)>,
}

impl Entry {
    /// Reads a record; the object shares its parts with others.
    ///
    /// # Errors
    /// Its text has no meaning.
    pub fn decode(kind: Kind, revision: u64, text: &[u8], parts: &SharedParts) -> Result<Entry, String> {
        let line_end = text.iter().position(|byte| *byte == b'\n').ok_or("the record has no object")?;
        let (header, json) = (&text[..line_end], &text[line_end + 1..]);
        let header: Header = serde_json::from_slice(header).map_err(|error| error.to_string())?;
        let resource = resource_named(&header.resource).ok_or_else(|| {
            format!(
                "this version of berth does not know the resource {:?}; use the version that wrote the file",
                header.resource
            )
        })?;
        let event_type = match kind {
            Kind::Start => return Err("a second start".to_owned()),
            Kind::Object => None,
            Kind::Added => Some(EventType::Added),
            Kind::Modified => Some(EventType::Modified),
            Kind::Deleted => Some(EventType::Deleted),
        };
        let json = Json::object(json).map_err(|error| error.to_string())?;
        let object = Draft::new(resource, &json, Some(parts)).at(revision);
        let before = header.previous.map(|seen| match seen.different {
            None => object.facts.clone(),
            Some((labels, fields)) => {
                let labels: Vec<_> = labels.iter().map(|(key, value)| (&**key, &**value)).collect();
                object.facts.with(&labels, fields.iter().map(|field| &**field))
            }
        });
        let change = event_type.map(|event_type| (event_type, before));
        Ok(Entry { resource, object: Arc::new(object), change })
    }

    pub fn replay(self, collections: &Collections) {
        let mut collection = collections.lock(self.resource);
        match self.change {
            None => collection.restore(self.object),
            Some((event_type, before)) => collection.replay(self.object, event_type, before),
        }
    }
}

fn resource_named(qualified: &str) -> Option<&'static Resource> {
    let built_in =
        RESOURCES.iter().copied().find(|r| r.storage == Storage::Own && r.group_resource() == qualified);
    built_in.or_else(|| custom_collection(qualified))
}
