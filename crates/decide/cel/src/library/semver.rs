//! Functions of semantic versions.

use std::cmp::Ordering;

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::opaque::semver::Semver;
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("semver", "s:V|sb:V", Cost::Text(0), semver),
    ("isSemver", "s:b|sb:b", Cost::Text(0), |args, _| Ok(Value::Bool(parse(args)?.is_ok()))),
    ("isGreaterThan", "V.V:b", Cost::One, |args, _| order(args).map(|order| Value::Bool(order.is_gt()))),
    ("isLessThan", "V.V:b", Cost::One, |args, _| order(args).map(|order| Value::Bool(order.is_lt()))),
    ("compareTo", "V.V:i", Cost::One, |args, _| order(args).map(|order| Value::Int(order as i64))),
    ("major", "V.:i", Cost::One, |args, _| part(args, |version| version.major)),
    ("minor", "V.:i", Cost::One, |args, _| part(args, |version| version.minor)),
    ("patch", "V.:i", Cost::One, |args, _| part(args, |version| version.patch)),
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

fn order(arguments: &[Value]) -> Result<Ordering, Failure> {
    match arguments {
        [Value::Semver(a), Value::Semver(b)] => Ok(a.cmp_precedence(b)),
        _ => Err("no such overload".into()),
    }
}

fn part(arguments: &[Value], part: impl Fn(&Semver) -> u64) -> Outcome {
    match arguments {
        // As the reference converts it.
        [Value::Semver(version)] => Ok(Value::Int(part(version) as i64)),
        _ => Err("no such overload".into()),
    }
}
