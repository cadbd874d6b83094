//! The types of the built-in kinds, from the definitions of the generated bindings.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::definitions::{self, referred};
use crate::resource::{CustomSchema, Resource};
use crate::semantics;
use crate::types::{Field, ListType, MapKey, Patch, Scalar, Struct, Type, TypeId};

/// Group, version and kind.
type Name = (&'static str, &'static str, &'static str);

/// The type of objects of a kind; `None` if it is not known.
pub fn type_of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    static TYPES: OnceLock<Vec<(Name, TypeId)>> = OnceLock::new();
    let types = TYPES.get_or_init(build);
    let (_, found) = types.iter().find(|(name, _)| *name == (group, version, kind))?;
    Some(found.get())
}

impl Resource {
    /// The type of its objects; `None` if it is not known.
    pub fn ty(&self) -> Option<ObjectType> {
        match self.custom {
            Some(custom) => Some(ObjectType::Custom(custom.schema())),
            None => type_of(self.group, self.version, self.kind).map(ObjectType::BuiltIn),
        }
    }
}

/// The type of the objects of a resource.
#[derive(Clone, Debug)]
pub enum ObjectType {
    /// That of a kind of Kubernetes.
    BuiltIn(&'static Type),
    Custom(Arc<CustomSchema>),
}

impl Deref for ObjectType {
    type Target = Type;

    fn deref(&self) -> &Type {
        match self {
            ObjectType::BuiltIn(ty) => ty,
            ObjectType::Custom(schema) => &schema.ty,
        }
    }
}

fn build() -> Vec<(Name, TypeId)> {
    let definitions = definitions::generate(|_| true);
    let mut builder = Builder { definitions: &definitions, by_name: FxHashMap::default() };
    let mut types: Vec<_> = definitions::types()
        .iter()
        .map(|ty| ((ty.group, ty.version, ty.kind), builder.definition(&(ty.definition)())))
        .collect();
    let options = builder.definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    types.push((("meta.k8s.io", "v1", "DeleteOptions"), options));
    for kind in ["ListMeta", "Status"] {
        let ty = builder.definition(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"));
        types.push((("meta.k8s.io", "v1", kind), ty));
    }
    types
}

struct Builder<'d> {
    definitions: &'d Map<String, Value>,
    by_name: FxHashMap<String, TypeId>,
}

impl Builder<'_> {
    fn definition(&mut self, name: &str) -> TypeId {
        // They differ in descriptions only.
        let name = definitions::original_definition(name);
        // A structural schema has no list of schemas.
        let name = match name.strip_suffix("JSONSchemaPropsOrArray") {
            Some(_) => name.trim_end_matches("OrArray"),
            None => name,
        };
        if let Some(id) = self.by_name.get(name) {
            return id.clone();
        }
        let id = TypeId::reserve();
        self.by_name.insert(name.to_owned(), id.clone());
        let ty = match name.strip_prefix("io.k8s.apimachinery.pkg.") {
            Some("api.resource.Quantity") => Type::Scalar(Scalar::Quantity),
            Some("util.intstr.IntOrString") => Type::Scalar(Scalar::IntOrString),
            Some("apis.meta.v1.Time") => Type::Scalar(Scalar::Time),
            Some("apis.meta.v1.MicroTime") => Type::Scalar(Scalar::MicroTime),
            Some("apis.meta.v1.FieldsV1" | "runtime.RawExtension") => Type::Any,
            _ => match self.definitions.get(name) {
                Some(schema) => self.inline(schema, name),
                None => Type::Any,
            },
        };
        id.fill(ty);
        id
    }

    fn of(&mut self, schema: &Value) -> TypeId {
        let Some(name) = referred(schema) else {
            return TypeId::new(self.inline(schema, ""));
        };
        let id = self.definition(name);
        // A field may override its type.
        match schema.get("x-kubernetes-map-type").and_then(Value::as_str) {
            Some(map_type) => {
                let Some(definition) = self.definitions.get(name) else { return id };
                let ty = match self.inline(definition, name) {
                    Type::Struct(mut of) => {
                        of.atomic = map_type == "atomic";
                        Type::Struct(of)
                    }
                    other => other,
                };
                TypeId::new(ty)
            }
            None => id,
        }
    }

    fn inline(&mut self, schema: &Value, name: &str) -> Type {
        let atomic = schema["x-kubernetes-map-type"] == "atomic";
        let format = schema["format"].as_str();
        match schema["type"].as_str() {
            Some("string") if format == Some("byte") => Type::Scalar(Scalar::Bytes),
            Some("string") => Type::Scalar(Scalar::String),
            Some("integer") if format == Some("int32") => Type::Scalar(Scalar::Int32),
            Some("integer") => Type::Scalar(Scalar::Int64),
            Some("number") => Type::Scalar(Scalar::Number),
            Some("boolean") => Type::Scalar(Scalar::Boolean),
            Some("array") => {
                let items = self.of(&schema["items"]);
                Type::List { items, merged: self.list_type(schema) }
            }
            Some("object") => {
                if let Some(properties) = schema["properties"].as_object() {
                    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
                    let field = |(name, schema): (&String, &Value)| {
                        let required = required.iter().any(|required| required == name);
                        (name.clone(), Field::new(self.of(schema), patch_of(schema), required))
                    };
                    let of = Struct::new(name, properties.iter().map(field), atomic, false);
                    Type::Struct(of.with_encoded(semantics::encoded(name)))
                } else if schema["additionalProperties"].is_object() {
                    Type::Map { values: self.of(&schema["additionalProperties"]), atomic }
                } else if name.is_empty() {
                    Type::Any
                } else {
                    // An object without fields, such as the options of a group that has none yet.
                    Type::Struct(Struct::new(name, [], atomic, false))
                }
            }
            _ => Type::Any,
        }
    }

    fn list_type(&self, schema: &Value) -> ListType {
        match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListType::Set,
            Some("map") => {
                let items = referred(&schema["items"]).and_then(|name| self.definitions.get(name));
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let keys = keys.filter_map(Value::as_str).map(|key| MapKey {
                    name: key.to_owned(),
                    default: items.and_then(|items| items["properties"][key].get("default")).cloned(),
                });
                ListType::Map(keys.collect())
            }
            _ => ListType::Atomic,
        }
    }
}

fn patch_of(schema: &Value) -> Patch {
    let strategies = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or_default();
    Patch {
        merge: strategies.split(',').any(|s| s == "merge"),
        replace: strategies == "replace",
        retain_keys: strategies.split(',').any(|s| s == "retainKeys"),
        merge_key: schema["x-kubernetes-patch-merge-key"].as_str().map(Box::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(kind: &'static Type, path: &str) -> &'static Type {
        path.split('.').fold(kind, |ty, name| match ty {
            Type::List { items, .. } => items.get().child(name).expect(name),
            other => other.child(name).expect(name),
        })
    }

    #[test]
    fn types_carry_their_semantics() {
        let pod = type_of("", "v1", "Pod").expect("pods are known");
        let Type::List { merged: ListType::Map(keys), .. } = at(pod, "spec.containers.ports") else {
            panic!("ports are a list merged by keys")
        };
        assert_eq!(keys[0], MapKey { name: "containerPort".to_owned(), default: None });
        assert_eq!(keys[1], MapKey { name: "protocol".to_owned(), default: Some("TCP".into()) });
        assert!(at(pod, "spec.nodeSelector").is_atomic());
        assert!(at(pod, "spec.tolerations").is_atomic());
        assert!(!at(pod, "metadata.labels").is_atomic());
        assert!(at(pod, "spec.containers.env.valueFrom.secretKeyRef").is_atomic());
        assert!(matches!(at(pod, "spec.containers.resources.limits.cpu"), Type::Scalar(Scalar::Quantity)));
        assert!(matches!(at(pod, "metadata.creationTimestamp"), Type::Scalar(Scalar::Time)));
        assert!(matches!(at(pod, "metadata.managedFields.fieldsV1"), Type::Any));
        assert!(!at(pod, "spec.volumes.emptyDir").is_atomic());
        let volumes = type_of("", "v1", "PersistentVolume").expect("known");
        assert!(!at(volumes, "spec.claimRef").is_atomic());
        let Type::Struct(spec) = at(type_of("apps", "v1", "Deployment").expect("known"), "spec") else {
            panic!("a spec has fields")
        };
        assert!(spec.field("strategy").expect("strategy").patch.retain_keys);
        assert_eq!(spec.short_name(), "v1.DeploymentSpec");
    }

    #[test]
    fn the_extension_fields_exist() {
        let pod = type_of("", "v1", "Pod").expect("pods are known");
        let in_terms = "requiredDuringSchedulingRequiredDuringExecution";
        at(pod, &format!("spec.affinity.nodeAffinity.{in_terms}.nodeSelectorTerms.matchExpressions.key"));
        at(pod, &format!("spec.affinity.podAffinity.{in_terms}.labelSelector.matchLabels"));
        at(pod, &format!("spec.affinity.podAntiAffinity.{in_terms}.topologyKey"));
        at(pod, &format!("spec.affinity.podAntiAffinity.{in_terms}.limit"));
    }

    #[test]
    fn every_resource_has_a_type() {
        for resource in crate::resource::RESOURCES {
            let found = type_of(resource.group, resource.version, resource.kind);
            assert!(found.is_some(), "{}", resource.group_resource());
            for sub in resource.subresources {
                assert!(type_of(sub.group, sub.version, sub.kind).is_some(), "{}", sub.kind);
            }
        }
    }
}
