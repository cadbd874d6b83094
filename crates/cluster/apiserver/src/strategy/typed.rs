//! Kinds whose rules follow from their types and from data: defaults, enumerations, lists that need items, fixed fields.

use berth_api::syntax;
use berth_schema::resource::Resource;
use berth_schema::{Scalar, Struct, Type};
use serde_json::Value;

use crate::strategy::field_rules::{self, Fields};
use crate::strategy::fields::{Causes, is_empty, validate_label_selector};
use crate::strategy::{Context, Strategy};

/// The rules of a kind. A definition is named by its last part, such as `NetworkPolicyPort`.
pub struct Typed {
    pub resource: &'static Resource,
    /// Definition, field, and the JSON of its default.
    pub defaults: &'static [(&'static str, &'static str, &'static str)],
    /// Whether an empty text counts as absent, as it does where the field of kube-apiserver is no pointer.
    pub fills_empty_texts: bool,
    /// Definition, field, and its values; of a list, those of each item.
    pub enums: &'static [(&'static str, &'static str, &'static [&'static str])],
    /// Rules of the spec, in place of those of its type.
    pub spec: Fields,
    /// Required texts whose own rules say that they are missing: definition and field.
    pub not_required: &'static [(&'static str, &'static str)],
    /// Lists that need at least one item: definition and field.
    pub not_empty: &'static [(&'static str, &'static str)],
    /// JSON pointers to what an update may not change.
    pub immutable: &'static [&'static str],
    /// Whether they are looked at before the rest of the object.
    pub is_fixed_first: bool,
    pub name_problems: fn(&str) -> Vec<String>,
    /// Sets defaults that depend on other fields.
    pub complete: fn(&mut Value),
    /// Validates what the data above cannot express.
    pub check: fn(&Value, &mut Causes),
    pub status: fn(&Value, &mut Causes),
    /// Whether this server acts on the objects; if not, it warns.
    pub is_evaluated: bool,
}

/// The `check` of a kind has all rules.
pub const BY_CHECK: Fields = &[("", &[])];

impl Typed {
    /// A kind with the rules of its type alone.
    pub const fn new(resource: &'static Resource) -> Typed {
        Typed {
            resource,
            defaults: &[],
            fills_empty_texts: false,
            enums: &[],
            spec: &[],
            not_required: &[],
            not_empty: &[],
            immutable: &[],
            is_fixed_first: false,
            name_problems: syntax::dns_subdomain,
            complete: |_| {},
            check: |_, _| {},
            status: |_, _| {},
            is_evaluated: true,
        }
    }
}

impl Typed {
    /// Validates a status by its type.
    pub fn check_status(&self, status: &Value, causes: &mut Causes) {
        if let Some(ty) = self.resource.ty()
            && let Type::Struct(of) = &*ty
            && let Some(field) = of.field("status")
        {
            self.check_type(field.ty(), status, &mut "status".to_owned(), causes);
        }
    }
}

impl Strategy for Typed {
    fn default(&self, value: &mut Value) {
        if let Some(ty) = self.resource.ty() {
            self.set_defaults(&ty, value);
        }
        (self.complete)(value);
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        (self.name_problems)(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if !self.spec.is_empty() {
            field_rules::apply(&value["spec"], "spec", self.spec, causes);
        }
        (self.check)(value, causes);
        // As declared rules come after those that are written by hand.
        if self.spec.is_empty()
            && let Some(ty) = self.resource.ty()
        {
            self.check_type(&ty, value, &mut String::new(), causes);
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        (self.status)(&new["status"], causes);
    }

    fn warnings(&self, _value: &Value) -> Vec<String> {
        let warning = format!("this API server stores {} and does not evaluate them", self.resource.plural);
        (!self.is_evaluated).then_some(warning).into_iter().collect()
    }

    fn validates_change_first(&self) -> bool {
        self.is_fixed_first
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        causes.unchanged_at(self.immutable, new, old);
    }
}

/// `NetworkPolicyPort`: the last part of the name.
fn definition(of: &Struct) -> &str {
    of.name.rsplit('.').next().unwrap_or(&of.name)
}

impl Typed {
    fn set_defaults(&self, ty: &Type, value: &mut Value) {
        match (ty, value) {
            (Type::Struct(of), Value::Object(fields)) => {
                for (_, field, json) in self.defaults.iter().filter(|row| row.0 == definition(of)) {
                    let value = fields.entry(*field).or_insert(Value::Null);
                    if is_empty(value) && (value != "" || self.fills_empty_texts) {
                        *value = serde_json::from_str(json).unwrap_or_default();
                    }
                }
                for (name, value) in fields.iter_mut().filter(|(name, _)| *name != "metadata") {
                    if let Some(field) = of.field(name) {
                        self.set_defaults(field.ty(), value);
                    }
                }
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                list.iter_mut().for_each(|item| self.set_defaults(items.get(), item));
            }
            (Type::Map { values, .. }, Value::Object(entries)) => {
                entries.values_mut().for_each(|value| self.set_defaults(values.get(), value));
            }
            _ => {}
        }
    }

    /// Checks a value at a path. A required text must not be empty; a required object counts as empty if it is absent, as
    /// it does for kube-apiserver's decoder.
    fn check_type(&self, ty: &Type, value: &Value, path: &mut String, causes: &mut Causes) {
        let length = path.len();
        match (ty, value) {
            // They are validated by themselves: their message may be empty.
            (Type::Struct(of), _) if definition(of) == "Condition" => {}
            (Type::Struct(of), _) if definition(of) == "LabelSelector" => {
                validate_label_selector(path, value, causes);
            }
            (Type::Struct(of), _) => {
                let mut fields: Vec<_> = of.fields().filter(|(name, _)| !is_type_meta(path, name)).collect();
                fields.sort_unstable_by_key(|(name, _)| *name);
                for (name, field) in fields {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                    let value = &value[name];
                    let is_text = matches!(field.ty(), Type::Scalar(Scalar::String | Scalar::Bytes));
                    let is_scalar = matches!(field.ty(), Type::Scalar(_));
                    if self.not_required.contains(&(definition(of), name)) {
                    } else if field.required && is_scalar && (value.is_null() || (is_text && is_empty(value)))
                        || (is_empty(value) && self.not_empty.contains(&(definition(of), name)))
                    {
                        causes.required(path, "");
                    } else if field.required || !value.is_null() {
                        self.check_values(definition(of), name, value, path, causes);
                        self.check_type(field.ty(), value, path, causes);
                    }
                    path.truncate(length);
                }
            }
            (Type::List { items, .. }, Value::Array(list)) => {
                for (index, item) in list.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    self.check_type(items.get(), item, path, causes);
                    path.truncate(length);
                }
            }
            (Type::Map { values, .. }, Value::Object(entries)) => {
                for (key, value) in entries {
                    path.push_str(&format!("[{key}]"));
                    self.check_type(values.get(), value, path, causes);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn check_values(&self, definition: &str, name: &str, value: &Value, path: &str, causes: &mut Causes) {
        let row = self.enums.iter().find(|row| (row.0, row.1) == (definition, name));
        let Some((.., allowed)) = row else { return };
        let mut check = |path: &str, value: &Value| {
            if !value.is_null() {
                causes.one_of(path, value, allowed);
            }
        };
        match value {
            Value::Array(list) => {
                list.iter().enumerate().for_each(|(i, item)| check(&format!("{path}[{i}]"), item));
            }
            value => check(path, value),
        }
    }
}

/// Metadata is validated elsewhere, status by its own subresource.
fn is_type_meta(path: &str, name: &str) -> bool {
    path.is_empty() && ["apiVersion", "kind", "metadata", "status"].contains(&name)
}
