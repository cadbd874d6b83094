//! Values of expressions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::budget::{Budget, Failure};
use crate::opaque::cidr::Cidr;
use crate::opaque::semver::Semver;
use crate::opaque::url::Url;
use crate::types::Type;
use berth_api::syntax::quantity::Quantity;

/// A value. Copies share their parts.
#[derive(Clone, Debug)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    Duration(SignedDuration),
    Timestamp(Timestamp),
    List(Arc<Vec<Value>>),
    Map(Arc<Map>),
    Optional(Option<Arc<Value>>),
    Type(Type),
    Quantity(Quantity),
    Semver(Arc<Semver>),
    Ip(core::net::IpAddr),
    Cidr(Cidr),
    Url(Arc<Url>),
    NamedFormat(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

#[derive(Clone, Debug, Default)]
pub struct Map {
    pub entries: BTreeMap<Key, Value>,
    /// Whether a lookup of a key that is not there finds an empty map.
    pub has_default: bool,
}

impl Map {
    /// The value of a key. Numbers are compared by value.
    pub fn find(&self, key: &Value) -> Option<Value> {
        match self.entry(key) {
            Some(value) => Some(value.clone()),
            None => self.has_default.then(|| Value::Map(Arc::default())),
        }
    }

    /// Whether there is an entry with a key.
    pub fn contains(&self, key: &Value) -> bool {
        self.entry(key).is_some()
    }

    fn entry(&self, key: &Value) -> Option<&Value> {
        match key {
            Value::Int(number) => self
                .entries
                .get(&Key::Int(*number))
                .or_else(|| self.entries.get(&Key::Uint(u64::try_from(*number).ok()?))),
            Value::Uint(number) => self
                .entries
                .get(&Key::Uint(*number))
                .or_else(|| self.entries.get(&Key::Int(i64::try_from(*number).ok()?))),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e18 => {
                self.entry(&Value::Int(*number as i64))
            }
            key => self.entries.get(&Key::of(key)?),
        }
    }
}

impl Key {
    pub fn of(value: &Value) -> Option<Key> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => Key::Uint(*value),
            Value::String(value) => Key::String(value.clone()),
            _ => return None,
        })
    }

    pub fn value(&self) -> Value {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::String(value) => Value::String(value.clone()),
        }
    }
}

impl Value {
    pub fn string(text: impl Into<Arc<str>>) -> Value {
        Value::String(text.into())
    }

    pub fn list(values: impl IntoIterator<Item = Value>) -> Value {
        Value::List(Arc::new(values.into_iter().collect()))
    }

    pub fn strings(texts: impl IntoIterator<Item = impl Into<Arc<str>>>) -> Value {
        Value::list(texts.into_iter().map(Value::string))
    }

    /// The type, without the types of parts.
    pub fn value_type(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Type(_) => Type::type_of(Type::Dyn),
            Value::Quantity(_) => Type::QUANTITY,
            Value::Semver(_) => Type::SEMVER,
            Value::Ip(_) => Type::IP,
            Value::Cidr(_) => Type::CIDR,
            Value::Url(_) => Type::URL,
            Value::NamedFormat(_) => Type::NAMED_FORMAT,
        }
    }

    /// What the reference calls the type in messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Optional(_) => "optional_type",
            Value::Type(_) => "type",
            other => other.value_type().runtime_name(),
        }
    }

    /// The name of the type in the reference's implementation, for messages about loops.
    pub fn implementation_name(&self) -> &'static str {
        match self {
            Value::Null => "types.Null",
            Value::Bool(_) => "types.Bool",
            Value::Int(_) => "types.Int",
            Value::Uint(_) => "types.Uint",
            Value::Double(_) => "types.Double",
            Value::String(_) => "types.String",
            Value::Bytes(_) => "types.Bytes",
            Value::Duration(_) => "types.Duration",
            Value::Timestamp(_) => "types.Timestamp",
            Value::List(_) => "types.List",
            Value::Map(_) => "types.Map",
            Value::Optional(_) => "*types.Optional",
            Value::Type(_) => "*types.Type",
            Value::Quantity(_) => "cel.Quantity",
            Value::Semver(_) => "cel.Semver",
            Value::Ip(_) => "cel.IP",
            Value::Cidr(_) => "cel.CIDR",
            Value::Url(_) => "cel.URL",
            Value::NamedFormat(_) => "*cel.Format",
        }
    }

    /// Characters, bytes, elements or entries; 1 for other values.
    pub fn size(&self) -> u64 {
        let size = match self {
            Value::String(text) => text.chars().count(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.entries.len(),
            Value::Ip(ip) => {
                if ip.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            Value::Cidr(cidr) => {
                if cidr.address.is_ipv4() {
                    4
                } else {
                    16
                }
            }
            _ => 1,
        };
        size as u64
    }

    /// Whether two values are equal. Numbers are compared by value, and values of other different types are unequal,
    /// except that most values of libraries cannot be compared with other types.
    pub fn equals(&self, other: &Value, budget: &mut Budget) -> Result<bool, Failure> {
        self.parts_equal(other, budget, 0)
    }

    /// The same for a search: values that cannot be compared are unequal.
    pub fn is_found(&self, other: &Value, budget: &mut Budget) -> Result<bool, Failure> {
        match self.equals(other, budget) {
            Err(Failure::Error(_)) => Ok(false),
            result => result,
        }
    }

    fn parts_equal(&self, other: &Value, budget: &mut Budget, depth: usize) -> Result<bool, Failure> {
        // Values that share parts can be much larger than what was made.
        const STEPS: u64 = 25;
        const MAX_DEPTH: usize = 200;
        budget.work(STEPS)?;
        if depth > MAX_DEPTH {
            return Err(Failure::Cancelled);
        }
        Ok(match (self, other) {
            (Value::Null, other) => matches!(other, Value::Null),
            (_, Value::Null) => false,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::Duration(a), Value::Duration(b)) => a == b,
            (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
            (Value::Type(a), Value::Type(b)) => a.runtime_name() == b.runtime_name(),
            (Value::List(a), Value::List(b)) => {
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.iter().zip(b.iter()) {
                    if !a.parts_equal(b, budget, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            (Value::Map(a), Value::Map(b)) => {
                if a.entries.len() != b.entries.len() {
                    return Ok(false);
                }
                for (key, a) in &a.entries {
                    match b.entry(&key.value()) {
                        Some(b) if a.parts_equal(b, budget, depth + 1)? => {}
                        _ => return Ok(false),
                    }
                }
                true
            }
            (Value::Optional(a), Value::Optional(b)) => match (a, b) {
                (Some(a), Some(b)) => return a.parts_equal(b, budget, depth + 1),
                (a, b) => a.is_none() && b.is_none(),
            },
            (Value::Quantity(a), Value::Quantity(b)) => a == b,
            (Value::Semver(a), Value::Semver(b)) => a.cmp_precedence(b) == Ordering::Equal,
            (Value::Ip(a), Value::Ip(b)) => a == b,
            (Value::Cidr(a), Value::Cidr(b)) => a == b,
            (Value::Url(a), Value::Url(b)) => a == b,
            (Value::NamedFormat(a), Value::NamedFormat(b)) => a == b,
            (Value::Semver(_) | Value::Ip(_) | Value::Cidr(_) | Value::Url(_) | Value::NamedFormat(_), _) => {
                return Err("no such overload".into());
            }
            (a, b) => compare_numbers(a, b) == Some(Ordering::Equal),
        })
    }

    /// The order of two values; none if they have none.
    pub fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
            (a, b) => compare_numbers(a, b),
        }
    }
}

/// The order of two numbers, whatever their types; none with NaN or other values.
fn compare_numbers(a: &Value, b: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(number) => Some(i128::from(*number)),
        Value::Uint(number) => Some(i128::from(*number)),
        _ => None,
    };
    match (a, b) {
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Double(a), b) => compare_double(*a, whole(b)?),
        (a, Value::Double(b)) => Some(compare_double(*b, whole(a)?)?.reverse()),
        (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
    }
}

fn compare_double(double: f64, whole: i128) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    // The conversion to whole numbers saturates beyond all 64-bit numbers.
    let order = (double as i128).cmp(&whole);
    Some(order.then(double.fract().partial_cmp(&0.0)?))
}

impl fmt::Display for Value {
    /// As in messages about keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Int(value) => write!(f, "{value}"),
            Value::Uint(value) => write!(f, "{value}"),
            Value::Double(value) => write!(f, "{value}"),
            Value::String(value) => f.write_str(value),
            Value::Quantity(value) => write!(f, "{value}"),
            other => f.write_str(other.type_name()),
        }
    }
}

impl From<&serde_json::Value> for Value {
    /// Whole numbers are signed.
    fn from(json: &serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(*value),
            serde_json::Value::Number(number) => match number.as_i64() {
                Some(number) => Value::Int(number),
                None => Value::Double(number.as_f64().unwrap_or_default()),
            },
            serde_json::Value::String(text) => Value::string(text.as_str()),
            serde_json::Value::Array(items) => Value::list(items.iter().map(Value::from)),
            serde_json::Value::Object(fields) => {
                let entries =
                    fields.iter().map(|(key, value)| (Key::String(key.as_str().into()), value.into()));
                Value::Map(Arc::new(Map { entries: entries.collect(), has_default: false }))
            }
        }
    }
}
