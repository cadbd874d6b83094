//! The workloads that rules bind to each other, for the map.

use std::collections::{HashMap, HashSet};

use berth_picture::cells::Relation;
use maud::{Markup, html};

use super::parts;
use crate::overview::Overview;
use crate::pictures::rules::{Edge, edges, topology};
use crate::pictures::{Level, View};

/// With more workloads, the rules between them are not looked for here.
const MAX_WORKLOADS: usize = 200;

/// The workloads that rules bind to each other, by the ranks of their names.
pub(super) struct Related {
    edges: Vec<Edge>,
    partners: HashMap<usize, HashSet<usize>>,
    ranks: Vec<usize>,
    /// The position of one pod of each workload, by its number.
    representatives: Vec<Option<usize>>,
}

impl Related {
    pub(super) fn new(overview: Overview<'_>) -> Related {
        let table = overview.pods.table;
        if table.workloads().count() > MAX_WORKLOADS {
            return Related {
                edges: Vec::new(),
                partners: HashMap::new(),
                ranks: table.ranks(),
                representatives: vec![None; table.n_numbers()],
            };
        }
        let ranks = table.ranks();
        let numbers: HashMap<_, usize> =
            table.workloads().map(|(number, name)| (name, ranks[number])).collect();
        let edges = edges(overview);
        let mut partners: HashMap<usize, HashSet<usize>> = HashMap::new();
        for edge in &edges {
            if let (Some(from), Some(to)) = (numbers.get(&edge.from), numbers.get(&edge.to)) {
                partners.entry(*from).or_default().insert(*to);
                partners.entry(*to).or_default().insert(*from);
            }
        }
        Related { edges, partners, ranks, representatives: table.representatives(overview.pods.simulation) }
    }

    pub(super) fn relation(&self, overview: Overview<'_>, chosen: usize, at: usize) -> Relation {
        let (pods, table) = (overview.pods, overview.pods.table);
        let rank = |at: usize| table.workload(at).map(|number| self.ranks[number]);
        let (own, other) = (rank(chosen), rank(at));
        if at == chosen || (own.is_some() && own == other) {
            return Relation::Same;
        }
        let is_partner = || self.partners.get(&own?)?.contains(&other?).then_some(());
        match is_partner() {
            Some(()) => Relation::Partner,
            None if pods.at(at).node().is_some() && pods.at(at).node() == pods.at(chosen).node() => {
                Relation::Neighbor
            }
            None => Relation::None,
        }
    }

    /// The ranks of the partners of a workload, for the script.
    pub(super) fn partners_of(&self, rank: usize) -> String {
        let mut partners: Vec<usize> = self.partners.get(&rank).into_iter().flatten().copied().collect();
        partners.sort_unstable();
        partners.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
    }

    /// What the script shows about each workload, if pods are drawn.
    pub(super) fn templates(&self, overview: Overview<'_>, view: &View<'_>) -> Vec<(usize, Markup)> {
        if view.level != Level::Node || overview.pods.table.workloads().count() > MAX_WORKLOADS {
            return Vec::new();
        }
        let mut numbers: Vec<(usize, usize)> =
            overview.pods.table.workloads().map(|(number, _)| (self.ranks[number], number)).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|(rank, number)| (rank, self.rules(overview, number))).collect()
    }

    /// The rules of a workload, and those of others about it.
    pub(super) fn rules(&self, overview: Overview<'_>, number: usize) -> Markup {
        let name = overview.pods.table.name_of(number);
        let own: Vec<&Edge> = self.edges.iter().filter(|edge| edge.from == *name).collect();
        let others: Vec<&Edge> =
            self.edges.iter().filter(|edge| edge.to == *name && edge.from != *name).collect();
        let rule = |edge: &Edge, other: &(String, String)| {
            html! {
                (edge.relation.verb()) " " strong { (other.1) } " " (topology(&edge.term))
                @if edge.n_broken > 0 { " " span.badge.bad { "broken for " (edge.n_broken) } }
            }
        };
        let constraints = self.representatives[number]
            .map(|at| overview.pods.simulation.rules_of(&overview.pods.at(at).pod));
        html! {
            h3 { "Rules of " (name.1) }
            ul.rows {
                @for edge in own.iter().take(parts::MAX_SHOWN) { li { span { (rule(edge, &edge.to)) } } }
                @if let Some(rules) = &constraints {
                    @for constraint in &rules.spread_constraints {
                        li { span { "spreads by " (constraint.topology_key) ", maxSkew " (constraint.max_skew) } }
                    }
                    @for (key, value) in &rules.node_selector { li { span { "needs nodes with " code { (key) "=" (value) } } } }
                    @if !rules.required_node_affinity.is_empty() { li { span { "has required node affinity" } } }
                }
                @for edge in others.iter().take(parts::MAX_SHOWN) { li { span { strong { (edge.from.1) } " " (edge.relation.verb()) " it " (topology(&edge.term)) } } }
            }
            @if own.is_empty() && others.is_empty() && constraints.is_none_or(|r| r.spread_constraints.is_empty() && r.node_selector.is_empty() && r.required_node_affinity.is_empty()) {
                p.detail { "No rule binds it to other pods or to nodes." }
            }
        }
    }
}
