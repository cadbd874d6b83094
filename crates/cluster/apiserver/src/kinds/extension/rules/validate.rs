//! What is wrong with the rules of a schema: their form, their expressions and their estimated costs.

use berth_cel::{Program, Step};

use super::declared::{Declared, MAX_OBJECT_BYTES};
use super::rule::{RULES, Rule, field_path, has_rules};
use crate::kinds::prelude::*;

/// Limits of what one rule, and all rules of a schema, may cost by estimate.
const MAX_RULE_ESTIMATE: u64 = 10_000_000;
const MAX_SCHEMA_ESTIMATE: u64 = 100_000_000;

/// What is wrong with the rules of a schema.
pub fn validate_rules(schema: &Value, path: &str, causes: &mut Causes) {
    if !has_rules(schema) {
        return;
    }
    let mut validation = Validation {
        expensive: Vec::new(),
        total: 0,
        of_schema: Causes::default(),
        of_rules: Causes::default(),
    };
    let within = Within { path: path.to_owned(), cardinality: Some(1), uncorrelatable: None };
    validation.node(schema, Declared::of(schema, true).as_ref(), &within);
    let Validation { mut expensive, total, of_schema, of_rules } = validation;
    causes.append(of_schema);
    causes.append(of_rules);
    if total > MAX_SCHEMA_ESTIMATE {
        expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        expensive.iter().take(4).for_each(|(_, path)| causes.forbidden(path, why));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        causes.forbidden(path, &too_expensive(what, total, MAX_SCHEMA_ESTIMATE));
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = match factor {
        factor if factor > 100.0 => "more than 100x".to_owned(),
        factor if factor < 1.5 => format!("{factor:.6}x"),
        factor => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}

/// Where a schema is.
struct Within {
    path: String,
    /// How many values there are at most; `None` if nothing but the size of the object limits them.
    cardinality: Option<u64>,
    /// The path of the list around it whose elements have no value before them.
    uncorrelatable: Option<String>,
}

struct Validation {
    /// Costs of rules with their paths.
    expensive: Vec<(u64, String)>,
    total: u64,
    /// Problems that keep the expressions of a schema from being looked at.
    of_schema: Causes,
    of_rules: Causes,
}

impl Validation {
    fn node(&mut self, schema: &Value, declared: Option<&Declared>, within: &Within) {
        let n_before = self.of_schema.0.len();
        let factor = match schema["type"].as_str() {
            Some("array") => schema["maxItems"].as_u64(),
            Some("object") if schema["additionalProperties"].is_object() => schema["maxProperties"].as_u64(),
            _ => Some(1),
        };
        let cardinality = within.cardinality.zip(factor).map(|(all, each)| all.saturating_mul(each));
        let is_list = schema["type"] == "array" && schema["x-kubernetes-list-type"] != "map";
        let own = is_list.then(|| within.path.clone());
        let inner = |path: String| Within {
            path,
            cardinality,
            uncorrelatable: within.uncorrelatable.clone().or_else(|| own.clone()),
        };
        let element = declared.and_then(|declared| declared.element.as_deref());
        for field in ["additionalProperties", "items"] {
            let part = &schema[field];
            if has_rules(part) {
                self.node(part, element, &inner(format!("{}.{field}", within.path)));
            }
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            if has_rules(property) {
                let known = Declared::property(declared, name, property);
                let within = inner(format!("{}.properties[{name}]", within.path));
                self.node(property, known.as_ref(), &within);
            }
        }
        let rules = items(schema, RULES);
        let path = |i: usize| format!("{}.{RULES}[{i}]", within.path);
        for (i, rule) in rules.iter().enumerate() {
            self.form(rule, schema, &path(i));
        }
        let Some(declared) = declared.filter(|_| self.of_schema.0.len() == n_before) else { return };
        let largest_size = |steps: &[Step]| declared.largest_size(steps);
        let times = within.cardinality.unwrap_or(MAX_OBJECT_BYTES / (declared.min_bytes + 1));
        for (i, given) in rules.iter().enumerate() {
            let (rule, path) = (Rule::new(given, schema, declared), path(i));
            let causes = &mut self.of_rules;
            let mut estimate =
                |program: &Program, times: u64, field: &str, what: &str, causes: &mut Causes| {
                    let cost = program.estimated_cost(&largest_size).saturating_mul(times);
                    let path = format!("{path}.{field}");
                    if cost > MAX_RULE_ESTIMATE {
                        causes.forbidden(&path, &too_expensive(what, cost, MAX_RULE_ESTIMATE));
                    }
                    self.total = self.total.saturating_add(cost);
                    if cost >= MAX_SCHEMA_ESTIMATE / 100 {
                        self.expensive.push((cost, path));
                    }
                };
            let invalid = |causes: &mut Causes, field: &str, why: &str| {
                let message = format!("Invalid value: {}: {why}", internal(given));
                causes.push(CauseType::FieldValueInvalid, &format!("{path}.{field}"), message);
            };
            match &rule.program {
                Ok(program) => estimate(program, times, "rule", "estimated rule cost", causes),
                Err(why) => {
                    invalid(causes, "rule", why);
                    continue;
                }
            }
            match &rule.message_expression {
                Some(Ok(program)) => {
                    let what = "estimated messageExpression cost";
                    estimate(program, 1, "messageExpression", what, causes);
                }
                Some(Err(why)) => invalid(causes, "messageExpression", why),
                None => {}
            }
            match (&within.uncorrelatable, rule.uses_old) {
                (Some(list), true) => {
                    let why = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
                    );
                    causes.invalid(&format!("{path}.rule"), &given["rule"], &why);
                }
                (_, false) if !given["optionalOldSelf"].is_null() => {
                    let why = "may not be set if oldSelf is not used in rule";
                    causes.invalid(&format!("{path}.optionalOldSelf"), &given["optionalOldSelf"], why);
                }
                _ => {}
            }
        }
    }

    /// Checks everything but the expressions.
    fn form(&mut self, rule: &Value, schema: &Value, path: &str) {
        let causes = &mut self.of_schema;
        let at = |field: &str| format!("{path}.{field}");
        let (expression, message) = (text(rule, "/rule").trim(), text(rule, "/message"));
        let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
        if expression.is_empty() {
            causes.required(&at("rule"), "rule is not specified");
        } else if is_blank(message) {
            causes.invalid(&at("message"), &rule["message"], "must be non-empty if specified");
        } else if message.trim().contains('\n') {
            causes.invalid(&at("message"), &rule["message"], "must not contain line breaks");
        } else if expression.contains('\n') && message.is_empty() {
            causes.required(&at("message"), "message must be specified if rule contains line breaks");
        }
        if is_blank(text(rule, "/messageExpression")) {
            let why = "messageExpression must be non-empty if specified";
            causes.required(&at("messageExpression"), why);
        }
        if !rule["reason"].is_null() {
            let reasons =
                ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
            causes.one_of(&at("reason"), &rule["reason"], &reasons);
        }
        let (given, path) = (text(rule, "/fieldPath"), at("fieldPath"));
        if is_blank(given) {
            causes.invalid(&path, &rule["fieldPath"], "must be non-empty if specified");
        }
        if given.contains('\n') {
            causes.invalid(&path, &rule["fieldPath"], "must not contain line breaks");
        }
        if field_path(given, schema).is_none() {
            causes.invalid(&path, &rule["fieldPath"], "must be a valid path");
        }
    }
}

/// A rule as kube-apiserver prints its internal form.
fn internal(rule: &Value) -> String {
    let fields = ["rule", "message", "messageExpression", "reason", "fieldPath", "optionalOldSelf"];
    let shown = fields.map(|field| {
        let (first, rest) = field.split_at(1);
        let value = match &rule[field] {
            Value::Null if !["reason", "optionalOldSelf"].contains(&field) => "\"\"".to_owned(),
            value => value.to_string(),
        };
        let value = value.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        format!("\"{}{rest}\":{value}", first.to_ascii_uppercase())
    });
    format!("{{{}}}", shown.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::declared::escaped;
    use super::*;

    #[test]
    fn names_are_escaped_and_paths_lead_to_fields() {
        let names = [
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("in", "__in__"),
        ];
        names.iter().for_each(|(name, expected)| assert_eq!(escaped(name).as_deref(), Some(*expected)));
        assert_eq!((escaped("1a"), escaped("a b"), escaped("")), (None, None, None));
        let schema = json!({"properties": {"a": {"additionalProperties": {"properties": {"b.c": {}}}}}});
        for (path, expected) in [
            (".a", Some("a")),
            (".a['x'].b", None),
            (".a['x']['b.c']", Some("a[x].b.c")),
            (".a.x['b.c']", Some("a[x].b.c")),
            ("a", None),
            (".a[0]", None),
            (".a['", None),
            (".", None),
        ] {
            assert_eq!(field_path(path, &schema).as_deref(), expected, "{path}");
        }
    }
}
