//! Quantities of Kubernetes.

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;
use berth_api::syntax::quantity::Quantity;

pub(crate) const ROWS: &[Row] = &[
    ("quantity", "s:Q", Cost::Text(0), quantity),
    ("isQuantity", "s:b", Cost::Text(0), is_quantity),
    ("sign", "Q:i", Cost::One, |args, _| Ok(Value::Int(receiver(args)?.cmp(&Quantity::ZERO) as i64))),
    ("isGreaterThan", "Q.Q:b", Cost::One, |args, _| both(args).map(|(a, b)| Value::Bool(a > b))),
    ("isLessThan", "Q.Q:b", Cost::One, |args, _| both(args).map(|(a, b)| Value::Bool(a < b))),
    ("compareTo", "Q.Q:i", Cost::One, |args, _| both(args).map(|(a, b)| Value::Int(a.cmp(&b) as i64))),
    ("asApproximateFloat", "Q.:d", Cost::One, |args, _| Ok(Value::Double(receiver(args)?.approximate()))),
    ("asInteger", "Q.:i", Cost::One, as_integer),
    ("isInteger", "Q.:b", Cost::One, |args, _| Ok(Value::Bool(receiver(args)?.is_whole()))),
    ("add", "Q.Q:Q|Q.i:Q", Cost::One, |args, _| both(args).map(|(a, b)| Value::Quantity(a + b))),
    ("sub", "Q.Q:Q|Q.i:Q", Cost::One, |args, _| both(args).map(|(a, b)| Value::Quantity(a - b))),
];

const NUMERIC: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// The reference tells apart a text without the form of a quantity, and one with an unknown suffix.
fn parse(text: &str) -> Result<Quantity, &'static str> {
    if let Ok(quantity) = Quantity::parse(text) {
        return Ok(quantity);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let suffix = unsigned.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let has_form = suffix.len() < unsigned.len() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let has_number = unsigned.starts_with(|c: char| c.is_ascii_digit());
    Err(if has_form && has_number && !suffix.is_empty() {
        "unable to parse quantity's suffix"
    } else {
        NUMERIC
    })
}

fn quantity(arguments: &[Value], _: &mut Budget) -> Outcome {
    match arguments {
        [Value::String(text)] => Ok(Value::Quantity(parse(text)?)),
        _ => Err("no such overload".into()),
    }
}

fn is_quantity(arguments: &[Value], _: &mut Budget) -> Outcome {
    match arguments {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => Err("no such overload".into()),
    }
}

fn receiver(arguments: &[Value]) -> Result<Quantity, Failure> {
    match arguments.first() {
        Some(Value::Quantity(quantity)) => Ok(*quantity),
        _ => Err("no such overload".into()),
    }
}

/// The two operands; a whole number is a quantity as well.
fn both(arguments: &[Value]) -> Result<(Quantity, Quantity), Failure> {
    let other = match arguments.get(1) {
        Some(Value::Quantity(quantity)) => *quantity,
        Some(Value::Int(number)) => Quantity::from_units(*number),
        _ => return Err("no such overload".into()),
    };
    Ok((receiver(arguments)?, other))
}

fn as_integer(arguments: &[Value], _: &mut Budget) -> Outcome {
    let quantity = receiver(arguments)?;
    if !quantity.is_whole() {
        return Err("cannot convert value to integer".into());
    }
    Ok(Value::Int(quantity.units()))
}
