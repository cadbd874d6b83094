//! Fields of manifests that the types of their kinds do not have.

use std::fmt;

use berth_api::resource::group_of;
use berth_api::syntax::similar::nearest;
use serde_json::Value;

use crate::built_in::type_of;
use crate::decode::Path;
use crate::types::{Struct, Type};

/// A field that the type of an object does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField {
    /// Its path, such as `spec.template.spec.affinty`.
    pub path: String,
    /// The name of the most similar field of the type, if one is similar.
    pub suggestion: Option<String>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: unknown field", self.path)?;
        self.suggestion.as_ref().map_or(Ok(()), |name| write!(f, "; did you mean {name:?}?"))
    }
}

/// The unknown fields of an object, in its order; none if its kind is not built in.
pub fn unknown_fields(object: &Value) -> Vec<UnknownField> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("apiVersion");
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let mut unknown = Vec::new();
    if let Some(ty) = type_of(group_of(api_version), version, text("kind")) {
        look(ty, object, &Path::Root, &mut unknown);
    }
    unknown
}

fn look(ty: &Type, value: &Value, path: &Path<'_>, unknown: &mut Vec<UnknownField>) {
    match (ty, value) {
        (Type::Struct(of), Value::Object(fields)) => {
            for (name, value) in fields {
                let path = Path::Field(path, name);
                match of.field(name) {
                    Some(field) => look(field.ty(), value, &path, unknown),
                    None if of.open => {}
                    None => unknown
                        .push(UnknownField { path: path.to_string(), suggestion: suggestion(of, name) }),
                }
            }
        }
        (Type::Map { values, .. }, Value::Object(entries)) => {
            for (key, value) in entries {
                look(values.get(), value, &Path::Field(path, key), unknown);
            }
        }
        (Type::List { items, .. }, Value::Array(list)) => {
            for (index, item) in list.iter().enumerate() {
                look(items.get(), item, &Path::Index(path, index), unknown);
            }
        }
        _ => {}
    }
}

fn suggestion(of: &Struct, name: &str) -> Option<String> {
    let mut fields: Vec<&str> = of.fields().map(|(field, _)| field).collect();
    fields.sort_unstable();
    nearest(name, fields).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_found_in_pod_templates() {
        let found = |object: Value| -> Vec<String> {
            unknown_fields(&object).iter().map(ToString::to_string).collect()
        };
        let spec = json!({"affinty": {}, "containers": [{"name": "a", "resources": {"limit": {}}, "zz": 1}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": []}}});
        let template = json!({"metadata": {"labels": {"any": "thing"}}, "spec": spec});
        let expected = [
            "affinty: unknown field; did you mean \"affinity\"?",
            "containers[0].resources.limit: unknown field; did you mean \"limits\"?",
            "containers[0].zz: unknown field",
        ];
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
        assert_eq!(found(pod), expected.map(|path| format!("spec.{path}")));
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template.clone()}});
        assert_eq!(found(deployment), expected.map(|path| format!("spec.template.spec.{path}")));
        let cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob",
            "spec": {"jobTemplate": {"spec": {"template": template}}}});
        assert_eq!(
            found(cron_job),
            expected.map(|path| format!("spec.jobTemplate.spec.template.spec.{path}"))
        );
        assert!(found(json!({"apiVersion": "example.com/v1", "kind": "Other", "x": 1})).is_empty());
    }
}
