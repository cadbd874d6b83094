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
    /// The member that fails, if one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<FailingMember>,
}

/// A member of a pod group that has no node when most others have one.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingMember {
    /// The name of the pod.
    pub name: String,
    /// How many other members have a node then.
    pub n_others: usize,
    /// Its position among the pods.
    #[serde(skip)]
    pub(crate) position: usize,
    /// The others, by position, and their nodes.
    #[serde(skip)]
    pub(crate) others: Vec<(usize, String)>,
    /// The node label, and the value that all members have to share.
    #[serde(skip)]
    pub(crate) within: Option<(String, String)>,
}
