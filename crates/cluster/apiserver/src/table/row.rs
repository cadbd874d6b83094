//! Reading an object for its row.

use std::cell::OnceCell;

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

/// The entries of a map of labels as `a=1`.
fn equalities(labels: Option<&Value>) -> Vec<String> {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect()
}

fn sorted(mut requirements: Vec<String>) -> Value {
    requirements.sort();
    if requirements.is_empty() { NONE.into() } else { requirements.join(",").into() }
}

pub struct Row<'o> {
    pub object: &'o Value,
    pub now: Timestamp,
    /// The cells that several columns compute together: a kind has one set of them at most.
    together: OnceCell<Vec<Value>>,
}

impl<'o> Row<'o> {
    pub fn new(object: &'o Value, now: Timestamp) -> Row<'o> {
        Row { object, now, together: OnceCell::new() }
    }

    /// The cells that several columns compute together, computed once.
    pub fn together(&self, cells: fn(&Row<'_>) -> Vec<Value>) -> &[Value] {
        self.together.get_or_init(|| cells(self))
    }

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

    pub fn count(&self, pointer: &str) -> i64 {
        match self.at(pointer) {
            Some(Value::Object(entries)) => entries.len() as i64,
            Some(Value::Array(items)) => items.len() as i64,
            _ => 0,
        }
    }

    pub fn texts(&self, pointer: &str) -> Vec<&'o str> {
        self.list(pointer).iter().filter_map(Value::as_str).collect()
    }

    pub fn since(&self, pointer: &str) -> String {
        since(self.text(pointer), self.now)
    }

    pub fn is_deleted(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_some()
    }

    pub fn balancers(&self) -> Vec<&'o str> {
        let ingress = self.list("/status/loadBalancer/ingress").iter();
        ingress.filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str())).collect()
    }

    /// A field of the containers in a pod spec, joined by commas.
    pub fn containers(&self, pod_spec: &str, field: &str) -> Value {
        let containers = self.list(&format!("{pod_spec}/containers")).iter();
        let each: Vec<&str> = containers.map(|c| c[field].as_str().unwrap_or_default()).collect();
        each.join(",").into()
    }

    /// A map of labels as `a=1,b=2`.
    pub fn labels(&self, pointer: &str) -> Value {
        sorted(equalities(self.at(pointer)))
    }

    /// A label selector as it is written on a command line.
    pub fn selector(&self, pointer: &str) -> Value {
        let Some(selector) = self.at(pointer) else { return NONE.into() };
        let mut requirements = equalities(selector.get("matchLabels"));
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
        sorted(requirements)
    }

    /// The `status` of a condition in `/status/conditions`.
    pub fn condition(&self, condition: &str) -> Option<&'o str> {
        let found = self.list("/status/conditions").iter().find(|c| c["type"] == condition)?;
        found["status"].as_str()
    }
}
