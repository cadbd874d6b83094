//! `format` of strings: clauses such as `%s` with a list of values.

use super::convert::text_of;
use super::strings::quoted;
use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row};
use crate::value::{Key, Value};

pub(crate) const ROWS: &[Row] = &[("format", "s.[*]:s", Cost::Text(0), format)];

/// Digits after the point without a precision, and the most that a precision can ask for.
const PRECISION: usize = 6;
const MAX_PRECISION: usize = 1000;

fn format(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(pattern), Value::List(values)] = arguments else {
        return Err("no such overload".into());
    };
    let mut text = String::new();
    let mut position = 0;
    let mut rest = &**pattern;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let (clause, precision, after) = clause(after)?;
        let Some(value) = values.get(position) else {
            return Err(format!("index {position} out of range").into());
        };
        let shown = show(clause, precision, value, budget).map_err(|failure| match failure {
            Failure::Error(reason) => format!("error during formatting: {reason}").into(),
            Failure::Cancelled => Failure::Cancelled,
        })?;
        position += 1;
        budget.make(shown.len())?;
        text.push_str(&shown);
        rest = after;
    }
    text.push_str(rest);
    budget.make(text.len())?;
    Ok(Value::string(text))
}

/// The letter of a clause, its precision, and the text after it.
fn clause(text: &str) -> Result<(char, Option<usize>, &str), Failure> {
    let (precision, text) = match text.strip_prefix('.') {
        None => (None, text),
        Some(rest) => {
            let n_digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, rest) = rest.split_at(n_digits);
            let precision = digits.parse().ok().filter(|precision| *precision <= MAX_PRECISION);
            let Some(precision) = precision else {
                return Err(format!("precision must be at most {MAX_PRECISION}").into());
            };
            (Some(precision), rest)
        }
    };
    let mut letters = text.chars();
    match letters.next() {
        Some(letter) if "sdfebxXo".contains(letter) => Ok((letter, precision, letters.as_str())),
        Some(letter) => {
            Err(format!("could not parse formatting clause: unrecognized formatting clause \"{letter}\"")
                .into())
        }
        None => Err("could not parse formatting clause: unexpected end of string".into()),
    }
}

fn show(
    clause: char,
    precision: Option<usize>,
    value: &Value,
    budget: &mut Budget,
) -> Result<String, Failure> {
    let wrong = |expected: &str| -> Result<String, Failure> {
        Err(format!("{expected}, was given {}", value.type_name()).into())
    };
    Ok(match (clause, value) {
        ('s', value) => {
            let mut text = String::new();
            write(value, &mut text, 0, budget)?;
            text
        }
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::Uint(number)) => number.to_string(),
        ('d', _) => return wrong("decimal clause can only be used on integers"),
        ('f', value) => match double(value) {
            Some(number) => {
                special(number).unwrap_or_else(|| format!("{number:.*}", precision.unwrap_or(PRECISION)))
            }
            None => return wrong("fixed-point clause can only be used on doubles"),
        },
        ('e', value) => match double(value) {
            Some(number) => {
                special(number).unwrap_or_else(|| scientific(number, precision.unwrap_or(PRECISION)))
            }
            None => return wrong("scientific clause can only be used on doubles"),
        },
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b' | 'x' | 'X' | 'o', Value::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            format!("{sign}{}", in_base(clause, number.unsigned_abs()))
        }
        ('b' | 'x' | 'X' | 'o', Value::Uint(number)) => in_base(clause, *number),
        ('x' | 'X', Value::String(text)) => hex(clause, text.as_bytes(), budget)?,
        ('x' | 'X', Value::Bytes(bytes)) => hex(clause, bytes, budget)?,
        ('b', _) => return wrong("only integers and bools can be formatted as binary"),
        ('o', _) => return wrong("octal clause can only be used on integers"),
        _ => return wrong("only integers, byte buffers, and strings can be formatted as hex"),
    })
}

/// A double; also its names in texts.
fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(number: f64) -> Option<String> {
    if number.is_nan() {
        Some("NaN".to_owned())
    } else if number.is_infinite() {
        Some(if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned())
    } else {
        None
    }
}

fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{exponent:0>2}")
}

fn in_base(clause: char, number: u64) -> String {
    match clause {
        'b' => format!("{number:b}"),
        'x' => format!("{number:x}"),
        'X' => format!("{number:X}"),
        _ => format!("{number:o}"),
    }
}

fn hex(clause: char, bytes: &[u8], budget: &mut Budget) -> Result<String, Failure> {
    budget.make(bytes.len().saturating_mul(2))?;
    let digits =
        bytes.iter().map(|byte| if clause == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") });
    Ok(digits.collect())
}

/// Writes a value for `%s`. In lists and maps, texts are quoted.
fn write(value: &Value, text: &mut String, depth: usize, budget: &mut Budget) -> Result<(), Failure> {
    const MAX_DEPTH: usize = 100;
    if depth > MAX_DEPTH {
        return Err(Failure::Cancelled);
    }
    let is_part = depth > 0;
    let before = text.len();
    match value {
        Value::List(list) => {
            text.push('[');
            for (position, element) in list.iter().enumerate() {
                text.push_str(if position > 0 { ", " } else { "" });
                write(element, text, depth + 1, budget)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            let mut entries = Vec::new();
            for (key, value) in &map.entries {
                let mut entry = String::new();
                write(&Key::value(key), &mut entry, depth + 1, budget)?;
                let key = entry.clone();
                entry.push(':');
                write(value, &mut entry, depth + 1, budget)?;
                entries.push((key, entry));
            }
            entries.sort();
            let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
            text.push('{');
            text.push_str(&entries.join(", "));
            text.push('}');
        }
        Value::String(inner) if is_part => text.push_str(&quoted(inner)),
        Value::Double(number) if is_part => text.push_str(&format!("{number:.PRECISION$}")),
        Value::Duration(_) if is_part => {
            text.push_str(&format!("duration(\"{}\")", text_of(value).unwrap_or_default()));
        }
        Value::Timestamp(_) if is_part => {
            text.push_str(&format!("timestamp(\"{}\")", text_of(value).unwrap_or_default()));
        }
        Value::Bytes(bytes) if is_part => {
            text.push('b');
            text.push_str(&quoted(&String::from_utf8_lossy(bytes)));
        }
        Value::Null => text.push_str("null"),
        value => match text_of(value) {
            Some(shown) => text.push_str(&shown),
            None if is_part => {
                return Err(format!("no formatting function for {}", value.type_name()).into());
            }
            None => {
                return Err(format!(
                    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                     durations, and timestamps, was given {}",
                    value.type_name()
                )
                .into());
            }
        },
    }
    budget.make(text.len().saturating_sub(before))
}
