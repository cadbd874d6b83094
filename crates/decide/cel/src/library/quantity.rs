//! Quantities of Kubernetes.

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;
use berth_api::syntax::quantity::Quantity;

pub(crate) const ROWS: &[Row] = &[
    ("quantity", "s:Q", Cost::Text(0), quantity),
    ("isQuantity", "s:b", Cost::Text(0), is_quantity),
    ("sign", "Q:i", Cost::One, sign),
    ("isGreaterThan", "Q.Q:b", Cost::One, is_greater),
    ("isLessThan", "Q.Q:b", Cost::One, is_less),
    ("compareTo", "Q.Q:i", Cost::One, compare),
    ("asApproximateFloat", "Q.:d", Cost::One, as_float),
    ("asInteger", "Q.:i", Cost::One, as_integer),
    ("isInteger", "Q.:b", Cost::One, is_integer),
    ("add", "Q.Q:Q", Cost::One, add),
    ("add", "Q.i:Q", Cost::One, add),
    ("sub", "Q.Q:Q", Cost::One, subtract),
    ("sub", "Q.i:Q", Cost::One, subtract),
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

fn sign(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Int(receiver(arguments)?.cmp(&Quantity::ZERO) as i64))
}

fn is_greater(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Bool(a > b))
}

fn is_less(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Bool(a < b))
}

fn compare(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Int(a.cmp(&b) as i64))
}

fn as_float(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Double(receiver(arguments)?.approximate()))
}

fn as_integer(arguments: &[Value], _: &mut Budget) -> Outcome {
    let quantity = receiver(arguments)?;
    if !quantity.is_whole() {
        return Err("cannot convert value to integer".into());
    }
    Ok(Value::Int(quantity.units()))
}

fn is_integer(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Bool(receiver(arguments)?.is_whole()))
}

fn add(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Quantity(a + b))
}

fn subtract(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Quantity(a - b))
}
