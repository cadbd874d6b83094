//! The structural types, which patches and field validation use.

use std::fmt;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::semantics::Empty;

/// A type of the API. Those of built-in kinds live as long as the process, and are built on first use; those of custom
/// resources live as long as their schema.
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
        values: TypeId,
        /// Whether apply replaces it as a whole.
        atomic: bool,
    },
    List {
        items: TypeId,
        /// How apply merges it.
        merged: ListType,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    String,
    /// Bytes, as base64 text.
    Bytes,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    Number,
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
    /// The fields that Kubernetes writes even if they are empty, and whether they are `null` then.
    encoded: Vec<(&'static str, bool)>,
    /// The fields that stay as they are if they are empty.
    kept: Vec<&'static str>,
    /// Whether apply replaces it as a whole.
    pub atomic: bool,
    /// Whether it may have other fields, of any type.
    pub open: bool,
}

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
    pub name: String,
    /// The default of an absent value.
    pub default: Option<Value>,
}

/// A type that other types refer to.
#[derive(Clone)]
pub struct TypeId(Place);

#[derive(Clone)]
enum Place {
    /// Taken before the type is known: types refer to themselves.
    Reserved(&'static OnceLock<Type>),
    Owned(Arc<Type>),
}

impl fmt::Debug for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TypeId")
    }
}

impl TypeId {
    pub fn get(&self) -> &Type {
        match &self.0 {
            Place::Reserved(place) => place.get().unwrap_or(&Type::Any),
            Place::Owned(ty) => ty,
        }
    }

    pub(crate) fn new(ty: Type) -> TypeId {
        TypeId(Place::Owned(Arc::new(ty)))
    }

    /// The place of a type that is not known yet.
    pub(crate) fn reserve() -> TypeId {
        TypeId(Place::Reserved(Box::leak(Box::default())))
    }

    /// Fills the place; a second call changes nothing.
    pub(crate) fn fill(&self, ty: Type) {
        if let Place::Reserved(place) = &self.0 {
            place.get_or_init(|| ty);
        }
    }
}

impl Field {
    pub(crate) fn new(ty: TypeId, patch: Patch, required: bool) -> Field {
        Field { ty, patch, required }
    }

    pub fn ty(&self) -> &Type {
        self.ty.get()
    }
}

impl Struct {
    /// The name is empty for an object within another one and for custom resources.
    pub(crate) fn new(
        name: &str,
        fields: impl IntoIterator<Item = (String, Field)>,
        atomic: bool,
        open: bool,
    ) -> Struct {
        Struct {
            name: name.to_owned(),
            fields: fields.into_iter().collect(),
            encoded: Vec::new(),
            kept: Vec::new(),
            atomic,
            open,
        }
    }

    pub(crate) fn with_encoded(mut self, fields: impl Iterator<Item = (&'static str, Empty)>) -> Struct {
        for (name, empty) in fields {
            match empty {
                Empty::Written => self.encoded.push((name, false)),
                Empty::Null => self.encoded.push((name, true)),
                Empty::Kept => self.kept.push(name),
            }
        }
        self
    }

    /// Whether Kubernetes leaves out a field with this value: it is empty, and its Go type cannot say that it was given.
    pub(crate) fn omits(&self, name: &str, value: &Value) -> bool {
        let is_empty = match value {
            Value::Null => false,
            Value::Bool(is) => !is,
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
        };
        let counts = |ty: &Type| match ty {
            Type::Any | Type::Struct(_) => true,
            Type::Map { .. } | Type::List { .. } => false,
            Type::Scalar(scalar) => {
                matches!(scalar, Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime)
            }
        };
        is_empty
            && !self.name.is_empty()
            && !self.kept.contains(&name)
            && !self.encoded.iter().any(|(encoded, _)| *encoded == name)
            && self.field(name).is_some_and(|field| !counts(field.ty()))
    }

    /// The fields that Kubernetes writes even if they are empty, and whether they are `null` then.
    pub(crate) fn encoded(&self) -> &[(&'static str, bool)] {
        &self.encoded
    }

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
    /// The value for a `null` among items or entries, or for a field that is always written.
    pub(crate) fn zero(&self) -> Value {
        match self {
            Type::Any => Value::Null,
            Type::Struct(_) | Type::Map { .. } => Value::Object(Map::new()),
            Type::List { .. } => Value::Array(Vec::new()),
            Type::Scalar(scalar) => match scalar {
                Scalar::String | Scalar::Bytes => Value::from(""),
                Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => Value::from(0),
                Scalar::Boolean => Value::from(false),
                Scalar::Quantity => Value::from("0"),
                Scalar::Time | Scalar::MicroTime => Value::Null,
            },
        }
    }

    /// The type of a field of an object; a map's values all have one type. `None` if there is no such field.
    pub fn child(&self, name: &str) -> Option<&Type> {
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
