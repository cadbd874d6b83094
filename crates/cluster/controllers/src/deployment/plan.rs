//! The next actions for a Deployment. Pure: all inputs are arguments.

use std::sync::Arc;

use berth_control::deployment::{self as sizes, SetSize};
use jiff::Timestamp;

use super::replica_sets::{Sized, new_and_old, spec};
use super::revision::{
    Annotations, REVISION, beyond_history, changed, new_replica_set_annotations, next_revision, revision,
    size_annotations,
};
use super::status;
use crate::template::template_hash;
use crate::view::{Deployment, DeploymentStatus, ReplicaSet};

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// Create the ReplicaSet of the current template.
    Create { name: String, hash: String, replicas: i32, annotations: Annotations },
    /// Change the size or annotations of a ReplicaSet.
    Update {
        replica_set: Arc<ReplicaSet>,
        replicas: Option<i32>,
        annotations: Annotations,
        min_ready_seconds: Option<i32>,
    },
    /// Delete a ReplicaSet beyond the history limit.
    Delete(Arc<ReplicaSet>),
    /// Record the current revision in the Deployment.
    SetRevision(String),
}

/// The actions, in order, and the resulting status.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) status: DeploymentStatus,
    /// When to sync again although nothing changes.
    pub(super) look_again: Option<Timestamp>,
}

/// The plan for a Deployment and its ReplicaSets. `has_running_pods`: whether a ReplicaSet has pods that have not
/// ended, including terminating ones.
pub(super) fn plan(
    deployment: &Deployment,
    replica_sets: &[Arc<ReplicaSet>],
    has_running_pods: impl Fn(&ReplicaSet) -> bool,
    now: Timestamp,
) -> Plan {
    let (new, old) = new_and_old(deployment, replica_sets);
    let mut planning = Planning { deployment, new, old, made: None, actions: Vec::new(), now };
    if deployment.metadata.is_deleting() {
        return planning.with_counts();
    }
    let sizes = planning.sizes(has_running_pods);
    planning.sync_revision();
    planning.old.iter_mut().zip(sizes.old).for_each(|(set, replicas)| set.replicas = replicas);
    match (&mut planning.new, sizes.new) {
        (None, Some(replicas)) => planning.make(replicas),
        (new, replicas) => {
            new.iter_mut().zip(replicas).for_each(|(new, replicas)| new.replicas = replicas);
            planning.write_sizes();
        }
    }
    let is_settled = || !sizes.is_scaling && !sizes.goes_on && planning.is_complete();
    if deployment.spec.paused || is_settled() {
        planning.clean_up();
    }
    if sizes.is_scaling { planning.with_counts() } else { planning.with_progress() }
}

struct Planning<'a> {
    deployment: &'a Deployment,
    new: Option<Sized>,
    old: Vec<Sized>,
    /// Name of the ReplicaSet that the plan creates.
    made: Option<String>,
    actions: Vec<Action>,
    now: Timestamp,
}

impl Planning<'_> {
    fn sizes(&self, has_running_pods: impl Fn(&ReplicaSet) -> bool) -> sizes::Plan {
        let old: Vec<SetSize> = self.old.iter().map(Sized::size).collect();
        let has_old_pods = || self.old.iter().any(|set| has_running_pods(&set.object));
        sizes::plan(&spec(self.deployment), self.new.as_ref().map(Sized::size), &old, has_old_pods)
    }

    /// Updates the revision of the new ReplicaSet and of the Deployment.
    fn sync_revision(&mut self) {
        let Some(new) = &self.new else { return };
        let object = new.object.clone();
        let current = &object.metadata.annotations;
        let next = next_revision(&self.old);
        let annotations = changed(current, new_replica_set_annotations(self.deployment, current, next));
        let min_ready_seconds = self.deployment.spec.min_ready_seconds;
        let min_ready_seconds =
            (object.spec.min_ready_seconds != min_ready_seconds).then_some(min_ready_seconds);
        let number = annotations.get(REVISION).cloned().unwrap_or_else(|| revision(&object).to_string());
        if !annotations.is_empty() || min_ready_seconds.is_some() {
            self.actions.push(Action::Update {
                replica_set: object,
                replicas: None,
                annotations,
                min_ready_seconds,
            });
        }
        self.set_revision(number);
    }

    fn set_revision(&mut self, number: String) {
        if self.deployment.metadata.annotations.get(REVISION) != Some(&number) {
            self.actions.push(Action::SetRevision(number));
        }
    }

    fn make(&mut self, replicas: i32) {
        let deployment = self.deployment;
        let collisions = deployment.status.collision_count.unwrap_or(0);
        let hash = template_hash(&deployment.spec.template, collisions);
        let name = format!("{}-{hash}", deployment.metadata.name);
        let next = next_revision(&self.old);
        let mut annotations = new_replica_set_annotations(deployment, &Annotations::new(), next);
        annotations.extend(size_annotations(deployment));
        self.made = Some(name.clone());
        self.actions.push(Action::Create { name, hash, replicas, annotations });
        self.set_revision(next.to_string());
    }

    /// Updates every active ReplicaSet whose size or size annotations differ from the plan.
    fn write_sizes(&mut self) {
        let wanted = size_annotations(self.deployment);
        for set in self.new.iter().chain(&self.old) {
            let object = &set.object;
            let resized = (set.replicas != object.replicas()).then_some(set.replicas);
            let annotations = if set.replicas > 0 || resized.is_some() {
                changed(&object.metadata.annotations, wanted.clone())
            } else {
                Annotations::new()
            };
            if resized.is_none() && annotations.is_empty() {
                continue;
            }
            // The write that changes the revision includes the size.
            let earlier = self.actions.iter_mut().find_map(|action| match action {
                Action::Update { replica_set, replicas, annotations, .. }
                    if replica_set.metadata.uid == object.metadata.uid =>
                {
                    Some((replicas, annotations))
                }
                _ => None,
            });
            if let Some((replicas, earlier)) = earlier {
                *replicas = resized.or(*replicas);
                earlier.extend(annotations);
            } else {
                self.actions.push(Action::Update {
                    replica_set: object.clone(),
                    replicas: resized,
                    annotations,
                    min_ready_seconds: None,
                });
            }
        }
    }

    fn clean_up(&mut self) {
        let beyond = beyond_history(self.deployment, &self.old);
        self.actions.extend(beyond.into_iter().map(|set| Action::Delete(set.object)));
    }

    fn is_complete(&self) -> bool {
        let counted = status::counted(self.deployment, self.new.as_ref(), &self.old, self.now);
        status::is_complete(self.deployment, &counted)
    }

    fn counted(&mut self) -> DeploymentStatus {
        let (deployment, now) = (self.deployment, self.now);
        let mut status = status::counted(deployment, self.new.as_ref(), &self.old, now);
        status::set_paused(deployment, &mut status, now);
        match (&self.made, &self.new) {
            (Some(name), _) => status::set_new_replica_set(deployment, &mut status, name, true, now),
            (None, Some(new)) if !deployment.metadata.is_deleting() => {
                status::set_new_replica_set(deployment, &mut status, &new.object.metadata.name, false, now);
            }
            _ => {}
        }
        status
    }

    fn with_counts(mut self) -> Plan {
        let status = self.counted();
        Plan { actions: self.actions, status, look_again: None }
    }

    fn with_progress(mut self) -> Plan {
        let mut status = self.counted();
        let all: Vec<&Sized> = self.old.iter().chain(&self.new).collect();
        // A ReplicaSet that this plan creates has no status yet.
        let look_again = match self.made {
            Some(_) => None,
            None => status::set_progress(self.deployment, &mut status, self.new.as_ref(), &all, self.now),
        };
        Plan { actions: self.actions, status, look_again }
    }
}

#[cfg(test)]
mod tests;
