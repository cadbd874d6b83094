//! The score of nodes by the storage that the claims of a pod would use there. Source: enhancement 4049, as kube-scheduler 1.36
//! evaluates it with the feature gate `StorageCapacityScoring`.

use berth_input::config::UtilizationShapePoint;

use super::super::node_resources_fit::piecewise_linear;
use super::super::rule::Scorer;
use crate::cycle::context::{Context, NodeRef};
use crate::volume::{CycleVolumes, StorageUse};

struct StorageScore<'a> {
    context: Context<'a>,
    volumes: &'a CycleVolumes,
    shape: &'a [UtilizationShapePoint],
}

pub(super) fn scorer<'a>(context: Context<'a>) -> Option<Box<dyn Scorer + 'a>> {
    let is_on =
        context.state.settings.config.feature_gates.storage_capacity_scoring && context.binds_volumes();
    let volumes = context.cycle.volumes.as_deref().filter(|v| is_on && !v.rules.unbound.is_empty())?;
    Some(Box::new(StorageScore { context, volumes, shape: &context.profile.profile.volume_binding.shape }))
}

impl StorageScore<'_> {
    /// The configured function at the utilization of a class, in percent.
    fn score_of(&self, storage: &StorageUse<'_>) -> i64 {
        let StorageUse { requested, capacity, .. } = *storage;
        let percent = match capacity == 0 || requested > capacity {
            true => 100,
            // As in kube-scheduler, the product overflows.
            false => requested.wrapping_mul(100) / capacity,
        };
        piecewise_linear(self.shape, percent)
    }
}

impl Scorer for StorageScore<'_> {
    /// Mean of the classes, rounded; 0 without one.
    fn score(&self, node: NodeRef<'_>) -> i64 {
        let storage = self.volumes.storage_on(self.context.state, node.record);
        let sum: i64 = storage.iter().map(|storage| self.score_of(storage)).sum();
        let n_classes = storage.len().max(1) as f64;
        (sum as f64 / n_classes).round() as i64
    }

    fn parts(&self, node: NodeRef<'_>) -> Vec<(String, i64)> {
        let storage = self.volumes.storage_on(self.context.state, node.record);
        let part = |storage: &StorageUse<'_>| {
            (format!("storage of class {}", storage.class), self.score_of(storage))
        };
        storage.iter().map(part).collect()
    }
}
