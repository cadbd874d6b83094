//! New volumes, and where they are accessible: the labels that a node must have.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::object::volume::{
    ClaimReference, CsiVolume, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, STORAGE,
    TopologySelectorTerm, VolumeNodeAffinity,
};
use berth_api::object::{NodeSelector, NodeSelectorTerm, ObjectMeta, SelectorRequirement, StringMap};
use berth_api::syntax::labels::ZONE;

/// Labels of the nodes that can access a volume; none means all nodes.
pub type Segments = BTreeMap<String, String>;

/// The segments of a volume for a selected node: its zone, and the labels that the class restricts. `None` if the class does not
/// allow the node.
pub fn for_node(allowed: &[TopologySelectorTerm], labels: &StringMap) -> Option<Segments> {
    let keys: Vec<&str> = match allowed {
        [] => vec![ZONE],
        terms => {
            let term = terms.iter().find(|term| matches(term, labels))?;
            term.match_label_expressions.iter().map(|wanted| wanted.key.as_str()).chain([ZONE]).collect()
        }
    };
    let pairs = keys.into_iter().filter_map(|key| labels.get_key_value(key));
    Some(pairs.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The volume that a provisioner creates for a claim, reserved for it.
pub fn new_volume(
    name: String,
    claim: &PersistentVolumeClaim,
    driver: Option<&str>,
    segments: Segments,
) -> PersistentVolume {
    let ObjectMeta { namespace, name: claim_name, uid, .. } = claim.metadata.clone();
    let requirement =
        |(key, value)| SelectorRequirement { key, operator: "In".to_owned(), values: vec![value] };
    let match_expressions: Vec<_> = segments.into_iter().map(requirement).collect();
    let node_affinity = (!match_expressions.is_empty()).then(|| {
        let node_selector_terms = vec![NodeSelectorTerm { match_expressions, ..NodeSelectorTerm::default() }];
        VolumeNodeAffinity { required: Some(NodeSelector { node_selector_terms, relax_after: None }) }
    });
    let csi = |driver: &str| CsiVolume { driver: driver.to_owned(), volume_handle: name.clone() };
    let spec = PersistentVolumeSpec {
        capacity: [(STORAGE.to_owned(), claim.requested())].into(),
        access_modes: claim.spec.access_modes.clone(),
        volume_mode: claim.spec.volume_mode.clone(),
        storage_class_name: claim.storage_class().to_owned(),
        volume_attributes_class_name: claim.spec.volume_attributes_class_name.clone(),
        claim_ref: Some(ClaimReference { namespace, name: claim_name, uid }),
        csi: driver.map(csi),
        node_affinity,
        ..PersistentVolumeSpec::default()
    };
    PersistentVolume { metadata: ObjectMeta { name, ..ObjectMeta::default() }, spec, ..Default::default() }
}

/// Whether labels satisfy all requirements of a term.
fn matches(term: &TopologySelectorTerm, labels: &StringMap) -> bool {
    let mut requirements = term.match_label_expressions.iter();
    requirements.all(|wanted| labels.get(&wanted.key).is_some_and(|value| wanted.values.contains(value)))
}

/// The segments of a volume without selected node: those of some node that the class allows. The claims of a StatefulSet
/// are spread over the topologies by their ordinals. `None` if the class allows no node.
pub fn for_any_node<'a>(
    allowed: &[TopologySelectorTerm],
    nodes: impl Iterator<Item = &'a StringMap>,
    claim: &str,
) -> Option<Segments> {
    let candidates: BTreeSet<Segments> = nodes.filter_map(|labels| for_node(allowed, labels)).collect();
    if candidates.is_empty() && allowed.is_empty() {
        return Some(Segments::new());
    }
    let (prefix, ordinal) = match claim.rsplit_once('-') {
        Some((prefix, ordinal)) => (prefix, ordinal.parse().unwrap_or(0)),
        None => (claim, 0_usize),
    };
    let hash =
        prefix.bytes().fold(0_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(usize::from(byte)));
    let chosen = hash.wrapping_add(ordinal).checked_rem(candidates.len())?;
    candidates.into_iter().nth(chosen)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn terms(allowed: Value) -> Vec<TopologySelectorTerm> {
        serde_json::from_value(allowed).unwrap()
    }

    fn labels(zone: &str, rack: &str) -> StringMap {
        [(ZONE.to_owned(), zone.to_owned()), ("rack".to_owned(), rack.to_owned())].into()
    }

    #[test]
    fn a_volume_is_in_the_zone_of_its_node_and_in_allowed_topologies() {
        let zone = |values: Value| json!([{"matchLabelExpressions": [{"key": ZONE, "values": values}]}]);
        let rack = json!([{"matchLabelExpressions": [{"key": "rack", "values": ["1", "2"]}]}]);
        for (allowed, wanted) in [
            (json!([]), Some(json!({ZONE: "a"}))),
            (zone(json!(["a", "b"])), Some(json!({ZONE: "a"}))),
            (zone(json!(["b"])), None),
            (rack, Some(json!({ZONE: "a", "rack": "1"}))),
        ] {
            let found = for_node(&terms(allowed.clone()), &labels("a", "1"));
            assert_eq!(found.map(|segments| json!(segments)), wanted, "{allowed}");
        }
        assert_eq!(for_node(&terms(json!([])), &StringMap::new()), Some(Segments::new()));
    }

    #[test]
    fn claims_without_node_are_spread_over_the_zones() {
        let nodes = [labels("a", "1"), labels("b", "1"), labels("c", "1")];
        let zones: BTreeSet<String> = ["data-db-0", "data-db-1", "data-db-2"]
            .iter()
            .map(|claim| for_any_node(&terms(json!([])), nodes.iter(), claim).unwrap()[ZONE].clone())
            .collect();
        assert_eq!(zones.len(), 3);
        assert_eq!(for_any_node(&terms(json!([])), [].iter(), "c"), Some(Segments::new()));
        let allowed = json!([{"matchLabelExpressions": [{"key": ZONE, "values": ["d"]}]}]);
        assert_eq!(for_any_node(&terms(allowed), nodes.iter(), "c"), None);
    }
}
