//! The structural types, which patches and field validation use.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::definitions::{self, KINDS, referred};

/// A type of the API. Types live as long as the process; they are built on first use.
#[derive(Debug)]
pub enum Type {
    /// A single value, replaced as a whole.
    Scalar(Scalar),
    /// Any JSON, replaced as a whole.
    Any,
    /// An object with known fields.
    Struct(Struct),
    /// An object whose keys are data.
    Map {
        /// Type of the values.
        values: TypeId,
        /// Whether apply replaces it as a whole.
        atomic: bool,
    },
    /// A list.
    List {
        /// Type of the items.
        items: TypeId,
        /// How apply merges it.
        merged: ListType,
    },
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// Bytes, as base64 text.
    Bytes,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A whole number or text, such as `25%`.
    IntOrString,
    /// An amount such as `100m`.
    Quantity,
    /// A moment, to the second.
    Time,
    /// A moment, to the microsecond.
    MicroTime,
}

/// An object with known fields.
#[derive(Debug)]
pub struct Struct {
    /// Name of the definition, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: String,
    fields: FxHashMap<String, Field>,
    /// Whether apply replaces it as a whole.
    pub atomic: bool,
    /// Whether it may have other fields, of any type.
    pub open: bool,
}

/// A field of a [`Struct`].
#[derive(Clone, Debug)]
pub struct Field {
    ty: TypeId,
    /// How a strategic merge patch merges it.
    pub patch: Patch,
    /// Whether the schema requires it.
    pub required: bool,
}

/// How a strategic merge patch merges a field: `x-kubernetes-patch-strategy` and `-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// A list is merged, not replaced.
    pub merge: bool,
    /// An object is replaced, not merged.
    pub replace: bool,
    /// The fields a patch names in `$retainKeys` are the only ones kept.
    pub retain_keys: bool,
    /// The field that identifies the items of a merged list of objects.
    pub merge_key: Option<Box<str>>,
}

/// How server-side apply merges a list: `x-kubernetes-list-type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// As a whole.
    Atomic,
    /// Element by element; elements are scalars.
    Set,
    /// Item by item, identified by these fields.
    Map(Vec<MapKey>),
}

/// A field that identifies items of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapKey {
    /// Name of the field.
    pub name: String,
    /// The default of an absent value.
    pub default: Option<Value>,
}

/// A type that other types refer to.
#[derive(Clone, Copy, Debug)]
pub struct TypeId(Place);

#[derive(Clone, Copy, Debug)]
enum Place {
    /// The index of a built-in type.
    BuiltIn(u32),
    /// A type of a custom resource.
    Leaked(&'static Type),
}

impl TypeId {
    /// The type itself.
    pub fn get(self) -> &'static Type {
        match self.0 {
            Place::BuiltIn(index) => &types().all[index as usize],
            Place::Leaked(ty) => ty,
        }
    }

    pub(crate) fn leaked(ty: Type) -> TypeId {
        TypeId(Place::Leaked(Box::leak(Box::new(ty))))
    }
}

impl Field {
    pub(crate) fn new(ty: TypeId, patch: Patch, required: bool) -> Field {
        Field { ty, patch, required }
    }

    /// The type of its value.
    pub fn ty(&self) -> &'static Type {
        self.ty.get()
    }
}

impl Struct {
    /// An object of a custom resource; it has no name.
    pub(crate) fn new(fields: Vec<(String, Field)>, atomic: bool, open: bool) -> Struct {
        Struct { name: String::new(), fields: fields.into_iter().collect(), atomic, open }
    }

    /// A field by name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.get(name)
    }

    /// All fields with their names, in no order.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(name, field)| (name.as_str(), field))
    }

    /// `v1.PodSpec`: the package and the name.
    pub fn short_name(&self) -> &str {
        self.name.rmatch_indices('.').nth(1).map_or(&self.name, |(at, _)| &self.name[at + 1..])
    }
}

impl Type {
    /// The type of a field of an object; a map's values all have one type. `None` if there is no such field.
    pub fn child(&'static self, name: &str) -> Option<&'static Type> {
        match self {
            Type::Struct(of) => match of.field(name) {
                None if of.open => Some(&Type::Any),
                field => field.map(Field::ty),
            },
            Type::Map { values, .. } => Some(values.get()),
            Type::Any => Some(self),
            Type::Scalar(_) | Type::List { .. } => None,
        }
    }

    /// Whether apply replaces values of this type as a whole.
    pub fn is_atomic(&self) -> bool {
        match self {
            Type::Scalar(_) | Type::Any => true,
            Type::Struct(of) => of.atomic,
            Type::Map { atomic, .. } => *atomic,
            Type::List { merged, .. } => *merged == ListType::Atomic,
        }
    }
}

struct Types {
    all: Vec<Type>,
    kinds: Vec<(&'static str, &'static str, &'static str, TypeId)>,
}

fn types() -> &'static Types {
    static TYPES: OnceLock<Types> = OnceLock::new();
    TYPES.get_or_init(build)
}

/// The type of objects of a kind; `None` if it is not known.
pub fn type_of(group: &str, version: &str, kind: &str) -> Option<&'static Type> {
    let found = types().kinds.iter().find(|k| k.0 == group && k.1 == version && k.2 == kind)?;
    Some(found.3.get())
}

fn build() -> Types {
    let definitions = definitions::generate(|_| true, true);
    let mut builder = Builder { definitions: &definitions, all: Vec::new(), by_name: FxHashMap::default() };
    let mut kinds: Vec<_> = KINDS
        .iter()
        .map(|kind| (kind.group, kind.version, kind.kind, builder.definition(&(kind.definition)())))
        .collect();
    let options = builder.definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions");
    kinds.push(("meta.k8s.io", "v1", "DeleteOptions", options));
    Types { all: builder.all, kinds }
}

struct Builder<'d> {
    definitions: &'d Map<String, Value>,
    all: Vec<Type>,
    by_name: FxHashMap<String, TypeId>,
}

impl Builder<'_> {
    fn add(&mut self, ty: Type) -> TypeId {
        self.all.push(ty);
        TypeId(Place::BuiltIn((self.all.len() - 1) as u32))
    }

    /// The type of a definition. Its place is taken before its fields are looked at: types refer to
    /// themselves.
    fn definition(&mut self, name: &str) -> TypeId {
        // A structural schema has no list of schemas.
        let name = match name.strip_suffix("JSONSchemaPropsOrArray") {
            Some(_) => name.trim_end_matches("OrArray"),
            None => name,
        };
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let id = self.add(Type::Any);
        self.by_name.insert(name.to_owned(), id);
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
        if let Place::BuiltIn(index) = id.0 {
            self.all[index as usize] = ty;
        }
        id
    }

    fn of(&mut self, schema: &Value) -> TypeId {
        let Some(name) = referred(schema) else {
            let ty = self.inline(schema, "");
            return self.add(ty);
        };
        let id = self.definition(name);
        // A field may override its type.
        match schema.get("x-kubernetes-map-type").and_then(Value::as_str) {
            Some(map_type) => {
                let Some(definition) = self.definitions.get(name) else { return id };
                let ty = match self.inline(definition, name) {
                    Type::Struct(of) => Type::Struct(Struct { atomic: map_type == "atomic", ..of }),
                    other => other,
                };
                self.add(ty)
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
                        (name.clone(), Field { ty: self.of(schema), patch: patch_of(schema), required })
                    };
                    let fields = properties.iter().map(field).collect();
                    Type::Struct(Struct { name: name.to_owned(), fields, atomic, open: false })
                } else if schema["additionalProperties"].is_object() {
                    Type::Map { values: self.of(&schema["additionalProperties"]), atomic }
                } else if name.is_empty() {
                    Type::Any
                } else {
                    // An object without fields, such as the options of a group that has none yet.
                    Type::Struct(Struct {
                        name: name.to_owned(),
                        fields: FxHashMap::default(),
                        atomic,
                        open: false,
                    })
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
