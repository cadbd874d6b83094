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

use crate::strategy::Strategy;
use crate::table::columns::{Columns, DEFAULT};
use kind::{Kind, NoRules};

/// All kinds.
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

/// The row of a built-in kind.
pub fn kind(resource: &Resource) -> Option<&'static Kind> {
    all().find(|kind| std::ptr::eq(kind.resource, resource))
}

/// The strategy of a kind.
pub fn strategy(resource: &Resource) -> &'static dyn Strategy {
    match resource.custom {
        Some(custom) => custom,
        None => kind(resource).map_or(&NoRules, |kind| kind.strategy),
    }
}

/// The columns of a kind's tables.
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

#[cfg(test)]
mod tests {
    use berth_schema::resource::RESOURCES;

    use super::*;

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
