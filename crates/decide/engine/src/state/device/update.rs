//! Updates of device objects.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};

use berth_api::object::NamespacedName;
use berth_api::object::device::{
    CounterSet, Device, DeviceClass, DeviceCounterConsumption, DeviceKind, DeviceObject, DeviceSelector,
    ResourceClaim, ResourceSlice,
};
use rustc_hash::FxHasher;

use super::claim::{Allocation, ClaimRecord, ClaimSpec};
use super::class::ClassRecord;
use super::pool::{Amounts, CounterSets, DeviceRecord, DeviceRest, SliceRecord};
use super::scope::NodeScope;
use super::selector::Selector;
use super::shape::Shape;
use super::{Concerned, Devices, NodeMappings, PoolName, shared};
use crate::state::State;
use crate::state::change::{Change, DeviceChange};

impl State {
    /// Adds or changes an object.
    pub(crate) fn set_device_object(&mut self, object: &DeviceObject) {
        match object {
            DeviceObject::ResourceSlice(slice) => self.set_slice(slice),
            DeviceObject::DeviceClass(class) => self.set_device_class(class),
            DeviceObject::ResourceClaim(claim) => self.set_resource_claim(claim),
            DeviceObject::DeviceTaintRule(rule) => {
                self.set_taint_rule(&rule.metadata.name, Some(rule.spec.clone()));
            }
            // Controllers make claims from templates.
            DeviceObject::ResourceClaimTemplate(_) => {}
        }
    }

    /// Removes an object, if it exists.
    pub(crate) fn remove_device_object(&mut self, kind: DeviceKind, namespace: &str, name: &str) {
        match kind {
            DeviceKind::ResourceSlice => {
                let pool = self.devices.slices.get(name).cloned();
                let was_faulty = self.devices.any_faulty(pool.as_slice());
                if let Some(before) = self.take_slice(name) {
                    self.symbols.release_all(before.symbols());
                    self.slices_changed(was_faulty, pool.as_slice());
                }
            }
            DeviceKind::DeviceClass => {
                if let Some(before) = self.devices.classes.remove(name) {
                    self.devices.forget_resource(&before);
                    self.class_of_devices_changed();
                }
            }
            DeviceKind::ResourceClaim => {
                self.remove_resource_claim(&NamespacedName::new(namespace, name));
            }
            DeviceKind::DeviceTaintRule => self.set_taint_rule(name, None),
            DeviceKind::ResourceClaimTemplate => {}
        }
    }

    fn set_slice(&mut self, slice: &ResourceSlice) {
        let pool = PoolName {
            driver: slice.spec.driver.as_str().into(),
            pool: slice.spec.pool.name.as_str().into(),
        };
        let record = self.slice_record(slice, &pool);
        self.put_record(pool, record);
    }

    pub(super) fn put_record(&mut self, pool: PoolName, record: SliceRecord) {
        let name = record.name.clone();
        let known = self.devices.slices.get(&*name).filter(|known| **known == pool);
        let known = known.and_then(|pool| self.devices.pools.get(pool)?.slices.get(&*name));
        if known.is_some_and(|known| **known == record) {
            return self.symbols.release_all(record.symbols());
        }
        let before = self.devices.slices.get(&*name);
        let pools: Vec<PoolName> = before.into_iter().chain([&pool]).cloned().collect();
        let was_faulty = self.devices.any_faulty(&pools);
        if let Some(before) = self.take_slice(&name) {
            self.symbols.release_all(before.symbols());
        }
        self.devices.put_slice(pool.clone(), Arc::new(record));
        self.pool_changed(&pool);
        self.slices_changed(was_faulty, &pools);
    }

    /// A slice of these pools changed. Faulty ones concern nodes without devices of theirs as well.
    fn slices_changed(&mut self, was_faulty: bool, pools: &[PoolName]) {
        self.changes.epochs.devices += u64::from(was_faulty || self.devices.any_faulty(pools));
        self.record_devices(|| DeviceChange::Slice);
    }

    fn take_slice(&mut self, name: &str) -> Option<Arc<SliceRecord>> {
        let pool = self.devices.slices.remove(name)?;
        self.pool_changed(&pool);
        let found = self.devices.pools.get_mut(&pool)?;
        let record = found.slices.remove(name)?;
        self.devices.index_pool(&pool, &record);
        self.devices.drop_empty(&pool);
        Some(record)
    }

    fn slice_record(&mut self, slice: &ResourceSlice, pool: &PoolName) -> SliceRecord {
        let spec = &slice.spec;
        let scope = match spec.per_device_node_selection {
            true => NodeScope::PerDevice,
            false => NodeScope::compile(
                &mut self.symbols,
                spec.node_name.as_deref(),
                spec.all_nodes,
                spec.node_selector.as_ref(),
            ),
        };
        let devices = spec.devices.iter().map(|device| self.device_record(device, pool)).collect();
        let amounts = |set: &CounterSet| -> Amounts {
            set.counters.iter().map(|(name, counter)| (name.as_str().into(), counter.value)).collect()
        };
        let counter_sets: CounterSets =
            spec.shared_counters.iter().map(|set| (set.name.as_str().into(), amounts(set))).collect();
        let mut hasher = FxHasher::default();
        counter_sets.hash(&mut hasher);
        SliceRecord {
            name: slice.metadata.name.as_str().into(),
            generation: spec.pool.generation,
            n_slices: spec.pool.resource_slice_count,
            scope,
            devices,
            counter_sets: shared(&mut self.devices.counter_sets, hasher.finish(), counter_sets),
        }
    }

    fn device_record(&mut self, device: &Device, pool: &PoolName) -> DeviceRecord {
        let shape = Shape::new(
            pool.driver.clone(),
            device.attributes.clone(),
            device.capacity.clone(),
            device.allow_multiple_allocations,
        );
        let consumed = |set: &DeviceCounterConsumption| -> (Arc<str>, Amounts) {
            let amounts = set.counters.iter().map(|(name, counter)| (name.as_str().into(), counter.value));
            (set.counter_set.as_str().into(), amounts.collect())
        };
        let rest = DeviceRest {
            name: device.name.as_str().into(),
            scope: NodeScope::compile(
                &mut self.symbols,
                device.node_name.as_deref(),
                device.all_nodes,
                device.node_selector.as_ref(),
            ),
            taints: self.devices.with_taints_of_rules(pool, &device.name, &device.taints),
            n_own_taints: device.taints.len(),
            consumes: device.consumes_counters.iter().map(consumed).collect(),
            binds_to_node: device.binds_to_node,
            binding_conditions: device.binding_conditions.clone().into(),
            binding_failure_conditions: device.binding_failure_conditions.clone().into(),
            node_mappings: match self.devices_take_allocatable() {
                true => device.node_allocatable_resource_mappings.clone(),
                false => NodeMappings::new(),
            },
        };
        DeviceRecord {
            shape: shared(&mut self.devices.shapes, shape.hash(), shape),
            rest: shared(&mut self.devices.rests, rest.hash(), rest),
        }
    }

    fn set_device_class(&mut self, class: &DeviceClass) {
        let selectors = self.devices.selectors_of(&class.spec.selectors);
        let record = Arc::new(ClassRecord::compile(class, selectors));
        let name = record.name.clone();
        if self.devices.classes.get(&name).is_some_and(|before| before.is_as(&record)) {
            return;
        }
        if let Some(before) = self.devices.classes.insert(name.clone(), record.clone()) {
            self.devices.forget_resource(&before);
        }
        if let Some(resource) = &record.resource {
            self.devices.classes_of_resource.entry(resource.clone()).or_default().insert(name);
        }
        self.class_of_devices_changed();
    }

    /// Which resources devices provide may have changed: views of pods without claims depend on it as well.
    fn class_of_devices_changed(&mut self) {
        self.changes.epochs.layout += 1;
        self.record_devices(|| DeviceChange::Class);
    }

    fn set_resource_claim(&mut self, claim: &ResourceClaim) {
        let name = claim.metadata.namespaced_name();
        let spec = self.devices.spec_of(&claim.spec);
        let mut record = ClaimRecord::compile(&mut self.symbols, claim, spec);
        let before = self.devices.claims.remove(&name);
        if let Some(before) = &before
            && record.written.is_none()
            && before.uid == record.uid
            && let Some(assumed) = &before.assumed
        {
            assumed.scope.symbols().for_each(|symbol| self.symbols.retain(symbol));
            record.assumed = Some(assumed.clone());
            record.in_flight_for.clone_from(&before.in_flight_for);
        }
        let allocated = |claim: &ClaimRecord| claim.allocation().cloned();
        let (was, is) = (before.as_ref().and_then(allocated), allocated(&record));
        if was != is {
            self.count_allocation(was.as_deref(), false);
            self.count_allocation(is.as_deref(), true);
        }
        let mut frees = was.is_some() && was != is;
        let is_as_before = before.as_ref().is_some_and(|before| before.is_as(&record));
        if let Some(before) = before {
            self.devices.index_extended(&name, &before, false);
            self.symbols.release_all(before.symbols());
        }
        self.devices.index_extended(&name, &record, true);
        if let Some((pod, uid)) = record.extended_resources_of() {
            let assumed = self.end_extended(&NamespacedName::new(name.namespace(), pod), uid);
            frees |= assumed.is_some_and(|assumed| is.is_none_or(|is| assumed.devices != is.devices));
        }
        self.devices.claims.insert(name.clone(), record);
        if frees || !is_as_before {
            self.record_devices(|| DeviceChange::Claim { name, frees });
        }
    }

    fn remove_resource_claim(&mut self, name: &NamespacedName) {
        let Some(before) = self.devices.claims.remove(name) else { return };
        self.devices.index_extended(name, &before, false);
        self.count_allocation(before.allocation().cloned().as_deref(), false);
        self.symbols.release_all(before.symbols());
        self.record_devices(|| DeviceChange::Claim { name: name.clone(), frees: true });
    }

    /// Counts the devices of an allocation, or counts them no longer.
    pub(super) fn count_allocation(&mut self, allocation: Option<&Allocation>, is_added: bool) {
        let Some(allocation) = allocation else { return };
        for device in allocation.devices.iter().filter(|device| !device.is_admin) {
            let pool = self.devices.pools.entry(device.pool.clone()).or_default();
            match is_added {
                true => pool.used.entry(device.device.clone()).or_default().add(device),
                false => {
                    if pool.used.get_mut(&device.device).is_some_and(|used| used.remove(device)) {
                        pool.used.remove(&device.device);
                    }
                }
            }
            self.pool_changed(&device.pool);
            self.devices.drop_empty(&device.pool);
        }
    }

    /// Marks the nodes that may use devices of a pool as changed.
    fn pool_changed(&mut self, name: &PoolName) {
        match self.devices.concerned(&self.symbols, &self.nodes, self.changes.places, name) {
            Concerned::Nodes(nodes) => nodes.iter().for_each(|node| self.changes.push(*node)),
            Concerned::All => self.changes.epochs.devices += 1,
        }
    }

    pub(super) fn record_devices(&mut self, change: impl FnOnce() -> DeviceChange) {
        if self.recorded.is_some() {
            self.record(Change::Device(change()));
        }
    }
}

impl Devices {
    fn selectors_of(&mut self, selectors: &[DeviceSelector]) -> Box<[Arc<Selector>]> {
        let text = |selector: &DeviceSelector| {
            selector.cel.as_ref().map_or("", |cel| cel.expression.as_str()).to_owned()
        };
        selectors.iter().map(|selector| self.selector(&text(selector))).collect()
    }

    fn selector(&mut self, expression: &str) -> Arc<Selector> {
        if let Some(known) = self.selectors.get(expression).and_then(Weak::upgrade) {
            return known;
        }
        if self.selectors.len() == self.selectors.capacity() {
            self.selectors.retain(|_, known| known.strong_count() > 0);
        }
        let selector = Arc::new(Selector::compile(expression));
        self.selectors.insert(expression.into(), Arc::downgrade(&selector));
        selector
    }

    /// The specification of a claim, compiled once for equal ones.
    fn spec_of(&mut self, source: &berth_api::object::device::ResourceClaimSpec) -> Arc<ClaimSpec> {
        let hash = ClaimSpec::hash(source);
        let known = self.specs.get(&hash).into_iter().flatten().filter_map(Weak::upgrade);
        if let Some(known) = known.into_iter().find(|known| known.source == *source) {
            return known;
        }
        let spec = ClaimSpec::compile(source, &mut |text| self.selector(text));
        shared(&mut self.specs, hash, spec)
    }
}
