//! The order of decisions, as far as bindings show it.

use std::collections::HashMap;

use berth_testkit::check::Placed;

use crate::scale::templates::{Kind, PodTemplate};

/// Pods in an order in which they may have been decided; with each pod, the resource version of its binding.
///
/// Nothing writes to a pod after its binding: versions are in the order of the bindings. Bindings that are in flight at the
/// same time complete in any order, though, and pods only add to each other here. Pods without rules therefore come first,
/// and those that are spread over zones in an order in which the zones take turns: if there is an order in which each
/// pod keeps its rules, this is one.
pub fn decidable(
    mut placed: Vec<(u64, Placed)>,
    templates: &[PodTemplate],
    zone_of: impl Fn(u32) -> Option<String>,
) -> Vec<Placed> {
    let kind = |placed: &Placed| templates[placed.template as usize].kind;
    placed.sort_unstable_by_key(|(version, placed)| (!kind(placed).is_plain(), *version));
    let mut ordered: Vec<Placed> = placed.into_iter().map(|(_, placed)| placed).collect();
    for (template, _) in templates.iter().enumerate().filter(|(_, t)| t.kind == Kind::ZoneSpread) {
        let places: Vec<usize> =
            (0..ordered.len()).filter(|i| ordered[*i].template as usize == template).collect();
        let mut n_in_zone: HashMap<Option<String>, usize> = HashMap::new();
        let mut turns: Vec<(usize, Placed)> = Vec::with_capacity(places.len());
        for place in &places {
            let turn = n_in_zone.entry(zone_of(ordered[*place].node)).or_default();
            *turn += 1;
            turns.push((*turn, ordered[*place]));
        }
        turns.sort_by_key(|(turn, _)| *turn);
        for (place, (_, placed)) in places.into_iter().zip(turns) {
            ordered[place] = placed;
        }
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::templates::templates;

    #[test]
    fn bindings_that_overtake_each_other_violate_nothing() {
        let templates = templates(false);
        let of = |kind| templates.iter().position(|t| t.kind == kind).unwrap() as u32;
        let (plain, spread) = (of(Kind::Plain), of(Kind::ZoneSpread));
        let zone_of = |node: u32| Some((node % 2).to_string());
        // Decided in the zones 0, 1, 0, 1; acknowledged as 0, 0, 1, 1.
        let bound = [(spread, 0), (spread, 2), (spread, 1), (plain, 9), (spread, 3)];
        let bound = bound.into_iter().zip(1..).map(|((template, node), at)| (at, Placed { template, node }));
        let nodes: Vec<_> = decidable(bound.collect(), &templates, zone_of).iter().map(|p| p.node).collect();
        assert_eq!(nodes, [9, 0, 1, 2, 3]);
    }
}
