//! One rule, compiled.

use berth_cel::{Program, Type};

use super::declared::Declared;
use crate::kinds::prelude::*;

pub(super) const RULES: &str = "x-kubernetes-validations";

pub(super) fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key(RULES) || fields.values().any(has_rules),
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) program: Result<Program, String>,
    pub(super) uses_old: bool,
    /// Whether it is also evaluated where there is no old value.
    pub(super) optional_old: bool,
    /// The message of a rule that is false, if its expression gives none.
    pub(super) message: String,
    /// Names the rule in errors.
    pub(super) title: String,
    pub(super) message_expression: Option<Result<Program, String>>,
    pub(super) reason: String,
    /// The path of the field that is wrong, within the value.
    pub(super) field_path: String,
}

impl Rule {
    pub(super) fn new(rule: &Value, schema: &Value, declared: &Declared) -> Rule {
        let optional_old = rule["optionalOldSelf"] == true;
        let old = match optional_old {
            true => Type::optional(declared.ty.clone()),
            false => declared.ty.clone(),
        };
        let variables = [("self", declared.ty.clone()), ("oldSelf", old)];
        let compile = |text: &str, expected: Type, otherwise: &str| {
            let program = Program::compile(text, &variables)?;
            if *program.result() == expected { Ok(program) } else { Err(otherwise.to_owned()) }
        };
        let (expression, message) = (text(rule, "/rule"), text(rule, "/message").trim());
        let title = if message.is_empty() { expression.trim() } else { message };
        let program = compile(expression, Type::Bool, "cel expression must evaluate to a bool");
        let of_message = |text: &str| {
            let otherwise = "messageExpression must evaluate to a string";
            compile(text, Type::String, otherwise).map_err(|error| match error == otherwise {
                true => error,
                false => format!("messageExpression {error}"),
            })
        };
        Rule {
            uses_old: program.as_ref().is_ok_and(|program| program.uses("oldSelf")),
            program,
            optional_old,
            message: if message.is_empty() { format!("failed rule: {title}") } else { message.to_owned() },
            title: title.to_owned(),
            message_expression: Some(text(rule, "/messageExpression"))
                .filter(|text| !text.trim().is_empty())
                .map(of_message),
            reason: text(rule, "/reason").to_owned(),
            field_path: field_path(text(rule, "/fieldPath"), schema).unwrap_or_default(),
        }
    }
}

/// A `fieldPath` as errors show it; `None` if it does not lead to a field of the schema.
pub(super) fn field_path(path: &str, mut schema: &Value) -> Option<String> {
    let (mut shown, mut rest) = (String::new(), path);
    while !rest.is_empty() {
        let name: String;
        if let Some(after) = rest.strip_prefix("['") {
            let mut escapes = false;
            let end = after.find(|c| {
                let ends = c == '\'' && !escapes;
                escapes = c == '\\' && !escapes;
                ends
            })?;
            name = after[..end].replace("\\'", "'").replace("\\\\", "\\");
            rest = after[end..].strip_prefix("']")?;
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            name = after[..end].to_owned();
            rest = &after[end..];
        }
        if schema["properties"].is_object() {
            schema = schema["properties"].get(&name)?;
            shown.push_str(if shown.is_empty() { "" } else { "." });
            shown.push_str(&name);
        } else {
            schema = schema.get("additionalProperties").filter(|values| values.is_object())?;
            shown.push_str(&format!("[{name}]"));
        }
    }
    Some(shown)
}
