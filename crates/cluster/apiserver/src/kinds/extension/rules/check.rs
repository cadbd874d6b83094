//! Evaluation of the rules of a schema for an object and the one before it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use berth_cel::Value as CelValue;

use super::declared::{Declared, is_embedded, shown};
use super::rule::{RULES, Rule, has_rules};
use crate::kinds::prelude::*;
use crate::strategy::expression::evaluated_message;

/// Limit of the cost of all rules for an object.
const MAX_COST: u64 = 10_000_000;

/// The rules about a value, and about its parts.
#[derive(Debug, Default)]
struct Node {
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    /// Of the elements of a list, the values of a map.
    elements: Option<Box<Node>>,
    all_of: Vec<Node>,
}

/// The compiled rules of a schema.
#[derive(Debug)]
pub struct Rules(Option<Node>);

impl Node {
    /// `rules` is the schema with the rules, which has no types if it is a member of `allOf`.
    fn of(rules: &Value, schema: &Value, declared: Option<&Declared>) -> Option<Node> {
        if !has_rules(rules) {
            return None;
        }
        let compiled = declared.map(|declared| {
            items(rules, RULES).iter().map(|rule| Rule::new(rule, schema, declared)).collect()
        });
        let part = |field: &str| {
            let element = declared.and_then(|declared| declared.element.as_deref());
            Node::of(&rules[field], &schema[field], element)
        };
        let mut properties = BTreeMap::new();
        for (name, property) in rules["properties"].as_object().into_iter().flatten() {
            let of_type = &schema["properties"][name];
            let known = Declared::property(declared, name, of_type);
            let node = Node::of(property, of_type, known.as_ref());
            properties.extend(node.map(|node| (name.clone(), node)));
        }
        Some(Node {
            rules: compiled.unwrap_or_default(),
            properties,
            elements: part("items").or_else(|| part("additionalProperties")).map(Box::new),
            all_of: items(rules, "allOf")
                .iter()
                .filter_map(|member| Node::of(member, schema, declared))
                .collect(),
        })
    }
}

impl Rules {
    pub fn new(schema: &Value) -> Rules {
        let declared = has_rules(schema).then(|| Declared::of(schema, true)).flatten();
        Rules(declared.and_then(|declared| Node::of(schema, schema, Some(&declared))))
    }

    /// Checks an object against the one before it. What a rule finds wrong with a value that did not change is a warning.
    pub fn check(
        &self,
        schema: &Value,
        new: &Value,
        old: Option<&Value>,
        causes: &mut Causes,
        warnings: &mut Vec<String>,
    ) {
        let Some(node) = &self.0 else { return };
        // Rules see values of the types of the schema only.
        let is_blocking = |cause: &CauseType| {
            use CauseType::*;
            matches!(
                cause,
                FieldValueNotSupported
                    | FieldValueRequired
                    | FieldValueTooLong
                    | FieldValueTooMany
                    | FieldValueTypeInvalid
            )
        };
        if causes.0.iter().any(|cause| is_blocking(&cause.cause_type)) {
            let why = "some validation rules were not checked because the object was invalid; correct the existing \
                       errors to complete validation";
            return causes.invalid("<nil>", &Value::Null, why);
        }
        let mut check = Check { left: Some(MAX_COST), causes, warnings };
        let at = Place { schema, is_object: true, new, old, is_unchanged: old == Some(new) };
        check.value(node, &at, "");
    }
}

/// A value with the one before it.
struct Place<'a> {
    schema: &'a Value,
    is_object: bool,
    new: &'a Value,
    old: Option<&'a Value>,
    /// Whether the value, or one around it that has one before it, did not change.
    is_unchanged: bool,
}

impl<'a> Place<'a> {
    fn part(&self, schema: &'a Value, new: &'a Value, old: Option<&'a Value>) -> Place<'a> {
        let is_unchanged = self.is_unchanged || old == Some(new);
        Place { schema, is_object: is_embedded(schema), new, old, is_unchanged }
    }
}

struct Check<'c> {
    /// `None` once the cost is too high.
    left: Option<u64>,
    causes: &'c mut Causes,
    warnings: &'c mut Vec<String>,
}

impl Check<'_> {
    fn value(&mut self, node: &Node, at: &Place<'_>, path: &str) {
        if at.new.is_null() {
            return;
        }
        self.rules(&node.rules, at, path);
        for member in &node.all_of {
            self.value(member, at, path);
        }
        match at.new {
            Value::Array(list) => {
                let Some(elements) = &node.elements else { return };
                let keys = match at.schema["x-kubernetes-list-type"].as_str() {
                    Some("map") => Some(items(at.schema, "x-kubernetes-list-map-keys")),
                    _ => None,
                };
                let key_of = |item: &Value| {
                    let values = keys.into_iter().flatten().map(|key| item[text(key, "")].clone());
                    values.collect::<Value>().to_string()
                };
                let old = at.old.and_then(Value::as_array).filter(|_| keys.is_some());
                let old: HashMap<_, _> = old.into_iter().flatten().map(|item| (key_of(item), item)).collect();
                for (i, item) in list.iter().enumerate() {
                    let before = if old.is_empty() { None } else { old.get(&key_of(item)).copied() };
                    let at = at.part(&at.schema["items"], item, before);
                    self.value(elements, &at, &format!("{path}[{i}]"));
                }
            }
            Value::Object(fields) => {
                for (name, value) in fields {
                    let before = at.old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                    if let (None, Some(elements)) = (at.schema["properties"].get(name), &node.elements) {
                        let at = at.part(&at.schema["additionalProperties"], value, before);
                        self.value(elements, &at, &format!("{path}[{name}]"));
                    } else if let Some(node) = node.properties.get(name) {
                        let at = at.part(&at.schema["properties"][name], value, before);
                        self.value(node, &at, &child(path, name));
                    }
                }
            }
            _ => {}
        }
    }

    fn rules(&mut self, rules: &[Rule], at: &Place<'_>, path: &str) {
        if rules.is_empty() {
            return;
        }
        let show = |value: &Value| shown(at.schema, at.is_object, value);
        let (new, old) = (show(at.new), at.old.map(show));
        let (ty, root) = (&at.schema["type"], if path.is_empty() { "<nil>" } else { path });
        for rule in rules {
            if rule.uses_old && old.is_none() && !rule.optional_old {
                continue;
            }
            let Some(left) = self.left else { return };
            let mut variables = vec![("self", new.clone())];
            match &old {
                old if rule.optional_old => {
                    variables.push(("oldSelf", CelValue::Optional(old.clone().map(Arc::new))));
                }
                Some(old) => variables.push(("oldSelf", old.clone())),
                None => {}
            }
            let (value, cost) = match &rule.program {
                Ok(program) => program.evaluate(&variables),
                Err(error) => {
                    self.causes.invalid(root, ty, &format!("rule compile error: {error}"));
                    continue;
                }
            };
            self.left = left.checked_sub(cost);
            if self.left.is_none() {
                let why = "validation failed due to running out of cost budget, no further validation rules will be run";
                return self.causes.invalid(root, ty, why);
            }
            match value {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => self.failed(rule, &variables, at, path),
                Err(error) if error.starts_with("no such overload") => {
                    let why = "call arguments did not match a supported operator, function or macro signature for rule";
                    self.causes.invalid(root, ty, &format!("'{error}': {why}: {}", rule.title));
                }
                Err(error) if error.starts_with("operation cancelled") => {
                    self.left = None;
                    let why =
                        "no further validation rules will be run due to call cost exceeds limit for rule";
                    return self.causes.invalid(root, ty, &format!("'{error}': {why}: {}", rule.title));
                }
                Err(error) => {
                    self.causes.invalid(root, ty, &format!("{error} evaluating rule: {}", rule.title));
                }
            }
        }
    }

    /// A rule is false.
    fn failed(&mut self, rule: &Rule, variables: &[(&str, CelValue)], at: &Place<'_>, path: &str) {
        let mut evaluated = None;
        if let Some(Ok(program)) = &rule.message_expression {
            let (value, cost) = program.evaluate(variables);
            self.left = self.left.and_then(|left| left.checked_sub(cost));
            evaluated = value.ok().as_ref().and_then(evaluated_message);
        }
        let detail = evaluated.unwrap_or_else(|| rule.message.clone());
        let path = match (rule.field_path.as_str(), path) {
            ("", "") => "<nil>".to_owned(),
            ("", path) => path.to_owned(),
            (field, path) => child(path, field),
        };
        let value = match at.new {
            Value::Array(_) | Value::Object(_) => String::new(),
            scalar => format!(": {scalar}"),
        };
        let (cause, message) = match rule.reason.as_str() {
            "FieldValueForbidden" => (CauseType::FieldValueForbidden, format!("Forbidden: {detail}")),
            "FieldValueRequired" => (CauseType::FieldValueRequired, format!("Required value: {detail}")),
            "FieldValueDuplicate" => (CauseType::FieldValueDuplicate, format!("Duplicate value{value}")),
            _ => (CauseType::FieldValueInvalid, format!("Invalid value{value}: {detail}")),
        };
        match !rule.uses_old && at.is_unchanged {
            true => self.warnings.push(format!("{path}: {message}")),
            false => self.causes.push(cause, &path, message),
        }
    }
}

fn child(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(schema: &Value, new: &Value, old: Option<&Value>) -> (Vec<String>, Vec<String>) {
        let (mut causes, mut warnings) = (Causes::default(), Vec::new());
        Rules::new(schema).check(schema, new, old, &mut causes, &mut warnings);
        let shown = causes.0.iter().map(|cause| format!("{}: {}", cause.field, cause.message));
        (shown.collect(), warnings)
    }

    #[test]
    fn rules_of_all_of_and_of_embedded_objects_are_evaluated() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"n": {"type": "integer"}},
                "allOf": [{"properties": {"n": {RULES: [{"rule": "self > 1"}]}}}, {RULES: [{"rule": "self.n > 2"}]}]},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
                RULES: [{"rule": "self.kind == 'Pod' && self.metadata.name.size() > 3"}]},
        }});
        let ok = json!({"spec": {"n": 3}, "pod": {"kind": "Pod", "metadata": {"name": "long", "labels": {"a": "b"}}}});
        assert_eq!(checked(&schema, &ok, None), (vec![], vec![]));
        let (problems, _) = checked(
            &schema,
            &json!({"spec": {"n": 1}, "pod": {"kind": "Pod", "metadata": {"name": "x"}}}),
            None,
        );
        let expected = [
            "spec.n: Invalid value: 1: failed rule: self > 1",
            "spec: Invalid value: failed rule: self.n > 2",
            "pod: Invalid value: failed rule: self.kind == 'Pod' && self.metadata.name.size() > 3",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn rules_end_when_they_cost_too_much() {
        let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "array",
            "items": {"type": "integer"}, RULES: [{"rule": "self.all(a, self.all(b, a == b))"}]}}}});
        let list = json!(vec![vec![1; 300]; 50]);
        let (problems, _) = checked(&schema, &json!({ "l": list }), None);
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert!(problem.contains("running out of cost budget"), "{problem}");
    }
}
