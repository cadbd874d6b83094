//! Pods that are evicted by others than the changes, one by one or with their group.

use berth_api::object::NamespacedName;
use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictedPod {
    pub namespace: String,
    pub name: String,
    pub by: Evictor,
    /// Whether the enforcer evicts it although no node is feasible, after it has been held.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_target: bool,
    /// The pod that it is preempted by.
    #[serde(skip)]
    pub preemptor: Option<NamespacedName>,
    /// The pod group that it is evicted with, all pods together, as `NAMESPACE/NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Evictor {
    /// A rule that is required during execution does not hold.
    Enforcer,
    /// A pod of higher priority needs the room.
    Preemption,
}

impl EvictedPod {
    /// What evicts it, in words.
    pub fn cause(&self) -> String {
        match (self.by, &self.preemptor) {
            (Evictor::Enforcer, _) if self.without_target => "enforcer, without a feasible node".to_owned(),
            (Evictor::Enforcer, _) => "enforcer".to_owned(),
            (Evictor::Preemption, Some(preemptor)) => format!("preemption by {preemptor}"),
            (Evictor::Preemption, None) => "preemption".to_owned(),
        }
    }

    /// What leaves together of some pods that are sorted by namespace and group: a pod, or all pods of a group.
    pub fn units(pods: &[EvictedPod]) -> Vec<&[EvictedPod]> {
        let is_of_unit = |a: &EvictedPod, b: &EvictedPod| {
            a.group.is_some() && (&a.group, a.by, &a.preemptor) == (&b.group, b.by, &b.preemptor)
        };
        pods.chunk_by(is_of_unit).collect()
    }

    /// The name of a pod, or that of a group with those of its pods.
    pub fn name_of_unit(unit: &[EvictedPod]) -> String {
        match unit {
            [] => String::new(),
            [EvictedPod { group: Some(group), .. }, _, ..] => {
                let names: Vec<_> = unit.iter().map(|pod| pod.name.as_str()).collect();
                format!("pod group {group}: {}", names.join(", "))
            }
            [pod, ..] => format!("{}/{}", pod.namespace, pod.name),
        }
    }
}
