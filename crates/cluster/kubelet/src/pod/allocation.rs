//! In-place resize of a pod's containers. The node allocates new resources, or says why it does not, and after a while they
//! are in force.

use berth_api::object::{Container, ResourceRequirements};
use jiff::Timestamp;

use super::lifecycle::{PodLifecycle, later};
use super::plan::{ContainerPlan, Plan};
use super::resize::{PendingResize, Resize};
use super::stage::Stage;
use super::view::PodView;

impl PodLifecycle {
    /// Whether the pod requests other resources than it has been allocated.
    pub(crate) fn is_resized_by(&self, pod: &PodView) -> bool {
        let (plan, spec) = (&self.plan, &pod.spec);
        let differ = |containers: &[Container], plans: &[ContainerPlan]| {
            containers.len() == plans.len()
                && containers.iter().zip(plans).any(|(container, plan)| container.resources != plan.resources)
        };
        differ(&spec.containers, &plan.containers) || differ(&spec.init_containers, &plan.init_containers)
    }

    /// The pod with the resources that it has been allocated.
    pub(crate) fn as_allocated(&self, pod: &PodView) -> PodView {
        let mut pod = pod.clone();
        let spec = &mut pod.spec;
        for (containers, plans) in [
            (&mut spec.containers, &self.plan.containers),
            (&mut spec.init_containers, &self.plan.init_containers),
        ] {
            for (container, plan) in containers.iter_mut().zip(plans) {
                container.resources.clone_from(&plan.resources);
            }
        }
        pod
    }

    pub(crate) fn allocate(&mut self, pod: &PodView, now: Timestamp) {
        let plans = |plan: &Plan| -> Vec<ResourceRequirements> {
            plan.containers.iter().chain(&plan.init_containers).map(|c| c.resources.clone()).collect()
        };
        let before = plans(&self.plan);
        for (containers, plans) in [
            (&pod.spec.containers, &mut self.plan.containers),
            (&pod.spec.init_containers, &mut self.plan.init_containers),
        ] {
            for (container, plan) in containers.iter().zip(plans) {
                plan.resources.clone_from(&container.resources);
            }
        }
        let runs = !matches!(self.stage, Stage::Creating | Stage::Ended(_));
        let in_force = self.resize.in_force.take().unwrap_or(before);
        self.resize = Resize {
            pending: None,
            changed: now,
            in_force: (runs && !self.plan.start_after.is_zero()).then_some(in_force),
            was_requested: true,
        };
        self.observe_resize(pod);
    }

    /// The node does not allocate what the pod requests.
    pub(crate) fn leave_pending(&mut self, pod: &PodView, pending: PendingResize, now: Timestamp) {
        if self.resize.pending.as_ref() != Some(&pending) {
            self.resize.changed = now;
            self.resize.pending = Some(pending);
            self.resize.was_requested = true;
            self.observe_resize(pod);
        }
    }

    /// The pod requests what it has: a pending resize was taken back.
    pub(crate) fn end_pending(&mut self, pod: &PodView) {
        if self.resize.pending.take().is_some() {
            self.observe_resize(pod);
        }
    }

    /// Whether conditions of a resize may have to be removed from the status.
    pub(crate) fn was_resized(&self) -> bool {
        self.resize.was_requested
    }

    fn observe_resize(&mut self, pod: &PodView) {
        self.plan.generation = (pod.metadata.generation != 0).then_some(pod.metadata.generation);
        self.count_change();
    }

    /// When the allocated resources are in force.
    pub(super) fn resize_due(&self) -> Option<Timestamp> {
        let in_progress = self.resize.in_force.is_some() && !self.has_ended();
        in_progress.then(|| later(self.resize.changed, self.plan.start_after))
    }

    /// The allocated resources are in force.
    pub(super) fn end_resize(&mut self) {
        self.resize.in_force = None;
        self.count_change();
    }

    /// The resources in force of a container; `i` counts containers, then init containers.
    pub(super) fn in_force<'a>(
        &'a self,
        i: usize,
        allocated: &'a ResourceRequirements,
    ) -> &'a ResourceRequirements {
        self.resize.in_force.as_ref().and_then(|all| all.get(i)).unwrap_or(allocated)
    }
}
