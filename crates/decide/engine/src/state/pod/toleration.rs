//! Pods that tolerate the required anti-affinity of some namespaces ([`tolerated_namespaces`]).
//!
//! Such a pod has a mark in its label set for each of these namespaces, and terms of required anti-affinity select only pods
//! without the marks of their namespace. So a term neither rejects the pod nor counts it, in either direction. A mark
//! is no valid label key: no label and no selector of a user has it.

use std::collections::BTreeSet;

use berth_api::object::Pod;
use berth_rules::tolerated_namespaces;

use crate::state::State;
use crate::state::counting::matcher::PodQuery;
use crate::state::interned::intern::Symbol;

/// All namespaces.
const ALL: &str = "*";

fn mark(namespace: &str) -> String {
    format!(" tolerates {namespace}")
}

impl State {
    /// The marks of a pod, as labels without value.
    pub(in crate::state) fn toleration_marks(&self, pod: &Pod) -> BTreeSet<(String, String)> {
        let tolerated = tolerated_namespaces(pod).filter(|_| self.settings.extensions);
        tolerated.map(|namespace| (mark(namespace), String::new())).collect()
    }

    /// Restricts a query of required anti-affinity to pods that do not tolerate its namespace.
    pub(in crate::state) fn exclude_tolerating(&mut self, query: &mut PodQuery, namespace: Symbol) {
        if self.settings.extensions && !query.labels.is_nothing() {
            let marks =
                [mark(ALL), mark(self.symbols.text(namespace))].map(|mark| self.symbols.intern(&mark));
            query.labels.exclude(marks);
        }
    }
}
