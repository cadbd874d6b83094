//! Which zones can be lost.

use std::collections::BTreeMap;

use berth_api::syntax::format::counted;
use berth_api::syntax::labels::ZONE;
use berth_api::syntax::quantity::with_unit;
use maud::{Markup, html};

use crate::components::{Tone, badge, linked_card};
use crate::places::places;
use crate::{State, links};

/// Zones of the card.
const MAX_ZONES: usize = 6;
/// What is compared where the loss is not played through.
const RESOURCES: [&str; 2] = ["cpu", "memory"];

/// What happens to the pods of a zone with its loss.
struct Loss {
    zone: String,
    /// Why it cannot be lost, in a few words; none if it can.
    problem: Option<String>,
}

pub(super) fn card(state: &mut State, max_pods: usize) -> Markup {
    let is_exact = state.pods().table.n_pods() <= max_pods;
    let mut losses = if is_exact { played_through(state) } else { by_resources(state) };
    losses.sort_by(|a, b| b.problem.is_some().cmp(&a.problem.is_some()).then_with(|| a.zone.cmp(&b.zone)));
    let n_lost = losses.iter().filter(|loss| loss.problem.is_some()).count();
    let tone = match n_lost {
        0 if is_exact => Tone::Good,
        0 => Tone::Neutral,
        _ => Tone::Bad,
    };
    let content = html! {
        @if losses.is_empty() { p.detail { "No node has a zone label." } }
        @else {
            p.stat {
                b class=(tone.class()) { a href="/what-if?each=zone" { (losses.len() - n_lost) " of " (losses.len()) } }
                span { @if losses.len() == 1 { "zone" } @else { "zones" } (if is_exact { " can be lost" } else { ": their pods have room elsewhere" }) }
            }
        }
        ul.rows {
            @for Loss { zone, problem } in losses.iter().take(MAX_ZONES) {
                li {
                    a href=(links::with("/what-if", "remove-domain", &format!("{ZONE}={zone}"))) { (zone) }
                    @match problem { Some(problem) => span.bad { (problem) }, None => (badge(Tone::Good, if is_exact { "can be lost" } else { "enough room" })) }
                }
            }
            @if losses.len() > MAX_ZONES { li { span.detail { "and " (counted(losses.len() - MAX_ZONES, "more zone")) } } }
        }
        @if !is_exact { p.detail { "By requested cpu and memory; the what-if also follows the rules of the pods." } }
    };
    linked_card("Survivability", ("/what-if?each=zone", "What if each is lost"), &content)
}

/// The pods are placed again, zone by zone.
fn played_through(state: &mut State) -> Vec<Loss> {
    let mut simulation = state.simulation().clone();
    let losses = simulation.lose_each_domain(ZONE, |_, _| ());
    let loss = |loss: berth_simulate::what_if::DomainLoss| Loss {
        problem: (!loss.survives).then(|| format!("cannot be lost: {}", counted(loss.unplaced.len(), "pod"))),
        zone: loss.domain,
    };
    losses.domains.into_iter().map(loss).collect()
}

/// Whether what the pods of a zone request is free elsewhere: if not, it cannot be lost.
fn by_resources(state: &mut State) -> Vec<Loss> {
    let overview = state.overview();
    let by_node = overview.pods.table.by_node();
    let mut zones: BTreeMap<&str, [(i64, i64); 2]> = BTreeMap::new();
    let places = places(overview, &by_node);
    for place in &places {
        let Some(zone) = place.node.metadata.labels.get(ZONE) else { continue };
        let sums = zones.entry(zone).or_default();
        for (sum, resource) in sums.iter_mut().zip(RESOURCES) {
            let (used, of) = place.amount(resource);
            sum.0 += used;
            sum.1 += (of - used).max(0);
        }
    }
    let free = |i: usize| zones.values().map(|sums| sums[i].1).sum::<i64>();
    let loss = |(zone, sums): (&&str, &[(i64, i64); 2])| {
        let missing = RESOURCES.iter().enumerate().find_map(|(i, resource)| {
            let (used, own) = sums[i];
            let elsewhere = free(i) - own;
            (used > elsewhere).then(|| {
                format!(
                    "cannot be lost: {} {resource} too little elsewhere",
                    with_unit(resource, used - elsewhere)
                )
            })
        });
        Loss { zone: (*zone).to_owned(), problem: missing }
    };
    zones.iter().map(loss).collect()
}
