//! Random ownership graphs with cycles: everything settles, and nothing with a living owner is deleted.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::resource::REPLICA_SETS;
use serde_json::json;

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, Uid};
use super::plan::{Action, OwnerState, owner_state, plan, without};
use crate::api::Propagation;
use crate::view::{ObjectMeta, OwnerReference};

/// An API server with objects of one kind, and the collector's view of it.
struct World {
    objects: BTreeMap<Uid, Node>,
    graph: Graph,
    queue: BTreeSet<Uid>,
}

impl World {
    /// `edges` are dependent, owner, and whether the dependent blocks the owner's deletion.
    fn new(n: usize, edges: &[(usize, usize, bool)]) -> World {
        let mut world = World { objects: BTreeMap::new(), graph: Graph::default(), queue: BTreeSet::new() };
        for i in 0..n {
            let owners = edges.iter().filter(|(dependent, ..)| *dependent == i).map(|(_, owner, block)| {
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner.to_string(), "uid": owner.to_string(),
                    "blockOwnerDeletion": block})
            });
            let meta = json!({"namespace": "a", "name": i.to_string(), "uid": i.to_string(),
                "ownerReferences": owners.collect::<Vec<_>>()});
            world.write(Node::new(&REPLICA_SETS, &serde_json::from_value::<ObjectMeta>(meta).unwrap()));
        }
        world
    }

    /// Stores a changed object, or removes it if nothing keeps it.
    fn write(&mut self, node: Node) {
        let uid = node.uid.clone();
        let news = if node.deleting && node.finalizers.is_empty() {
            self.objects.remove(&uid);
            self.graph.remove(&uid)
        } else {
            self.objects.insert(uid, node.clone());
            self.graph.observe(node)
        };
        self.queue.extend(news);
    }

    fn delete(&mut self, uid: &str, propagation: Propagation) {
        let Some(mut node) = self.objects.get(uid).cloned() else { return };
        let finalizer = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        node.finalizers.retain(|own| own != FOREGROUND && own != ORPHAN);
        node.finalizers.extend(finalizer.map(str::to_owned));
        node.deleting = true;
        self.write(node);
    }

    /// Whether an object has an owner that exists and does not wait for its dependents.
    fn has_living_owner(&self, node: &Node) -> bool {
        let owners = node.owners.iter().filter_map(|owner| self.objects.get(&owner.uid));
        owners.into_iter().any(|owner| !owner.is_deleting_foreground())
    }

    fn sync(&mut self, uid: &str) {
        let Some(node) = self.graph.node(uid).cloned() else { return };
        let state = |owner: &OwnerReference| match owner_state(&self.graph, &node, owner) {
            OwnerState::Unknown(_) if !self.objects.contains_key(&owner.uid) => OwnerState::Absent,
            state => state,
        };
        let owners: Vec<OwnerState> = node.owners.iter().map(state).collect();
        match plan(&self.graph, &node, &owners) {
            Action::Nothing => {}
            Action::Delete(propagation) => {
                assert!(!self.has_living_owner(&node), "{uid} has a living owner");
                self.delete(uid, propagation);
            }
            Action::SetOwners(owners) => {
                self.write(Node { owners: serde_json::from_value(owners).unwrap(), ..node });
            }
            Action::SetFinalizers(finalizers) => self.write(Node { finalizers: finalizers.into(), ..node }),
            Action::Orphan => {
                let dependents: Vec<Node> = self.graph.dependents(uid).cloned().collect();
                for mut dependent in dependents {
                    dependent.owners.retain(|owner| owner.uid != uid);
                    self.write(dependent);
                }
                if let Some(node) = self.objects.get(uid).cloned() {
                    self.write(Node { finalizers: without(&node, ORPHAN).into(), ..node });
                }
            }
            Action::WaitForDependents(dependents) => self.queue.extend(dependents),
        }
    }

    /// Works in random order until nothing is left to do.
    fn settle(&mut self, random: &mut fastrand::Rng) {
        let n_max = 1000 + 200 * self.objects.len();
        for _ in 0..n_max {
            let Some(uid) = random.choice(self.queue.iter().cloned().collect::<Vec<_>>()) else { return };
            self.queue.remove(&uid);
            self.sync(&uid);
        }
        panic!("the work does not end: {:?}", self.queue);
    }

    fn left(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }
}

#[test]
fn objects_that_own_each_other_or_themselves_are_deleted_in_the_foreground() {
    for (edges, left) in [
        (&[(0, 0, true)][..], &["1", "2", "3"][..]),
        (&[(0, 1, true), (1, 0, true)], &["2", "3"]),
        (&[(0, 1, true), (1, 2, true), (2, 0, true)], &["3"]),
        // The rest of the tree goes first.
        (&[(0, 1, true), (1, 0, true), (2, 1, true), (3, 2, true)], &[]),
        // 1 has another owner.
        (&[(0, 1, true), (1, 0, true), (1, 2, false)], &["1", "2", "3"]),
    ] {
        let mut random = fastrand::Rng::with_seed(7);
        let mut world = World::new(4, edges);
        world.settle(&mut random);
        world.delete("0", Propagation::Foreground);
        world.settle(&mut random);
        assert_eq!(world.left(), left, "{edges:?}");
    }
}

#[test]
fn a_reference_from_another_namespace_blocks_nothing() {
    let mut world = World::new(1, &[]);
    let meta = json!({"namespace": "b", "name": "thief", "uid": "thief", "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "0", "uid": "0", "blockOwnerDeletion": true}]});
    world.graph.observe(Node::new(&REPLICA_SETS, &serde_json::from_value::<ObjectMeta>(meta).unwrap()));
    world.delete("0", Propagation::Foreground);
    world.settle(&mut fastrand::Rng::with_seed(1));
    assert_eq!(world.left(), [""; 0]);
}

#[test]
fn random_graphs_settle_and_nothing_with_a_living_owner_is_deleted() {
    for seed in 0..2000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let n = random.usize(1..9);
        let edges: Vec<(usize, usize, bool)> = (0..random.usize(0..2 * n))
            .map(|_| (random.usize(0..n), random.usize(0..n), random.u8(0..4) > 0))
            .collect();
        let mut world = World::new(n, &edges);
        world.settle(&mut random);
        for _ in 0..random.usize(1..4) {
            let policy = [Propagation::Background, Propagation::Foreground, Propagation::Orphan];
            world.delete(&random.usize(0..n).to_string(), policy[random.usize(0..3)]);
            // Sometimes several deletions are under way.
            if random.bool() {
                world.settle(&mut random);
            }
        }
        world.settle(&mut random);
        for node in world.objects.values() {
            assert!(!node.deleting, "seed {seed}: {} is not deleted for ever", node.uid);
            assert!(
                node.owners.is_empty() || world.has_living_owner(node),
                "seed {seed}: {} has no owner left",
                node.uid
            );
        }
    }
}
