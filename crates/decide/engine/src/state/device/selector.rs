//! Selectors of devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_rules::{DeviceSelector, SelectedDevice};

use super::work::Meter;

/// A unit of the cost of an expression takes as long as so many looks at a device.
const STEPS_PER_COST: u64 = 5;

/// The result of a selector: whether it selects the device, or kube-scheduler's words for why it cannot be evaluated.
pub(crate) type Selected = Result<bool, Arc<str>>;

/// A selector of devices. Equal texts are compiled once.
#[derive(Debug)]
pub(crate) struct Selector {
    /// Differs between all selectors of the process.
    pub(crate) number: u64,
    pub(crate) expression: Box<str>,
    /// The error says why the text is no selector.
    compiled: Result<DeviceSelector, Arc<str>>,
}

impl Selector {
    pub(super) fn compile(expression: &str) -> Selector {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        #[cfg(test)]
        tests::N_COMPILED.set(tests::N_COMPILED.get() + 1);
        let compiled = DeviceSelector::compile(expression);
        let compiled = compiled.map_err(|error| format!("CEL compile error: {error}").into());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Selector { number, expression: expression.into(), compiled }
    }

    /// None if it takes more than is left.
    pub(super) fn matches(&self, device: &SelectedDevice<'_>, meter: &Meter<'_>) -> Option<Selected> {
        #[cfg(test)]
        tests::N_EVALUATED.set(tests::N_EVALUATED.get() + 1);
        let selector = match &self.compiled {
            Ok(selector) => selector,
            Err(error) => return Some(Err(error.clone())),
        };
        let (matches, took) = selector.matches_within(device, meter.left() / STEPS_PER_COST);
        match matches {
            Some(_) => meter.spend((took * STEPS_PER_COST) as usize),
            None => meter.spend(usize::MAX),
        }
        matches.map(|matches| matches.map_err(|error| format!("CEL runtime error: {error}").into()))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::fmt::Write as _;

    use berth_input::inventory::Inventory;

    use crate::{Cluster, Outcome, Settings};

    thread_local! {
        pub(super) static N_COMPILED: Cell<usize> = const { Cell::new(0) };
        pub(super) static N_EVALUATED: Cell<usize> = const { Cell::new(0) };
    }

    /// Two models of devices on each of 16 nodes, and 20 pods that need a device with enough memory.
    #[test]
    fn a_selector_is_compiled_once_and_evaluated_once_per_shape_of_devices() {
        let mut text = String::from(
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {selectors: [{cel: {expression: \
             'device.driver == \"gpu.example.com\"'}}]}}\n",
        );
        for n in 0..16 {
            let devices: Vec<_> = (0..8)
                .map(|d| format!("{{name: d{d}, capacity: {{memory: {{value: {}Gi}}}}}}", 40 + 40 * (d % 2)))
                .collect();
            _ = write!(
                text,
                "---\n{{apiVersion: v1, kind: Node, metadata: {{name: n{n}}}, status: {{allocatable: {{cpu: 64, memory: 64Gi, pods: 110}}}}}}\n\
                 ---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {{name: n{n}}}, spec: {{driver: gpu.example.com, nodeName: n{n}, \
                 pool: {{name: n{n}, generation: 1, resourceSliceCount: 1}}, devices: [{}]}}}}\n",
                devices.join(", ")
            );
        }
        for p in 0..20 {
            _ = write!(
                text,
                "---\n{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: p{p}, namespace: default, uid: c{p}}}, spec: {{devices: \
                 {{requests: [{{name: r, exactly: {{deviceClassName: gpu, selectors: [{{cel: {{expression: \
                 'device.capacity[\"gpu.example.com\"].memory.compareTo(quantity(\"80Gi\")) >= 0'}}}}]}}}}]}}}}}}\n\
                 ---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{p}, namespace: default, uid: p{p}}}, spec: {{containers: [{{name: c, image: i}}], \
                 resourceClaims: [{{name: c, resourceClaimName: p{p}}}]}}}}\n"
            );
        }
        let inventory = Inventory::from_text(&text).expect("the manifest is valid");
        let mut cluster = Cluster::new(Settings::default());
        inventory.nodes.iter().for_each(|node| cluster.set_node(&node.object));
        inventory.device_objects.iter().for_each(|object| cluster.set_device_object(&object.object));
        for pod in &inventory.pods {
            let prepared = cluster.prepare(&pod.object);
            assert!(
                matches!(cluster.place(&prepared), Outcome::Placed { .. }),
                "{}",
                pod.object.metadata.name
            );
        }
        assert_eq!(N_COMPILED.get(), 2, "that of the class, and that of all claims");
        assert_eq!(N_EVALUATED.get(), 4, "two selectors, two shapes of 128 devices");
    }
}
