//! No rule reads more than it declares: what changes outside of the declared parts changes neither the result of its filter
//! nor its raw score.

use std::collections::BTreeMap;

use berth_api::feature_gates::FeatureGates;
use berth_api::object::device::{DeviceKind, DeviceObject};
use berth_api::object::{Node, Pod};
use berth_input::config::{Plugin, Profile, SchedulerConfig};
use berth_rules::Selector;
use berth_testkit::generate::{Flavour, Operation, Random, operations};
use berth_testkit::naive::World;

use super::super::registry::{RULES, RuleEntry};
use super::super::rule::{Filter, Reads, Rule};
use super::open_nodes::Open;
use crate::cycle::context::{Context, CycleState, NodeRef};
use crate::state::node::NodeId;
use crate::state::{Settings, State};
use crate::verdict::Rejection;

/// What a rule finds out about one node.
#[derive(Debug, Default, PartialEq)]
struct Result {
    /// Whether the rule can reject the pod at all.
    is_filter: bool,
    rejection: Option<Rejection>,
    raw_score: Option<i64>,
}

/// A cluster, and a change of it.
struct Trial {
    before: World,
    after: World,
    /// The parts that may have changed.
    changed: Reads,
    /// The node that is looked at before, and the one after.
    nodes: (String, String),
}

impl Trial {
    /// Runs rules before and after the change.
    fn run(&self, rules: &[RuleEntry], pod: &Pod) -> Vec<(Result, Result)> {
        let (before, after) = &self.nodes;
        let before = results(rules, &self.before, pod, before);
        before.into_iter().zip(results(rules, &self.after, pod, after)).collect()
    }
}

fn state_of(world: &World) -> State {
    // With all features that rules have.
    let feature_gates = FeatureGates {
        taint_toleration_comparison_operators: true,
        storage_capacity_scoring: true,
        volume_limit_scaling: true,
        ..FeatureGates::default()
    };
    let config = SchedulerConfig { feature_gates, ..SchedulerConfig::default() };
    let mut state = State::new(Settings { config, ..Settings::default() });
    world.namespaces.iter().for_each(|n| state.set_namespace(n));
    world.services.iter().for_each(|s| state.set_service(s));
    for workload in &world.workloads {
        let selector = Selector::parse(Some(&workload.selector)).ok();
        state.set_owner_selector(&workload.kind, &workload.namespace, &workload.name, selector);
    }
    world.storage.objects().for_each(|object| state.set_volume_object(object));
    world.devices.objects.iter().for_each(|object| state.set_device_object(object));
    world.nodes.iter().for_each(|n| state.set_node(n));
    world.pods.iter().for_each(|p| _ = state.set_pod(p));
    state
}

fn results(rules: &[RuleEntry], world: &World, pod: &Pod, node: &str) -> Vec<Result> {
    let mut state = state_of(world);
    let prepared = state.prepare(pod);
    let cycle = CycleState::without_nominated(&state, &prepared);
    let context = Context::with_any_profile(&state, &cycle).expect("there is a profile");
    let id = state.find_node(node).expect("the node stays");
    let node = NodeRef::new(id, state.nodes.get(id));
    let all: Vec<NodeId> = state.nodes.iter().map(|(id, _)| id).collect();
    let result = |rule: &RuleEntry| {
        let filter = (rule.filter)(context);
        Result {
            is_filter: filter.is_some(),
            rejection: filter.and_then(|filter| filter.check(node)),
            raw_score: (rule.scorer)(context, &all).map(|scorer| scorer.score(node)),
        }
    };
    rules.iter().map(result).collect()
}

/// Random objects of another cluster.
struct Pool {
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    world: World,
}

fn world_of(operations: &[Operation]) -> World {
    let mut world = World::default();
    operations.iter().for_each(|operation| world.apply(operation));
    world
}

impl Pool {
    fn new(seed: u64, flavour: Flavour) -> Pool {
        let operations = operations(seed, 60, flavour);
        let (mut nodes, mut pods) = (Vec::new(), Vec::new());
        for operation in &operations {
            match operation {
                Operation::AddNode(node) | Operation::UpdateNode(node) => nodes.push(Node::clone(node)),
                Operation::Decide(pod) => pods.push(Pod::clone(pod)),
                _ => {}
            }
        }
        Pool { nodes, pods, world: world_of(&operations) }
    }
}

/// Changes of everything that surrounds a node, each of some parts of what rules read.
fn trials(world: &World, name: &str, pool: &Pool, random: &mut Random) -> Vec<Trial> {
    let like = random.pick(&pool.nodes).expect("the pool has nodes").clone();
    let trial = |changed: Reads, change: &dyn Fn(&mut World)| {
        let mut after = world.clone();
        change(&mut after);
        Trial { before: world.clone(), after, changed, nodes: (name.to_owned(), name.to_owned()) }
    };
    let trial_on_node = |changed: Reads, change: &dyn Fn(&mut Node)| {
        trial(changed, &|world| {
            world.nodes.iter_mut().filter(|node| node.metadata.name == name).for_each(change)
        })
    };
    let twin = format!("{name}-twin");
    vec![
        trial_on_node(Reads::NODE_LABELS.and(Reads::COUNTERS), &|node| {
            node.metadata.labels.clone_from(&like.metadata.labels);
            node.metadata.annotations.clone_from(&like.metadata.annotations);
        }),
        trial_on_node(Reads::NODE_CLASS, &|node| {
            node.spec.clone_from(&like.spec);
            node.status.allocatable.clone_from(&like.status.allocatable);
            node.status.capacity.clone_from(&like.status.capacity);
            node.status.declared_features.clone_from(&like.status.declared_features);
        }),
        trial_on_node(Reads::IMAGES, &|node| node.status.images.clone_from(&like.status.images)),
        trial(Reads::PODS, &|world| {
            let is_here = |pod: &Pod| pod.spec.node_name == name;
            world.pods.retain(|pod| !is_here(pod));
            for pod in &pool.pods {
                let mut pod = pod.clone();
                pod.metadata.name = format!("{}-{name}", pod.metadata.name);
                name.clone_into(&mut pod.spec.node_name);
                world.pods.push(pod);
            }
        }),
        trial(Reads::VOLUMES.and(Reads::VOLUMES_IN_USE), &|world| world.storage = pool.world.storage.clone()),
        trial(Reads::VOLUMES.and(Reads::VOLUMES_IN_USE), &|world| world.storage = World::default().storage),
        // Classes stay: they decide which rule a resource belongs to.
        trial(Reads::DEVICES, &|world| {
            let is_class = |object: &DeviceObject| object.kind() == DeviceKind::DeviceClass;
            world.devices.objects.retain(is_class);
            let others = pool.world.devices.objects.iter().filter(|object| !is_class(object));
            world.devices.objects.extend(others.cloned());
        }),
        // Everything but the node, its pods, volume objects and devices.
        trial(Reads::COUNTERS.and(Reads::IMAGES).and(Reads::VOLUMES_IN_USE), &|world| {
            world.nodes.retain(|node| node.metadata.name == name);
            let others = pool.nodes.iter().filter(|node| node.metadata.name != name);
            world.nodes.extend(others.cloned());
            world.pods.retain(|pod| pod.spec.node_name == name);
            world.namespaces.clone_from(&pool.world.namespaces);
            world.services.clone_from(&pool.world.services);
        }),
        // An equal node with other labels in place of the node.
        Trial {
            nodes: (name.to_owned(), twin.clone()),
            ..trial(
                Reads::NODE_LABELS.and(Reads::COUNTERS).and(Reads::VOLUMES).and(Reads::VOLUMES_IN_USE),
                &|world| {
                    for node in world.nodes.iter_mut().filter(|node| node.metadata.name == name) {
                        node.metadata.name.clone_from(&twin);
                        node.metadata.labels.clone_from(&like.metadata.labels);
                    }
                    for pod in world.pods.iter_mut().filter(|pod| pod.spec.node_name == name) {
                        pod.spec.node_name.clone_from(&twin);
                    }
                },
            )
        },
    ]
}

/// What the trials of one rule found.
#[derive(Debug, Default)]
struct Findings {
    n_filters: usize,
    n_rejections: usize,
    n_scores: usize,
    /// Trials in which a declared part changed, and the result did.
    n_changed: usize,
    /// The first trial in which nothing changed that the rule declares, and the result did.
    undeclared: Option<String>,
}

/// Runs rules before and after random changes.
fn findings(rules: &[RuleEntry], n_seeds: u64) -> BTreeMap<Plugin, Findings> {
    let mut findings: BTreeMap<Plugin, Findings> = BTreeMap::new();
    let flavours = [Flavour::V1, Flavour::Extensions, Flavour::Volumes, Flavour::Devices];
    for (seed, flavour) in (0..n_seeds).zip(flavours.into_iter().cycle()) {
        let mut random = Random::new(seed);
        let (own, other) = (Pool::new(seed, flavour), Pool::new(seed + 1_000_000, flavour));
        let names: Vec<_> = own.world.nodes.iter().map(|node| node.metadata.name.clone()).collect();
        let Some(name) = random.pick(&names) else { continue };
        let Some(pod) = random.pick(&own.pods) else { continue };
        let mut pod = pod.clone();
        if random.chance(30) {
            pod.spec.node_name = random.word(&names.iter().map(String::as_str).collect::<Vec<_>>());
        }
        for trial in trials(&own.world, name, &other, &mut random) {
            for (rule, (before, after)) in rules.iter().zip(trial.run(rules, &pod)) {
                let found = findings.entry(rule.plugin).or_default();
                found.n_filters += usize::from(before.is_filter);
                found.n_rejections += usize::from(before.rejection.is_some());
                found.n_scores += usize::from(before.raw_score.is_some_and(|score| score != 0));
                let is_same = (&before.rejection, before.raw_score) == (&after.rejection, after.raw_score);
                if rule.reads.any_of(trial.changed) {
                    found.n_changed += usize::from(!is_same);
                } else if !is_same && found.undeclared.is_none() {
                    let changed = trial.changed;
                    found.undeclared = Some(format!("seed {seed}, {changed:?}: {before:?} {after:?}"));
                }
            }
        }
    }
    findings
}

#[test]
fn no_rule_reads_more_than_it_declares() {
    let profile = Profile::default();
    let findings = findings(RULES, 400);
    for rule in RULES.iter().filter(|rule| rule.plugin != super::OpenNodes::PLUGIN) {
        let found = &findings[&rule.plugin];
        assert_eq!(found.undeclared, None, "{:?} reads more than it declares", rule.plugin);
        let is_filter = profile.filter.contains(&rule.plugin);
        let is_scorer = profile.score.iter().any(|(plugin, _)| *plugin == rule.plugin);
        assert_eq!(is_filter, found.n_filters > 0, "{:?}: {found:?}", rule.plugin);
        assert!(!is_filter || found.n_rejections > 0, "{:?}: {found:?}", rule.plugin);
        assert_eq!(is_scorer, found.n_scores > 0, "{:?}: {found:?}", rule.plugin);
        assert!(found.n_changed > 0, "{:?}: {found:?}", rule.plugin);
    }
}

/// Reads labels, and declares that equal nodes get equal results.
struct Liar;

impl Rule for Liar {
    const PLUGIN: Plugin = Plugin::SchedulingGates;
    const READS: Reads = Reads::NODE_CLASS;

    fn filter<'a>(context: Context<'a>) -> Option<Box<dyn Filter + 'a>> {
        Some(Box::new(Open { context, label: "disk" }))
    }
}

#[test]
fn a_rule_that_reads_more_than_it_declares_is_found() {
    let findings = findings(&[RuleEntry::of::<Liar>()], 300);
    assert!(findings[&Liar::PLUGIN].undeclared.is_some());
}
