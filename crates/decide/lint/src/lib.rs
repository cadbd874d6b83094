//! Rules that find placement mistakes in manifests, alone or against a cluster.
//!
//! [`LintInput`] holds the objects, parsed once; [`lint`] puts them to the rules of [`RULES`]. Each rule is a file of `rules`
//! and decides with the engine, with the relations of selectors, and with the nodes and pods of the input.
//!
//! This crate does no I/O: callers read files, find the lines of fields, and write the findings.

mod finding;
mod input;
mod nodes;
mod population;
mod rollout;
mod rule;
mod rules;
mod selection;
mod severity;
mod subject;
mod terms;

pub use finding::Finding;
pub use input::{LintInput, Review};
pub use rule::{RULES, RuleInfo, rule};
pub use selection::{Selection, UnknownRule};
pub use severity::Severity;
pub use subject::IGNORE_ANNOTATION;

use berth_simulate::InvalidObject;

use finding::{Findings, Found};

/// The result of the rules.
#[derive(Clone, Debug, Default)]
pub struct LintReport {
    /// The findings, by file and object in input order, then by rule.
    pub findings: Vec<Finding>,
    /// Objects that the API server rejects for reasons that no finding states.
    pub invalid: Vec<InvalidObject>,
}

/// Puts the input to the selected rules.
pub fn lint(input: &LintInput<'_>, selection: &Selection) -> LintReport {
    let mut all: Vec<Found> = Vec::new();
    for info in RULES.iter().filter(|info| selection.contains(info.name)) {
        let mut findings = Findings::new(info.name, info.severity, info.fix);
        (info.check)(input, &mut findings);
        all.extend(findings.all);
    }
    all.retain(|found| !found.is_exempt);
    all.sort_by(|a, b| a.position.cmp(&b.position));
    let mut findings: Vec<_> = all.into_iter().map(|found| found.finding).collect();
    findings.dedup();
    let invalid = input.invalid(&findings);
    LintReport { findings, invalid }
}
