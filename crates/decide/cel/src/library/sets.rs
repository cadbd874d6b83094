//! Lists as sets.

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
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

/// How many elements of a list are in another one.
fn n_found(elements: &[Value], list: &[Value], budget: &mut Budget) -> Result<usize, Failure> {
    let mut n_found = 0;
    for element in elements {
        for other in list {
            if other.is_found(element, budget)? {
                n_found += 1;
                break;
            }
        }
    }
    Ok(n_found)
}

fn contains(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (a, b) = both(arguments)?;
    Ok(Value::Bool(n_found(b, a, budget)? == b.len()))
}

fn equivalent(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (a, b) = both(arguments)?;
    Ok(Value::Bool(n_found(b, a, budget)? == b.len() && n_found(a, b, budget)? == a.len()))
}

fn intersects(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (a, b) = both(arguments)?;
    Ok(Value::Bool(n_found(a, b, budget)? > 0))
}
