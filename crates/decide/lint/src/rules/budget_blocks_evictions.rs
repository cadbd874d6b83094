//! Disruption budgets that never allow an eviction.

use berth_api::fenceposts::{Round, clamp, scaled};
use berth_api::object::PodDisruptionBudgetSpec;
use berth_api::read::Kind;
use berth_api::rules::{NamespaceScope, PodSet, Selector};
use serde_json::Value;

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for object in input.objects.iter().filter(|object| object.kind == Kind::PodDisruptionBudget.name()) {
        let Ok(spec) = serde_json::from_value::<PodDisruptionBudgetSpec>(object.raw["spec"].clone()) else {
            continue;
        };
        let Ok(selector) = Selector::parse(spec.selector.as_ref()) else { continue };
        let set = PodSet { namespaces: NamespaceScope::only(object.namespace), selector };
        let covered: Vec<_> =
            input.subjects().filter(|subject| subject.is_in(&set, &input.namespaces)).collect();
        // The pods of a DaemonSet are as many as the nodes.
        let replicas = covered.iter().map(|subject| subject.replicas).sum::<Option<i64>>().unwrap_or(0);
        let PodDisruptionBudgetSpec { min_available, max_unavailable, .. } = &spec;
        let of_replicas = |value: &Value| scaled(value, clamp(replicas), Round::Up);
        let is_all = |value: &Value| match value {
            Value::String(text) if text == "100%" => true,
            _ => replicas > 0 && of_replicas(value).is_some_and(|n| i64::from(n) >= replicas),
        };
        let (path, message) = if scaled(max_unavailable, 100, Round::Up).is_some_and(|n| n <= 0) {
            ("spec.maxUnavailable", "no pod may be unavailable".to_owned())
        } else if is_all(min_available) {
            let names: Vec<_> = covered.iter().map(|subject| subject.shown()).collect();
            let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
            ("spec.minAvailable", format!("all pods{of} must stay available"))
        } else {
            continue;
        };
        let message = format!("{message}: no eviction is ever allowed, and `kubectl drain` never ends");
        findings.add(object, path.to_owned(), message);
    }
}
