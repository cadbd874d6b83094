//! What is lost with each domain of a topology.

use berth_picture::bars::{Bars, Row, Section};
use berth_picture::{Class, Key};
use berth_simulate::what_if::{DomainLoss, DomainLosses};

use berth_api::syntax::format::counted;

const MAX_DOMAINS: usize = 60;

/// The pods of each domain that find other nodes, and those that do not, if the domain is lost.
pub fn losses(losses: &DomainLosses) -> String {
    losses_bars(losses).svg()
}

pub(crate) fn losses_bars(losses: &DomainLosses) -> Bars {
    let DomainLosses { domains, .. } = losses;
    let n_survived = domains.iter().filter(|loss| loss.survives).count();
    let notes = match domains.len().saturating_sub(MAX_DOMAINS) {
        0 => Vec::new(),
        more => vec![format!("and {}", counted(more, "more domain"))],
    };
    Bars {
        title: format!("{n_survived} of {} survived", counted(domains.len(), "domain")),
        description: "A domain survives if each pod that is created again has a node after its loss."
            .to_owned(),
        sections: vec![losses_section(losses)],
        notes,
    }
}

pub(crate) fn losses_section(DomainLosses { key, domains }: &DomainLosses) -> Section {
    let entry = |class, text: &str| Key { class, mark: None, text: text.to_owned() };
    Section {
        name: format!("Pods after the loss of each {key}"),
        legend: vec![entry(Class::Kind(0), "moved"), entry(Class::Alert, "unplaced")],
        rows: domains.iter().take(MAX_DOMAINS).map(row).collect(),
    }
}

fn row(loss: &DomainLoss) -> Row {
    let DomainLoss { domain, nodes, moved, unplaced, evicted, broken_rules, .. } = loss;
    let note = format!(
        "{moved} moved, {} unplaced, {} evicted, {} with rules that break",
        unplaced.len(),
        evicted.len(),
        broken_rules.len()
    );
    Row {
        name: domain.clone(),
        title: format!("{domain}: {}, {note}", counted(*nodes, "node")),
        parts: vec![(Class::Kind(0), *moved), (Class::Alert, unplaced.len())],
        note,
        limit: None,
    }
}
