//! Renders the Helm chart with the subset of Go templates that it uses.
//!
//! Supports `.Values` and `.Release.Namespace`, `if`, `with` and `end`, `quote`, `toYaml` and `nindent`, and dashes that trim
//! whitespace. Anything else fails the test.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::objects;

/// The objects of the chart with these values merged into its defaults.
pub fn render(chart: &Path, namespace: &str, values: &Value) -> Vec<Value> {
    let text = fs::read_to_string(chart.join("values.yaml")).unwrap();
    let mut all = objects(&text).remove(0);
    merge(&mut all, values);
    let top = json!({"Values": all, "Release": {"Namespace": namespace}});
    let mut templates: Vec<_> = fs::read_dir(chart.join("templates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "yaml"))
        .collect();
    templates.sort();
    let render = |path: &std::path::PathBuf| {
        let tokens = tokens(&fs::read_to_string(path).unwrap());
        let mut out = String::new();
        let rest = body(&tokens, &top, &top, true, &mut out);
        assert!(rest.is_empty(), "{}: an end without a beginning", path.display());
        objects(&out)
    };
    templates.iter().flat_map(render).collect()
}

/// As in Helm: objects are merged, other values are replaced, and null removes a value.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[derive(Debug)]
enum Token {
    Text(String),
    Action(String),
}

fn tokens(template: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut rest, mut trim) = (template, false);
    while let Some((text, after)) = rest.split_once("{{") {
        let (action, after) = after.split_once("}}").expect("an action ends");
        let text = if trim { text.trim_start() } else { text };
        let (text, action) = match action.strip_prefix("- ") {
            Some(action) => (text.trim_end(), action),
            None => (text, action),
        };
        let stripped = action.strip_suffix(" -");
        trim = stripped.is_some();
        tokens.push(Token::Text(text.to_owned()));
        tokens.push(Token::Action(stripped.unwrap_or(action).trim().to_owned()));
        rest = after;
    }
    tokens.push(Token::Text(if trim { rest.trim_start() } else { rest }.to_owned()));
    tokens
}

/// Renders up to the matching `end`, and returns the rest.
fn body<'a>(tokens: &'a [Token], top: &Value, dot: &Value, is_shown: bool, out: &mut String) -> &'a [Token] {
    let mut rest = tokens;
    while let Some((token, after)) = rest.split_first() {
        rest = after;
        match token {
            Token::Text(text) if is_shown => out.push_str(text),
            Token::Text(_) => {}
            Token::Action(action) => match action.split_once(' ') {
                None if action == "end" => return rest,
                Some((word @ ("if" | "with"), path)) => {
                    let value = operand(path, top, dot);
                    let inner = if word == "with" { value } else { dot };
                    rest = body(rest, top, inner, is_shown && is_true(value), out);
                }
                _ if is_shown => out.push_str(&expression(action, top, dot)),
                _ => {}
            },
        }
    }
    rest
}

fn expression(text: &str, top: &Value, dot: &Value) -> String {
    let mut steps = text.split(" | ");
    let first = steps.next().unwrap_or_default();
    let mut result = match first.strip_prefix("toYaml ") {
        Some(path) => serde_saphyr::to_string(operand(path, top, dot)).unwrap().trim_end().to_owned(),
        None => match operand(first, top, dot) {
            Value::String(text) => text.clone(),
            value @ (Value::Number(_) | Value::Bool(_)) => value.to_string(),
            other => panic!("{{{{ {text} }}}}: {other} is not to be printed"),
        },
    };
    for step in steps {
        result = match step.split_once(' ') {
            None if step == "quote" => Value::from(result).to_string(),
            Some(("nindent", n)) => {
                let indent = " ".repeat(n.parse().unwrap());
                result.lines().map(|line| format!("\n{indent}{line}")).collect()
            }
            _ => panic!("{{{{ {text} }}}}: {step} is not known here"),
        };
    }
    result
}

/// The value at a path; a missing path is an error in the template.
fn operand<'a>(path: &str, top: &'a Value, dot: &'a Value) -> &'a Value {
    if path == "." {
        return dot;
    }
    let is_path = |c: char| c.is_ascii_alphanumeric() || c == '.';
    assert!(path.starts_with('.') && path.chars().all(is_path), "{{{{ {path} }}}} is not known here");
    let value = top.pointer(&path.replace('.', "/"));
    value.unwrap_or_else(|| panic!("{path} is not in values.yaml"))
}

fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_f64() != Some(0.0),
        Value::String(value) => !value.is_empty(),
        Value::Array(value) => !value.is_empty(),
        Value::Object(value) => !value.is_empty(),
    }
}

#[test]
fn templates_are_rendered_like_in_helm() {
    let top = json!({"Values": {"a": "x", "no": "", "list": [{"k": 1}]}, "Release": {"Namespace": "n"}});
    let template = "a: {{ .Values.a | quote }}\n{{- if .Values.no }}\nb: {{ .Values.a }}\n{{- end }}\n\
                    {{- with .Values.list }}\nc: {{- toYaml . | nindent 2 }}\n{{- end }}\nd: {{ .Release.Namespace }}/e\n";
    let mut out = String::new();
    assert!(body(&tokens(template), &top, &top, true, &mut out).is_empty());
    assert_eq!(out, "a: \"x\"\nc:\n  - k: 1\nd: n/e\n");
}
