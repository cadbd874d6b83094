//! Reading and defaulting raw JSON. Objects stay raw, so that no field of a client is lost.

use std::collections::HashSet;

use berth_api::object::{Pod, ResourceList};
use berth_api::read::{ValueError, from_value};
use berth_api::syntax::quantity::Quantity;
use berth_rules::admission::{self, FieldError, shortened};
use berth_schema::resource::Resource;
use serde_json::{Map, Value};

use crate::request::{ApiResult, Cause, CauseType, Status, note_conversion};

/// The object under a key, created if it is absent. `None` if the value is not an object.
pub fn object<'v>(value: &'v mut Value, key: &str) -> Option<&'v mut Map<String, Value>> {
    let field = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut()
}

/// The list under a key, created if it is absent. `None` if the value is none.
pub fn list<'v>(map: &'v mut Map<String, Value>, key: &str) -> Option<&'v mut Vec<Value>> {
    let field = map.entry(key).or_insert(Value::Null);
    if field.is_null() {
        *field = Value::Array(Vec::new());
    }
    field.as_array_mut()
}

/// Sets a field that is absent or null.
pub fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    if map.get(key).is_none_or(Value::is_null) {
        map.insert(key.to_owned(), value.into());
    }
}

/// Sets a field that is absent, null or an empty string.
pub fn default_text(map: &mut Map<String, Value>, key: &str, value: &str) {
    if map.get(key).is_none_or(|v| v.is_null() || v == "") {
        map.insert(key.to_owned(), Value::from(value));
    }
}

/// A text; empty if it is absent.
pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a list; none if it is absent.
pub fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// The mutable items of a list; none if it is absent.
pub fn items_mut<'v>(value: &'v mut Value, key: &str) -> &'v mut [Value] {
    value.get_mut(key).and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
}

/// Sets quantities that the field does not have, or has otherwise.
pub fn set_quantities(resources: &mut Value, key: &str, quantities: &ResourceList) {
    if quantities.is_empty() {
        return;
    }
    let Some(raw) = object(resources, key) else { return };
    for (name, amount) in quantities {
        let same = raw.get(name).is_some_and(|value| quantity(value) == Some(*amount));
        if !same {
            raw.insert(name.clone(), Value::from(amount.to_string()));
        }
    }
}

pub fn typed_pod(pod: &Value) -> Result<Pod, ValueError> {
    note_conversion();
    from_value(pod)
}

/// Whether a field is absent, null, or empty.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A quantity, as text or as a number; `None` if it is neither.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::read(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// The items of a list that equal an earlier one, by index. Linear, unlike a search among the items before each.
pub fn repeated<K: Eq + std::hash::Hash>(keys: impl IntoIterator<Item = K>) -> Vec<usize> {
    let mut seen = HashSet::new();
    keys.into_iter().enumerate().filter_map(|(i, key)| (!seen.insert(key)).then_some(i)).collect()
}

/// Keeps a field and the list that begins with it in agreement; the field counts, which is the older one.
pub fn agree_with_first(
    map: &mut Map<String, Value>,
    [field, list]: [&str; 2],
    value: fn(&Value) -> &Value,
    item: fn(Value) -> Value,
) {
    let first = map.get(list).and_then(|list| list.get(0)).map(value).cloned();
    match (map.get(field).filter(|value| !is_empty(value)).cloned(), first) {
        (Some(value), first) if first.as_ref() != Some(&value) => {
            map.insert(list.to_owned(), vec![item(value)].into());
        }
        (None, Some(first)) => drop(map.insert(field.to_owned(), first)),
        _ => {}
    }
}

/// The items of a list of at most `max`; none of a longer one, whose items are not validated.
pub fn limited<'v>(value: &'v Value, path: &str, max: usize, causes: &mut Causes) -> &'v [Value] {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    if list.len() > max {
        causes.too_many(path, list.len(), max);
        return &[];
    }
    list
}

/// As [`limited`], with items that differ in a key.
pub fn limited_set<'v>(
    value: &'v Value,
    path: &str,
    max: usize,
    key: fn(&Value) -> &Value,
    causes: &mut Causes,
) -> &'v [Value] {
    let list = limited(value, path, max, causes);
    for i in repeated(list.iter().map(key)) {
        causes.duplicate(&format!("{path}[{i}]"), key(&list[i]));
    }
    list
}

/// The part of an object that a cause is in, as a JSON pointer: a field of `spec`, such as `/spec/template`. What is missing is in
/// the part around it.
fn part(cause: &Cause) -> String {
    let name = cause.field.split('[').next().unwrap_or_default();
    let is_missing = cause.cause_type == CauseType::FieldValueRequired && name == cause.field;
    let n_fields = if is_missing { name.split('.').count() - 1 } else { 2 };
    name.split('.').take(n_fields.min(2)).flat_map(|field| ["/", field]).collect()
}

/// A field error as the cause of a status; `prefix` precedes its path.
pub fn cause(error: &FieldError, prefix: &str) -> Cause {
    let message = error.error.strip_prefix(&format!("{}: ", error.field)).unwrap_or(&error.error);
    Cause::new(CauseType::named(error.error_type.as_str()), format!("{prefix}{}", error.field), message)
}

pub fn validate_label_selector(path: &str, selector: &Value, causes: &mut Causes) {
    if selector.is_null() {
        return;
    }
    match from_value(selector) {
        Ok(typed) => admission::validate_label_selector(&typed)
            .iter()
            .map(|error| cause(error, path))
            .for_each(|cause| causes.push(cause.cause_type, &cause.field, cause.message)),
        Err(error) => causes.invalid(path, selector, &error.to_string()),
    }
}

/// Validates a node selector of the v1 API; `path` is that of the selector.
pub fn validate_node_selector(selector: &Value, path: &str, causes: &mut Causes) {
    let Ok(selector) = from_value(selector) else { return };
    for error in admission::validate_node_selector(&selector) {
        let cause = cause(&error, path);
        causes.push(cause.cause_type, &cause.field, cause.message);
    }
}

/// Further causes of a status are counted, not kept.
const MAX_CAUSES: usize = 100;

/// The causes of an `Invalid` status, with kube-apiserver's messages.
#[derive(Debug, Default)]
pub struct Causes(pub Vec<Cause>, usize);

impl Causes {
    /// The causes; the last one says how many more there are.
    pub fn into_list(mut self) -> Vec<Cause> {
        if let Some(last) = self.0.last_mut().filter(|_| self.1 > 0) {
            last.message.push_str(&format!(" (and {} more errors)", self.1));
        }
        self.0
    }

    pub fn append(&mut self, other: Causes) {
        self.0.extend(other.0);
        self.1 += other.1;
    }

    /// Drops causes that the object also had before its change, where the part they are in is as it was: they come from a
    /// setting or a schema that has changed since, and must not keep the object from being labelled, scaled or deleted.
    pub fn drop_earlier(&mut self, before: &Causes, new: &Value, old: &Value) {
        if self.1 != before.1 {
            return;
        }
        let earlier: HashSet<&Cause> = before.0.iter().collect();
        let is_unchanged = |cause: &Cause| {
            let part = part(cause);
            new.pointer(&part) == old.pointer(&part)
        };
        self.0.retain(|cause| !earlier.contains(cause) || !is_unchanged(cause));
    }

    pub fn refuse(self, resource: &Resource, value: &Value) -> ApiResult {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Status::invalid(resource, text(value, "/metadata/name"), self.into_list()))
    }

    pub fn push(&mut self, cause_type: CauseType, field: &str, message: String) {
        if self.0.len() >= MAX_CAUSES {
            self.1 += 1;
            return;
        }
        self.0.push(Cause::new(cause_type, shortened(field.to_owned()), shortened(message)));
    }

    pub fn required(&mut self, field: &str, detail: &str) {
        let message =
            if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        self.push(CauseType::FieldValueRequired, field, message);
    }

    pub fn invalid(&mut self, field: &str, value: &Value, detail: &str) {
        self.push(CauseType::FieldValueInvalid, field, format!("Invalid value: {value}: {detail}"));
    }

    pub fn immutable(&mut self, field: &str, value: &Value) {
        self.invalid(field, value, "field is immutable");
    }

    pub fn forbidden(&mut self, field: &str, detail: &str) {
        self.push(CauseType::FieldValueForbidden, field, format!("Forbidden: {detail}"));
    }

    pub fn duplicate(&mut self, field: &str, value: &Value) {
        self.push(CauseType::FieldValueDuplicate, field, format!("Duplicate value: {value}"));
    }

    /// A value is duplicated in what makes it unique.
    pub fn duplicate_because(&mut self, field: &str, value: &Value, detail: &str) {
        self.push(CauseType::FieldValueDuplicate, field, format!("Duplicate value: {value}: {detail}"));
    }

    /// A value is not one of the supported ones.
    pub fn not_supported(&mut self, field: &str, value: &Value, supported: &[&str]) {
        let supported: Vec<String> = supported.iter().map(|s| format!("{s:?}")).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        self.push(CauseType::FieldValueNotSupported, field, message);
    }

    pub fn too_many(&mut self, field: &str, count: usize, max: usize) {
        let items = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {count}: must have at most {max} {items}");
        self.push(CauseType::FieldValueTooMany, field, message);
    }

    pub fn too_long(&mut self, field: &str, max_bytes: usize) {
        self.push(
            CauseType::FieldValueTooLong,
            field,
            format!("Too long: may not be more than {max_bytes} bytes"),
        );
    }

    /// A number, if present, must not be negative.
    pub fn not_negative(&mut self, field: &str, value: &Value) {
        if value.as_f64().is_some_and(|number| number < 0.0) {
            self.invalid(field, value, "must be greater than or equal to 0");
        }
    }

    pub fn not_empty(&mut self, field: &str, value: &Value) {
        if value.as_str().is_none_or(str::is_empty) {
            self.required(field, "");
        }
    }

    /// A text must be one of the supported ones. An absent one is empty.
    pub fn one_of(&mut self, field: &str, value: &Value, supported: &[&str]) {
        if value.is_null() {
            return self.one_of(field, &Value::from(""), supported);
        }
        if !supported.contains(&value.as_str().unwrap_or_default()) {
            self.not_supported(field, value, supported);
        }
    }

    /// Of these fields, exactly one has a value.
    pub fn one_member(&mut self, path: &str, value: &Value, members: &[&str]) {
        let is_set = |member: &&str| !value[member].is_null() && value[member] != Value::Array(Vec::new());
        let set: Vec<&str> = members.iter().copied().filter(|member| is_set(member)).collect();
        let all = members.iter().map(|member| format!("`{member}`")).collect::<Vec<_>>().join(", ");
        match set.len() {
            0 => self.invalid(path, &"".into(), &format!("must specify one of: {all}")),
            1 => {}
            _ => {
                let set = format!("{{{}}}", set.join(", "));
                self.invalid(path, &set.into(), &format!("must specify exactly one of: {all}"));
            }
        }
    }

    /// A text may be set where there was none, and not changed after that.
    pub fn set_once(&mut self, field: &str, new: &Value, old: &Value) {
        if is_empty(old) || new == old {
            return;
        }
        let verb = if is_empty(new) { "cleared" } else { "modified" };
        self.invalid(field, &Value::Null, &format!("field cannot be {verb} once set"));
    }

    pub fn unchanged(&mut self, field: &str, new: &Value, old: &Value) {
        if new != old {
            self.immutable(field, new);
        }
    }

    /// What JSON pointers name must be what it was.
    pub fn unchanged_at(&mut self, pointers: &[&str], new: &Value, old: &Value) {
        for pointer in pointers {
            let (new, old) = (new.pointer(pointer), old.pointer(pointer));
            if new != old {
                self.immutable(&pointer[1..].replace('/', "."), new.unwrap_or(&Value::Null));
            }
        }
    }

    pub fn problems(&mut self, field: &str, value: &Value, problems: Vec<String>) {
        problems.iter().for_each(|problem| self.invalid(field, value, problem));
    }
}
