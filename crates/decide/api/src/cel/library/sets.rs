//! Lists as sets.

use super::super::budget::Budget;
use super::super::declare::{Cost, Failure, Outcome, Row};
use super::super::value::Value;

pub(in super::super) const ROWS: &[Row] = &[
    ("sets.contains", "[A][A]:b", Cost::Product(1), contains),
    ("sets.equivalent", "[A][A]:b", Cost::Product(2), equivalent),
    ("sets.intersects", "[A][A]:b", Cost::Product(1), intersects),
];

fn both(arguments: &[Value]) -> Result<(&[Value], &[Value]), Failure> {
    match arguments {
        [Value::List(a), Value::List(b)] => Ok((a, b)),
        _ => Err("no such overload".into()),
    }
}

fn has(list: &[Value], element: &Value) -> bool {
    list.iter().any(|other| other.equals(element) == Ok(true))
}

fn contains(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Bool(b.iter().all(|element| has(a, element))))
}

fn equivalent(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| {
        Value::Bool(b.iter().all(|element| has(a, element)) && a.iter().all(|element| has(b, element)))
    })
}

fn intersects(arguments: &[Value], _: &mut Budget) -> Outcome {
    both(arguments).map(|(a, b)| Value::Bool(a.iter().any(|element| has(b, element))))
}
