//! The rules, on the examples of docs/lint and on small manifests.

#![allow(clippy::unwrap_used)]

mod docs;
mod findings;
mod nodes;
mod published;
mod spread;
mod terms;
mod work;

use berth_admission::{OfflineAdmission, Policy};
use berth_api::object::Pod;
use berth_engine::Settings;
use berth_input::inventory::Inventory;
use berth_input::policy::RequiredLabels;
use berth_lint::{LintInput, LintReport, Objection, Selection, Severity, lint};

/// The report of some rules, or of all with `*`, about a text.
fn report(text: &str, rules: &[&str]) -> LintReport {
    let inventory = Inventory::from_text(text).unwrap();
    let settings = Settings::default();
    report_with(&inventory, &settings, Policy::default(), rules)
}

/// As [`report`], with settings and a policy.
fn report_with(inventory: &Inventory, settings: &Settings, policy: Policy, rules: &[&str]) -> LintReport {
    let offline =
        OfflineAdmission::new(Policy { rule_options: settings.rule_options(), ..policy }, inventory);
    let review = |pod: &Pod| {
        let answer = offline.review(pod).unwrap();
        let denied = answer.denied.map(|denial| Objection { refused: true, message: denial.message });
        let warnings = answer.warnings.into_iter().map(|message| Objection { refused: false, message });
        denied.into_iter().chain(warnings).collect()
    };
    let mut input = LintInput::new(inventory, settings, |_| true, Some(&review));
    if rules == ["required-label-missing"] {
        let labels = RequiredLabels::new(vec!["example.com/team".to_owned()]);
        input = input.with_required_labels(labels, Severity::Error);
    }
    let mut selection = Selection::default();
    let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
    selection.disable(&["*".to_owned()]).and_then(|()| selection.enable(&rules)).unwrap();
    lint(&input, &selection)
}
