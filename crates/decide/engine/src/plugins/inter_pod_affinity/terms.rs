//! Terms between pods in words.

use berth_rules::{PodTerm, Selector, TopologyScope};

use crate::verdict::{bounded, joined};

pub(crate) const REASON_AFFINITY: &str = "node(s) didn't match pod affinity rules";
pub(crate) const REASON_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";

/// An affinity term in words.
pub(crate) fn requires(term: &PodTerm) -> String {
    bounded(format_args!("requires {}", pods_of(term)))
}

/// An affinity term in words, with the number of terms that a pod must match together with it.
pub(crate) fn requires_together(term: &PodTerm, n_terms: usize) -> String {
    match n_terms {
        1 => requires(term),
        n => format!("{} (pods that match all {n} required terms)", requires(term)),
    }
}

/// An anti-affinity term in words.
pub(crate) fn rejects(term: &PodTerm) -> String {
    let verb = if term.limit == 0 || term.selector == Selector::Nothing { "rejects" } else { "allows" };
    bounded(format_args!("{verb} {}", pods_of(term)))
}

fn pods_of(term: &PodTerm) -> String {
    let pods = match (&term.selector, term.limit) {
        (Selector::Nothing, _) => "no pods (null label selector)".to_owned(),
        (selector, 0) if selector.is_everything() => "any pod".to_owned(),
        (selector, 0) => bounded(format_args!("pods with `{selector}`")),
        (selector, limit) => {
            let pods = if limit == 1 { "pod" } else { "pods" };
            let which = if selector.is_everything() {
                String::new()
            } else {
                bounded(format_args!(" with `{selector}`"))
            };
            format!("at most {limit} other {pods}{which}")
        }
    };
    let namespaces = match (&term.namespaces.selector, term.namespaces.names.as_slice()) {
        (selector, _) if selector.is_everything() => "in all namespaces".to_owned(),
        (Selector::Nothing, [one]) => format!("in namespace {one}"),
        (Selector::Nothing, names) => bounded(format_args!("in namespaces {}", joined(names, ", "))),
        (selector, []) => bounded(format_args!("in namespaces with `{selector}`")),
        (selector, names) => {
            bounded(format_args!("in namespaces {} and those with `{selector}`", joined(names, ", ")))
        }
    };
    let topology = match &term.topology {
        TopologyScope::Key(key) => key.as_str(),
        TopologyScope::All => "domain of any topology",
    };
    format!("{pods} {namespaces} in the same {topology}")
}
