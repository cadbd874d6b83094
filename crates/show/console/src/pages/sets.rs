//! How the sets of pods that selectors describe overlap.

use berth_api::syntax::format::{abbreviated, counted, grouped};
use berth_simulate::SimulatedPod;
use berth_simulate::sets::{ComparedSet, Relation, SelectorSets};
use maud::html;

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::pictures::{self, relation_words, selector_owner};
use crate::{Request, State};

/// Selectors of a set that are named.
const MAX_NAMED: usize = 8;

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let (inventory, options) = state.objects();
    let mut sets = SelectorSets::new(&inventory).map_err(|error| PageError::Parameter(error.to_string()))?;
    let simulation = state.simulation();
    sets.add_terms(simulation.pods(), options.settings.extensions);
    let pods: Vec<&SimulatedPod> = simulation.pods().iter().collect();
    let comparison = sets.compare(&pods);
    let (shown, pages) = parts::paged(request, &comparison.sets)?;
    let set = |set: &ComparedSet| {
        let owners: Vec<_> = set.owners.iter().map(|owner| selector_owner(owner, &set.namespaces)).collect();
        vec![
            parts::number(set.id),
            html! { (set.namespaces) },
            html! { code { (set.selector) } },
            parts::number(set.n_pods),
            html! { (abbreviated(&owners, MAX_NAMED)) },
        ]
    };
    let mut relations: Vec<&Relation> = comparison.relations.iter().filter(|r| r.n_pods > 0).collect();
    relations.sort_by_key(|relation| std::cmp::Reverse(relation.n_pods));
    let relation = |relation: &&Relation| {
        vec![
            html! { "set " (relation.set) },
            html! { (relation_words(relation.relation)) },
            html! { "set " (relation.other) },
            parts::number(relation.n_pods),
        ]
    };
    let summary = &comparison.summary;
    let content = html! {
        p {
            (counted(summary.n_selectors, "selector")) ", " (counted(summary.n_sets, "set")) "; "
            (counted(summary.n_pods_of_two_controllers, "pod")) " of two controllers, "
            (grouped(summary.n_pods_of_two_budgets)) " of two budgets"
        }
        (parts::figure(&pictures::sets(&comparison)))
        (parts::table_of(
            "Sets of pods",
            &["Set", "Namespaces", "Selector", "Pods", "Selected by"],
            shown.iter().map(set).collect(),
        ))
        (pages)
        (parts::short_table(
            "Sets with pods in common",
            &["Set", "Relation", "Other set", "Pods in both"],
            (&relations, "pair"),
            relation,
        ))
    };
    Ok(Page::new("Sets of pods", content))
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn sets_have_their_selectors_and_pods() {
        check("/sets", &["<code>app=web</code></td><td>3</td>", "Deployment web", "in 1 set</text>"]);
    }
}
