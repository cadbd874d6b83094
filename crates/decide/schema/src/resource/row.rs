//! What the API server knows of a resource.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use berth_api::resource as names;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::types::Type;

const SCHEDULING: &str = "scheduling.k8s.io";
/// Where references between definitions point to.
pub(crate) const REFERENCE: &str = "#/components/schemas/";

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of most subresources.
pub(crate) const CHANGE: &[&str] = &["get", "patch", "update"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    Own,
    /// In the collection of another resource, whose objects are converted.
    Shared(&'static Resource),
    /// Not stored: the request is only answered, such as a `SubjectAccessReview`.
    None,
}

/// A field that field selectors may name, besides `metadata.name` and `metadata.namespace`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectableField {
    /// The name in a selector, such as `spec.nodeName`.
    pub name: &'static str,
    /// JSON pointers to the value in the stored object; the first one that is present counts.
    pub pointers: &'static [&'static str],
    /// The default of an absent value.
    pub default: &'static str,
}

/// A type of the generated bindings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GeneratedType {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// The name of its definition, such as `io.k8s.api.core.v1.Pod`.
    pub(crate) definition: fn() -> Cow<'static, str>,
    /// Adds its definition, and those it refers to, to a generator.
    pub(crate) register: fn(&mut SchemaGenerator),
}

impl GeneratedType {
    pub(super) const fn of<T: k8s_openapi::Resource + JsonSchema>() -> GeneratedType {
        GeneratedType {
            group: T::GROUP,
            version: T::VERSION,
            kind: T::KIND,
            definition: T::schema_name,
            register: |generator| {
                generator.subschema_for::<T>();
            },
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Subresource {
    /// The last segment of its path, such as `status`.
    pub name: &'static str,
    /// The group of request and response bodies, which may differ from the resource's.
    pub group: &'static str,
    /// The version of request and response bodies.
    pub version: &'static str,
    /// The kind of request and response bodies.
    pub kind: &'static str,
    /// The verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
    /// The type of request and response bodies; `None` for that of a custom resource.
    pub(crate) generated: Option<GeneratedType>,
}

impl PartialEq for Subresource {
    fn eq(&self, other: &Self) -> bool {
        let key = |sub: &Subresource| (sub.name, sub.group, sub.version, sub.kind, sub.verbs);
        key(self) == key(other)
    }
}

impl Eq for Subresource {}

/// A resource of the API. Each is a separate `static`, so that its address identifies it.
#[derive(Debug)]
pub struct Resource {
    /// Group, version, kind and name in paths.
    pub names: berth_api::resource::Resource,
    /// Categories, such as `all`.
    pub categories: &'static [&'static str],
    /// The verbs, as discovery lists them.
    pub verbs: &'static [&'static str],
    pub subresources: &'static [Subresource],
    pub storage: Storage,
    /// Whether an update of a missing object creates it.
    pub create_on_update: bool,
    /// The fields that field selectors may name.
    pub selectable_fields: &'static [SelectableField],
    /// The type of its objects; `None` for a custom resource.
    pub(crate) generated: Option<GeneratedType>,
    /// For a resource that a CustomResourceDefinition defines, what it says.
    pub custom: Option<&'static Custom>,
}

/// What a definition says about one version.
#[derive(Debug)]
pub struct Custom {
    /// The place of its collection among those of custom resources.
    pub slot: usize,
    /// The name of one object.
    pub singular: &'static str,
    pub list_kind: &'static str,
    /// Whether the resource has other versions, so that stored objects may have another `apiVersion`.
    pub several: bool,
    pub(crate) schema: Mutex<Weak<CustomSchema>>,
}

/// What a version of a definition says about objects.
#[derive(Debug)]
pub struct CustomSchema {
    /// The structural schema.
    pub openapi: Value,
    /// The type that follows from it.
    pub ty: Type,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
    /// `subresources.scale`.
    pub scale: Option<Value>,
    /// The warning for requests to a deprecated version.
    pub deprecation: Option<String>,
    /// What the API server makes of it once, and keeps as long.
    pub compiled: OnceLock<Box<dyn Any + Send + Sync>>,
    /// No two schemas of a process have the same.
    pub(crate) number: u64,
    /// Of what the definition says.
    pub(crate) digest: [u64; 2],
}

impl Custom {
    /// The schema, for as long as a [`Defined`](crate::resource::Defined) of the definition is kept; after that, one that says nothing.
    pub fn schema(&self) -> Arc<CustomSchema> {
        let kept = self.schema.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        kept.unwrap_or_else(|| {
            Arc::new(CustomSchema {
                openapi: Value::Null,
                ty: Type::Any,
                columns: Vec::new(),
                scale: None,
                deprecation: None,
                compiled: OnceLock::new(),
                number: 0,
                digest: [0; 2],
            })
        })
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for Resource {}

impl Deref for Resource {
    type Target = berth_api::resource::Resource;

    fn deref(&self) -> &Self::Target {
        &self.names
    }
}

impl Resource {
    /// A resource with its own collection, every verb and nothing else.
    pub(crate) const fn new(names: names::Resource) -> Resource {
        Resource {
            names,
            categories: &[],
            verbs: ALL_VERBS,
            subresources: &[],
            storage: Storage::Own,
            create_on_update: false,
            selectable_fields: &[],
            generated: None,
            custom: None,
        }
    }

    /// The kind of a list of these.
    pub fn list_kind(&self) -> String {
        self.custom.map_or_else(|| format!("{}List", self.kind), |custom| custom.list_kind.to_owned())
    }

    /// The name of one object.
    pub fn singular(&self) -> String {
        self.custom.map_or_else(|| self.names.singular(), |custom| custom.singular.to_owned())
    }

    /// The warning for requests to a deprecated resource.
    pub fn deprecation(&self) -> Option<String> {
        if let Some(custom) = self.custom {
            return custom.schema().deprecation.clone();
        }
        Some(match (self.group, self.version, self.kind) {
            ("", _, "ComponentStatus") => "v1 ComponentStatus is deprecated in v1.19+".to_owned(),
            ("", _, "Endpoints") => {
                "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned()
            }
            (_, "v1beta1", kind) if self.group == SCHEDULING => {
                format!("{SCHEDULING}/v1beta1 {kind} is deprecated in v1.40+, unavailable in v1.43+")
            }
            _ => return None,
        })
    }

    /// A subresource by the last segment of its path.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// The index of the selectable field that indexes watches: each node watches its own pods.
    pub fn watched_field(&self) -> Option<usize> {
        self.selectable_fields.iter().position(|field| field.name == "spec.nodeName")
    }

    /// Whether only the subresource `status` can change `status`.
    pub fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// The resource in whose collection the objects are; `None` if they are not stored.
    pub fn stored(&'static self) -> Option<&'static Resource> {
        match self.storage {
            Storage::Own => Some(self),
            Storage::Shared(resource) => Some(resource),
            Storage::None => None,
        }
    }
}
