//! Namespaces and their labels.

use rustc_hash::FxHashMap;

use super::interned::intern::{Labels, Symbol};

/// The namespaces that exist as objects. A user of their names and labels.
#[derive(Clone, Default)]
pub(crate) struct Namespaces {
    labels: FxHashMap<Symbol, Labels>,
}

impl Namespaces {
    /// A namespace's labels; none if there is no such object.
    pub(crate) fn labels(&self, namespace: Symbol) -> Option<&Labels> {
        self.labels.get(&namespace)
    }

    pub(crate) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Sets or removes a namespace; returns its labels before.
    pub(super) fn set(&mut self, namespace: Symbol, labels: Option<Labels>) -> Option<Labels> {
        match labels {
            Some(labels) => self.labels.insert(namespace, labels),
            None => self.labels.remove(&namespace),
        }
    }
}
