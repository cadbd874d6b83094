//! The indexes of slices and classes.

use std::sync::Arc;

use berth_api::object::NamespacedName;

use super::claim::ClaimRecord;
use super::class::ClassRecord;
use super::pool::{Pool, SliceRecord};
use super::{Concerned, Devices, PoolName};
use crate::state::interned::intern::Symbols;
use crate::state::node::{NodeRecord, Nodes};

impl Devices {
    pub(super) fn put_slice(&mut self, pool: PoolName, record: Arc<SliceRecord>) {
        self.slices.insert(Box::from(&*record.name), pool.clone());
        self.pools.entry(pool.clone()).or_default().slices.insert(record.name.clone(), record.clone());
        self.index_pool(&pool, &record);
    }

    /// Brings the indexes up to date after a slice of a pool was added or removed.
    pub(super) fn index_pool(&mut self, name: &PoolName, changed: &SliceRecord) {
        self.pools.get_mut(name).into_iter().for_each(Pool::check);
        self.nodes_of_shared.remove(name);
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

    /// The nodes that a change of a pool concerns. `places` tells states of nodes apart.
    pub(super) fn concerned(
        &mut self,
        symbols: &Symbols,
        nodes: &Nodes,
        places: u64,
        name: &PoolName,
    ) -> Concerned {
        let slices = || self.pools.get(name).into_iter().flat_map(|pool| pool.slices.values());
        if !self.shared_pools.contains(name) {
            let names = slices().flat_map(|slice| slice.node_names().unwrap_or_default());
            return Concerned::Nodes(names.filter_map(|name| nodes.find(symbols.get(name)?)).collect());
        }
        let known = self.nodes_of_shared.get(name).filter(|(at, _)| *at == places);
        let found = known.map(|(_, nodes)| nodes.clone()).unwrap_or_else(|| {
            let may_use = |record: &NodeRecord| slices().any(|slice| slice.may_serve(symbols, record));
            nodes.iter().filter(|(_, record)| may_use(record)).map(|(id, _)| id).collect()
        });
        let is_for_most = 2 * found.len() > nodes.len();
        self.nodes_of_shared.insert(name.clone(), (places, found.clone()));
        if is_for_most { Concerned::All } else { Concerned::Nodes(found) }
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

#[cfg(test)]
mod tests {
    use berth_api::object::Node;
    use berth_api::object::device::{DeviceObject, ResourceClaim, ResourceSlice};
    use serde_json::{Value, json};

    use crate::state::{Settings, State};

    fn set_node(state: &mut State, name: &str, rack: &str) {
        let node = json!({"metadata": {"name": name, "labels": {"rack": rack}}});
        state.set_node(&serde_json::from_value::<Node>(node).unwrap());
    }

    fn set_claim(state: &mut State, pool: Option<&str>) {
        let results = |pool| json!([{"request": "r", "driver": "d", "pool": pool, "device": "g"}]);
        let status =
            pool.map_or(Value::Null, |pool| json!({"allocation": {"devices": {"results": results(pool)}}}));
        let claim = json!({"metadata": {"name": "c", "namespace": "n", "uid": "u"}, "status": status});
        let claim: ResourceClaim = serde_json::from_value(claim).unwrap();
        state.set_device_object(&DeviceObject::ResourceClaim(Box::new(claim)));
    }

    fn set_slice(state: &mut State, pool: &str, mut spec: Value) {
        spec["driver"] = "d".into();
        spec["pool"] = json!({"name": pool, "generation": 1, "resourceSliceCount": 1});
        spec["devices"] = json!([{"name": "g"}]);
        let slice = json!({"metadata": {"name": pool}, "spec": spec});
        let slice: ResourceSlice = serde_json::from_value(slice).unwrap();
        state.set_device_object(&DeviceObject::ResourceSlice(Box::new(slice)));
    }

    fn of_rack(rack: &str) -> Value {
        let expression = json!({"key": "rack", "operator": "In", "values": [rack]});
        json!({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}})
    }

    /// The nodes that an allocation from a pool marks as changed; none for all.
    fn marked(state: &mut State, pool: &str) -> Option<Vec<String>> {
        let (seen, epoch) = (state.changes.end(), state.changes.epochs.devices);
        set_claim(state, Some(pool));
        let changed = state.changes.since(seen).unwrap().iter();
        let name = |id| state.symbols.text(state.nodes.get(id).name).to_owned();
        let mut names: Vec<_> = changed.map(|id| name(*id)).collect();
        names.sort();
        let is_for_all = state.changes.epochs.devices != epoch;
        set_claim(state, None);
        (!is_for_all).then_some(names)
    }

    #[test]
    fn an_allocation_from_the_pool_of_a_rack_concerns_the_nodes_of_the_rack_only() {
        let mut state = State::new(Settings::default());
        for i in 0..20 {
            set_node(&mut state, &format!("n{i:02}"), &format!("r{}", i / 4));
        }
        set_slice(&mut state, "rack", of_rack("r1"));
        set_slice(&mut state, "own", json!({"nodeName": "n00"}));
        set_slice(&mut state, "all", json!({"allNodes": true}));
        let of_rack_1 = ["n04", "n05", "n06", "n07"].map(str::to_owned);
        assert_eq!(marked(&mut state, "rack").unwrap(), of_rack_1);
        assert_eq!(marked(&mut state, "own").unwrap(), ["n00"]);
        assert_eq!(marked(&mut state, "all"), None);
        // Labels of nodes and selectors of slices change who shares the pool.
        set_node(&mut state, "n00", "r1");
        set_node(&mut state, "n04", "r0");
        assert_eq!(marked(&mut state, "rack").unwrap(), ["n00", "n05", "n06", "n07"]);
        set_slice(&mut state, "rack", of_rack("r2"));
        assert_eq!(marked(&mut state, "rack").unwrap(), ["n08", "n09", "n10", "n11"]);
    }
}
