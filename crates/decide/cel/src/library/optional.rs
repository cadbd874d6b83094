//! Optional values.

use std::sync::Arc;

use super::operators::find;
use crate::budget::Budget;
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("optional.of", "A:?A", Cost::One, |args, _| Ok(Value::Optional(args.first().cloned().map(Arc::new)))),
    ("optional.ofNonZeroValue", "A:?A", Cost::One, of_non_zero),
    ("optional.none", ":?A", Cost::One, |_, _| Ok(Value::Optional(None))),
    ("hasValue", "?A.:b", Cost::One, |args, _| Ok(Value::Bool(matches!(args, [Value::Optional(Some(_))])))),
    ("value", "?A.:A", Cost::One, value),
    // The evaluator decides about these two before it evaluates the argument.
    ("or", "?A.?A:?A", Cost::One, or),
    ("orValue", "?A.A:A", Cost::One, or),
    ("_?._", "*s:*", Cost::One, select),
    ("_[?_]", "[A]i:?A|?[A]i:?A|{AB}A:?B|?{AB}A:?B", Cost::One, select),
];

fn of_non_zero(arguments: &[Value], _: &mut Budget) -> Outcome {
    let is_zero = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(value) => *value == 0,
        Value::Uint(value) => *value == 0,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.entries.is_empty(),
        Value::Duration(duration) => duration.is_zero(),
        Value::Optional(inner) => inner.is_none(),
        _ => false,
    };
    Ok(Value::Optional(arguments.first().filter(|value| !is_zero(value)).cloned().map(Arc::new)))
}

fn value(arguments: &[Value], _: &mut Budget) -> Outcome {
    match arguments {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        _ => Err("optional.none() dereference".into()),
    }
}

fn or(_: &[Value], _: &mut Budget) -> Outcome {
    Err("no such overload".into())
}

/// `operand.?field` and `operand[?index]`.
fn select(arguments: &[Value], _: &mut Budget) -> Outcome {
    let [operand, index] = arguments else { return Err("no such overload".into()) };
    let operand = match operand {
        Value::Optional(None) => return Ok(Value::Optional(None)),
        Value::Optional(Some(inner)) => inner,
        operand => operand,
    };
    Ok(Value::Optional(find(operand, index)?.map(Arc::new)))
}
