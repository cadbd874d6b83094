//! Conversions between types.

use jiff::Timestamp;

use super::time;
use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::types::Type;
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("bool", "b:b|s:b", Cost::One, to_bool),
    ("bytes", "y:y", Cost::One, to_bytes),
    ("bytes", "s:y", Cost::Text(0), to_bytes),
    ("double", "M:d|s:d", Cost::One, to_double),
    ("duration", "D:D|i:D|s:D", Cost::One, to_duration),
    ("int", "M:i|D:i|s:i|T:i", Cost::One, to_int),
    ("string", "s:s|b:s", Cost::One, to_string),
    ("string", "y:s", Cost::Text(0), to_string),
    ("string", "M:s|D:s|T:s", Cost::One, to_string),
    ("timestamp", "T:T|i:T|s:T", Cost::One, to_timestamp),
    ("uint", "M:u|s:u", Cost::One, to_uint),
];

fn only(arguments: &[Value]) -> Result<&Value, Failure> {
    arguments.first().ok_or("no such overload".into())
}

fn no_conversion(from: &Value, to: &Type) -> Outcome {
    Err(format!("type conversion error from '{}' to '{}'", from.type_name(), to.runtime_name()).into())
}

fn to_bool(arguments: &[Value], _: &mut Budget) -> Outcome {
    let value = only(arguments)?;
    match value {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => no_conversion(value, &Type::Bool),
        },
        other => no_conversion(other, &Type::Bool),
    }
}

fn to_bytes(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match only(arguments)? {
        Value::String(text) => {
            budget.make(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        other => Ok(other.clone()),
    }
}

fn to_double(arguments: &[Value], _: &mut Budget) -> Outcome {
    let value = only(arguments)?;
    let double = match value {
        Value::Double(value) => Some(*value),
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    double.map_or_else(|| no_conversion(value, &Type::Double), |double| Ok(Value::Double(double)))
}

fn to_duration(arguments: &[Value], _: &mut Budget) -> Outcome {
    match only(arguments)? {
        Value::Int(seconds) => Ok(Value::Duration(jiff::SignedDuration::from_secs(*seconds))),
        other @ Value::String(text) => match time::parse_duration(text) {
            Some(duration) => Ok(Value::Duration(duration)),
            None => no_conversion(other, &Type::Duration),
        },
        other => Ok(other.clone()),
    }
}

/// A double within bounds that all 64-bit numbers of the type are in.
fn whole(value: f64, min: f64, max: f64) -> Option<f64> {
    (value > min && value < max).then_some(value)
}

fn to_int(arguments: &[Value], _: &mut Budget) -> Outcome {
    let overflow = "integer overflow";
    match only(arguments)? {
        Value::Int(value) => Ok(Value::Int(*value)),
        Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow.into()),
        Value::Double(value) => match whole(*value, -(2_f64.powi(63)), 2_f64.powi(63)) {
            Some(value) => Ok(Value::Int(value as i64)),
            None => Err(overflow.into()),
        },
        Value::Duration(value) => {
            i64::try_from(value.as_nanos()).map(Value::Int).map_err(|_| overflow.into())
        }
        Value::Timestamp(value) => Ok(Value::Int(value.as_nanosecond().div_euclid(1_000_000_000) as i64)),
        other @ Value::String(text) => match text.parse() {
            Ok(value) => Ok(Value::Int(value)),
            Err(_) => no_conversion(other, &Type::Int),
        },
        other => no_conversion(other, &Type::Int),
    }
}

fn to_uint(arguments: &[Value], _: &mut Budget) -> Outcome {
    let overflow = "unsigned integer overflow";
    match only(arguments)? {
        Value::Uint(value) => Ok(Value::Uint(*value)),
        Value::Int(value) => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow.into()),
        Value::Double(value) => match whole(*value, -1.0, 2_f64.powi(64)) {
            Some(value) if value >= 0.0 => Ok(Value::Uint(value as u64)),
            _ => Err(overflow.into()),
        },
        other @ Value::String(text) => match text.parse() {
            Ok(value) if !text.starts_with('+') => Ok(Value::Uint(value)),
            _ => no_conversion(other, &Type::Uint),
        },
        other => no_conversion(other, &Type::Uint),
    }
}

fn to_timestamp(arguments: &[Value], _: &mut Budget) -> Outcome {
    match only(arguments)? {
        Value::Int(seconds) => match Timestamp::from_second(*seconds) {
            Ok(timestamp) => Ok(Value::Timestamp(timestamp)),
            Err(_) => Err("timestamp overflow".into()),
        },
        other @ Value::String(text) => match time::parse_timestamp(text) {
            Some(timestamp) => Ok(Value::Timestamp(timestamp)),
            None => no_conversion(other, &Type::Timestamp),
        },
        other => Ok(other.clone()),
    }
}

fn to_string(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let value = only(arguments)?;
    if let Value::Bytes(bytes) = value {
        budget.make(bytes.len())?;
    }
    match text_of(value) {
        Some(text) => Ok(Value::string(text)),
        None => Err("invalid UTF-8 in bytes, cannot convert to string".into()),
    }
}

/// The text of a value that can be converted to a string.
pub(super) fn text_of(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => double_text(*value),
        Value::Bytes(bytes) => std::str::from_utf8(bytes).ok()?.to_owned(),
        Value::Duration(value) => time::duration_text(*value),
        Value::Timestamp(value) => value.to_string(),
        Value::Type(value) => value.runtime_name().to_owned(),
        _ => return None,
    })
}

/// The shortest text that is read as the same number; with an exponent if that is below -4 or above 5.
pub(super) fn double_text(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
