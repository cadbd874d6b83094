//! Groups of groups: each part is placed by itself, on the state that the parts before it leave.
//!
//! Parts are tried in a few orders, first with all of their members, then with the required ones only. The search is exact within a part
//! and not across parts: a hierarchy that could be placed may be reported as one that cannot.

use std::cmp::Reverse;

use berth_api::object::group::GroupPart;

use super::GroupLevel;
use super::domain::Domain;
use super::topology::Placing;
use crate::decision::Outcome;

/// Members with what was decided about them, by index in the group, and the domain that they share.
pub(super) struct PlacedPart {
    pub(super) outcomes: Vec<(usize, Outcome)>,
    pub(super) domain: Option<String>,
}

impl PlacedPart {
    fn n_placed(&self) -> usize {
        self.outcomes.iter().filter(|(_, outcome)| outcome.node().is_some()).count()
    }
}

/// The members that are tried.
#[derive(Clone, Copy)]
struct Candidates<'o> {
    order: &'o [usize],
    /// Of each part, only as many as it requires.
    only_required: bool,
}

impl<'a> Placing<'a, '_> {
    /// Places the root of a hierarchy: at least one pod, and what the parts require.
    pub(super) fn place_hierarchy(&mut self, root: &'a GroupPart, order: &[usize]) -> Option<PlacedPart> {
        let all_nodes = Domain::all_nodes();
        [false, true].into_iter().find_map(|only_required| {
            let placed = self.place_part(root, Candidates { order, only_required }, &all_nodes)?;
            (placed.n_placed() > 0).then_some(placed)
        })
    }

    /// Places a part in a domain. Nothing is assigned afterwards.
    fn place_part(
        &mut self,
        part: &'a GroupPart,
        candidates: Candidates<'_>,
        within: &Domain,
    ) -> Option<PlacedPart> {
        let levels: Vec<GroupLevel<'a>> = part.levels.iter().map(GroupLevel::from).collect();
        if part.parts.is_empty() {
            let Candidates { order, only_required } = candidates;
            let mut members: Vec<usize> =
                order.iter().copied().filter(|i| part.members.contains(i)).collect();
            if members.len() < part.min {
                return None;
            }
            if only_required {
                members.truncate(part.min);
            }
            if members.is_empty() {
                return Some(PlacedPart { outcomes: Vec::new(), domain: None });
            }
            let found = self.place(&members, part.min, &levels, within)?;
            return Some(PlacedPart {
                outcomes: found.outcomes,
                domain: found.domain.map(|d| d.to_string()),
            });
        }
        let Some(level) = levels.first() else {
            return self.place_parts(part, candidates, within);
        };
        let mut domains = self.domains(level, within);
        if let Some(value) = level.value {
            domains.retain(|domain| domain.value().is_some_and(|own| **own == *value));
        }
        let mut best: Option<PlacedPart> = None;
        for domain in domains {
            let Some(placed) = self.place_parts(part, candidates, &domain) else { continue };
            // Of equal ones, the first by name.
            if best.as_ref().is_none_or(|best| placed.n_placed() > best.n_placed()) {
                best = Some(PlacedPart { domain: domain.value().map(|value| value.to_string()), ..placed });
            }
        }
        best
    }

    /// Places the parts of a part, each after another: at least as many as it requires.
    fn place_parts(
        &mut self,
        part: &'a GroupPart,
        candidates: Candidates<'_>,
        within: &Domain,
    ) -> Option<PlacedPart> {
        let given: Vec<&GroupPart> = part.parts.iter().collect();
        let (mut strictest, mut smallest) = (given.clone(), given.clone());
        strictest.sort_by_key(|part| (Reverse(has_levels(part)), Reverse(part.min)));
        smallest.sort_by_key(|part| n_members(part));
        [given, strictest, smallest].into_iter().find_map(|parts| {
            let (mut outcomes, mut n_complete) = (Vec::new(), 0);
            for next in parts {
                let Some(placed) = self.place_part(next, candidates, within) else { continue };
                n_complete += usize::from(next.min > 0);
                self.assign_all(&placed.outcomes, true);
                outcomes.extend(placed.outcomes);
            }
            self.assign_all(&outcomes, false);
            (n_complete >= part.min).then_some(PlacedPart { outcomes, domain: None })
        })
    }
}

fn has_levels(part: &GroupPart) -> bool {
    !part.levels.is_empty() || part.parts.iter().any(has_levels)
}

fn n_members(part: &GroupPart) -> usize {
    part.members.len() + part.parts.iter().map(n_members).sum::<usize>()
}

/// The PodGroup of a member.
pub(super) fn leaf_of(part: &GroupPart, member: usize) -> Option<&GroupPart> {
    if part.members.contains(&member) {
        return Some(part);
    }
    part.parts.iter().find_map(|part| leaf_of(part, member))
}
