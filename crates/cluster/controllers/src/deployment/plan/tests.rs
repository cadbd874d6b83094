use serde_json::{Value, json};

use super::super::status::is_complete;
use super::*;

fn deployment(spec: Value) -> Deployment {
    let mut full = json!({
        "metadata": {"name": "web", "uid": "d", "generation": 1},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template("one")},
    });
    json_patch::merge(&mut full["spec"], &spec);
    serde_json::from_value(full).unwrap()
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

/// Simulates the API server and the ReplicaSet controller; pods become available at random.
struct World {
    deployment: Deployment,
    sets: Vec<Arc<ReplicaSet>>,
    now: Timestamp,
    random: fastrand::Rng,
    n_made: u32,
}

impl World {
    fn new(spec: Value, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        World {
            deployment: deployment(spec),
            sets: Vec::new(),
            now: Timestamp::UNIX_EPOCH,
            random,
            n_made: 0,
        }
    }

    /// Executes one plan; returns the number of its actions.
    fn step(&mut self) -> usize {
        let plan = plan(&self.deployment, &self.sets, |set| set.status.replicas > 0, self.now);
        let n_actions = plan.actions.len();
        for action in plan.actions {
            match action {
                Action::Create { name, hash, replicas, annotations } => {
                    self.n_made += 1;
                    let mut template = self.deployment.spec.template.clone();
                    template["metadata"]["labels"]["pod-template-hash"] = hash.into();
                    let set = json!({
                        "metadata": {"name": name, "uid": name, "annotations": annotations, "generation": 1,
                            "creationTimestamp": format!("2026-01-01T00:00:{:02}Z", self.n_made)},
                        "spec": {"replicas": replicas, "template": template},
                    });
                    self.sets.push(Arc::new(serde_json::from_value(set).unwrap()));
                }
                Action::Update { replica_set, replicas, annotations, min_ready_seconds } => {
                    let set = self.set(&replica_set);
                    set.spec.replicas = replicas.or(set.spec.replicas);
                    set.spec.min_ready_seconds = min_ready_seconds.unwrap_or(set.spec.min_ready_seconds);
                    set.metadata.annotations.extend(annotations);
                }
                Action::Delete(replica_set) => {
                    assert_eq!(
                        (replica_set.replicas(), replica_set.status.replicas),
                        (0, 0),
                        "only empty ones go"
                    );
                    self.sets.retain(|set| set.metadata.uid != replica_set.metadata.uid);
                }
                Action::SetRevision(revision) => {
                    self.deployment.metadata.annotations.insert(REVISION.to_owned(), revision);
                }
            }
        }
        self.deployment.status = plan.status;
        n_actions
    }

    fn set(&mut self, set: &ReplicaSet) -> &mut ReplicaSet {
        let found = self.sets.iter_mut().find(|own| own.metadata.uid == set.metadata.uid);
        Arc::make_mut(found.expect("planned for one that is there"))
    }

    /// Creates and deletes pods as ReplicaSets do, unavailable pods first; some pods become available.
    fn live(&mut self) {
        let random = &mut self.random;
        for set in &mut self.sets {
            let set = Arc::make_mut(set);
            let replicas = set.replicas();
            let status = &mut set.status;
            status.replicas = replicas;
            status.available_replicas = status.available_replicas.min(replicas);
            status.available_replicas += random.i32(0..=replicas - status.available_replicas);
            status.ready_replicas = status.available_replicas;
            status.observed_generation = set.metadata.generation;
        }
    }

    fn wanted_and_available(&self) -> (i32, i32) {
        let sum = |of: fn(&ReplicaSet) -> i32| self.sets.iter().map(|set| of(set)).sum();
        (sum(|set| set.replicas()), sum(|set| set.status.available_replicas.min(set.replicas())))
    }

    /// Runs until no action is left, and checks every step.
    fn settle(&mut self, check: impl Fn(&World)) {
        for _ in 0..1000 {
            let n_actions = self.step();
            check(self);
            self.live();
            if n_actions == 0 && is_complete(&self.deployment, &self.deployment.status) {
                return;
            }
        }
        panic!("not settled: {:?} {:?}", self.deployment.status, self.sets);
    }
}

#[test]
fn rolling_updates_keep_to_surge_and_unavailability() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let replicas = random.i32(1..20);
        let (surge, unavailable) = (random.i32(0..4), random.i32(0..4));
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        let spec =
            json!({"replicas": replicas, "strategy": {"rollingUpdate": rolling}, "revisionHistoryLimit": 1});
        let mut world = World::new(spec, seed);
        world.settle(|_| {});
        for image in ["two", "three", "one"] {
            world.deployment.spec.template = template(image);
            let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable }.min(replicas);
            world.settle(|world| {
                let (wanted, available) = world.wanted_and_available();
                assert!(wanted <= replicas + surge, "seed {seed}: {wanted} pods");
                assert!(available >= replicas - unavailable, "seed {seed}: {available} available");
            });
            assert!(world.sets.len() <= 2, "seed {seed}: one old ReplicaSet is kept");
        }
        let revision = &world.deployment.metadata.annotations[REVISION];
        assert_eq!(revision, "4", "seed {seed}: one more for each template");
    }
}

#[test]
fn template_changes_during_a_rollout_converge_to_the_last() {
    for seed in 0..300 {
        let mut world = World::new(json!({"replicas": 8}), seed);
        for round in 0..6 {
            world.deployment.spec.template = template(["one", "two", "three"][world.random.usize(..3)]);
            world.deployment.spec.replicas = Some(world.random.i32(0..15));
            world.deployment.spec.paused = round < 5 && world.random.bool();
            for _ in 0..world.random.usize(..4) {
                world.step();
                world.live();
            }
        }
        let wanted = world.deployment.replicas();
        world.settle(|_| {});
        let active: Vec<_> = world.sets.iter().filter(|set| set.replicas() > 0).collect();
        assert!(
            active.iter().all(|set| set.replicas() == wanted) && active.len() == usize::from(wanted > 0),
            "seed {seed}"
        );
    }
}

#[test]
fn recreate_waits_for_the_last_pod() {
    let mut world = World::new(json!({"strategy": {"type": "Recreate"}}), 1);
    world.settle(|_| {});
    world.deployment.spec.template = template("two");
    assert_eq!(world.step(), 1);
    assert_eq!(world.step(), 0, "pods of the old template still run");
    world.live();
    assert_eq!(world.step(), 2, "the new ReplicaSet, and the revision");
    assert_eq!(world.sets.len(), 2);
    world.settle(|_| {});
}
