//! One document: an object, or a list whose items are passed on one by one.

use serde_json::{Map, Value};

use super::manifest::{check_name, text_field};
use super::{Manifest, ReadError, SourceLocation};
use crate::object::Pod;

/// An object that was read.
pub enum Object {
    /// One of any kind.
    Manifest(Manifest),
    /// A pod that was decoded from its text.
    Pod(Box<Pod>, SourceLocation),
    /// One that is no more: the event of a watch.
    Deleted(Manifest),
}

/// What takes the objects.
pub type Each<'a, E> = &'a mut dyn FnMut(Object) -> Result<(), E>;

/// Collects the fields of a document and passes on the items of a list as they arrive.
///
/// `kubectl` prints `items` before `kind`, so a document counts as a list when its items are objects with a kind. Items
/// without a kind wait for the list's kind.
pub(super) struct Document<'a, E> {
    place: SourceLocation,
    fields: Map<String, Value>,
    /// Items that need the list's kind.
    waiting: Vec<(SourceLocation, Value)>,
    n_items: usize,
    n_passed_on: usize,
    each: Each<'a, E>,
}

impl<'a, E: From<ReadError>> Document<'a, E> {
    pub(super) fn new(place: SourceLocation, each: Each<'a, E>) -> Self {
        Document { place, fields: Map::new(), waiting: Vec::new(), n_items: 0, n_passed_on: 0, each }
    }

    /// Whether an array under this key is read item by item.
    pub(super) fn expects_items(&self, key: &str) -> bool {
        key == "items" && self.fields.get("kind").and_then(Value::as_str).is_none_or(is_list_kind)
    }

    pub(super) fn has_field(&self, key: &str) -> bool {
        self.fields.contains_key(key)
    }

    pub(super) fn field(&mut self, key: String, value: Value) {
        self.fields.insert(key, value);
    }

    pub(super) fn start_items(&mut self) {
        // Keeps the position of the field, in case the document is an object with a field of this name.
        self.fields.insert("items".to_owned(), Value::Array(Vec::new()));
    }

    pub(super) fn item(&mut self, line: Option<usize>, value: Value) -> Result<(), E> {
        let place = self.place_of_item(line);
        let has_kind = value.as_object().is_some_and(|item| {
            text_field(item, "kind").is_some() && text_field(item, "apiVersion").is_some()
        });
        if has_kind {
            self.n_passed_on += 1;
            return pass_on(place, value, self.each);
        }
        self.waiting.push((place, value));
        if self.fields.contains_key("kind") { self.release_waiting() } else { Ok(()) }
    }

    pub(super) fn pod(&mut self, pod: Box<Pod>) -> Result<(), E> {
        let place = self.place_of_item(None);
        check_name("name", &pod.metadata.name, &place)?;
        check_name("namespace", &pod.metadata.namespace, &place)?;
        self.n_passed_on += 1;
        (self.each)(Object::Pod(pod, place))
    }

    fn place_of_item(&mut self, line: Option<usize>) -> SourceLocation {
        let place = SourceLocation { item: Some(self.n_items), line, ..self.place.clone() };
        self.n_items += 1;
        place
    }

    pub(super) fn finish(mut self) -> Result<(), E> {
        let is_list = text_field(&self.fields, "kind").is_some_and(|kind| is_list_kind(&kind));
        if is_list && matches!(self.fields.get("items"), Some(Value::Array(_) | Value::Null)) {
            return self.release_waiting();
        }
        if self.n_passed_on > 0 {
            // An array of items without a kind also counts as a list.
            let Some(kind) = text_field(&self.fields, "kind") else { return self.release_waiting() };
            return Err(ReadError::ItemsOutsideList { place: self.place, kind }.into());
        }
        if let (Some(items), false) = (self.fields.get_mut("items"), self.waiting.is_empty()) {
            *items = self.waiting.into_iter().map(|(_, item)| item).collect();
        }
        pass_on(self.place, Value::Object(self.fields), self.each)
    }

    /// Ends an array of objects, which has no fields.
    pub(super) fn finish_array(mut self) -> Result<(), E> {
        self.release_waiting()
    }

    fn release_waiting(&mut self) -> Result<(), E> {
        let list_kind = text_field(&self.fields, "kind").unwrap_or_default();
        let api_version = text_field(&self.fields, "apiVersion");
        for (place, mut item) in std::mem::take(&mut self.waiting) {
            inherit_kind(&mut item, &list_kind, api_version.as_deref());
            pass_on(place, item, self.each)?;
        }
        Ok(())
    }
}

fn is_list_kind(kind: &str) -> bool {
    kind.ends_with("List")
}

/// Sets the kind `Pod` on an item of a `PodList`; a plain `List` does not define the kind of its items.
fn inherit_kind(item: &mut Value, list_kind: &str, api_version: Option<&str>) {
    let (Value::Object(object), Some(kind)) = (item, list_kind.strip_suffix("List")) else { return };
    if kind.is_empty() {
        return;
    }
    if !object.contains_key("kind") {
        object.shift_insert(0, "kind".to_owned(), kind.into());
    }
    if let (Some(api_version), false) = (api_version, object.contains_key("apiVersion")) {
        object.shift_insert(0, "apiVersion".to_owned(), api_version.into());
    }
}

/// The type and the object of an event, as `kubectl get --output-watch-events` prints them.
fn watch_event(value: &mut Value) -> Option<(String, Value)> {
    let event = value.as_object_mut().filter(|event| event.len() == 2)?;
    let kind = text_field(event, "type")?;
    let object = event.get_mut("object").filter(|object| object.get("kind").is_some())?;
    Some((kind, object.take()))
}

/// Passes on an object, that of a watch event, or the objects of a nested list.
fn pass_on<E: From<ReadError>>(place: SourceLocation, mut value: Value, each: Each<'_, E>) -> Result<(), E> {
    if let Some((kind, object)) = watch_event(&mut value) {
        return match kind.as_str() {
            // It has a version, and no object.
            "BOOKMARK" => Ok(()),
            "DELETED" => each(Object::Deleted(Manifest::new(object, place)?)),
            _ => each(Object::Manifest(Manifest::new(object, place)?)),
        };
    }
    let list_kind = value.as_object().and_then(|o| text_field(o, "kind")).filter(|kind| is_list_kind(kind));
    if let Some(kind) = list_kind {
        let api_version = value.as_object().and_then(|object| text_field(object, "apiVersion"));
        match value.get_mut("items") {
            Some(Value::Array(items)) => {
                for mut item in std::mem::take(items) {
                    inherit_kind(&mut item, &kind, api_version.as_deref());
                    pass_on(place.clone(), item, each)?;
                }
                return Ok(());
            }
            Some(Value::Null) => return Ok(()),
            None if kind == "List" => return Ok(()),
            Some(_) if kind == "List" => {
                return Err(ReadError::NotAnObject { place, found: "a list whose items are no array" }.into());
            }
            // An object whose kind ends in `List` but that is not a list.
            _ => {}
        }
    }
    each(Object::Manifest(Manifest::new(value, place)?))
}
