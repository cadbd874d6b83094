//! The definitions of the API's types as JSON schemas, with what the generated bindings leave out.

use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::resource::{GeneratedType, RESOURCES, Resource};
use super::semantics;

/// Where references between definitions point to.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// The fields of the proposals that Kubernetes' own types lack.
pub(super) const PROPOSED_FIELD: &str = "requiredDuringSchedulingRequiredDuringExecution";
const LIMIT: &str = "limit";
const MATCH_ANNOTATIONS: &str = "matchAnnotations";
const NODE_SELECTOR_TERM: &str = "io.k8s.api.core.v1.NodeSelectorTerm";
const POD_AFFINITY_TERM: &str = "io.k8s.api.core.v1.PodAffinityTerm";

/// The types of resources and subresources, each once.
pub(super) fn types() -> &'static [GeneratedType] {
    static TYPES: OnceLock<Vec<GeneratedType>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let of_resource = |resource: &&Resource| {
            resource.generated.into_iter().chain(resource.subresources.iter().filter_map(|sub| sub.generated))
        };
        let mut types: Vec<GeneratedType> = RESOURCES.iter().flat_map(of_resource).collect();
        types.sort_unstable_by_key(|ty| (ty.group, ty.version, ty.kind));
        types.dedup_by_key(|ty| (ty.group, ty.version, ty.kind));
        types
    })
}

/// The definitions of the chosen types, of what every document of the API refers to, and of all that these refer to, by
/// name.
pub(super) fn generate(chosen: impl Fn(&GeneratedType) -> bool) -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.meta_schema = None;
        s.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    for ty in types().iter().filter(|ty| chosen(ty)) {
        (ty.register)(&mut generator);
    }
    generator.subschema_for::<meta::Status>();
    generator.subschema_for::<meta::DeleteOptions>();
    generator.subschema_for::<meta::ListMeta>();
    generator.subschema_for::<meta::ObjectMeta>();
    let mut definitions = generator.take_definitions(false);
    for (name, definition) in &mut definitions {
        add_proposed_fields(name, definition);
        // The bindings have an object where any JSON is allowed.
        if name.ends_with("apiextensions.v1.JSON") {
            definition.as_object_mut().map(|definition| definition.shift_remove("type"));
        }
        semantics::annotate(name, definition);
    }
    definitions
}

/// The definition that a schema refers to, directly or as the only member of `allOf`.
pub(super) fn referred(schema: &Value) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE)
}

/// The fields of the node affinity and inter-pod affinity proposals that Kubernetes' own types lack.
fn add_proposed_fields(definition: &str, schema: &mut Value) {
    let field = match definition {
        "io.k8s.api.core.v1.NodeAffinity" => json!({
            "description": "Like requiredDuringSchedulingIgnoredDuringExecution, and the rule is also kept \
                while the pod runs: a pod whose node stops satisfying it is evicted.",
            "$ref": format!("{REFERENCE}io.k8s.api.core.v1.NodeSelector"),
        }),
        "io.k8s.api.core.v1.PodAffinity" | "io.k8s.api.core.v1.PodAntiAffinity" => json!({
            "description": "Like requiredDuringSchedulingIgnoredDuringExecution, and the rule is also kept \
                while the pod runs: a pod for which it stops being satisfied is evicted.",
            "type": "array",
            "items": { "$ref": format!("{REFERENCE}{POD_AFFINITY_TERM}") },
        }),
        POD_AFFINITY_TERM => json!({
            "description": "In requiredDuringSchedulingRequiredDuringExecution of podAntiAffinity only: the number \
                of other matching pods that may share the domain. Defaults to 0.",
            "type": "integer",
            "format": "int32",
        }),
        NODE_SELECTOR_TERM => json!({
            "description": "In requiredDuringSchedulingRequiredDuringExecution only: requirements on annotations of \
                the node.",
            "type": "array",
            "items": { "$ref": format!("{REFERENCE}io.k8s.api.core.v1.NodeSelectorRequirement") },
        }),
        _ => return,
    };
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert(proposed_field(definition).to_owned(), field);
    }
}

fn proposed_field(definition: &str) -> &'static str {
    match definition {
        NODE_SELECTOR_TERM => MATCH_ANNOTATIONS,
        POD_AFFINITY_TERM => LIMIT,
        _ => PROPOSED_FIELD,
    }
}

/// Removes the extension field of a definition, for a server without the extensions.
pub(super) fn remove_proposed_fields(definition: &str, schema: &mut Value) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove(proposed_field(definition));
    }
}
