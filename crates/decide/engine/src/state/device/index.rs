//! The indexes of slices and classes.

use std::sync::Arc;

use berth_api::object::NamespacedName;

use super::claim::ClaimRecord;
use super::class::ClassRecord;
use super::pool::{Pool, SliceRecord};
use super::{Concerned, Devices, PoolName};
use crate::state::interned::intern::Symbols;
use crate::state::node::Nodes;

impl Devices {
    pub(super) fn put_slice(&mut self, pool: PoolName, record: Arc<SliceRecord>) {
        self.slices.insert(Box::from(&*record.name), pool.clone());
        self.pools.entry(pool.clone()).or_default().slices.insert(record.name.clone(), record.clone());
        self.index_pool(&pool, &record);
    }

    /// Brings the indexes up to date after a slice of a pool was added or removed.
    pub(super) fn index_pool(&mut self, name: &PoolName, changed: &SliceRecord) {
        self.pools.get_mut(name).into_iter().for_each(Pool::check);
        let slices = || self.pools.get(name).into_iter().flat_map(|pool| pool.slices.values());
        let is_shared = slices().any(|slice| slice.node_names().is_none());
        let names: Vec<Arc<str>> = changed.node_names().unwrap_or_default().into_iter().cloned().collect();
        let still: Vec<bool> = (names.iter())
            .map(|node| slices().any(|slice| slice.node_names().is_some_and(|names| names.contains(&node))))
            .collect();
        // Whether a pool is complete and valid is found out where it is looked at.
        let is_faulty = self.pools.get(name).is_some_and(Pool::may_be_faulty);
        match is_faulty {
            true => self.faulty_pools.insert(name.clone()),
            false => self.faulty_pools.remove(name),
        };
        match is_shared {
            true => self.shared_pools.insert(name.clone()),
            false => self.shared_pools.remove(name),
        };
        for (node, still) in names.into_iter().zip(still) {
            let pools = self.pools_of_node.entry(Box::from(&*node)).or_default();
            match still {
                true => pools.insert(name.clone()),
                false => pools.remove(name),
            };
            if pools.is_empty() {
                self.pools_of_node.remove(&*node);
            }
        }
    }

    pub(super) fn drop_empty(&mut self, name: &PoolName) {
        if self.pools.get(name).is_some_and(|pool| pool.slices.is_empty() && pool.used.is_empty()) {
            self.pools.remove(name);
        }
    }

    pub(super) fn concerned(&self, symbols: &Symbols, nodes: &Nodes, pool: &Pool) -> Concerned {
        let mut found = Vec::new();
        for slice in pool.slices.values() {
            let Some(names) = slice.node_names() else { return Concerned::All };
            found.extend(names.into_iter().filter_map(|name| nodes.find(symbols.get(name)?)));
        }
        Concerned::Nodes(found)
    }

    pub(super) fn forget_resource(&mut self, class: &ClassRecord) {
        let Some(resource) = &class.resource else { return };
        if let Some(classes) = self.classes_of_resource.get_mut(resource) {
            classes.remove(&class.name);
            if classes.is_empty() {
                self.classes_of_resource.remove(resource);
            }
        }
    }

    pub(super) fn index_extended(&mut self, name: &NamespacedName, claim: &ClaimRecord, is_added: bool) {
        let Some(uid) = claim.extended_for() else { return };
        if is_added {
            self.extended_claims.entry(uid.into()).or_default().insert(name.clone());
        } else if let Some(claims) = self.extended_claims.get_mut(uid) {
            claims.remove(name);
            if claims.is_empty() {
                self.extended_claims.remove(uid);
            }
        }
    }

    /// Whether one of these pools concerns nodes without devices of it.
    pub(super) fn any_faulty(&self, pools: &[PoolName]) -> bool {
        pools.iter().any(|pool| self.faulty_pools.contains(pool))
    }
}
