//! Namespaces and their labels.

use rustc_hash::FxHashMap;

use super::intern::{Labels, Symbol};

/// The namespaces that exist as objects.
#[derive(Default)]
pub(crate) struct Namespaces {
    labels: FxHashMap<Symbol, Labels>,
}

impl Namespaces {
    /// A namespace's labels; none if there is no such object.
    pub(crate) fn labels(&self, namespace: Symbol) -> Option<&Labels> {
        self.labels.get(&namespace)
    }

    /// Sets or removes a namespace; tells whether anything changed.
    pub(crate) fn set(&mut self, namespace: Symbol, labels: Option<Labels>) -> bool {
        match labels {
            Some(labels) if self.labels.get(&namespace) == Some(&labels) => false,
            Some(labels) => {
                self.labels.insert(namespace, labels);
                true
            }
            None => self.labels.remove(&namespace).is_some(),
        }
    }
}
