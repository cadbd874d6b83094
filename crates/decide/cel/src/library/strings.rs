//! Strings: the language's own functions and the extension `strings`, version 2. Positions count characters.

use crate::budget::{Budget, Failure};
use crate::function::{Cost, Outcome, Row, scaled};
use crate::value::Value;

pub(crate) const ROWS: &[Row] = &[
    ("contains", "s.s:b", Cost::Search, contains),
    ("startsWith", "s.s:b", Cost::Text(1), starts_with),
    ("endsWith", "s.s:b", Cost::Text(1), ends_with),
    ("charAt", "s.i:s", Cost::One, char_at),
    ("indexOf", "s.s:i|s.si:i", Cost::Text(0), index_of),
    ("lastIndexOf", "s.s:i|s.si:i", Cost::Text(0), last_index_of),
    ("lowerAscii", "s.:s", Cost::Text(0), lower),
    ("upperAscii", "s.:s", Cost::Text(0), upper),
    ("replace", "s.ss:s|s.ssi:s", Cost::TextTwice(0), replace),
    ("split", "s.s:[s]|s.si:[s]", Cost::TextTwice(0), split),
    ("substring", "s.i:s|s.ii:s", Cost::Text(0), substring),
    ("trim", "s.:s", Cost::Text(0), trim),
    ("join", "[s].:s|[s].s:s", Cost::Join, join),
    ("strings.quote", "s:s", Cost::Text(0), quote),
];

fn no_overload() -> Outcome {
    Err("no such overload".into())
}

fn contains(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text), Value::String(part)] = arguments else { return no_overload() };
    budget.work((text.len() + part.len()) as u64)?;
    Ok(Value::Bool(text.contains(&**part)))
}

fn starts_with(arguments: &[Value], _: &mut Budget) -> Outcome {
    let [Value::String(text), Value::String(part)] = arguments else { return no_overload() };
    Ok(Value::Bool(text.starts_with(&**part)))
}

fn ends_with(arguments: &[Value], _: &mut Budget) -> Outcome {
    let [Value::String(text), Value::String(part)] = arguments else { return no_overload() };
    Ok(Value::Bool(text.ends_with(&**part)))
}

fn out_of_range(position: i64) -> Failure {
    format!("index out of range: {position}").into()
}

/// The byte offset of a character, or of the end.
fn offset(text: &str, position: i64) -> Result<usize, Failure> {
    let wanted = usize::try_from(position).map_err(|_| out_of_range(position))?;
    let mut offsets = text.char_indices().map(|(offset, _)| offset).chain([text.len()]);
    offsets.nth(wanted).ok_or_else(|| out_of_range(position))
}

fn characters(text: &str) -> i64 {
    text.chars().count() as i64
}

fn char_at(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text), Value::Int(position)] = arguments else { return no_overload() };
    budget.work(text.len() as u64)?;
    let rest = &text[offset(text, *position)?..];
    Ok(Value::string(rest.chars().next().map(String::from).unwrap_or_default()))
}

fn index_of(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (text, part, from) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, *from),
        _ => return no_overload(),
    };
    budget.work((text.len() + part.len()) as u64)?;
    if part.is_empty() {
        return Ok(Value::Int(from));
    }
    if arguments.len() == 3 && from >= characters(text) {
        return Err(out_of_range(from));
    }
    let start = offset(text, from)?;
    let found = text[start..].find(&**part);
    Ok(Value::Int(found.map_or(-1, |found| characters(&text[..start + found]))))
}

fn last_index_of(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (text, part, from) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(from)] => (text, part, Some(*from)),
        _ => return no_overload(),
    };
    budget.work((text.len() + part.len()) as u64)?;
    if part.is_empty() {
        return Ok(Value::Int(from.unwrap_or_else(|| characters(text))));
    }
    let end = match from {
        Some(from) if from >= characters(text) => return Err(out_of_range(from)),
        Some(from) => (offset(text, from)? + part.len()).min(text.len()),
        None => text.len(),
    };
    // The match may begin at the position, and its last character may be cut.
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text[..end].rmatch_indices(&**part).map(|(found, _)| found);
    let found =
        found.map(|found| characters(&text[..found])).find(|found| from.is_none_or(|from| *found <= from));
    Ok(Value::Int(found.unwrap_or(-1)))
}

fn lower(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text)] = arguments else { return no_overload() };
    budget.make(text.len())?;
    Ok(Value::string(text.to_ascii_lowercase()))
}

fn upper(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text)] = arguments else { return no_overload() };
    budget.make(text.len())?;
    Ok(Value::string(text.to_ascii_uppercase()))
}

/// A limit of parts or replacements; a negative one is none.
fn limit(arguments: &[Value], at: usize) -> usize {
    match arguments.get(at) {
        Some(Value::Int(limit)) => usize::try_from(*limit).unwrap_or(usize::MAX),
        _ => usize::MAX,
    }
}

fn replace(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text), Value::String(from), Value::String(to), ..] = arguments else {
        return no_overload();
    };
    let limit = limit(arguments, 3);
    let n_found = text.matches(&**from).take(limit).count();
    budget.make(text.len().saturating_add(n_found.saturating_mul(to.len())))?;
    Ok(Value::string(text.replacen(&**from, to, limit)))
}

fn split(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text), Value::String(separator), ..] = arguments else { return no_overload() };
    let limit = limit(arguments, 2);
    budget.make(text.len())?;
    if !separator.is_empty() {
        budget.make_elements(text.len() / separator.len())?;
        return Ok(Value::strings(text.splitn(limit, &**separator)));
    }
    budget.make_elements(text.len())?;
    let mut parts = Vec::new();
    let mut rest = &**text;
    while !rest.is_empty() && parts.len() < limit {
        let len =
            if parts.len() + 1 == limit { rest.len() } else { rest.chars().next().map_or(0, char::len_utf8) };
        parts.push(&rest[..len]);
        rest = &rest[len..];
    }
    Ok(Value::strings(parts))
}

fn substring(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return no_overload(),
    };
    budget.make(text.len())?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(format!("invalid substring range. start: {start}, end: {end}").into());
    }
    let from = offset(text, start)?;
    let to = end.map_or(Ok(text.len()), |end| offset(text, end))?;
    Ok(Value::string(&text[from..to]))
}

fn trim(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text)] = arguments else { return no_overload() };
    budget.make(text.len())?;
    Ok(Value::string(text.trim()))
}

fn join(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return no_overload(),
    };
    let mut text = String::new();
    for (position, part) in list.iter().enumerate() {
        let Value::String(part) = part else { return no_overload() };
        budget.make(part.len() + separator.len())?;
        if position > 0 {
            text.push_str(separator);
        }
        text.push_str(part);
    }
    budget.charge(scaled(characters(&text) as u64, 0.2))?;
    Ok(Value::string(text))
}

fn quote(arguments: &[Value], budget: &mut Budget) -> Outcome {
    let [Value::String(text)] = arguments else { return no_overload() };
    budget.make(text.len().saturating_mul(2))?;
    Ok(Value::string(quoted(text)))
}

/// A text between quotes, with the escapes of the language.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for char in text.chars() {
        match char {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
