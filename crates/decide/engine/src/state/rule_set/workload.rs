//! Services and the selectors of workloads: where default spread constraints get their selector from.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::OwnerReference;
use berth_rules::Selector;

use crate::state::interned::intern::{Labels, Symbol, Symbols};

/// The kinds of owners whose selector counts, as `apiVersion` and `kind`.
const OWNER_KINDS: [(&str, &str); 3] =
    [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")];

/// Selectors of services and of pods' owners, by namespace.
#[derive(Clone, Default)]
pub(crate) struct WorkloadSelectors {
    services: HashMap<String, BTreeMap<String, Selector>>,
    owners: HashMap<String, BTreeMap<(String, String), Selector>>,
}

impl WorkloadSelectors {
    /// Sets or removes the selector of a service; returns the one before.
    pub(in crate::state) fn set_service(
        &mut self,
        namespace: &str,
        name: &str,
        selector: Option<Selector>,
    ) -> Option<Selector> {
        set(&mut self.services, namespace, name.to_owned(), selector)
    }

    /// Sets or removes the selector of an owner; returns the one before.
    pub(in crate::state) fn set_owner(
        &mut self,
        kind: &str,
        namespace: &str,
        name: &str,
        selector: Option<Selector>,
    ) -> Option<Selector> {
        set(&mut self.owners, namespace, (kind.to_owned(), name.to_owned()), selector)
    }

    /// Whether an owner is of a kind whose selector counts.
    pub(crate) fn counts(owner: &OwnerReference) -> bool {
        OWNER_KINDS.contains(&(owner.api_version.as_str(), owner.kind.as_str()))
    }

    /// The selector of a pod's services and owner together; everything when it has neither.
    pub(crate) fn default_selector(
        &self,
        symbols: &Symbols,
        namespace: Symbol,
        labels: &Labels,
        owner: Option<&(String, String)>,
    ) -> Selector {
        let namespace = symbols.text(namespace);
        let label = |key: &str| labels.get(symbols.get(key)?).map(|value| symbols.text(value));
        let services = self.services.get(namespace).into_iter().flat_map(BTreeMap::values);
        let matching = services.filter(|selector| selector.matches(label));
        let mut requirements: Vec<_> = matching.flat_map(Selector::requirements).cloned().collect();
        if let Some(owner) = owner
            && let Some(selector) = self.owners.get(namespace).and_then(|owners| owners.get(owner))
        {
            requirements.extend_from_slice(selector.requirements());
        }
        Selector::new(requirements)
    }
}

fn set<K: Ord>(
    all: &mut HashMap<String, BTreeMap<K, Selector>>,
    namespace: &str,
    key: K,
    selector: Option<Selector>,
) -> Option<Selector> {
    match selector {
        Some(selector) => all.entry(namespace.to_owned()).or_default().insert(key, selector),
        None => {
            let of_namespace = all.get_mut(namespace)?;
            let before = of_namespace.remove(&key);
            if of_namespace.is_empty() {
                all.remove(namespace);
            }
            before
        }
    }
}
