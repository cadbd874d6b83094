//! A step: a pod that is evicted, and the replacement that is expected.

use std::collections::HashSet;

use berth_api::object::{NamespacedName, Pod};
use berth_rebalance::Move;
use jiff::{SignedDuration, Timestamp};

use super::objects::{Objects, is_of, is_ready, key};

/// A pod that waits longer for a node is not placed at once.
const NEW: SignedDuration = SignedDuration::from_secs(10);

/// A move that is being made.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) pod: NamespacedName,
    pub(crate) uid: String,
    /// `metadata.uid` of its controller.
    owner: String,
    pub(crate) made: Move,
    /// The nodes where the replacement may go.
    pub(crate) targets: Vec<String>,
    /// Whether its scheduler goes to the target of the move.
    pub(crate) follows: bool,
    /// The pods of the controller when it began, by uid.
    known: HashSet<String>,
}

/// What is known of the replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The pod is there, or its replacement is not ready yet.
    Awaited,
    /// It is ready on a target.
    Ready {
        name: NamespacedName,
        node: String,
    },
    Elsewhere {
        name: NamespacedName,
        node: String,
    },
}

impl Step {
    /// The step of a move, if its pod is still where it begins.
    pub(crate) fn new(
        objects: &Objects,
        made: &Move,
        targets: Vec<String>,
        following_schedulers: &[String],
    ) -> Option<Step> {
        let name = NamespacedName::new(&made.namespace, &made.name);
        let pod = objects.pod(&name)?;
        let owner = pod.metadata.controller()?.uid.clone();
        let step = Step {
            uid: pod.metadata.uid.clone(),
            follows: is_of(pod, following_schedulers),
            known: objects.pods_of(&owner).map(|pod| pod.metadata.uid.clone()).collect(),
            pod: name,
            owner,
            made: made.clone(),
            targets,
        };
        step.is_possible(objects).then_some(step)
    }

    pub(crate) fn is_same(&self, other: &Step) -> bool {
        (&self.uid, &self.made.from, &self.made.to) == (&other.uid, &other.made.from, &other.made.to)
    }

    /// `metadata.uid` of the controller.
    pub(crate) fn owner(&self) -> &str {
        &self.owner
    }

    /// Whether the pod is where the move begins, and the targets are there.
    pub(crate) fn is_possible(&self, objects: &Objects) -> bool {
        let is_there = |pod: &Pod| {
            pod.metadata.uid == self.uid
                && !pod.metadata.is_deleting()
                && pod.spec.node_name == self.made.from
        };
        objects.pod(&self.pod).is_some_and(|pod| is_there(pod))
            && self.targets.iter().all(|node| objects.has_node(node))
    }

    /// Whether the scheduler may be placing a pod of the controller: a new one that has no node.
    pub(crate) fn is_being_placed(&self, objects: &Objects, now: Timestamp) -> bool {
        let is_new = |pod: &Pod| {
            let created = pod.metadata.creation_timestamp;
            created.is_some_and(|created| now.duration_since(created) < NEW)
        };
        objects.pods_of(&self.owner).any(|pod| pod.spec.node_name.is_empty() && is_new(pod))
    }

    /// What has become of the replacement.
    pub(crate) fn replacement(&self, objects: &Objects) -> Replacement {
        let is_there = objects.pod(&self.pod).is_some_and(|pod| pod.metadata.uid == self.uid);
        let new = objects
            .pods_of(&self.owner)
            .filter(|pod| !self.known.contains(&pod.metadata.uid) && !pod.metadata.is_deleting());
        let is_on_target = |pod: &Pod| self.targets.contains(&pod.spec.node_name);
        // A controller may create others at the same time: one on a target is the replacement.
        let Some(pod) = new.max_by_key(|pod| (is_on_target(pod), pod.metadata.creation_timestamp)) else {
            return Replacement::Awaited;
        };
        let (name, node) = (key(pod), pod.spec.node_name.clone());
        match (node.is_empty(), is_on_target(pod)) {
            (true, _) => Replacement::Awaited,
            (_, false) => Replacement::Elsewhere { name, node },
            (_, true) if is_there || !is_ready(pod) => Replacement::Awaited,
            (_, true) => Replacement::Ready { name, node },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use berth_mirror::Change;
    use berth_rebalance::Goal;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, node: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "d", "name": name, "uid": name,
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "w", "controller": true}]},
            "spec": {"nodeName": node, "schedulerName": "berth", "containers": []},
            "status": {"phase": if node.is_empty() { "Pending" } else { "Running" },
                "conditions": [{"type": "Ready", "status": ready}]},
        }))
        .unwrap()
    }

    fn apply(objects: &mut Objects, pod: Pod) {
        objects.apply(&Change::PodApplied { pod: Arc::new(pod), is_changed: true });
    }

    #[test]
    fn a_step_is_made_when_the_replacement_is_ready_on_its_target_and_the_pod_is_gone() {
        let mut objects = Objects::default();
        for node in ["a", "b", "c"] {
            let node = serde_json::from_value(json!({"metadata": {"name": node}})).unwrap();
            objects.apply(&Change::NodeApplied(Box::new(node)));
        }
        apply(&mut objects, pod("old", "a", "True"));
        apply(&mut objects, pod("other", "c", "True"));
        let made = Move {
            namespace: "d".to_owned(),
            name: "old".to_owned(),
            from: "a".to_owned(),
            to: "b".to_owned(),
            goal: Goal::Spread,
            cost: 0,
        };
        let next = || vec!["b".to_owned()];
        let step = Step::new(&objects, &made, next(), &["berth".to_owned()]).unwrap();
        assert!(step.follows && step.is_possible(&objects));
        assert_eq!(step.replacement(&objects), Replacement::Awaited);
        let mut ending = pod("old", "a", "True");
        ending.metadata.deletion_timestamp = "2027-01-15T08:10:00Z".parse().ok();
        apply(&mut objects, ending);
        assert!(!step.is_possible(&objects));
        apply(&mut objects, pod("new", "", "False"));
        assert_eq!(step.replacement(&objects), Replacement::Awaited);
        apply(&mut objects, pod("new", "b", "False"));
        assert_eq!(step.replacement(&objects), Replacement::Awaited);
        apply(&mut objects, pod("new", "b", "True"));
        assert_eq!(step.replacement(&objects), Replacement::Awaited, "the old one is there");
        let name = |name: &str| NamespacedName::new("d", name);
        objects.apply(&Change::PodDeleted { pod: name("old"), uid: "old".to_owned() });
        let ready = Replacement::Ready { name: name("new"), node: "b".to_owned() };
        assert_eq!(step.replacement(&objects), ready);
        // Another one, elsewhere, changes nothing.
        apply(&mut objects, pod("scaled", "c", "True"));
        assert_eq!(step.replacement(&objects), ready);
        objects.apply(&Change::PodDeleted { pod: name("new"), uid: "new".to_owned() });
        let elsewhere = Replacement::Elsewhere { name: name("scaled"), node: "c".to_owned() };
        assert_eq!(step.replacement(&objects), elsewhere);
        assert!(Step::new(&objects, &made, next(), &[]).is_none(), "the pod is gone");
    }
}
