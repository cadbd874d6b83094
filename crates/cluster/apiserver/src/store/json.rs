//! An object's JSON, of which only what is read or changed is parsed.

use std::borrow::Cow;

use berth_api::read::json_text::{Index, JsonText, Malformed};
use serde_json::{Error, Value};

pub type Field<'t> = (Cow<'t, str>, Json<'t>);

/// JSON that is parsed as far as it has been read.
#[derive(Clone, Debug)]
pub enum Json<'t> {
    /// Parsed.
    Value(Cow<'t, Value>),
    Fields(Vec<Field<'t>>),
    /// Not parsed.
    Text(&'t [u8]),
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        Json::Value(Cow::Owned(value))
    }
}

impl<'t> From<&'t Value> for Json<'t> {
    fn from(value: &'t Value) -> Self {
        Json::Value(Cow::Borrowed(value))
    }
}

impl<'t> Json<'t> {
    /// The text of an object of Kubernetes, and the fields of its metadata, specification and status.
    ///
    /// # Errors
    /// The text is not JSON, as far as it is read: the store has written it.
    pub fn object(text: &'t [u8]) -> Result<Json<'t>, Error> {
        match fields_of(text, &["metadata", "spec", "status"]) {
            Ok(object) => Ok(object),
            // One of them is not an object, or the text is not JSON.
            Err(Malformed) => serde_json::from_slice::<Value>(text).map(Json::from),
        }
    }

    /// An object as its fields; other values as they are.
    fn split(self) -> Json<'t> {
        match self {
            Json::Text(text) => fields_of(text, &[]).unwrap_or(self),
            Json::Value(Cow::Owned(Value::Object(fields))) => {
                Json::Fields(fields.into_iter().map(|(name, field)| (name.into(), field.into())).collect())
            }
            Json::Value(Cow::Borrowed(Value::Object(fields))) => Json::Fields(
                fields.iter().map(|(name, field)| (name.as_str().into(), field.into())).collect(),
            ),
            Json::Value(_) | Json::Fields(_) => self,
        }
    }

    pub fn value(&self) -> Cow<'_, Value> {
        match self {
            Json::Value(value) => Cow::Borrowed(value),
            Json::Text(text) => Cow::Owned(serde_json::from_slice(text).unwrap_or_default()),
            Json::Fields(fields) => {
                let fields =
                    fields.iter().map(|(name, field)| (name.to_string(), field.value().into_owned()));
                Cow::Owned(Value::Object(fields.collect()))
            }
        }
    }

    /// The value at a pointer such as `/spec/nodeName`; its names have no characters that pointers escape.
    pub fn pointer(&self, pointer: &str) -> Option<Cow<'_, Value>> {
        let Some(path) = pointer.strip_prefix('/') else { return Some(self.value()) };
        match self {
            Json::Fields(fields) => {
                let (name, rest) = first_name(path);
                fields.iter().find(|(field, _)| field == name)?.1.pointer(rest)
            }
            Json::Value(value) => below(value, path).map(Cow::Borrowed),
            Json::Text(_) => below(&self.value(), path).cloned().map(Cow::Owned),
        }
    }

    /// Sets the value at a pointer. What is on the way to it becomes an object.
    pub fn set(&mut self, pointer: &str, value: Value) {
        let Some(path) = pointer.strip_prefix('/') else {
            *self = value.into();
            return;
        };
        let (name, rest) = first_name(path);
        let mut fields = match std::mem::replace(self, Value::Null.into()).split() {
            Json::Fields(fields) => fields,
            Json::Value(_) | Json::Text(_) => Vec::new(),
        };
        match fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, field)) => field.set(rest, value),
            None => {
                let mut field = Json::from(Value::Null);
                field.set(rest, value);
                fields.push((name.to_owned().into(), field));
            }
        }
        *self = Json::Fields(fields);
    }

    /// The fields of an object; none of other values.
    pub fn fields(&self) -> Option<Cow<'_, [Field<'_>]>> {
        let split = match self {
            Json::Fields(fields) => return Some(Cow::Borrowed(fields)),
            Json::Value(value) => Json::from(&**value).split(),
            Json::Text(text) => Json::Text(text).split(),
        };
        match split {
            Json::Fields(fields) => Some(Cow::Owned(fields)),
            Json::Value(_) | Json::Text(_) => None,
        }
    }

    /// The elements of an array; none of other values.
    pub fn elements(&self) -> Option<Vec<Json<'_>>> {
        match self {
            Json::Value(value) => Some(value.as_array()?.iter().map(Json::from).collect()),
            Json::Text(text) => {
                let (mut index, mut texts) = (Index::default(), Vec::new());
                let mut text = JsonText::new(text, &mut index);
                let mut elements = text.array().ok().filter(|array| !array.is_null())?;
                while text.has_next(&mut elements).ok()? {
                    texts.push(Json::Text(text.value().ok()?));
                }
                Some(texts)
            }
            Json::Fields(_) => None,
        }
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            // JSON serializes into memory without failing: its keys are strings.
            Json::Value(value) => _ = serde_json::to_writer(out, value),
            Json::Text(text) => out.extend_from_slice(text),
            Json::Fields(fields) => {
                out.push(b'{');
                for (i, (name, field)) in fields.iter().enumerate() {
                    write_name(out, i == 0, name);
                    field.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

/// Appends the name of a field, with what separates it from the field before and from its value.
pub fn write_name(out: &mut Vec<u8>, is_first: bool, name: &str) {
    if !is_first {
        out.push(b',');
    }
    let _ = serde_json::to_writer(&mut *out, name);
    out.push(b':');
}

/// The value at the end of a path of names.
fn below<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('/').try_fold(value, |value, name| value.get(name))
}

/// The first name of a pointer without its slash, and the pointer below it.
fn first_name(path: &str) -> (&str, &str) {
    path.split_at(path.find('/').unwrap_or(path.len()))
}

/// The fields of an object, and the fields of those `split`, which are objects too or `null`; the other values are not parsed.
fn fields_of<'t>(text: &'t [u8], split: &[&str]) -> Result<Json<'t>, Malformed> {
    let mut index = Index::default();
    let mut text = JsonText::new(text, &mut index);
    let object = read_fields(&mut text, split)?;
    if text.is_at_end() { Ok(object) } else { Err(Malformed) }
}

fn read_fields<'t>(text: &mut JsonText<'t, '_>, split: &[&str]) -> Result<Json<'t>, Malformed> {
    let mut members = text.object()?;
    if members.is_null() {
        return Ok(Json::Text(b"null"));
    }
    let mut fields = Vec::with_capacity(16);
    while let Some(key) = text.next_key(&mut members)? {
        let name = name(key)?;
        let is_split = split.contains(&&*name);
        let field = if is_split { read_fields(text, &[])? } else { Json::Text(text.value()?) };
        fields.push((name, field));
    }
    Ok(Json::Fields(fields))
}

/// A name, of which `key` is the text between its quotes.
fn name(key: &[u8]) -> Result<Cow<'_, str>, Malformed> {
    match key.contains(&b'\\') {
        false => str::from_utf8(key).map(Cow::Borrowed).map_err(|_| Malformed),
        true => {
            let quoted = [b"\"", key, b"\""].concat();
            serde_json::from_slice(&quoted).map(Cow::Owned).map_err(|_| Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_read_is_what_the_text_says() {
        let pod = json!({"metadata": {"name": "a\n", "labels": {"x": "1"}}, "spec": {"nodeName": "m", "a": [1, {"b": null}]},
            "status": null, "other": {"x": 1.5}});
        let text = pod.to_string();
        let read = Json::object(text.as_bytes()).unwrap();
        assert_eq!(*read.value(), pod);
        for json in [read, Json::from(&pod), Json::from(pod.clone())] {
            for pointer in [
                "",
                "/metadata/name",
                "/metadata/labels/x",
                "/spec/a",
                "/other/x",
                "/status",
                "/status/x",
                "/a",
                "/spec/a/x",
            ] {
                assert_eq!(json.pointer(pointer).as_deref(), pod.pointer(pointer), "{pointer}");
            }
            let names = |json: &Json<'_>| -> Option<Vec<String>> {
                Some(json.fields()?.iter().map(|(name, _)| name.to_string()).collect())
            };
            assert_eq!(names(&json).unwrap(), ["metadata", "spec", "status", "other"]);
            let fields = json.fields().unwrap();
            assert_eq!(names(&fields[0].1).unwrap(), ["name", "labels"]);
            assert_eq!((names(&fields[2].1), fields[2].1.elements().is_none()), (None, true));
        }
        for text in ["", "{", "{\"a\": }", "{\"metadata\": {]}"] {
            assert!(Json::object(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(*Json::object(b"[1]").unwrap().value(), json!([1]));
        let elements = |json: Json<'_>| {
            json.elements().map(|list| list.iter().map(|e| e.value().into_owned()).collect::<Vec<_>>())
        };
        let array = json!([1, {"a": 2}]);
        assert_eq!(elements(Json::object(b"[1, {\"a\": 2}]").unwrap()), array.as_array().cloned());
        assert_eq!(elements(Json::from(&array)), array.as_array().cloned());
    }

    #[test]
    fn what_is_set_is_read() {
        let before = json!({"spec": {"a": 1, "b": {"c": 2}}, "status": null});
        let text = before.to_string();
        for mut json in
            [Json::object(text.as_bytes()).unwrap(), Json::from(&before), Json::from(before.clone())]
        {
            json.set("/spec/nodeName", "m".into());
            json.set("/spec/a", 3.into());
            json.set("/spec/b/c", 4.into());
            json.set("/status/conditions/x", json!([1]));
            json.set("/metadata/labels", json!({}));
            assert_eq!(
                *json.value(),
                json!({"spec": {"a": 3, "b": {"c": 4}, "nodeName": "m"},
                "status": {"conditions": {"x": [1]}}, "metadata": {"labels": {}}})
            );
            json.set("", 1.into());
            assert_eq!(*json.value(), json!(1));
        }
    }
}
