//! Disruption budgets that never allow an eviction.

use std::collections::HashMap;

use berth_api::fenceposts::{Round, clamp, scaled};
use berth_api::object::PodDisruptionBudgetSpec;
use berth_api::read::Kind;
use berth_rules::{NamespaceScope, PodSet, Selector};
use serde_json::Value;

use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;

const INTEGER: &str = "set minAvailable to an integer";
const ONE_EACH: &str = "let only one budget select each pod";

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let mut budget_of = HashMap::new();
    for object in input.objects.iter().filter(|object| object.kind == Kind::PodDisruptionBudget.name()) {
        let Ok(spec) = serde_json::from_value::<PodDisruptionBudgetSpec>(object.raw["spec"].clone()) else {
            continue;
        };
        let Ok(selector) = Selector::parse(spec.selector.as_ref()) else { continue };
        let set = PodSet { namespaces: NamespaceScope::only(object.namespace), selector };
        let covered: Vec<_> =
            input.subjects().filter(|subject| subject.is_in(&set, &input.namespaces)).collect();
        let others = covered.iter().filter_map(|subject| {
            let first = budget_of.entry(std::ptr::from_ref(*subject)).or_insert(object.name);
            (*first != object.name).then_some((*first, subject))
        });
        // All are noted.
        if let Some((other, subject)) = others.collect::<Vec<_>>().first() {
            let message = format!(
                "PodDisruptionBudget {other} also selects {}: the API server evicts no pod that several budgets select, and `kubectl drain` \
                 never ends",
                subject.shown()
            );
            findings.add(object, "spec.selector".to_owned(), message).fix(ONE_EACH);
        }
        let n_pods = |subject: &&Subject<'_>| match subject.replicas {
            None if input.nodes.is_empty() => None,
            // A DaemonSet.
            None => i64::try_from(input.nodes.eligible(subject).nodes.len()).ok(),
            replicas => replicas,
        };
        let replicas = covered.iter().map(n_pods).sum::<Option<i64>>().unwrap_or(0);
        let PodDisruptionBudgetSpec { min_available, max_unavailable, .. } = &spec;
        let of_replicas = |value: &Value| scaled(value, clamp(replicas), Round::Up);
        let is_all = |value: &Value| match value {
            Value::String(text) if text == "100%" => true,
            _ => replicas > 0 && of_replicas(value).is_some_and(|n| i64::from(n) >= replicas),
        };
        let path = if max_unavailable.is_null() { "spec.minAvailable" } else { "spec.maxUnavailable" };
        let is_relative = !max_unavailable.is_null() || min_available.is_string();
        let has_no_scale =
            |subject: &&&Subject<'_>| matches!(subject.kind, Kind::Job | Kind::CronJob | Kind::DaemonSet);
        let (message, fix) = if scaled(max_unavailable, 100, Round::Up).is_some_and(|n| n <= 0) {
            ("no pod may be unavailable".to_owned(), None)
        } else if is_relative && let Some(subject) = covered.iter().find(has_no_scale) {
            (format!("{} has no scale, by which the number is counted", subject.shown()), Some(INTEGER))
        } else if is_relative
            && !covered.is_empty()
            && covered.iter().all(|subject| subject.kind == Kind::Pod)
        {
            (
                "the pods have no controller with a scale, by which the number is counted".to_owned(),
                Some(INTEGER),
            )
        } else if is_all(min_available) {
            let names: Vec<_> = covered.iter().map(|subject| subject.shown()).collect();
            let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(", ")) };
            (format!("all pods{of} must stay available"), None)
        } else {
            continue;
        };
        let message = format!("{message}: no eviction is ever allowed, and `kubectl drain` never ends");
        let finding = findings.add(object, path.to_owned(), message);
        if let Some(fix) = fix {
            finding.fix(fix);
        }
    }
}
