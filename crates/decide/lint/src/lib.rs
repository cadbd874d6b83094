//! Rules that find placement mistakes in manifests, alone or against a cluster.
//!
//! [`LintInput`] holds the objects, parsed once; [`lint`] puts them to the rules of [`RULES`]. Each rule is a file of `rules`, may have several findings,
//! and decides with the engine, with the relations of selectors, and with the nodes and pods of the input.
//!
//! This crate does no I/O: callers read files, find the lines of fields, and write the findings.

mod added_labels;
mod api_server;
mod checked;
mod devices;
mod domain_limit;
mod finding;
mod input;
mod nodes;
mod population;
mod rollout;
mod rule;
mod rules;
mod selection;
mod severity;
mod simulated;
mod subject;
mod table;
mod terms;
mod work;

pub use checked::Checked;
pub use finding::Finding;
pub use input::{LintInput, Objection, Review};
pub use rule::RuleInfo;
pub use selection::{Selection, UnknownRule};
pub use severity::Severity;
pub use subject::IGNORE_ANNOTATION;
pub use table::{RULES, rule};

use berth_simulate::InvalidObject;

use finding::{Findings, Found};
use table::checks;

/// Steps of work of a rule, and of all rules together: some seconds.
const RULE_STEPS: u64 = 50_000_000;
const ALL_STEPS: u64 = 100_000_000;

#[derive(Clone, Debug, Default)]
pub struct LintReport {
    /// The findings, by file and object in input order, then by rule.
    pub findings: Vec<Finding>,
    /// Objects that the API server rejects for reasons that no finding states.
    pub invalid: Vec<InvalidObject>,
    /// The rules that were not applied to all objects because that is too much work, each with the first of these objects.
    pub incomplete: Vec<String>,
    pub checked: Checked,
    /// What the input lacks where it has no workloads.
    pub hint: Option<String>,
}

/// Puts the input to the selected rules.
pub fn lint(input: &LintInput<'_>, selection: &Selection) -> LintReport {
    lint_within(input, selection, RULE_STEPS, ALL_STEPS)
}

/// As [`lint`], with at most as many steps of work for each rule, and for all.
pub fn lint_within(
    input: &LintInput<'_>,
    selection: &Selection,
    rule_steps: u64,
    all_steps: u64,
) -> LintReport {
    input.work.begin(all_steps);
    let (mut all, mut incomplete): (Vec<Found>, _) = (Vec::new(), Vec::new());
    let is_selected = |rule: &[RuleInfo]| rule.iter().any(|info| selection.contains(info.name));
    for (rule, check) in checks().filter(|(rule, _)| is_selected(rule)) {
        let steps = input.work.begin_rule(rule_steps);
        let mut findings = Findings::new(rule, input.work.clone());
        check(input, &mut findings);
        if input.work.is_spent() {
            let name = rule[0].rule();
            let first = input.last_subject().map(|subject| &subject.object);
            let first =
                first.map(|first| format!(" from {} {}/{} on", first.kind, first.namespace, first.name));
            let first = first.unwrap_or_default();
            let why = match steps {
                0 => "the rules before it took all steps of work".to_owned(),
                _ => format!("more than {steps} steps of work"),
            };
            incomplete.push(format!("{name} was not applied{first}: {why}"));
        }
        all.extend(findings.all);
    }
    all.retain(|found| found.counts && selection.contains(found.finding.rule));
    all.sort_by(|a, b| a.position.cmp(&b.position));
    let mut findings: Vec<_> = all.into_iter().map(|found| found.finding).collect();
    findings.dedup();
    let invalid = input.invalid(&findings);
    LintReport { findings, invalid, incomplete, checked: input.n_checked(), hint: input.hint() }
}
