//! Services and the selectors of workloads: where default spread constraints get their selector from.

use std::collections::{BTreeMap, HashMap};

use berth_api::object::OwnerReference;
use berth_api::rules::{Requirement, Selector};

use super::intern::{Labels, Symbol, Symbols};

/// The kinds of owners whose selector counts, as `apiVersion` and `kind`.
const OWNER_KINDS: [(&str, &str); 3] =
    [("v1", "ReplicationController"), ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet")];

/// Selectors of services and of pods' owners.
#[derive(Default)]
pub(crate) struct WorkloadSelectors {
    services: HashMap<Symbol, BTreeMap<String, Vec<(String, String)>>>,
    owners: HashMap<(String, Symbol, String), Selector>,
}

impl WorkloadSelectors {
    pub(crate) fn set_service(
        &mut self,
        namespace: Symbol,
        name: &str,
        selector: Option<Vec<(String, String)>>,
    ) {
        let services = self.services.entry(namespace).or_default();
        match selector {
            Some(selector) => _ = services.insert(name.to_owned(), selector),
            None => _ = services.remove(name),
        }
    }

    pub(crate) fn set_owner(
        &mut self,
        kind: &str,
        namespace: Symbol,
        name: &str,
        selector: Option<Selector>,
    ) {
        let key = (kind.to_owned(), namespace, name.to_owned());
        match selector {
            Some(selector) => _ = self.owners.insert(key, selector),
            None => _ = self.owners.remove(&key),
        }
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
        let has = |(k, v): &(String, String)| {
            let found = symbols.get(k).and_then(|k| labels.get(k));
            found.is_some_and(|found| symbols.text(found) == v)
        };
        let services = self.services.get(&namespace).into_iter().flat_map(|s| s.values());
        let merged: BTreeMap<_, _> = services.filter(|s| s.iter().all(has)).flatten().cloned().collect();
        let equal = |(k, v)| Requirement::In(k, vec![v]);
        let mut requirements: Vec<_> = merged.into_iter().map(equal).collect();
        if let Some((kind, name)) = owner
            && let Some(selector) = self.owners.get(&(kind.clone(), namespace, name.clone()))
        {
            requirements.extend_from_slice(selector.requirements());
        }
        Selector::new(requirements)
    }
}
