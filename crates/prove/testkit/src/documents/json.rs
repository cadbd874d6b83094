//! JSON output, compared with the tables of docs/json.md.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::repository;

/// The tables of the document: by heading, the fields with their types.
type Tables = BTreeMap<String, BTreeMap<String, String>>;

fn tables() -> Tables {
    let text = fs::read_to_string(repository().join("docs/json.md")).expect("docs/json.md");
    let (mut tables, mut heading) = (Tables::new(), String::new());
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("### ")) {
            heading = title.replace('`', "");
        } else if let Some((fields, rest)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | ")) {
            let of_type = rest.split(" | ").next().unwrap_or_default();
            for field in fields.split("`, `") {
                tables.entry(heading.clone()).or_default().insert(field.to_owned(), of_type.to_owned());
            }
        }
    }
    tables
}

/// A comparison of JSON output with the document.
#[derive(Debug)]
pub struct Check {
    tables: Tables,
    problems: Vec<String>,
}

impl Check {
    /// Reads the document.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn of_document() -> Check {
        Check { tables: tables(), problems: Vec::new() }
    }

    /// Compares a value with a type: a table by its heading, or `string`, `array of ...` and the like. `path` locates the
    /// value in messages.
    pub fn value(&mut self, of_type: &str, value: &Value, path: &str) {
        let of_type = of_type.strip_suffix(", optional").unwrap_or(of_type);
        if let Some(of_type) = of_type.strip_suffix(" or null") {
            if !value.is_null() {
                self.value(of_type, value, path);
            }
            return;
        }
        let fits = match (of_type, value) {
            ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("any", _) => true,
            ("integer", Value::Number(number)) => number.is_i64() || number.is_u64(),
            ("number", Value::Number(_)) => true,
            (of_type, Value::Array(items)) if of_type.starts_with("array of ") => {
                let item = of_type.trim_start_matches("array of ");
                items
                    .iter()
                    .enumerate()
                    .for_each(|(i, value)| self.value(item, value, &format!("{path}[{i}]")));
                true
            }
            (of_type, Value::Object(entries)) if of_type.starts_with("map of ") => {
                let entry = of_type.trim_start_matches("map of ");
                entries.iter().for_each(|(key, value)| self.value(entry, value, &format!("{path}.{key}")));
                true
            }
            (table, Value::Object(fields)) if self.tables.contains_key(table) => {
                self.object(table, fields, path);
                true
            }
            _ => false,
        };
        if !fits {
            self.problems.push(format!("{path} is {value}, documented as {of_type}"));
        }
    }

    /// Ends the comparison.
    ///
    /// # Panics
    /// There are differences.
    pub fn assert_no_problems(mut self) {
        self.problems.sort();
        self.problems.dedup();
        assert!(self.problems.is_empty(), "{}", self.problems.join("\n"));
    }

    fn object(&mut self, table: &str, fields: &serde_json::Map<String, Value>, path: &str) {
        let documented = self.tables[table].clone();
        for (field, value) in fields {
            match documented.get(field) {
                Some(of_type) => self.value(of_type, value, &format!("{path}.{field}")),
                None => self.problems.push(format!("{path}.{field} is not in the table {table}")),
            }
        }
        let missing = documented.iter().filter(|(_, of_type)| !of_type.ends_with(", optional"));
        for (field, _) in missing.filter(|(field, _)| !fields.contains_key(*field)) {
            self.problems.push(format!("{path}.{field} is missing"));
        }
    }
}
