//! The definitions of the API's types as JSON schemas, with what the generated bindings leave out.

use std::sync::OnceLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

pub(super) use super::resource::REFERENCE;
use super::resource::scheduling_1_37::{add_gated_fields, add_job_scheduling};
use super::resource::{GeneratedType, RESOURCES, Resource};
use super::semantics;

/// The fields of the proposals that Kubernetes' own types lack.
pub(super) const PROPOSED_FIELD: &str = "requiredDuringSchedulingRequiredDuringExecution";
/// Of the names of definitions that Kubernetes does not have.
const PROPOSED_PREFIX: &str = "dev.berth.scheduling.v1.";
const LIMIT: &str = "limit";
const MATCH_ANNOTATIONS: &str = "matchAnnotations";
const NODE_SELECTOR: &str = "io.k8s.api.core.v1.NodeSelector";
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
    add_later_fields(&mut definitions);
    for (name, definition) in &mut definitions {
        add_proposed_fields(name, definition);
        if name.starts_with("io.k8s.api.scheduling.") && name.ends_with("PodGroupSpec") {
            add_gated_fields(definition);
        }
        // The bindings have an object where any JSON is allowed.
        if name.ends_with("apiextensions.v1.JSON") {
            definition.as_object_mut().map(|definition| definition.shift_remove("type"));
        }
        semantics::annotate(name, definition);
    }
    add_job_scheduling(&mut definitions);
    add_proposed_definitions(&mut definitions);
    definitions
}

/// Adds the fields of `added_1_37.txt`, and the definitions that they refer to.
fn add_later_fields(definitions: &mut Map<String, Value>) {
    let rows = include_str!("added_1_37.txt").lines().filter(|line| !line.starts_with('#'));
    for row in rows {
        let mut words = row.split(' ');
        let mut word = || words.next().unwrap_or_default();
        let (definition, field, ty) = (format!("io.k8s.{}", word()), word(), word());
        let Some(of) = definitions.get_mut(&definition) else { continue };
        let name = field.trim_end_matches('!');
        of["properties"][name] = later_type(ty);
        if field != name {
            let required = of["required"].as_array().cloned().unwrap_or_default();
            of["required"] = required.into_iter().chain([json!(name)]).collect();
        }
        let referred = ty.rsplit(']').next().filter(|ty| ty.contains('.'));
        if let Some(referred) = referred
            .map(|ty| format!("io.k8s.{ty}"))
            .filter(|ty| ty.contains(".api.") && !definitions.contains_key(ty))
        {
            definitions.insert(referred, json!({"type": "object", "properties": {}}));
        }
    }
}

fn later_type(ty: &str) -> Value {
    if let Some(items) = ty.strip_prefix("[]") {
        return json!({"type": "array", "items": later_type(items)});
    }
    if let Some(values) = ty.strip_prefix("map[]") {
        return json!({"type": "object", "additionalProperties": later_type(values)});
    }
    match ty {
        "string" => json!({"type": "string"}),
        "bool" => json!({"type": "boolean"}),
        "int32" | "int64" => json!({"type": "integer", "format": ty}),
        "quantity" => json!({"$ref": format!("{REFERENCE}io.k8s.apimachinery.pkg.api.resource.Quantity")}),
        "time" => json!({"$ref": format!("{REFERENCE}io.k8s.apimachinery.pkg.apis.meta.v1.Time")}),
        definition => json!({"$ref": format!("{REFERENCE}io.k8s.{definition}")}),
    }
}

/// The definition that a schema refers to, directly or as the only member of `allOf`.
pub(super) fn referred(schema: &Value) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    reference.as_str()?.strip_prefix(REFERENCE)
}

/// The fields of the node affinity and inter-pod affinity proposals that Kubernetes' own types lack.
fn add_proposed_fields(definition: &str, schema: &mut Value) {
    let terms = |description: &str| {
        let items = format!("{REFERENCE}{}", proposed_definition(POD_AFFINITY_TERM));
        json!({"description": description, "type": "array", "items": {"$ref": items}})
    };
    let field = match definition {
        "io.k8s.api.core.v1.NodeAffinity" => json!({
            "description": "The node must match when the pod is scheduled and as long as it runs: a pod whose node \
                stops matching is eventually evicted. requiredDuringSchedulingIgnoredDuringExecution must hold as well.",
            "$ref": format!("{REFERENCE}{}", proposed_definition(NODE_SELECTOR)),
        }),
        "io.k8s.api.core.v1.PodAffinity" => terms(
            "Each term is a requirement by itself, and different pods may satisfy them: the lists of nodes of all terms are \
             intersected. They must hold when the pod is scheduled and as long as it runs: a pod for which one stops being \
             satisfied is eventually evicted. A term that the pod matches itself is disregarded while no other pod matches it.",
        ),
        "io.k8s.api.core.v1.PodAntiAffinity" => terms(
            "Pods that match a term may not share its domain with this pod, whichever of them is scheduled first, and as long as \
             this pod runs: if one comes to match, this pod is eventually evicted, or those that conflict if all have lower \
             priority.",
        ),
        POD_AFFINITY_TERM => json!({
            "description": "In requiredDuringSchedulingRequiredDuringExecution of podAntiAffinity only: the number \
                of other matching pods that may share the domain; if there are more, those above it are evicted. Defaults to 0.",
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

/// The field of a definition itself in the lists of [`PROPOSED_DEFINITIONS`].
const WHOLE: &str = "";

/// The definitions that fields of the proposals use in place of Kubernetes' own, and how their meaning and that of their fields differs.
static PROPOSED_DEFINITIONS: &[(&str, &[(&str, &str)])] = &[
    (
        NODE_SELECTOR,
        &[("nodeSelectorTerms", "The node must match one of these terms. Without terms, no node matches.")],
    ),
    (
        NODE_SELECTOR_TERM,
        &[
            (
                WHOLE,
                "An empty term matches every node, a null term no node. The requirements of a term are ANDed.",
            ),
            (
                "matchExpressions",
                "Requirements on labels of the node. A term without any requirement matches every node.",
            ),
            (
                "matchFields",
                "Requirements on fields of the node: metadata.name, spec.providerID, spec.unschedulable and status.nodeInfo.*, \
                 with all operators.",
            ),
        ],
    ),
    (
        "io.k8s.api.core.v1.NodeSelectorRequirement",
        &[("operator", "In, NotIn, Exists, DoesNotExist, Gt, Lt, VersionGt or VersionLt.")],
    ),
    (
        POD_AFFINITY_TERM,
        &[
            ("labelSelector", "Selects pods by their labels. Gt and Lt compare integers."),
            ("namespaces", "Absent: the namespace of this pod. An empty list: all namespaces."),
            (
                "namespaceSelector",
                "Selects namespaces by their labels, in addition to those of the field namespaces. An empty selector ({}) selects all \
                 namespaces.",
            ),
            (
                "topologyKey",
                "The label of nodes whose value makes a domain. Empty: any of the topologies that the server is configured for, by \
                 default host name, zone and region.",
            ),
        ],
    ),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", &[]),
    (
        "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
        &[("operator", "In, NotIn, Exists, DoesNotExist, Gt or Lt.")],
    ),
];

/// The name of the definition that fields of the proposals use in place of one of Kubernetes.
fn proposed_definition(name: &str) -> String {
    format!("{PROPOSED_PREFIX}{}", name.rsplit('.').next().unwrap_or_default())
}

/// The definition of Kubernetes that has the same fields, or the definition itself.
pub(super) fn original_definition(name: &str) -> &str {
    let mut of_proposals = PROPOSED_DEFINITIONS.iter().map(|(original, _)| *original);
    of_proposals.find(|original| proposed_definition(original) == name).unwrap_or(name)
}

fn add_proposed_definitions(definitions: &mut Map<String, Value>) {
    if !definitions.contains_key(POD_AFFINITY_TERM) {
        return;
    }
    fn redirect(value: &mut Value) {
        match value {
            Value::Object(fields) => fields.values_mut().for_each(redirect),
            Value::Array(items) => items.iter_mut().for_each(redirect),
            Value::String(text) => {
                let name = text.strip_prefix(REFERENCE).unwrap_or_default();
                if PROPOSED_DEFINITIONS.iter().any(|(own, _)| *own == name) {
                    *text = format!("{REFERENCE}{}", proposed_definition(name));
                }
            }
            _ => {}
        }
    }
    for (name, descriptions) in PROPOSED_DEFINITIONS {
        let Some(mut definition) = definitions.get(*name).cloned() else { continue };
        redirect(&mut definition);
        for (field, description) in *descriptions {
            let described =
                if *field == WHOLE { &mut definition } else { &mut definition["properties"][field] };
            described["description"] = json!(description);
        }
        // What is absent has a meaning in the proposals.
        if [NODE_SELECTOR, POD_AFFINITY_TERM].contains(name) {
            definition.as_object_mut().map(|definition| definition.shift_remove("required"));
        }
        definitions.insert(proposed_definition(name), definition);
    }
}

fn proposed_field(definition: &str) -> &'static str {
    match definition {
        NODE_SELECTOR_TERM => MATCH_ANNOTATIONS,
        POD_AFFINITY_TERM => LIMIT,
        _ => PROPOSED_FIELD,
    }
}

/// Removes what the extensions add, for a server without them.
pub(super) fn remove_proposed(definitions: &mut Map<String, Value>) {
    definitions.retain(|name, _| !name.starts_with(PROPOSED_PREFIX));
    for (name, schema) in definitions {
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.remove(proposed_field(name));
        }
    }
}
