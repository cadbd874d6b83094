//! The rules, on the examples of docs/lint and on small manifests.

#![allow(clippy::unwrap_used)]

mod docs;
mod findings;
mod published;

use berth_admission::{Policy, refusals};
use berth_api::inventory::Inventory;
use berth_api::object::Pod;
use berth_engine::Settings;
use berth_lint::{LintInput, LintReport, Selection, lint};

/// The report of some rules, or of all with `*`, about a text.
fn report(text: &str, rules: &[&str]) -> LintReport {
    let inventory = Inventory::from_text(text).unwrap();
    let settings = Settings::default();
    let policy = Policy::default();
    let review = |pod: &Pod| refusals(pod, &policy);
    let input = LintInput::new(&inventory, &settings, |_| true, Some(&review));
    let mut selection = Selection::default();
    let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
    selection.disable(&["*".to_owned()]).and_then(|()| selection.enable(&rules)).unwrap();
    lint(&input, &selection)
}
