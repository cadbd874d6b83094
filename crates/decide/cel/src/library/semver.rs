//! Functions of semantic versions.

use std::cmp::Ordering;

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::opaque::semver::Semver;
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("semver", "s:V", Cost::Text(0), semver),
    ("semver", "sb:V", Cost::Text(0), semver),
    ("isSemver", "s:b", Cost::Text(0), is_semver),
    ("isSemver", "sb:b", Cost::Text(0), is_semver),
    ("isGreaterThan", "V.V:b", Cost::One, is_greater),
    ("isLessThan", "V.V:b", Cost::One, is_less),
    ("compareTo", "V.V:i", Cost::One, compare),
    ("major", "V.:i", Cost::One, major),
    ("minor", "V.:i", Cost::One, minor),
    ("patch", "V.:i", Cost::One, patch),
];

fn parse(arguments: &[Value]) -> Result<Result<Semver, String>, Failure> {
    match arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => Ok(Semver::parse_normalized(text)),
        _ => Err("no such overload".into()),
    }
}

fn semver(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Semver(std::sync::Arc::new(parse(arguments)??)))
}

fn is_semver(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Bool(parse(arguments)?.is_ok()))
}

fn order(arguments: &[Value]) -> Result<Ordering, Failure> {
    match arguments {
        [Value::Semver(a), Value::Semver(b)] => Ok(a.cmp_precedence(b)),
        _ => Err("no such overload".into()),
    }
}

fn is_greater(arguments: &[Value], _: &mut Budget) -> Outcome {
    order(arguments).map(|order| Value::Bool(order.is_gt()))
}

fn is_less(arguments: &[Value], _: &mut Budget) -> Outcome {
    order(arguments).map(|order| Value::Bool(order.is_lt()))
}

fn compare(arguments: &[Value], _: &mut Budget) -> Outcome {
    order(arguments).map(|order| Value::Int(order as i64))
}

fn part(arguments: &[Value], part: impl Fn(&Semver) -> u64) -> Outcome {
    match arguments {
        // As the reference converts it.
        [Value::Semver(version)] => Ok(Value::Int(part(version) as i64)),
        _ => Err("no such overload".into()),
    }
}

fn major(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |version| version.major)
}

fn minor(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |version| version.minor)
}

fn patch(arguments: &[Value], _: &mut Budget) -> Outcome {
    part(arguments, |version| version.patch)
}
