//! Operators and functions of all types.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::types::Type;
use crate::value::{Key, Map, Value};

pub(crate) const ROWS: &[Row] = &[
    // These three do not evaluate all arguments; the evaluator does not call them.
    ("_?_:_", "bAA:A", Cost::One, no_overload),
    ("_&&_", "bb:b", Cost::One, no_overload),
    ("_||_", "bb:b", Cost::One, no_overload),
    ("@not_strictly_false", "b:b", Cost::One, no_overload),
    ("!_", "b:b", Cost::One, not),
    ("_==_", "AA:b", Cost::Shorter, equal),
    ("_!=_", "AA:b", Cost::Shorter, unequal),
    ("_+_", "yy:y", Cost::Both, add),
    ("_+_", "MM:M|DD:D|DT:T|TD:T|[A][A]:[A]", Cost::One, add),
    ("_+_", "ss:s", Cost::Both, add),
    ("_-_", "MM:M|DD:D|TD:T|TT:D", Cost::One, subtract),
    ("_*_", "MM:M", Cost::One, multiply),
    ("_/_", "MM:M", Cost::One, divide),
    ("_%_", "ii:i|uu:u", Cost::One, modulo),
    ("-_", "d:d|i:i", Cost::One, negate),
    ("_<_", "OO:b", Cost::Shorter, less),
    ("_<_", "P:b", Cost::One, less),
    ("_<=_", "OO:b", Cost::Shorter, at_most),
    ("_<=_", "P:b", Cost::One, at_most),
    ("_>_", "OO:b", Cost::Shorter, greater),
    ("_>_", "P:b", Cost::One, greater),
    ("_>=_", "OO:b", Cost::Shorter, at_least),
    ("_>=_", "P:b", Cost::One, at_least),
    ("_[_]", "[A]i:A|{AB}A:B|?[A]i:?A|?{AB}A:?B", Cost::One, index),
    ("@in", "A[A]:b", Cost::Elements(1), contained),
    ("@in", "A{AB}:b", Cost::One, contained),
    ("size", "y:i|y.:i|[A]:i|[A].:i|{AB}:i|{AB}.:i|s:i|s.:i", Cost::One, size),
    ("type", "A:t", Cost::One, |args, _| Ok(Value::Type(args.first().map_or(Type::Null, Value::value_type)))),
    ("dyn", "A:*", Cost::One, |args, _| args.first().cloned().ok_or("no such overload".into())),
    // The evaluator adds to the map of a loop itself.
    ("cel.@mapInsert", "{AB}AB:{AB}|{AB}{AB}:{AB}", Cost::One, no_overload),
];

const OVERFLOW: &str = "integer overflow";
const UNSIGNED_OVERFLOW: &str = "unsigned integer overflow";

/// The error of a call whose arguments have no overload, as the reference words it: operators, and other functions that a
/// value itself defines, name the function only if the first operand does not define it.
pub(crate) fn mismatch(name: &str, arguments: &[Value]) -> Failure {
    use Value::{Bytes, Double, Duration, Int, List, String, Timestamp, Uint};
    let Some(first) = arguments.first() else { return "no such overload".into() };
    let is_defined = match name {
        "contains" | "startsWith" | "endsWith" | "!_" | "@in" => true,
        // These answer for any function.
        _ if is_operation(name) && matches!(first, String(_) | Duration(_) | Timestamp(_)) => true,
        "_+_" => matches!(first, Bytes(_) | Double(_) | Int(_) | List(_) | Uint(_)),
        "_-_" | "_*_" | "_/_" => matches!(first, Double(_) | Int(_) | Uint(_)),
        "_%_" => matches!(first, Int(_) | Uint(_)),
        "_<_" | "_<=_" | "_>_" | "_>=_" => first.compare(first).is_some(),
        "-_" | "size" | "matches" => false,
        _ => {
            let types: Vec<_> = arguments.iter().map(Value::type_name).collect();
            return format!("no such overload: {name}({})", types.join(", ")).into();
        }
    };
    if is_defined { "no such overload".into() } else { format!("no such overload: {name}").into() }
}

fn is_operation(name: &str) -> bool {
    name.contains('_') || matches!(name, "size" | "matches")
}

fn no_overload(_: &[Value], _: &mut Budget) -> Outcome {
    Err("no such overload".into())
}

fn not(arguments: &[Value], _: &mut Budget) -> Outcome {
    match arguments {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err("no such overload".into()),
    }
}

fn equal(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [a, b] = arguments else { return no_overload(arguments, budget) };
    Ok(Value::Bool(a.equals(b, budget)?))
}

fn unequal(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [a, b] = arguments else { return no_overload(arguments, budget) };
    Ok(Value::Bool(!a.equals(b, budget)?))
}

pub(super) fn add(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [Value::Int(a), Value::Int(b)] => a.checked_add(*b).map(Value::Int).ok_or(OVERFLOW.into()),
        [Value::Uint(a), Value::Uint(b)] => {
            a.checked_add(*b).map(Value::Uint).ok_or(UNSIGNED_OVERFLOW.into())
        }
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => {
            budget.make(a.len() + b.len())?;
            Ok(Value::string(format!("{a}{b}")))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            budget.make(a.len() + b.len())?;
            Ok(Value::Bytes([&a[..], &b[..]].concat().into()))
        }
        [Value::List(a), Value::List(b)] => {
            budget.make_elements(a.len() + b.len())?;
            Ok(Value::list(a.iter().chain(b.iter()).cloned()))
        }
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_add(*b).map(Value::Duration).ok_or("duration overflow".into())
        }
        [Value::Timestamp(at), Value::Duration(by)] | [Value::Duration(by), Value::Timestamp(at)] => {
            at.checked_add(*by).map(Value::Timestamp).map_err(|_| "timestamp overflow".into())
        }
        _ => no_overload(arguments, budget),
    }
}

fn subtract(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [Value::Int(a), Value::Int(b)] => a.checked_sub(*b).map(Value::Int).ok_or(OVERFLOW.into()),
        [Value::Uint(a), Value::Uint(b)] => {
            a.checked_sub(*b).map(Value::Uint).ok_or(UNSIGNED_OVERFLOW.into())
        }
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => {
            a.checked_sub(*b).map(Value::Duration).ok_or("duration overflow".into())
        }
        [Value::Timestamp(at), Value::Duration(by)] => {
            at.checked_sub(*by).map(Value::Timestamp).map_err(|_| "timestamp overflow".into())
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => Ok(Value::Duration(a.duration_since(*b))),
        _ => no_overload(arguments, budget),
    }
}

fn multiply(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [Value::Int(a), Value::Int(b)] => a.checked_mul(*b).map(Value::Int).ok_or(OVERFLOW.into()),
        [Value::Uint(a), Value::Uint(b)] => {
            a.checked_mul(*b).map(Value::Uint).ok_or(UNSIGNED_OVERFLOW.into())
        }
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => no_overload(arguments, budget),
    }
}

fn divide(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err("division by zero".into()),
        [Value::Int(a), Value::Int(b)] => a.checked_div(*b).map(Value::Int).ok_or(OVERFLOW.into()),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a / b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => no_overload(arguments, budget),
    }
}

fn modulo(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err("modulus by zero".into()),
        [Value::Int(a), Value::Int(b)] => a.checked_rem(*b).map(Value::Int).ok_or(OVERFLOW.into()),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a % b)),
        _ => no_overload(arguments, budget),
    }
}

fn negate(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or(OVERFLOW.into()),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => no_overload(arguments, budget),
    }
}

fn ordered(arguments: &[Value], holds: impl Fn(Ordering) -> bool) -> Outcome {
    let [a, b] = arguments else { return Err("no such overload".into()) };
    match a.compare(b) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None => Err("NaN values cannot be ordered".into()),
    }
}

fn less(arguments: &[Value], _: &mut Budget) -> Outcome {
    ordered(arguments, Ordering::is_lt)
}

fn at_most(arguments: &[Value], _: &mut Budget) -> Outcome {
    ordered(arguments, Ordering::is_le)
}

fn greater(arguments: &[Value], _: &mut Budget) -> Outcome {
    ordered(arguments, Ordering::is_gt)
}

fn at_least(arguments: &[Value], _: &mut Budget) -> Outcome {
    ordered(arguments, Ordering::is_ge)
}

/// The element or the entry of a value.
fn index(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [operand, index] = arguments else { return no_overload(arguments, budget) };
    if let Value::Optional(inner) = operand {
        let found = inner.as_ref().map_or(Ok(None), |inner| find(inner, index))?;
        return Ok(Value::Optional(found.map(Arc::new)));
    }
    match (find(operand, index)?, operand) {
        (Some(found), _) => Ok(found),
        (None, Value::List(_)) => Err(format!("index out of bounds: {index}").into()),
        (None, _) => Err(format!("no such key: {index}").into()),
    }
}

/// What a value has under an index; none if there is nothing.
pub(crate) fn find(operand: &Value, index: &Value) -> Result<Option<Value>, Failure> {
    match operand {
        Value::Map(map) => Ok(map.find(index)),
        Value::List(list) => {
            let position = match index {
                Value::Int(index) => usize::try_from(*index).ok(),
                Value::Uint(index) => usize::try_from(*index).ok(),
                Value::Double(index) if index.fract() == 0.0 && index.abs() < 1e15 => {
                    if *index < 0.0 {
                        None
                    } else {
                        Some(*index as usize)
                    }
                }
                other => {
                    return Err(format!("unsupported index type '{}' in list", other.type_name()).into());
                }
            };
            Ok(position.and_then(|position| list.get(position).cloned()))
        }
        _ => Ok(None),
    }
}

fn contained(arguments: &[Value], budget: &mut Budget) -> Outcome {
    match arguments {
        [key, Value::Map(map)] => Ok(Value::Bool(map.contains(key))),
        [value, Value::List(list)] => {
            for element in list.iter() {
                if element.is_found(value, budget)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        _ => no_overload(arguments, budget),
    }
}

fn size(arguments: &[Value], _: &mut Budget) -> Outcome {
    Ok(Value::Int(arguments.first().map_or(0, Value::size) as i64))
}

/// Adds the entry of a key and a value, or all entries of a map.
pub(crate) fn insert(map: &mut Map, arguments: &[Value], budget: &mut Budget) -> Result<(), Failure> {
    let entries = match arguments {
        [Value::Map(entries)] => {
            entries.entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        }
        [key, value] => {
            let key = Key::of(key).ok_or_else(|| format!("unsupported key type: {}", key.type_name()))?;
            vec![(key, value.clone())]
        }
        _ => return Err("no such overload".into()),
    };
    budget.make_elements(entries.len())?;
    for (key, value) in entries {
        if map.entries.contains_key(&key) {
            return Err(format!("insert failed: key {} already exists", key.value()).into());
        }
        map.entries.insert(key, value);
    }
    Ok(())
}
