//! What goes on while pods are decided: churn, and pods that are deleted at a rate.
//!
//! Time is counted, not measured, so that every run makes the same decisions: a decision takes [`DECISION`].

use std::time::Duration;

use berth_api::object::{Node, Pod, Service};

use super::super::Stop;
use super::super::format::{Churn, ChurnMode, DeletePods};
use super::Runner;

/// About the rate at which kube-scheduler fills these workloads.
pub(super) const DECISION: Duration = Duration::from_millis(5);
const DEFAULT_CHURN_INTERVAL: Duration = Duration::from_millis(500);
const DELETED_AT: &str = "2026-01-01T00:00:00Z";

/// Steps at equal intervals.
pub(super) struct Background {
    next: Duration,
    interval: Duration,
    task: Task,
}

enum Task {
    Churn { mode: ChurnMode, number: usize, n_steps: usize, objects: Vec<Churned> },
    Delete(std::vec::IntoIter<Pod>),
}

/// A template, and the names of the objects that are made from it.
struct Churned {
    template: Template,
    /// With [`ChurnMode::Recreate`], the objects in turn; none where the last one was deleted.
    names: Vec<Option<String>>,
}

enum Template {
    Node(Box<Node>),
    Pod(Box<Pod>),
    Service(Box<Service>),
}

impl Runner<'_> {
    pub(super) fn churn(&mut self, index: usize, op: &Churn) -> Result<(), Stop> {
        if op.mode == ChurnMode::Recreate && op.number == 0 {
            return Err(Stop::Failed("churn: number must be at least 1 with mode recreate".to_owned()));
        }
        let namespace = op.namespace.clone().unwrap_or_else(|| format!("namespace-{index}"));
        self.need_namespace(&namespace);
        let mut objects = Vec::new();
        for path in &op.template_paths {
            let kind = self.templates.manifest(path, 0)?.kind.clone();
            let template = match kind.as_str() {
                "Node" => Template::Node(self.templates.get(path, &kind)?),
                "Pod" => {
                    let mut pod: Box<Pod> = self.templates.get(path, &kind)?;
                    pod.metadata.namespace.clone_from(&namespace);
                    Template::Pod(pod)
                }
                "Service" => {
                    let mut service: Box<Service> = self.templates.get(path, &kind)?;
                    service.metadata.namespace.clone_from(&namespace);
                    Template::Service(service)
                }
                _ => return Err(Stop::NotSupported(format!("churn of {kind}"))),
            };
            objects.push(Churned { template, names: vec![None; op.number] });
        }
        let interval = Duration::from_millis(op.interval_milliseconds);
        let interval = if interval.is_zero() { DEFAULT_CHURN_INTERVAL } else { interval };
        self.start(interval, Task::Churn { mode: op.mode, number: op.number, n_steps: 0, objects });
        Ok(())
    }

    pub(super) fn delete_pods(&mut self, op: &DeletePods) -> Result<(), Stop> {
        let is_deleted = |pod: &Pod| {
            let has = |(key, value): (&String, &String)| pod.metadata.label(key) == Some(value.as_str());
            pod.metadata.namespace == op.namespace && op.label_selector.iter().all(has)
        };
        let (deleted, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.created).into_iter().partition(is_deleted);
        self.created = others;
        if op.delete_pods_per_second == 0 {
            deleted.into_iter().for_each(|pod| self.delete(pod));
            return Ok(());
        }
        let interval = Duration::from_secs(1) / op.delete_pods_per_second;
        let n_deleted = u32::try_from(deleted.len()).unwrap_or(u32::MAX);
        self.start(interval, Task::Delete(deleted.into_iter()));
        if op.skip_wait_to_completion { Ok(()) } else { self.advance(interval.saturating_mul(n_deleted)) }
    }

    fn start(&mut self, interval: Duration, task: Task) {
        self.background.push(Background { next: self.now + interval, interval, task });
    }

    /// Lets time pass: all steps that are due by then are made, in their order.
    pub(super) fn advance(&mut self, time: Duration) -> Result<(), Stop> {
        self.now += time;
        loop {
            let due = self.background.iter().enumerate().filter(|(_, task)| task.next <= self.now);
            let Some((i, _)) = due.min_by_key(|(_, task)| task.next) else { return Ok(()) };
            let mut background = self.background.remove(i);
            background.next += background.interval;
            if self.step_of(&mut background.task)? {
                self.background.insert(i, background);
            }
        }
    }

    /// Returns whether there are more steps.
    fn step_of(&mut self, task: &mut Task) -> Result<bool, Stop> {
        match task {
            Task::Delete(pods) => {
                pods.next().into_iter().for_each(|pod| self.delete(pod));
                Ok(!pods.as_slice().is_empty())
            }
            Task::Churn { mode, number, n_steps, objects } => {
                for Churned { template, names } in objects {
                    match mode {
                        ChurnMode::Create => _ = self.create(template)?,
                        ChurnMode::Recreate => {
                            let name = &mut names[*n_steps % *number];
                            match name.take() {
                                Some(name) => self.remove(template, &name),
                                None => *name = Some(self.create(template)?),
                            }
                        }
                    }
                }
                *n_steps += 1;
                Ok(*mode == ChurnMode::Recreate || *number == 0 || *n_steps < *number)
            }
        }
    }

    /// Returns the name of the object. A pod is decided about at once, and does not wait if it is unschedulable.
    fn create(&mut self, template: &Template) -> Result<String, Stop> {
        Ok(match template {
            Template::Node(node) => {
                let mut node = node.clone();
                self.name(&mut node.metadata);
                self.cluster.set_node(&node);
                node.metadata.name
            }
            Template::Pod(pod) => {
                let pod = self.admitted((**pod).clone())?;
                let prepared = self.cluster.prepare(&pod);
                self.decide(&prepared);
                pod.metadata.name
            }
            Template::Service(service) => {
                let mut service = service.clone();
                self.name(&mut service.metadata);
                self.cluster.set_service(&service);
                service.metadata.name
            }
        })
    }

    fn remove(&mut self, template: &Template, name: &str) {
        match template {
            Template::Node(_) => self.cluster.remove_node(name),
            Template::Pod(pod) => self.cluster.remove_pod(&pod.metadata.namespace, name),
            Template::Service(service) => self.cluster.remove_service(&service.metadata.namespace, name),
        }
    }

    /// Deletes a pod. One with finalizers stays, terminating.
    fn delete(&mut self, mut pod: Pod) {
        if pod.metadata.finalizers.is_empty() {
            self.cluster.remove_pod(&pod.metadata.namespace, &pod.metadata.name);
            self.remove_claims(&pod);
        } else if !pod.spec.node_name.is_empty() {
            pod.metadata.deletion_timestamp = DELETED_AT.parse().ok();
            self.cluster.set_pod(&pod);
        }
    }
}
