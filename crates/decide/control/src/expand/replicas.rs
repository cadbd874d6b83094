//! How many pods a workload has: `spec.replicas`, within the bounds of the HorizontalPodAutoscalers that name it.

use std::collections::HashMap;

use berth_api::object::{HorizontalPodAutoscaler, NamespacedName};
use berth_api::read::Kind;
use berth_input::inventory::{Inventory, Workload};

/// The numbers of pods that the workloads of an input have once its autoscalers have acted, without metrics.
pub struct DesiredReplicas<'a> {
    /// By namespace and name of what they scale, with its kind.
    autoscalers: HashMap<NamespacedName, Vec<(Kind, &'a HorizontalPodAutoscaler)>>,
}

impl<'a> DesiredReplicas<'a> {
    /// Autoscalers that the API server would reject (`maxReplicas` below 1 or below `minReplicas`) do nothing.
    pub fn new(inventory: &'a Inventory) -> Self {
        let mut autoscalers: HashMap<_, Vec<_>> = HashMap::new();
        for autoscaler in inventory.horizontal_pod_autoscalers.iter().map(|entry| &entry.object) {
            let spec = &autoscaler.spec;
            if let Some((kind, name)) = target(autoscaler)
                && spec.max_replicas >= spec.min_replicas.unwrap_or(1).max(1)
            {
                let name = NamespacedName::new(&autoscaler.metadata.namespace, name);
                autoscalers.entry(name).or_default().push((kind, autoscaler));
            }
        }
        DesiredReplicas { autoscalers }
    }

    /// The number of pods, as it is written if it is negative; none for kinds without `spec.replicas`.
    /// An autoscaled workload that leaves `replicas` out keeps the number of the one that it replaces, as with `kubectl apply`.
    pub fn of(&self, workload: &Workload) -> Option<i32> {
        let written = workload.spec.replicas()?;
        let name = workload.metadata().namespaced_name();
        let earlier = || workload.replaced.as_deref()?.replicas()?;
        let current = match self.autoscalers(workload.kind(), &name).next() {
            None => written,
            Some(_) => written.or_else(earlier),
        };
        Some(self.bounded(workload.kind(), &name, current.unwrap_or(1)))
    }

    /// What the HorizontalPodAutoscaler controller makes of a number of replicas. It leaves 0, which switches scaling off.
    pub fn bounded(&self, kind: Kind, name: &NamespacedName, current: i32) -> i32 {
        let scale = |n: i32, autoscaler: &HorizontalPodAutoscaler| {
            n.max(autoscaler.spec.min_replicas.unwrap_or(1)).min(autoscaler.spec.max_replicas)
        };
        if current <= 0 { current } else { self.autoscalers(kind, name).fold(current, scale) }
    }

    /// That an autoscaler sets other numbers than those that are written.
    pub fn warnings(&self, inventory: &Inventory) -> Vec<String> {
        let warning = |workload: &Workload| {
            let (written, desired) = (workload.spec.replicas()??, self.of(workload)?);
            let name = workload.metadata().namespaced_name();
            let autoscaler = self.autoscalers(workload.kind(), &name).next()?;
            (written != desired).then(|| {
                let (least, most) = (autoscaler.spec.min_replicas.unwrap_or(1), autoscaler.spec.max_replicas);
                let autoscaler = &autoscaler.metadata.name;
                format!(
                    "{workload}: spec.replicas is {written}, and HorizontalPodAutoscaler {autoscaler} keeps it from {least} to {most}: \
                     {desired} pods are counted"
                )
            })
        };
        inventory.workloads.iter().filter_map(|entry| warning(&entry.object)).collect()
    }

    fn autoscalers(
        &self,
        kind: Kind,
        name: &NamespacedName,
    ) -> impl Iterator<Item = &'a HorizontalPodAutoscaler> {
        let of_name = self.autoscalers.get(name).into_iter().flatten();
        of_name.filter(move |(of, _)| *of == kind).map(|(_, autoscaler)| *autoscaler)
    }
}

/// The kind and the name of the workload that an autoscaler scales.
pub fn target(autoscaler: &HorizontalPodAutoscaler) -> Option<(Kind, &str)> {
    let target = &autoscaler.spec.scale_target_ref;
    Some((Kind::of(&target.api_version, &target.kind)?, &target.name))
}
