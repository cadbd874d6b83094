//! The kinds of the API: one row each, with its strategy, its columns and the rule of its generation.
//!
//! The folders group the kinds by what they are for. The file of a folder has the rows (`kinds!`), the files beside it have
//! the strategies and the columns. Names are in `berth_api::resource`; verbs, subresources and types in
//! `berth_schema::resource`.

mod access;
mod cluster;
mod config;
mod extension;
mod kind;
mod network;
mod pod;
mod prelude;
mod scheduling;
mod storage;
mod workload;

use berth_schema::resource::Resource;

pub use extension::CUSTOM_RESOURCE_FINALIZER;
pub use pod::write_resources;
pub use scheduling::group_forms;
pub use workload::shared::template_warnings;

use crate::strategy::Strategy;
use crate::table::columns::{Columns, DEFAULT};
use kind::{Kind, NoRules};

fn all() -> impl Iterator<Item = &'static Kind> {
    let folders = [
        access::KINDS,
        cluster::KINDS,
        config::KINDS,
        extension::KINDS,
        network::KINDS,
        pod::KINDS,
        scheduling::KINDS,
        storage::KINDS,
        workload::KINDS,
    ];
    folders.into_iter().flatten()
}

pub fn kind(resource: &Resource) -> Option<&'static Kind> {
    all().find(|kind| std::ptr::eq(kind.resource, resource))
}

pub fn strategy(resource: &Resource) -> &'static dyn Strategy {
    match resource.custom {
        Some(custom) => custom,
        None => kind(resource).map_or(&NoRules, |kind| kind.strategy),
    }
}

pub fn columns(resource: &Resource) -> Columns {
    match (resource.custom, kind(resource)) {
        (Some(custom), _) => Columns::Custom(custom),
        (None, Some(kind)) => Columns::BuiltIn(kind.columns, kind.conditions),
        (None, None) => Columns::BuiltIn(DEFAULT, |_| None),
    }
}

/// Whether `metadata.generation` counts changes of everything but metadata and status.
pub fn has_generation(resource: &Resource) -> bool {
    resource.custom.is_some() || kind(resource).is_some_and(|kind| kind.has_generation)
}

/// Whether an update must name the version that it changes.
pub fn needs_version(resource: &Resource) -> bool {
    resource.custom.is_some() || kind(resource).is_some_and(|kind| kind.needs_version)
}

#[cfg(test)]
mod tests {
    use berth_schema::Type;
    use berth_schema::resource::{RESOURCES, STATEFUL_SETS};
    use serde_json::json;

    use super::*;
    use crate::request::User;
    use crate::strategy::fake_cluster::FakeCluster;

    /// Adds the fields that lead to each label selector of a type: names of fields, and `[0]` for items.
    fn selectors(ty: &Type, path: &[&str], found: &mut Vec<Vec<String>>) {
        match ty {
            Type::Struct(of) if of.name.ends_with(".LabelSelector") => {
                found.push(path.iter().map(ToString::to_string).collect());
            }
            // Of types that refer to themselves, none has a selector.
            Type::Struct(of) if path.len() < 16 => {
                of.fields().for_each(|(name, field)| selectors(field.ty(), &[path, &[name]].concat(), found));
            }
            Type::List { items, .. } => selectors(items.get(), &[path, &["[0]"]].concat(), found),
            _ => {}
        }
    }

    #[test]
    fn label_selectors_took_comparisons_and_values_that_their_operator_has_not() {
        let invalid = json!({"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]},
            {"key": "k", "operator": "In", "values": []}, {"key": "k", "operator": "Exists", "values": ["v"]}, {"key": "/", "operator": "Exists"}]});
        let (cluster, user) = (FakeCluster::default(), User::admin());
        let mut accepted = Vec::new();
        for resource in RESOURCES {
            let Some(ty) = resource.ty() else { continue };
            let mut paths = Vec::new();
            selectors(&ty, &[], &mut paths);
            for path in paths {
                let is_pod_term = path.last().is_some_and(|field| field == "labelSelector")
                    && path.iter().any(|field| field == "podAffinity" || field == "podAntiAffinity");
                // kube-apiserver does not validate the selectors of metrics, and CronJobs may have none for their Jobs.
                let is_of_cron_job = path == ["spec", "jobTemplate", "spec", "selector"];
                if is_pod_term
                    || is_of_cron_job
                    || path[0] == "status"
                    || resource.plural == "horizontalpodautoscalers"
                {
                    continue;
                }
                let nested = path.iter().rev().fold(invalid.clone(), |value, field| match field.as_str() {
                    "[0]" => json!([value]),
                    _ => json!({field: value}),
                });
                let mut object = json!({"apiVersion": resource.api_version(), "kind": resource.kind, "metadata": {"name": "x"}});
                if **resource == STATEFUL_SETS {
                    object["spec"]["template"] = json!({});
                }
                json_patch::merge(&mut object, &nested);
                let validated = strategy(resource).admit_create(
                    &cluster.context(&user),
                    resource,
                    &mut object,
                    &mut Vec::new(),
                );
                let causes = validated.err().map(|status| status.details.causes).unwrap_or_default();
                let field = path.join(".").replace(".[", "[");
                for i in 0..4 {
                    let expression = format!("{field}.matchExpressions[{i}]");
                    if !causes.iter().any(|cause| cause.field.starts_with(&expression)) {
                        accepted.push(format!("{} {expression}", resource.plural));
                    }
                }
            }
        }
        assert_eq!(accepted, [""; 0]);
    }

    /// A row has strategy, columns and generation, or does not compile.
    #[test]
    fn every_served_resource_has_one_row() {
        let name = |resource: &Resource| format!("{}/{}", resource.api_version(), resource.plural);
        let mut rows: Vec<String> = all().map(|kind| name(kind.resource)).collect();
        let mut served: Vec<String> = RESOURCES.iter().map(|resource| name(resource)).collect();
        rows.sort();
        served.sort();
        assert_eq!(rows, served);
    }
}
