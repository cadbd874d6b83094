//! Random histories of a cluster: the engine and the naive evaluator must agree on every question, in every
//! number and word, and nothing may be left counted when everything has gone.
//!
//! A failing history is cut down before it is shown. `BERTH_HISTORIES=N` runs more of them, and `BERTH_HISTORY_SEED=S` others:
//! from this seed on.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use berth_api::object::Pod;
use berth_api::syntax::annotations::RELAXED_ANNOTATION;
use berth_engine::{
    Cluster, ClusterChange, DisruptionBudget, Evaluation, NodeEvaluation, Outcome, Preemption, PreparedPod,
    Settings, Victims, WakeConditions,
};
use berth_input::config::Profile;
use berth_rules::Selector;
use berth_testkit::generate::{self, AssumedPlacement, Flavour, Operation, seeds};
use berth_testkit::naive::{self, Code, Decision, NodeResult, Options, World, evaluate};

use crate::common::{apply, cut_down, prepare, set_nodes_after, settings};

/// This many pods are asked about again after every operation.
const ASKED_AGAIN: usize = 5;
/// The time for which pods have been pending.
const PENDING: Duration = Duration::from_secs(600);
/// Seconds since 1970: a time between the times of allocations, long after some.
const NOW: i64 = 1_767_312_100;
/// This many pods wait to be woken.
const PARKED: usize = 4;

struct History {
    profile: Profile,
    options: Options,
    operations: Vec<Operation>,
    /// Changes are reported to parked pods after this many operations.
    told_every: u64,
    /// Whether nodes keep annotations and fields that no rule mentions.
    all_node_attributes: bool,
}

impl History {
    fn new(seed: u64, flavour: Flavour, n_operations: usize) -> History {
        History {
            profile: generate::profile(seed),
            options: generate::options(seed, flavour),
            operations: generate::operations(seed, n_operations, flavour),
            told_every: seed % 3 + 1,
            all_node_attributes: seed.is_multiple_of(2),
        }
    }

    /// Runs the operations side by side; tells the first disagreement.
    fn run(&self, operations: &[Operation]) -> Result<(), String> {
        let (mut cluster, mut world) = (self.cluster(), World::default());
        world.devices.now = NOW;
        cluster.set_now(NOW);
        cluster.record_changes(true);
        let (mut placed, mut n_operations, mut asked) = (0, 0, VecDeque::new());
        let mut parked: VecDeque<Parked> = VecDeque::new();
        let mut assumed: Vec<AssumedPlacement> = Vec::new();
        for operation in operations {
            world.apply(operation);
            apply(&mut cluster, &world, operation);
            let picked = |n: &usize| (!assumed.is_empty()).then(|| n % assumed.len());
            match operation {
                Operation::RollBack(n) if let Some(i) = picked(n) => {
                    roll_back(&mut cluster, &mut world, assumed.swap_remove(i));
                }
                Operation::Bind(n) if let Some(i) = picked(n) => {
                    let placement = assumed.swap_remove(i);
                    let (written, decision) = (placement.written(&world), &placement.decision);
                    let is_whole = written.len() == 2 * (decision.bind.len() + decision.provision.len());
                    for object in written {
                        world.storage.set(object.clone());
                        cluster.set_volume_object(object);
                    }
                    if !is_whole {
                        roll_back(&mut cluster, &mut world, placement);
                    }
                }
                _ => {}
            }
            // Sometimes several changes are told at once.
            let told = n_operations % self.told_every == 0;
            n_operations += 1;
            let changes = if told { cluster.take_changes() } else { Vec::new() };
            for pod in parked.iter_mut().filter(|_| told) {
                pod.wake(&mut cluster, &world, &changes).map_err(|e| format!("{}: {e}", pod.pod.key()))?;
            }
            // Views of classes asked about before must have followed the change.
            for pod in &asked {
                let prepared = prepare(&mut cluster, &world, pod);
                let expected = cluster.evaluate(&prepared).outcome;
                same("asked again", &expected, &cluster.decide(&prepared))
                    .map_err(|e| format!("{}: {e}", pod.key()))?;
            }
            let Operation::Decide(pod) = operation else { continue };
            let expected = evaluate(&world, pod, &self.profile, &self.options);
            let prepared = prepare(&mut cluster, &world, pod);
            let got = cluster.evaluate(&prepared);
            compare(&expected, &got).map_err(|e| format!("deciding {}: {e}", pod.key()))?;
            let decided = cluster.decide(&prepared);
            same("decide", &got.outcome, &decided).map_err(|e| format!("deciding {}: {e}", pod.key()))?;
            if let (Some(_), Outcome::Unschedulable { .. }) = (&expected.message, &decided) {
                let (got, expected) = (
                    preempt(&mut cluster, &world, pod),
                    naive::preempt(&world, pod, &self.profile, &self.options),
                );
                same("preempt", &expected, &got).map_err(|e| format!("preempting for {}: {e}", pod.key()))?;
            }
            let again = cluster.evaluate(&prepared).outcome;
            same("preempting changed the state", &decided, &again)
                .map_err(|e| format!("{}: {e}", pod.key()))?;
            let relaxed = match &decided {
                Outcome::Unschedulable { .. } => self
                    .decide_relaxed(&mut cluster, &world, pod, &prepared)
                    .map_err(|e| format!("relaxing {}: {e}", pod.key()))?,
                _ => None,
            };
            let (pod, expected) = match &relaxed {
                Some((pod, decision)) => (pod, decision.clone()),
                None => (&**pod, expected),
            };
            // What is assumed of a placement is taken back whole.
            if let Outcome::Placed { node, volumes, devices, .. } = cluster.place(&prepared) {
                let decision = volumes.map(|volumes| *volumes).unwrap_or_default();
                cluster.forget(&prepared);
                if let Some(devices) = devices {
                    cluster.restore_devices(&prepared.assumed_devices(&devices, false));
                }
                cluster.restore_volumes(&prepared, &decision);
                world.storage.assume(&pod.metadata.namespace, &node, &decision);
                world.storage.restore(&pod.metadata.namespace, &decision);
                let expected = evaluate(&world, pod, &self.profile, &self.options);
                compare(&expected, &cluster.evaluate(&prepared))
                    .map_err(|e| format!("deciding {} when it was taken back: {e}", pod.key()))?;
            }
            parked.push_front(Parked::new(&mut cluster, &world, pod));
            parked.truncate(PARKED);
            asked.push_front(pod.clone());
            asked.truncate(ASKED_AGAIN);
            // Every other pod stays where it was put, under its own name.
            if let Some(node) = expected.chosen.filter(|_| placed % 2 == 0) {
                let mut pod = Box::new(pod.clone());
                pod.metadata.name = format!("placed-{placed}");
                pod.metadata.uid.clone_from(&pod.metadata.name);
                for decided in expected.devices.iter() {
                    // Before a claim is written, it is mostly assumed.
                    if placed % 3 > 0 {
                        let prepared = cluster.prepare(&pod);
                        cluster.assume_devices(&prepared.assumed_devices(decided, true));
                    }
                    let name = format!("x{placed}");
                    for claim in generate::written_claims(&world, &pod, &decided.claims, &name) {
                        cluster.set_device_object(&claim);
                        world.devices.set(claim);
                    }
                }
                if let Some(decision) = expected.volumes {
                    cluster.assume_volumes(&prepared, &node, &decision);
                    world.storage.assume(&pod.metadata.namespace, &node, &decision);
                    let pod = pod.metadata.namespaced_name();
                    assumed.push(AssumedPlacement { pod, node: node.clone(), decision });
                }
                pod.spec.node_name = node;
                let operation = Operation::AddPod(pod);
                world.apply(&operation);
                apply(&mut cluster, &world, &operation);
            }
            placed += 1;
        }
        // What only pending pods and recorded changes used is gone with the next update.
        drop(parked);
        cluster.record_changes(false);
        assumed.into_iter().for_each(|placement| roll_back(&mut cluster, &mut world, placement));
        cluster.remove_node("unknown");
        self.check_tables(&cluster, &world)?;
        self.remove_all(&mut cluster, &world);
        same("tables of an empty cluster", &self.cluster().table_sizes(), &cluster.table_sizes())?;
        same("counts of an empty cluster", &0, &cluster.n_counted())
    }

    /// Decides an unschedulable pod without the rules that it has been pending for. Returns the pod that says which, and
    /// the decision.
    fn decide_relaxed(
        &self,
        cluster: &mut Cluster,
        world: &World,
        pod: &Pod,
        prepared: &PreparedPod,
    ) -> Result<Option<(Pod, Decision)>, String> {
        let paths = naive::relaxable(pod, PENDING.as_secs(), &self.options);
        let mut expected: Option<(Pod, Decision)> = None;
        for n in 1..=paths.len() {
            let mut relaxed = pod.clone();
            relaxed.metadata.annotations.insert(RELAXED_ANNOTATION.to_owned(), paths[..n].join(","));
            let decision = evaluate(world, &relaxed, &self.profile, &self.options);
            let is_last = decision.message.is_none();
            expected = Some((relaxed, decision));
            if is_last {
                break;
            }
        }
        let got = cluster.decide_relaxed(prepared, PENDING);
        let of_pod = |pod: &Pod| pod.metadata.annotations[RELAXED_ANNOTATION].clone();
        let got_paths = got.as_ref().map(|(_, relaxed)| relaxed.paths.join(","));
        same("relaxed rules", &expected.as_ref().map(|(pod, _)| of_pod(pod)), &got_paths)?;
        if let (Some((_, expected)), Some((outcome, relaxed))) = (&expected, &got) {
            let evaluation = cluster.evaluate(&relaxed.pod);
            compare(expected, &evaluation)?;
            same("decide", &evaluation.outcome, outcome)?;
        }
        Ok(expected)
    }

    fn cluster(&self) -> Cluster {
        let settings = settings(&self.profile, &self.options);
        Cluster::new(Settings { all_node_attributes: self.all_node_attributes, ..settings })
    }

    /// Every table has the size that it has in a cluster with the same objects and no history. Signatures may still
    /// tell pods apart that selectors told apart which are gone: at most as many as there are label sets.
    fn check_tables(&self, cluster: &Cluster, world: &World) -> Result<(), String> {
        let mut fresh = self.cluster();
        world.storage.objects().for_each(|o| fresh.set_volume_object(o));
        world.devices.objects.iter().for_each(|o| fresh.set_device_object(o));
        world.namespaces.iter().for_each(|n| fresh.set_namespace(n));
        world.services.iter().for_each(|s| fresh.set_service(s));
        for workload in &world.workloads {
            let selector = Selector::parse(Some(&workload.selector)).ok();
            fresh.set_owner_selector(&workload.kind, &workload.namespace, &workload.name, selector);
        }
        world.nodes.iter().for_each(|n| fresh.set_node(n));
        world.pods.iter().for_each(|p| _ = fresh.set_pod(p));
        for pod in &world.nominated {
            let prepared = fresh.prepare(pod);
            fresh.nominate(&prepared, &pod.spec.node_name);
        }
        set_nodes_after(0, &mut fresh, world);
        let (mut expected, mut sizes) = (fresh.table_sizes(), cluster.table_sizes());
        for table in ["signatures", "mentioned keys"] {
            let (needed, n) = (expected.remove(table), sizes.remove(table));
            if n < needed || (table == "signatures" && n > Some(sizes["label sets"])) {
                return Err(format!("{n:?} {table}, of {needed:?} that are needed"));
            }
        }
        expected.remove("views");
        sizes.remove("views");
        same("tables", &expected, &sizes)
    }

    fn remove_all(&self, cluster: &mut Cluster, world: &World) {
        world
            .nominated
            .iter()
            .for_each(|p| _ = cluster.clear_nomination(&p.metadata.namespace, &p.metadata.name));
        for workload in &world.workloads {
            cluster.set_owner_selector(&workload.kind, &workload.namespace, &workload.name, None);
        }
        // In an order that is not the one they came in.
        let mut keys: Vec<_> = world.pods.iter().map(|pod| pod.metadata.namespaced_name()).collect();
        keys.sort_by_key(|k| (k.name().len() % 3, k.name().to_owned(), k.namespace().to_owned()));
        keys.iter().for_each(|k| cluster.remove_pod(k.namespace(), k.name()));
        world.nodes.iter().for_each(|n| cluster.remove_node(&n.metadata.name));
        for object in world.storage.objects() {
            let (kind, metadata) = (object.kind(), object.metadata());
            cluster.remove_volume_object(kind, &metadata.namespace, &metadata.name);
        }
        for object in &world.devices.objects {
            let (kind, metadata) = (object.kind(), object.metadata());
            cluster.remove_device_object(kind, &metadata.namespace, &metadata.name);
        }
        for service in &world.services {
            cluster.remove_service(&service.metadata.namespace, &service.metadata.name);
        }
        world.namespaces.iter().for_each(|n| cluster.remove_namespace(&n.metadata.name));
    }
}

/// A pod that was decided, and what could lift the verdict on it if it fitted nowhere.
struct Parked {
    pod: Pod,
    fits: bool,
    preempts: bool,
    conditions: WakeConditions,
}

impl Parked {
    fn new(cluster: &mut Cluster, world: &World, pod: &Pod) -> Parked {
        let prepared = prepare(cluster, world, pod);
        let (fits, conditions) = (cluster.fits_anywhere(&prepared), cluster.wake_conditions(&prepared));
        Parked { pod: pod.clone(), fits, preempts: preempts(cluster, &prepared), conditions }
    }

    /// A pod that has become feasible, or that can preempt others now, must have been woken by one of the changes.
    fn wake(
        &mut self,
        cluster: &mut Cluster,
        world: &World,
        changes: &[ClusterChange],
    ) -> Result<(), String> {
        let prepared = prepare(cluster, world, &self.pod);
        let (fits, preempts) = (cluster.fits_anywhere(&prepared), preempts(cluster, &prepared));
        let woken = changes.iter().any(|change| cluster.could_help(&self.conditions, change));
        // What preemption makes of other pods is not foreseen.
        let are_nodes = changes.iter().all(|change| change.event().starts_with("Node"));
        let may_preempt_now = preempts && !self.fits && !self.preempts && are_nodes;
        let is_helped = (fits && !self.fits) || may_preempt_now;
        if is_helped && !woken {
            return Err(format!("fits or preempts now, but none of these woke it: {changes:?}"));
        }
        // Conditions that woke a pod without success are replaced most of the time; they stay right if they are not.
        if !fits && (self.fits || (woken && self.pod.metadata.name.len().is_multiple_of(2))) {
            self.conditions = cluster.wake_conditions(&prepared);
        }
        (self.fits, self.preempts) = (fits, preempts);
        Ok(())
    }
}

fn preempts(cluster: &Cluster, pod: &PreparedPod) -> bool {
    matches!(cluster.preempt(pod, &[]), Preemption::Victims(_))
}

/// Takes back a placement as a scheduler does: the pod goes, and what was assumed about its claims.
fn roll_back(cluster: &mut Cluster, world: &mut World, placement: AssumedPlacement) {
    let AssumedPlacement { pod: key, decision, .. } = placement;
    let mut pod = Pod::default();
    (pod.metadata.namespace, pod.metadata.name) = (key.namespace().to_owned(), key.name().to_owned());
    let prepared = cluster.prepare(&pod);
    cluster.remove_pod(key.namespace(), key.name());
    cluster.restore_volumes(&prepared, &decision);
    world.apply(&Operation::RemovePod(key.clone()));
    world.storage.restore(key.namespace(), &decision);
}

fn preempt(cluster: &mut Cluster, world: &World, pod: &Pod) -> Result<naive::Victims, String> {
    let budgets: Vec<_> = world.budgets.iter().map(DisruptionBudget::from).collect();
    let prepared = cluster.prepare(pod);
    match cluster.preempt(&prepared, &budgets) {
        Preemption::Victims(Victims { node, victims, n_pdb_violations, .. }) => {
            Ok(naive::Victims { node, victims, n_pdb_violations })
        }
        other => Err(other.message().unwrap_or_default()),
    }
}

fn compare(expected: &Decision, got: &Evaluation) -> Result<(), String> {
    if let Outcome::Gated { .. } = got.outcome {
        let gated = expected.pre_filter.as_ref().is_some_and(|r| r.plugin == "SchedulingGates");
        return if gated { Ok(()) } else { Err(format!("held back by gates, but expected {expected:?}")) };
    }
    let rejection = |r: &berth_engine::Rejection| {
        let reasons: Vec<_> = r.reasons.iter().map(ToString::to_string).collect();
        format!("{} {} {reasons:?}", r.plugin.name(), r.status.name())
    };
    let got_pre_filter = got.pre_filter.as_ref().map(rejection);
    let expected_pre_filter =
        expected.pre_filter.as_ref().map(|r| format!("{} {} {:?}", r.plugin, r.code.name(), r.reasons));
    same("preFilter", &expected_pre_filter, &got_pre_filter)?;
    if got_pre_filter.is_none() {
        let expected_nodes: BTreeMap<_, _> =
            expected.nodes.iter().map(|(n, r)| (n.clone(), node(r))).collect();
        let got_nodes = got.nodes.iter().map(|(name, evaluation)| {
            let text = match evaluation {
                NodeEvaluation::NotConsidered(_) => {
                    "PreFilterResult UnschedulableAndUnresolvable []".to_owned()
                }
                NodeEvaluation::Rejected(r) if r.status.name() == "Error" => {
                    format!("{} Error", r.plugin.name())
                }
                NodeEvaluation::Rejected(r) => rejection(r),
                // When the writing fails, nodes have scores all the same.
                NodeEvaluation::Feasible(score)
                    if matches!(got.outcome, Outcome::Failed { .. }) && score.by_plugin.is_empty() =>
                {
                    "unscored".to_owned()
                }
                NodeEvaluation::Feasible(score) => {
                    let scores = score.by_plugin.iter().map(|(p, s)| (p.name().to_owned(), *s));
                    format!("{:?} = {}", scores.collect::<BTreeMap<_, _>>(), score.total)
                }
            };
            (name.clone(), text)
        });
        same("nodes", &expected_nodes, &got_nodes.collect())?;
    }
    same("best", &expected.best, &got.best)?;
    same("chosen", &expected.chosen.as_deref(), &got.outcome.node())?;
    let got_volumes = match &got.outcome {
        Outcome::Placed { volumes, .. } => volumes.as_deref(),
        _ => None,
    };
    same("volumes", &expected.volumes.as_ref(), &got_volumes)?;
    let got_devices = match &got.outcome {
        Outcome::Placed { devices, .. } => devices.as_deref(),
        _ => None,
    };
    same("devices", &expected.devices.as_ref(), &got_devices)?;
    same("error", &expected.error.is_some(), &matches!(got.outcome, Outcome::Failed { .. }))?;
    if let Some(message) = &expected.message {
        same("message", message.as_str(), &got.outcome.message())?;
    }
    Ok(())
}

fn node(result: &NodeResult) -> String {
    match result {
        // The texts of errors may differ.
        NodeResult::Rejected(r) if r.code == Code::Error => format!("{} Error", r.plugin),
        NodeResult::Rejected(r) => format!("{} {} {:?}", r.plugin, r.code.name(), r.reasons),
        NodeResult::Feasible { scores, total } => format!("{scores:?} = {total}"),
        NodeResult::Unscored => "unscored".to_owned(),
    }
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{what}\n  naive:  {expected:?}\n  engine: {got:?}")) }
}

/// Many short histories, and for every fifty of them a long one.
fn agree(flavour: Flavour, first_seed: u64) {
    let seeds = seeds(first_seed, 60);
    let mut n_decided = 0;
    for seed in seeds.clone() {
        let history = History::new(
            seed,
            flavour,
            match (seed % 50, flavour) {
                (0, _) => 600,
                (_, Flavour::Volumes | Flavour::Devices) => 140,
                _ => 80,
            },
        );
        n_decided += history.operations.iter().filter(|o| matches!(o, Operation::Decide(_))).count();
        if history.run(&history.operations).is_err() {
            let operations = cut_down(&history.operations, |o| history.run(o).is_err());
            let error = history.run(&operations).expect_err("cutting down keeps the disagreement");
            let shown: Vec<_> = operations.iter().map(|o| format!("{o:?}\n")).collect();
            panic!(
                "seed {seed}, {flavour:?}:\n{}\n{:?}\n{:?}\n{error}",
                shown.concat(),
                history.profile,
                history.options
            );
        }
    }
    assert!(n_decided > seeds.count(), "the histories ask for decisions");
}

#[test]
fn engine_and_naive_evaluator_agree_on_v1() {
    agree(Flavour::V1, 0);
}

#[test]
fn engine_and_naive_evaluator_agree_on_the_proposals() {
    agree(Flavour::Extensions, 1_000_000);
}

#[test]
fn engine_and_naive_evaluator_agree_on_volumes() {
    agree(Flavour::Volumes, 2_000_000);
}

#[test]
fn engine_and_naive_evaluator_agree_on_devices() {
    agree(Flavour::Devices, 3_000_000);
}

/// kube-scheduler's PodTopologySpread counts no pods that are being deleted, but its `AddPod`, which adds nominated pods, does.
#[test]
fn a_nominated_pod_counts_for_spread_constraints_even_while_it_is_being_deleted() {
    use berth_testkit::text;

    let nodes = "node a zone=z1\nnode b zone=z2";
    for (deleted_at, nominated_to, expected) in
        [(None, "a", "b"), (Some("2026-01-01T00:00:00Z"), "a", "b"), (Some("2026-01-01T00:00:00Z"), "b", "a")]
    {
        let mut world = text::world(nodes);
        let mut other = text::pod("pod default/other app=web");
        other.metadata.deletion_timestamp = deleted_at.map(|at| at.parse().expect("a time"));
        other.spec.node_name = nominated_to.to_owned();
        world.nominated.push(other.clone());
        let pod = text::pod("pod default/p app=web spread(1 app=web @zone)");
        let (profile, options) = (Profile::default(), Options::default());
        let mut cluster = Cluster::new(settings(&profile, &options));
        world.nodes.iter().for_each(|node| cluster.set_node(node));
        let nominated = cluster.prepare(&other);
        cluster.nominate(&nominated, nominated_to);
        let prepared = cluster.prepare(&pod);
        let got = cluster.evaluate(&prepared);
        compare(&evaluate(&world, &pod, &profile, &options), &got).unwrap();
        assert_eq!(got.outcome.node(), Some(expected), "{deleted_at:?}");
    }
}

#[test]
fn a_pod_that_leaves_and_comes_back_is_counted_once() {
    let (mut cluster, node) = (Cluster::new(Settings::default()), "node a zone=z1");
    berth_testkit::text::world(node).nodes.iter().for_each(|n| cluster.set_node(n));
    let mut pod: Pod = berth_testkit::text::pod("pod default/p on a app=web anti(app=web @zone)");
    for _ in 0..3 {
        assert!(cluster.set_pod(&pod));
    }
    let counted = cluster.n_counted();
    cluster.remove_node("a");
    assert_eq!(cluster.n_counted(), 0, "a pod on a node that has gone counts nowhere");
    berth_testkit::text::world(node).nodes.iter().for_each(|n| cluster.set_node(n));
    assert_eq!(cluster.n_counted(), counted);
    pod.spec.node_name = "elsewhere".to_owned();
    assert!(!cluster.set_pod(&pod));
    cluster.remove_pod("default", "p");
    assert_eq!((cluster.n_pods(), cluster.n_counted()), (0, 0));
}
