//! Columns of custom resources (`additionalPrinterColumns`), with the part of JSONPath that they use: fields, indices,
//! `*`, and filters such as `[?(@.type=="Ready")]`.

use berth_schema::resource::Custom;
use serde_json::{Value, json};

use super::columns::{AGE, NAME};
use super::row::Row;

pub(super) fn columns(custom: &Custom) -> Value {
    let schema = custom.schema();
    let own = schema.columns.iter().map(|column| {
        let text = |field: &str| column[field].as_str().unwrap_or_default();
        json!({
            "name": text("name"), "type": text("type"), "format": text("format"),
            "description": text("description"), "priority": column["priority"].as_i64().unwrap_or(0),
        })
    });
    let age = schema.columns.is_empty().then(|| AGE.definition());
    std::iter::once(NAME.definition()).chain(own).chain(age).collect()
}

pub(super) fn cells(custom: &Custom, row: &Row<'_>) -> Vec<Value> {
    let schema = custom.schema();
    let own = schema.columns.iter().map(|column| cell(column, row));
    let age = schema.columns.is_empty().then(|| AGE.cell(row));
    std::iter::once(NAME.cell(row)).chain(own).chain(age).collect()
}

/// A longer text is cut: columns may show the whole object.
const MAX_CELL_BYTES: usize = 1024;

fn cell(column: &Value, row: &Row<'_>) -> Value {
    let found = steps(column["jsonPath"].as_str().unwrap_or_default())
        .map(|steps| select(&steps, vec![row.object]))
        .unwrap_or_default();
    let Some(first) = found.first().copied() else { return Value::Null };
    match column["type"].as_str().unwrap_or_default() {
        "integer" if first.is_i64() => first.clone(),
        "number" if first.is_number() => first.clone(),
        "boolean" if first.is_boolean() => first.clone(),
        "date" => {
            first.as_str().map_or(Value::Null, |time| super::duration::since(Some(time), row.now).into())
        }
        "string" => {
            let mut cell = found.iter().map(|value| text(value)).collect::<Vec<_>>().join(" ");
            cell.truncate(cell.floor_char_boundary(MAX_CELL_BYTES));
            cell.into()
        }
        _ => Value::Null,
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// Items whose value at the path equals a text.
    Where(Vec<Step>, String),
}

/// Parses a path; `None` if it has other elements.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let end = closing(inside)?;
            let (element, after) = (inside[..end].trim(), &inside[end + 1..]);
            steps.push(match element.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
                Some(filter) => {
                    let (path, wanted) = filter.split_once("==")?;
                    let wanted = wanted.trim().trim_matches(['"', '\'']);
                    Step::Where(steps_of_item(path.trim())?, wanted.to_owned())
                }
                None if element == "*" => Step::All,
                None if element.starts_with(['"', '\'']) => {
                    Step::Field(element.trim_matches(['"', '\'']).to_owned())
                }
                None => Step::Index(element.parse().ok()?),
            });
            rest = after;
            continue;
        }
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let mut name = String::new();
        let mut characters = rest.char_indices();
        let end = loop {
            match characters.next() {
                Some((_, '\\')) => name.extend(characters.next().map(|(_, c)| c)),
                Some((at, '.' | '[')) => break at,
                Some((_, c)) => name.push(c),
                None => break rest.len(),
            }
        };
        match name.as_str() {
            "" => return None,
            "*" => steps.push(Step::All),
            _ => steps.push(Step::Field(name)),
        }
        rest = &rest[end..];
    }
    Some(steps)
}

fn steps_of_item(path: &str) -> Option<Vec<Step>> {
    steps(path.strip_prefix('@')?)
}

/// The place of the bracket that closes an element; texts may hold brackets.
fn closing(inside: &str) -> Option<usize> {
    let mut quote = None;
    inside.char_indices().find_map(|(at, c)| {
        match (quote, c) {
            (None, ']') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        None
    })
}

fn select<'v>(steps: &[Step], values: Vec<&'v Value>) -> Vec<&'v Value> {
    steps.iter().fold(values, |values, step| {
        let of = |value: &'v Value| -> Vec<&'v Value> {
            match step {
                Step::Field(name) => value.get(name).into_iter().collect(),
                Step::Index(index) => {
                    let list = value.as_array().map_or(&[][..], Vec::as_slice);
                    let length = list.len() as i64;
                    let at = if *index < 0 { index + length } else { *index };
                    usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
                }
                Step::All => match value {
                    Value::Array(items) => items.iter().collect(),
                    Value::Object(fields) => fields.values().collect(),
                    _ => Vec::new(),
                },
                Step::Where(path, wanted) => {
                    let is_wanted =
                        |item: &&Value| select(path, vec![item]).iter().any(|found| text(found) == *wanted);
                    value.as_array().into_iter().flatten().filter(is_wanted).collect()
                }
            }
        };
        values.into_iter().flat_map(of).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_select() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}},
            "status": {"conditions": [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}],
                "hosts": ["a", "b"]}});
        for (path, expected) in [
            (r#".status.conditions[?(@.type=="Ready")].status"#, vec!["True"]),
            (".status.conditions[?(@.type=='None')].status", vec![]),
            (".status.hosts[*]", vec!["a", "b"]),
            (".status.hosts[-1]", vec!["b"]),
            (r".metadata.labels.a\.b/c", vec!["x"]),
            (".metadata.labels['a.b/c']", vec!["x"]),
            (".status.none", vec![]),
        ] {
            let found = select(&steps(path).expect(path), vec![&object]);
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(steps(".a[b]"), None);
        assert_eq!(steps("..a"), None);
    }
}
