//! Changes of a cluster as they are written: kinds of workloads and node labels.

use berth_api::read::Kind;
use berth_schema::resource;

/// The kind that `kubectl` calls so, if Berth reads it.
pub fn kind_of(text: &str) -> Option<Kind> {
    let resource = resource::named(text)?;
    Kind::of(&resource.api_version(), resource.kind)
}

/// The node label key that `zone`, `region` and `node` stand for, or the key itself.
pub fn topology_key(text: &str) -> String {
    match text {
        "zone" => "topology.kubernetes.io/zone",
        "region" => "topology.kubernetes.io/region",
        "node" | "hostname" => "kubernetes.io/hostname",
        key => key,
    }
    .to_owned()
}
