//! CustomResourceDefinitions.

use std::collections::HashSet;

use berth_api::syntax;
use berth_schema::resource::{CUSTOM_RESOURCE_DEFINITIONS, RESOURCES, has_room};

use super::rules::validate_rules;
use crate::kinds::prelude::*;

/// Keeps a definition until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn default(&self, value: &mut Value) {
        let Some(spec) = object(value, "spec") else { return };
        if let Some(conversion) = spec.entry("conversion").or_insert_with(|| json!({})).as_object_mut() {
            default_text(conversion, "strategy", "None");
        }
        if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            default_text(names, "singular", &kind.to_ascii_lowercase());
            default_text(names, "listKind", &format!("{kind}List"));
        }
    }

    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        set_status(context, value, &json!({}));
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if context.subresource.is_empty() {
            self.default(new);
            set_status(context, new, &old["status"]);
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let spec = &value["spec"];
        let (group, plural) = (text(spec, "/group"), text(spec, "/names/plural"));
        if !name(value).is_empty() && name(value) != format!("{plural}.{group}") {
            let why = "must be spec.names.plural+\".\"+spec.group";
            causes.invalid("metadata.name", &value["metadata"]["name"], why);
        }
        if group.is_empty() {
            causes.required("spec.group", "");
        } else if !group.contains('.') {
            causes.invalid("spec.group", &spec["group"], "should be a domain with at least one dot");
        } else {
            causes.problems("spec.group", &spec["group"], syntax::dns_subdomain(group));
        }
        let is_protected = ["k8s.io", "kubernetes.io"]
            .iter()
            .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
        if is_protected && text(value, "/metadata/annotations/api-approved.kubernetes.io").is_empty() {
            let field = "metadata.annotations[api-approved.kubernetes.io]";
            causes.required(
                field,
                "protected groups must have approval annotation \"api-approved.kubernetes.io\"",
            );
        }
        for field in ["plural", "singular", "kind", "listKind"] {
            let path = format!("spec.names.{field}");
            match text(&spec["names"], &format!("/{field}")) {
                "" => causes.required(&path, ""),
                given if field.ends_with("ind") => {
                    let problems = syntax::dns_1035_label(&given.to_ascii_lowercase()).into_iter();
                    let otherwise = "may have mixed case, but should otherwise match: ";
                    causes.problems(
                        &path,
                        &given.into(),
                        problems.map(|p| format!("{otherwise}{p}")).collect(),
                    );
                }
                given => causes.problems(&path, &given.into(), syntax::dns_1035_label(given)),
            }
        }
        for field in ["shortNames", "categories"] {
            for (i, name) in items(&spec["names"], field).iter().enumerate() {
                let path = format!("spec.names.{field}[{i}]");
                causes.problems(&path, name, syntax::dns_1035_label(text(name, "")));
            }
        }
        match text(spec, "/scope") {
            "" => causes.required("spec.scope", ""),
            _ => causes.one_of("spec.scope", &spec["scope"], &["Cluster", "Namespaced"]),
        }
        if spec["preserveUnknownFields"] == true {
            let why = "must be false in order to use defaults in the schema";
            causes.invalid("spec.preserveUnknownFields", &spec["preserveUnknownFields"], why);
        }
        causes.one_of("spec.conversion.strategy", &spec["conversion"]["strategy"], &["None", "Webhook"]);
        validate_versions(spec, causes);
        // Registered once it is stored: what is registered stays.
        if causes.0.is_empty() && !has_room(text(value, "/metadata/name")) {
            causes.forbidden("spec", "this API server has no room for further custom resources; restart it");
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let fixed = ["/spec/group", "/spec/scope", "/spec/names/plural", "/spec/names/kind"];
        causes.unchanged_at(&fixed, new, old);
        let names = || items(&new["spec"], "versions").iter().map(|version| &version["name"]);
        for stored in items(&old["status"], "storedVersions") {
            if !names().any(|name| name == stored) {
                let i = items(&old["status"], "storedVersions").iter().position(|of| of == stored);
                let version = text(stored, "");
                let why = format!(
                    "missing from spec.versions; {version} was previously a storage version, and must remain in spec.versions until \
                     a storage migration ensures no data remains persisted in {version} and removes {version} from \
                     status.storedVersions"
                );
                causes.invalid(&format!("status.storedVersions[{}]", i.unwrap_or_default()), stored, &why);
            }
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let names = &new["status"]["acceptedNames"];
        for (field, shown) in [("plural", &names["plural"]), ("singular", &names["singular"])] {
            if let Some(name) = shown.as_str().filter(|name| !name.is_empty()) {
                causes.problems(
                    &format!("status.acceptedNames.{field}"),
                    shown,
                    syntax::dns_1035_label(name),
                );
            }
        }
    }

    /// Its objects go first.
    fn has_finalizers(&self, value: &Value) -> bool {
        value["metadata"]["deletionTimestamp"].is_null() || !is_empty(&value["metadata"]["finalizers"])
    }

    fn mark_deleting(&self, value: &mut Value) {
        add_finalizer(value, "metadata", FINALIZER);
    }

    fn warnings(&self, value: &Value) -> Vec<String> {
        let warning = "spec.conversion: this server does not call conversion webhooks: it changes only the apiVersion of \
                       objects that are read or written in another version than the stored one";
        let is_called = value["spec"]["conversion"]["strategy"] == "Webhook";
        is_called.then(|| warning.to_owned()).into_iter().collect()
    }
}

/// What the controllers of a kube-apiserver write: whether the names are accepted, and which versions are stored.
fn set_status(context: &Context<'_>, value: &mut Value, old: &Value) {
    let conflict = conflict(context, value);
    let mut status = if old.is_object() { old.clone() } else { json!({}) };
    status["conditions"] = conditions(conflict.as_deref(), &old["conditions"], &now());
    if conflict.is_none() {
        status["acceptedNames"] = value["spec"]["names"].clone();
    }
    let mut stored = items(old, "storedVersions").to_vec();
    let current = items(&value["spec"], "versions").iter().find(|version| version["storage"] == true);
    if let Some(current) = current.map(|version| version["name"].clone())
        && !stored.contains(&current)
    {
        stored.push(current);
    }
    status["storedVersions"] = stored.into();
    value["status"] = status;
}

/// The conditions of a definition, from whether its names are accepted.
fn conditions(conflict: Option<&str>, old: &Value, now: &str) -> Value {
    let condition = |kind: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        let previous = old.as_array().into_iter().flatten();
        let same = previous.into_iter().find(|c| c["type"] == kind && c["status"] == status);
        let since = same.map_or(json!(now), |same| same["lastTransitionTime"].clone());
        json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
    };
    match conflict {
        None => json!([
            condition("NamesAccepted", true, "NoConflicts", "no conflicts found"),
            condition("Established", true, "InitialNamesAccepted", "the initial names have been accepted"),
        ]),
        Some(message) => json!([
            condition("NamesAccepted", false, "NameConflict", message),
            condition("Established", false, "NotAccepted", "not all names are accepted"),
        ]),
    }
}

/// Why names of a definition are not accepted: another resource of the group has them.
fn conflict(context: &Context<'_>, value: &Value) -> Option<String> {
    let spec = &value["spec"];
    let group = text(spec, "/group");
    let names_of = |names: &Value| -> Vec<String> {
        let one = ["plural", "singular"].iter().filter_map(|field| names[field].as_str());
        one.chain(items(names, "shortNames").iter().filter_map(Value::as_str)).map(str::to_owned).collect()
    };
    let kinds_of = |names: &Value| [names["kind"].clone(), names["listKind"].clone()];
    let all = context.lookup.list(&CUSTOM_RESOURCE_DEFINITIONS, None);
    let others = all.iter().filter(|other| other.facts.name() != name(value)).map(|other| other.parsed());
    let (own_names, own_kinds) = (names_of(&spec["names"]), kinds_of(&spec["names"]));
    for other in others.filter(|other| text(other, "/spec/group") == group) {
        let accepted = &other["status"]["acceptedNames"];
        let taken = names_of(accepted);
        if let Some(name) = own_names.iter().find(|name| taken.contains(name)) {
            return Some(format!("{name:?} is already in use"));
        }
        let taken = kinds_of(accepted);
        if let Some(kind) = own_kinds.iter().find(|kind| taken.contains(kind)) {
            return Some(format!("{kind} is already in use"));
        }
    }
    let built_in = RESOURCES.iter().find(|r| r.group == group && r.plural == text(spec, "/names/plural"));
    built_in.map(|resource| format!("{:?} is already in use", resource.plural))
}

/// A table has a cell for each column and object.
const MAX_COLUMNS: usize = 64;

fn validate_versions(spec: &Value, causes: &mut Causes) {
    let versions = items(spec, "versions");
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        causes.invalid("spec.versions", &json!(versions.iter().map(|v| &v["name"]).collect::<Vec<_>>()), why);
    }
    let mut names = HashSet::new();
    for (i, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{i}]");
        causes.problems(
            &format!("{path}.name"),
            &version["name"],
            syntax::dns_1035_label(text(version, "/name")),
        );
        if !names.insert(&version["name"]) {
            causes.duplicate(&format!("{path}.name"), &version["name"]);
        }
        if items(version, "additionalPrinterColumns").len() > MAX_COLUMNS {
            let why = format!("must have at most {MAX_COLUMNS} columns");
            causes.forbidden(&format!("{path}.additionalPrinterColumns"), &why);
        }
        for (j, column) in items(version, "additionalPrinterColumns").iter().enumerate() {
            let path = format!("{path}.additionalPrinterColumns[{j}]");
            causes.not_empty(&format!("{path}.name"), &column["name"]);
            for (field, allowed) in [("type", COLUMN_TYPES), ("format", COLUMN_FORMATS)] {
                let (path, given) = (format!("{path}.{field}"), &column[field]);
                let why = format!("must be one of {}", allowed.join(","));
                match text(given, "") {
                    "" if field == "type" => causes.required(&path, &why),
                    text if text.is_empty() || allowed.contains(&text) => {}
                    _ => causes.invalid(&path, given, &why),
                }
            }
            causes.not_empty(&format!("{path}.JSONPath"), &column["jsonPath"]);
        }
        let replicas = &version["subresources"]["scale"]["specReplicasPath"];
        if replicas.as_str().is_some_and(|path| !path.starts_with(".spec.") || path.contains('[')) {
            let why = "should be a json path under .spec, without array notation";
            causes.invalid(&format!("{path}.subresources.scale.specReplicasPath"), replicas, why);
        }
        let schema = &version["schema"]["openAPIV3Schema"];
        let path = format!("{path}.schema.openAPIV3Schema");
        if !schema.is_object() {
            causes.required(&path, "");
        } else if is_empty(&schema["type"]) {
            causes.required(&format!("{path}.type"), "must not be empty at the root");
        } else if schema["type"] != "object" {
            causes.invalid(&format!("{path}.type"), &schema["type"], "must be object at the root");
        } else {
            let n_causes = causes.0.len();
            validate_structural(schema, &path, causes);
            if causes.0.len() == n_causes {
                let shared = "spec.validation.openAPIV3Schema";
                validate_rules(schema, if versions.len() == 1 { shared } else { &path }, causes);
            }
        }
    }
    if let [_] = versions {
        // What all versions have stands outside of them in the internal type of kube-apiserver.
        for cause in &mut causes.0 {
            for (part, shared) in [
                ("schema.openAPIV3Schema.", "validation.openAPIV3Schema."),
                ("additionalPrinterColumns", "additionalPrinterColumns"),
                ("subresources", "subresources"),
            ] {
                cause.field =
                    cause.field.replace(&format!("spec.versions[0].{part}"), &format!("spec.{shared}"));
            }
        }
    }
}

const COLUMN_TYPES: &[&str] = &["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: &[&str] =
    &["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Checks what makes a schema structural: each value has one type.
fn validate_structural(schema: &Value, path: &str, causes: &mut Causes) {
    let is_free = schema["x-kubernetes-int-or-string"] == true
        || schema["x-kubernetes-preserve-unknown-fields"] == true;
    match schema["type"].as_str() {
        Some(name) if TYPES.contains(&name) => {}
        None | Some("") if is_free => {}
        None | Some("") => {
            causes.required(&format!("{path}.type"), "must not be empty for specified object fields");
        }
        Some(_) => causes.not_supported(&format!("{path}.type"), &schema["type"], &TYPES),
    }
    for field in ["$ref", "definitions", "dependencies", "id", "patternProperties"] {
        if !is_empty(&schema[field]) {
            causes.forbidden(&format!("{path}.{field}"), &format!("{field} is not supported"));
        }
    }
    if schema["uniqueItems"] == true {
        causes.forbidden(
            &format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime \
            complexity becomes quadratic",
        );
    }
    if schema["type"] == "array" && !schema["items"].is_object() {
        causes.required(&format!("{path}.items"), "must be specified");
    }
    if schema["x-kubernetes-list-type"] == "map" && is_empty(&schema["x-kubernetes-list-map-keys"]) {
        let why = "must not be empty if x-kubernetes-list-type is map";
        causes.required(&format!("{path}.x-kubernetes-list-map-keys"), why);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        validate_structural(property, &format!("{path}.properties[{name}]"), causes);
    }
    for field in ["items", "additionalProperties"] {
        if schema[field].is_object() {
            validate_structural(&schema[field], &format!("{path}.{field}"), causes);
        }
    }
}
