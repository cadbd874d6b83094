//! The placement of a pod group.

use serde::Serialize;

/// How many members of a pod group are placed, and why not all.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupPlacement {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// How many members have to be placed at least.
    pub min: usize,
    /// Its members in the input.
    pub n_pods: usize,
    /// Those with a node.
    pub n_placed: usize,
    /// The value of the node label that its members share, if they have to.
    pub domain: Option<String>,
    /// Why the members without a node are not placed: the member and the domain that fail.
    pub message: Option<String>,
}
