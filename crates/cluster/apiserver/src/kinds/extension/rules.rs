//! `x-kubernetes-validations`: rules in the schemas of custom resources.
//!
//! [`Rules`] are compiled once for a schema, and evaluated for each object and the one before it. Messages are those of kube-apiserver.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use berth_cel::{Key, Map as CelMap, Program, Step, Type, Value as CelValue, is_reserved};

use crate::kinds::prelude::*;

const RULES: &str = "x-kubernetes-validations";
/// Limit of the cost of all rules for an object.
const MAX_COST: u64 = 10_000_000;
/// Limits of what one rule, and all rules of a schema, may cost by estimate.
const MAX_RULE_ESTIMATE: u64 = 10_000_000;
const MAX_SCHEMA_ESTIMATE: u64 = 100_000_000;
/// The bytes of the largest object, as estimates assume it.
const MAX_OBJECT_BYTES: u64 = 3 << 20;
const MAX_MESSAGE_BYTES: usize = 5 << 10;

/// What expressions see of a value with a schema.
#[derive(Clone, Debug)]
struct Declared {
    ty: Type,
    /// Bytes of the smallest value, as JSON.
    min_bytes: u64,
    /// Characters, elements or entries of the largest value; 0 of other types.
    max_size: u64,
    /// By the names that expressions use.
    fields: BTreeMap<Arc<str>, Declared>,
    /// The elements of a list, the values of a map.
    element: Option<Box<Declared>>,
}

impl Declared {
    fn scalar(ty: Type, min_bytes: u64, max_size: u64) -> Declared {
        Declared { ty, min_bytes, max_size, fields: BTreeMap::new(), element: None }
    }

    /// `None` if expressions cannot see values with the schema.
    fn of(schema: &Value, is_object: bool) -> Option<Declared> {
        // A text takes two quotes.
        const MAX_TEXT: u64 = MAX_OBJECT_BYTES - 2;
        let limit = |field: &str| schema[field].as_i64().map(|limit| u64::try_from(limit).unwrap_or(0));
        // Four bytes for each character.
        let max_length = limit("maxLength").map(|length| length.saturating_mul(4));
        if schema["x-kubernetes-int-or-string"] == true {
            return Some(Declared::scalar(Type::Dyn, 1, max_length.unwrap_or(MAX_TEXT)));
        }
        let container = |ty: Type, max_size: u64, element: Declared| Declared {
            element: Some(Box::new(element)),
            ..Declared::scalar(ty, 2, max_size)
        };
        Some(match schema["type"].as_str()? {
            "array" => {
                let items = Declared::of(&schema["items"], is_embedded(&schema["items"]))?;
                let fitting = MAX_TEXT / (items.min_bytes + 1);
                container(Type::list(items.ty.clone()), limit("maxItems").unwrap_or(fitting), items)
            }
            "object" if schema["additionalProperties"].is_object() => {
                let values = &schema["additionalProperties"];
                let values = Declared::of(values, is_embedded(values))?;
                let fitting = MAX_TEXT / (values.min_bytes + 6);
                let ty = Type::map(Type::String, values.ty.clone());
                container(ty, limit("maxProperties").unwrap_or(fitting), values)
            }
            "object" => {
                let (mut fields, mut min_bytes) = (BTreeMap::new(), 2);
                for (name, property) in properties(schema, is_object) {
                    let Some(declared) = Declared::of(&property, is_embedded(&property)) else { continue };
                    let is_required = items(schema, "required").iter().any(|required| *required == *name);
                    if is_required && property.get("default").is_none() {
                        min_bytes += name.len() as u64 + declared.min_bytes + 4;
                    }
                    if let Some(name) = escaped(&name) {
                        fields.insert(name.into(), declared);
                    }
                }
                let types = fields
                    .iter()
                    .map(|(name, field): (&Arc<str>, &Declared)| (name.clone(), field.ty.clone()));
                Declared {
                    fields: fields.clone(),
                    ..Declared::scalar(Type::object("object", types), min_bytes, 0)
                }
            }
            "string" => match schema["format"].as_str() {
                Some("byte") => Declared::scalar(Type::Bytes, 2, limit("maxLength").unwrap_or(MAX_TEXT)),
                Some("duration") => Declared::scalar(Type::Duration, 3, 32),
                Some("date") => Declared::scalar(Type::Timestamp, 12, 12),
                Some("date-time") => Declared::scalar(Type::Timestamp, 21, 32),
                _ => {
                    let lengths = items(schema, "enum").iter().filter_map(Value::as_str).map(str::len).max();
                    let longest = lengths.map(|length| length as u64);
                    Declared::scalar(Type::String, 2, max_length.or(longest).unwrap_or(MAX_TEXT))
                }
            },
            "boolean" => Declared::scalar(Type::Bool, 4, 0),
            "number" => Declared::scalar(Type::Double, 1, 0),
            "integer" => Declared::scalar(Type::Int, 1, 0),
            _ => return None,
        })
    }

    /// The largest size of a part of `self` or `oldSelf`.
    fn largest_size(&self, path: &[Step]) -> Option<u64> {
        let mut at = self;
        for step in path.get(1..)? {
            at = match step {
                Step::Items | Step::Values => at.element.as_deref()?,
                Step::Keys => return at.element.as_ref().map(|_| 0),
                Step::Name(name) => at.fields.get(name)?,
                Step::Positions => return None,
            };
        }
        Some(at.max_size)
    }
}

fn is_embedded(schema: &Value) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}

/// The properties of a schema; of an object of Kubernetes, those that each has.
fn properties(schema: &Value, is_object: bool) -> Map<String, Value> {
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    if is_object {
        let text = json!({"type": "string"});
        let metadata = json!({"type": "object", "properties": {"name": text, "generateName": text}});
        for (name, property) in [("kind", text.clone()), ("apiVersion", text), ("metadata", metadata)] {
            properties.insert(name.to_owned(), property);
        }
    }
    properties
}

/// The name that expressions use for a field; `None` if they cannot name it.
fn escaped(name: &str) -> Option<String> {
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let is_valid = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(is_valid) {
        return None;
    }
    let replaced = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];
    Some(replaced.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to)))
}

/// A value as expressions see it.
fn shown(schema: &Value, is_object: bool, value: &Value) -> CelValue {
    match value {
        Value::Array(list) => {
            let item = &schema["items"];
            CelValue::list(list.iter().map(|value| shown(item, is_embedded(item), value)))
        }
        Value::Object(fields) => {
            let values = &schema["additionalProperties"];
            let entries = fields.iter().filter_map(|(name, value)| {
                let key = |name: &str| Key::String(name.into());
                match schema["properties"].get(name) {
                    _ if is_object && name == "metadata" => {
                        let named = ["name", "generateName"].map(|field| (field, value.get(field)));
                        let named = named
                            .into_iter()
                            .filter_map(|(field, value)| Some((field.to_owned(), value?.clone())));
                        Some((key(name), CelValue::from(&Value::Object(named.collect()))))
                    }
                    Some(property) => {
                        Some((key(&escaped(name)?), shown(property, is_embedded(property), value)))
                    }
                    None if values.is_object() => {
                        Some((key(name), shown(values, is_embedded(values), value)))
                    }
                    None => Some((key(name), CelValue::from(value))),
                }
            });
            CelValue::Map(Arc::new(CelMap { entries: entries.collect(), has_default: false }))
        }
        Value::Number(number) if schema["type"] == "number" => {
            CelValue::Double(number.as_f64().unwrap_or_default())
        }
        Value::String(text) => {
            let parsed = match schema["format"].as_str() {
                Some("date-time") => text.parse().ok().map(CelValue::Timestamp),
                Some("date") => format!("{text}T00:00:00Z").parse().ok().map(CelValue::Timestamp),
                Some("duration") => berth_cel::parse_duration(text).map(CelValue::Duration),
                Some("byte") => {
                    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
                    bytes.ok().map(|bytes| CelValue::Bytes(bytes.into()))
                }
                _ => None,
            };
            parsed.unwrap_or_else(|| CelValue::string(text.as_str()))
        }
        other => CelValue::from(other),
    }
}

#[derive(Debug)]
struct Rule {
    program: Result<Program, String>,
    uses_old: bool,
    /// Whether it is also evaluated where there is no old value.
    optional_old: bool,
    /// The message of a rule that is false, if its expression gives none.
    message: String,
    /// Names the rule in errors.
    title: String,
    message_expression: Option<Result<Program, String>>,
    reason: String,
    /// The path of the field that is wrong, within the value.
    field_path: String,
}

impl Rule {
    fn new(rule: &Value, schema: &Value, declared: &Declared) -> Rule {
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
fn field_path(path: &str, mut schema: &Value) -> Option<String> {
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

fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key(RULES) || fields.values().any(has_rules),
        Value::Array(list) => list.iter().any(has_rules),
        _ => false,
    }
}

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
            let known = escaped(name).map(|name| declared?.fields.get(&*name).cloned());
            let known = known.unwrap_or_else(|| Declared::of(of_type, is_embedded(of_type)));
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
                let old: std::collections::HashMap<_, _> =
                    old.into_iter().flatten().map(|item| (key_of(item), item)).collect();
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
                Ok(program) => program.evaluate(&variables, None),
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
            let (value, cost) = program.evaluate(variables, None);
            self.left = self.left.and_then(|left| left.checked_sub(cost));
            if let Ok(CelValue::String(text)) = value {
                let text = text.trim();
                let is_shown = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
                evaluated = is_shown.then(|| text.to_owned());
            }
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
                let known = escaped(name).map(|name| declared?.fields.get(&*name).cloned());
                let known = known.unwrap_or_else(|| Declared::of(property, is_embedded(property)));
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
