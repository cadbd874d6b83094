//! DeviceTaintRules: taints that an administrator gives devices, beside those that their driver publishes.

use std::sync::Arc;

use berth_api::object::device::{DeviceTaint, DeviceTaintRuleSpec};

use super::pool::{DeviceRecord, DeviceRest, SliceRecord};
use super::{Devices, PoolName, shared};
use crate::state::State;

/// A rule without a selector selects no device, one with an empty selector all.
fn selects(rule: &DeviceTaintRuleSpec, pool: &PoolName, device: Option<&str>) -> bool {
    let is_named =
        |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    rule.device_selector.as_ref().is_some_and(|selector| {
        is_named(&selector.driver, &pool.driver)
            && is_named(&selector.pool, &pool.pool)
            && device.is_none_or(|device| is_named(&selector.device, device))
    })
}

impl Devices {
    pub(super) fn with_taints_of_rules(
        &self,
        pool: &PoolName,
        device: &str,
        own: &[DeviceTaint],
    ) -> Box<[DeviceTaint]> {
        let rules = self.taint_rules.values().filter(|rule| selects(rule, pool, Some(device)));
        own.iter().chain(rules.map(|rule| &rule.taint)).cloned().collect()
    }
}

impl State {
    /// Adds, changes or removes a rule.
    pub(super) fn set_taint_rule(&mut self, name: &str, rule: Option<DeviceTaintRuleSpec>) {
        if !self.settings.config.feature_gates.dra_device_taint_rules {
            return;
        }
        let before = match &rule {
            Some(rule) => self.devices.taint_rules.insert(name.into(), rule.clone()),
            None => self.devices.taint_rules.remove(name),
        };
        let may_select = |pool: &PoolName| before.iter().chain(&rule).any(|rule| selects(rule, pool, None));
        let pools = self.devices.pools.iter().filter(|(pool, _)| may_select(pool));
        let slices = |(name, pool): (&PoolName, &super::Pool)| {
            pool.slices.values().map(|slice| (name.clone(), slice.clone())).collect::<Vec<_>>()
        };
        let slices: Vec<(PoolName, Arc<SliceRecord>)> = pools.flat_map(slices).collect();
        for (pool, slice) in slices {
            let devices = slice.devices.iter().map(|device| self.retainted(&pool, device)).collect();
            let record = SliceRecord {
                name: slice.name.clone(),
                generation: slice.generation,
                n_slices: slice.n_slices,
                scope: slice.scope.clone(),
                devices,
                counter_sets: slice.counter_sets.clone(),
            };
            record.symbols().for_each(|symbol| self.symbols.retain(symbol));
            self.put_record(pool, record);
        }
    }

    fn retainted(&mut self, pool: &PoolName, device: &DeviceRecord) -> DeviceRecord {
        let own = &device.taints[..device.n_own_taints];
        let rest = DeviceRest {
            name: device.name.clone(),
            scope: device.scope.clone(),
            taints: self.devices.with_taints_of_rules(pool, &device.name, own),
            n_own_taints: device.n_own_taints,
            consumes: device.consumes.clone(),
            binds_to_node: device.binds_to_node,
            binding_conditions: device.binding_conditions.clone(),
            binding_failure_conditions: device.binding_failure_conditions.clone(),
            node_mappings: device.node_mappings.clone(),
        };
        DeviceRecord { shape: device.shape.clone(), rest: shared(&mut self.devices.rests, rest.hash(), rest) }
    }
}
