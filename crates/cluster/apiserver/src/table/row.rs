//! Reading an object for its row.

use jiff::Timestamp;
use serde_json::Value;

use super::duration::since;

pub const NONE: &str = "<none>";
pub const UNKNOWN: &str = "<unknown>";
pub const UNSET: &str = "<unset>";

/// At most three items of a list, and how many more there are.
pub fn some_of(mut items: Vec<String>, absent: &str) -> Value {
    let rest = items.len().saturating_sub(3);
    items.truncate(3);
    match rest {
        0 if items.is_empty() => absent.into(),
        0 => items.join(",").into(),
        _ => format!("{} + {rest} more...", items.join(",")).into(),
    }
}

/// An object to be shown.
pub struct Row<'o> {
    pub object: &'o Value,
    pub now: Timestamp,
}

impl<'o> Row<'o> {
    pub fn at(&self, pointer: &str) -> Option<&'o Value> {
        self.object.pointer(pointer).filter(|value| !value.is_null())
    }

    /// A text field, if it is present and not empty.
    pub fn text(&self, pointer: &str) -> Option<&'o str> {
        self.at(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    pub fn text_or(&self, pointer: &str, absent: &str) -> Value {
        self.text(pointer).unwrap_or(absent).into()
    }

    pub fn integer(&self, pointer: &str) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or(0)
    }

    pub fn list(&self, pointer: &str) -> &'o [Value] {
        self.at(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// How many entries a map or list has.
    pub fn count(&self, pointer: &str) -> i64 {
        match self.at(pointer) {
            Some(Value::Object(entries)) => entries.len() as i64,
            Some(Value::Array(items)) => items.len() as i64,
            _ => 0,
        }
    }

    pub fn name(&self) -> Value {
        self.text_or("/metadata/name", "")
    }

    pub fn age(&self) -> Value {
        self.since("/metadata/creationTimestamp").into()
    }

    pub fn since(&self, pointer: &str) -> String {
        since(self.text(pointer), self.now)
    }

    pub fn is_deleted(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_some()
    }

    /// The names and the images of the containers in a pod spec, each joined by commas.
    pub fn containers(&self, pod_spec: &str) -> [Value; 2] {
        let containers = self.list(&format!("{pod_spec}/containers"));
        let join = |field: &str| {
            let each: Vec<&str> = containers.iter().map(|c| c[field].as_str().unwrap_or_default()).collect();
            Value::from(each.join(","))
        };
        [join("name"), join("image")]
    }

    /// A map of labels as `a=1,b=2`.
    pub fn labels(&self, pointer: &str) -> Value {
        let mut labels: Vec<String> = self
            .at(pointer)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        labels.sort();
        if labels.is_empty() { NONE.into() } else { labels.join(",").into() }
    }

    /// A label selector as it is written on a command line.
    pub fn selector(&self, pointer: &str) -> Value {
        let Some(selector) = self.at(pointer) else { return NONE.into() };
        let mut requirements: Vec<String> = selector["matchLabels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default();
            let mut values: Vec<&str> =
                expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            values.sort_unstable();
            let values = values.join(",");
            requirements.push(match expression["operator"].as_str().unwrap_or_default() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                "Gt" => format!("{key}>{values}"),
                "Lt" => format!("{key}<{values}"),
                _ => key.to_owned(),
            });
        }
        requirements.sort();
        if requirements.is_empty() { NONE.into() } else { requirements.join(",").into() }
    }

    /// The `status` of a condition in `/status/conditions`.
    pub fn condition(&self, condition: &str) -> Option<&'o str> {
        let found = self.list("/status/conditions").iter().find(|c| c["type"] == condition)?;
        found["status"].as_str()
    }
}
