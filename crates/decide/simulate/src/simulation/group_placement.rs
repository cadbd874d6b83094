//! The placement of a pod group.

use serde::Serialize;

/// Domains of a level that are named.
const MAX_DOMAINS: usize = 8;

/// How many members of a pod group are placed, and why not all.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupPlacement {
    pub namespace: String,
    pub name: String,
    /// How many members have to be placed at least.
    pub min: usize,
    /// Its members in the input.
    pub n_pods: usize,
    /// Those with a node.
    pub n_placed: usize,
    /// The value of the node label that its members share, if they have to.
    pub domain: Option<String>,
    /// In an explanation: its members by rank.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<GroupMember>,
    /// Where its members are by the topologies that they share, the coarsest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<LevelPlacement>,
    /// Why the members without a node are not placed: the member and the domain that fail.
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failing: Option<FailingMember>,
}

/// A member of a pod group.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    pub name: String,
    /// Its node, or the one that it would be placed on.
    pub node: Option<String>,
}

/// Where the members of a pod group are by one topology.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LevelPlacement {
    /// The node label key.
    pub key: String,
    /// Whether all members share one domain; otherwise they share as few as possible.
    pub required: bool,
    /// Each domain has a multiple of this number of members; 1 for any number.
    pub slice_size: usize,
    /// The domains with members that have a node, by name.
    pub domains: Vec<DomainMembers>,
    /// In an explanation of a group that is not placed: the domain that takes most members, and how many, those that run there among
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<DomainMembers>,
}

/// How many members of a pod group a domain has.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMembers {
    /// The value of the node label.
    pub domain: String,
    pub n_pods: usize,
}

impl GroupPlacement {
    /// Such as `is placed in west`, or why not all members are.
    pub fn verdict(&self) -> String {
        match (&self.message, &self.domain) {
            (Some(message), _) if self.n_placed == 0 => format!("is not placed: {message}"),
            (Some(message), _) => format!("is placed in part: {message}"),
            (None, Some(domain)) => format!("is placed in {domain}"),
            (None, None) => "is placed".to_owned(),
        }
    }

    /// How many members have a node, and where they are by each level: rows with a name.
    pub fn facts(&self) -> Vec<(String, String)> {
        let GroupPlacement { min, n_pods, n_placed, levels, .. } = self;
        let members = format!("{n_placed} of {n_pods} placed, {min} required");
        let of_level = |level: &LevelPlacement| {
            let name = level.key.rsplit('/').next().unwrap_or_default();
            let mode = if level.required { "required" } else { "preferred" };
            let slices = match level.slice_size {
                0 | 1 => String::new(),
                n => format!(", slices of {n}"),
            };
            (format!("{name} ({mode}{slices})"), level.text(*n_pods))
        };
        let levels = levels.iter().map(of_level).filter(|(_, text)| !text.is_empty());
        [("members".to_owned(), members)].into_iter().chain(levels).collect()
    }
}

impl LevelPlacement {
    /// Such as `r1: 4, r2: 4`, or `r2 takes 6 of 8` for a group that is not placed; empty if no member has a node or would get one.
    fn text(&self, n_pods: usize) -> String {
        let mut domains: Vec<_> = self.domains.iter().collect();
        domains.sort_by_key(|domain| std::cmp::Reverse(domain.n_pods));
        let n_more = domains.len().saturating_sub(MAX_DOMAINS);
        let named = domains.iter().take(MAX_DOMAINS);
        let named = named.map(|DomainMembers { domain, n_pods }| format!("{domain}: {n_pods}"));
        let more = (n_more > 0).then(|| format!("and {n_more} more domains"));
        let largest = self.largest.iter();
        let largest = largest.map(|of| format!("{} takes {} of {n_pods}", of.domain, of.n_pods));
        named.chain(more).chain(largest).collect::<Vec<_>>().join(", ")
    }
}

/// A member of a pod group that has no node when most others have one.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailingMember {
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
