//! Lists.

use std::cmp::Ordering;

use super::operators;
use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("isSorted", "[O].:b", Cost::Elements(0), is_sorted),
    ("sum", "[N].:N", Cost::Elements(0), sum),
    ("min", "[O].:O", Cost::Elements(0), |args, _| extreme(args, "min", Ordering::Less)),
    ("max", "[O].:O", Cost::Elements(0), |args, _| extreme(args, "max", Ordering::Greater)),
    ("indexOf", "[A].A:i", Cost::Elements(0), |args, budget| position(args, budget, false)),
    ("lastIndexOf", "[A].A:i", Cost::Elements(0), |args, budget| position(args, budget, true)),
];

fn list(arguments: &[Value]) -> Result<&[Value], Failure> {
    match arguments.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err("no such overload".into()),
    }
}

fn is_sorted(arguments: &[Value], _: &mut Budget) -> Outcome {
    let list = list(arguments)?;
    Ok(Value::Bool(list.windows(2).all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater))))
}

fn sum(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let Some((first, rest)) = list(arguments)?.split_first() else { return Ok(Value::Int(0)) };
    rest.iter().try_fold(first.clone(), |sum, next| operators::add(&[sum, next.clone()], budget))
}

/// The first element for which no other one has this order to it.
fn extreme(arguments: &[Value], name: &str, better: Ordering) -> Outcome {
    let Some((first, rest)) = list(arguments)?.split_first() else {
        return Err(format!("{name} called on empty list").into());
    };
    let choose = |best, next: &'_ Value| -> Value {
        if next.compare(&best) == Some(better) { next.clone() } else { best }
    };
    Ok(rest.iter().fold(first.clone(), choose))
}

fn position(arguments: &[Value], budget: &mut Budget, last: bool) -> Outcome {
    let (list, Some(wanted)) = (list(arguments)?, arguments.get(1)) else {
        return Err("no such overload".into());
    };
    for at in 0..list.len() {
        let at = if last { list.len() - 1 - at } else { at };
        if list[at].is_found(wanted, budget)? {
            return Ok(Value::Int(at as i64));
        }
    }
    Ok(Value::Int(-1))
}
