//! One workload in a new engine.

mod background;
mod devices;
mod pod_groups;

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::object::{Namespace, Node, ObjectMeta, Pod, Service};
use berth_api::read::Kind;
use berth_api::syntax::labels::HOSTNAME;
use berth_api::syntax::quantity::Quantity;
use berth_engine::{Cluster, Outcome, Preemption, PreparedPod, Settings};
use berth_input::config::SchedulerConfig;
use berth_rules::admission::{AdmissionOptions, admit};

use self::background::{Background, DECISION};
use self::devices::Devices;
use self::pod_groups::{Decided, Gangs};
use super::format::{
    Case, CreateAny, CreateNamespaces, CreateNodes, CreatePodSets, CreatePods, Op, Workload, duration, parse,
};
use super::templates::Templates;
use super::volumes;
use super::{Measured, Stop};
use crate::measure::{Checksum, Samples, peak_rss_bytes, reset_peak_rss, timed};

/// Runs the operations of a case with the parameters of a workload.
pub(super) fn run(
    case: &Case,
    workload: &Workload,
    templates: Templates<'_>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Measured, Stop> {
    let ops = case.ops(workload)?;
    let measures = |op: &Op| matches!(op, Op::CreatePods(_, pods) if pods.collect_metrics);
    if !ops.iter().any(measures) {
        return Err(Stop::NotSupported("no createPods with collectMetrics: nothing is measured".to_owned()));
    }
    reset_peak_rss();
    let mut runner = Runner::new(case, workload, templates, progress)?;
    runner.deletes = ops.iter().any(|op| matches!(op, Op::DeletePods(_)));
    runner.n_pods = ops.iter().map(|op| if let Op::CreatePods(n, _) = op { *n } else { 0 }).sum();
    for (index, op) in ops.iter().enumerate() {
        runner.op(index, op)?;
    }
    let n_prepared = runner.n_measured.max(1) as f64;
    Ok(Measured {
        nodes: runner.cluster.n_nodes(),
        figures: runner.samples.figures(),
        unplaced: runner.unplaced,
        setup_unplaced: runner.setup_unplaced,
        victims: runner.n_victims,
        prepare_us_per_pod: runner.prepare.as_secs_f64() * 1e6 / n_prepared,
        peak_rss_bytes: peak_rss_bytes(),
        checksum: runner.checksum.hex(),
    })
}

struct Runner<'a> {
    case: &'a Case,
    workload: &'a Workload,
    templates: Templates<'a>,
    progress: &'a mut dyn FnMut(usize, usize),
    cluster: Cluster,
    namespaces: BTreeSet<String>,
    /// In the order of their creation.
    nodes: Vec<String>,
    devices: Devices,
    gangs: Gangs,
    n_named: usize,
    n_decided: usize,
    n_pods: usize,
    n_measured: usize,
    unplaced: usize,
    setup_unplaced: usize,
    n_victims: usize,
    deletes: bool,
    /// The pods of `createPods`, if so.
    created: Vec<Pod>,
    /// The time since the start, as counted.
    now: Duration,
    background: Vec<Background>,
    prepare: Duration,
    samples: Samples,
    checksum: Checksum,
}

impl<'a> Runner<'a> {
    fn new(
        case: &'a Case,
        workload: &'a Workload,
        mut templates: Templates<'a>,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Result<Runner<'a>, Stop> {
        let config = match &case.scheduler_config_path {
            None => SchedulerConfig::default(),
            Some(path) => SchedulerConfig::from_value(&templates.manifest(path, 0)?.value)
                .map_err(|e| Stop::Failed(format!("{path}: {e}")))?,
        };
        Ok(Runner {
            case,
            workload,
            templates,
            progress,
            // As scheduler_perf reads it.
            cluster: Cluster::new(Settings::strict_v1(config)),
            namespaces: BTreeSet::new(),
            nodes: Vec::new(),
            devices: Devices::default(),
            gangs: Gangs::new(),
            n_named: 0,
            n_decided: 0,
            n_pods: 0,
            n_measured: 0,
            unplaced: 0,
            setup_unplaced: 0,
            n_victims: 0,
            deletes: false,
            created: Vec::new(),
            now: Duration::ZERO,
            background: Vec::new(),
            prepare: Duration::ZERO,
            samples: Samples::default(),
            checksum: Checksum::default(),
        })
    }

    fn op(&mut self, index: usize, op: &Op) -> Result<(), Stop> {
        match op {
            Op::CreateNodes(count, op) => self.create_nodes(index, *count, op),
            Op::CreateNamespaces(count, op) => self.create_namespaces(*count, op),
            Op::CreatePods(count, op) => self.create_pods(index, *count, op),
            Op::CreatePodSets(count, op) => self.create_pod_sets(index, *count, op),
            Op::CreateAny(count, op) => self.create_any(*count, op),
            Op::CreateResourceDriver(op) => self.create_resource_driver(op),
            Op::AllocResourceClaims(op) => self.alloc_resource_claims(&op.namespace),
            Op::Churn(op) => self.churn(index, op),
            Op::DeletePods(op) => self.delete_pods(op),
            Op::Sleep(time) => self.advance(*time),
            Op::Barrier => Ok(()),
        }
    }

    fn create_nodes(&mut self, index: usize, count: usize, op: &CreateNodes) -> Result<(), Stop> {
        for i in 0..count {
            let mut node: Node = match &op.node_template_path {
                Some(path) => self.templates.numbered(path, "Node", i)?,
                None => base_node(index),
            };
            if let Some(strategy) = &op.node_allocatable_strategy {
                let capacity = node.status.capacity.clone().unwrap_or_default();
                let allocatable = node.status.allocatable.get_or_insert(capacity);
                allocatable.extend(strategy.node_allocatable.clone());
            }
            self.name(&mut node.metadata);
            let name = node.metadata.name.clone();
            let labels = &mut node.metadata.labels;
            labels.insert(HOSTNAME.to_owned(), name.clone());
            // The strategies exclude each other in this order.
            if op.node_allocatable_strategy.is_some() {
            } else if let Some(strategy) = &op.label_node_prepare_strategy {
                let values = &strategy.label_values;
                if let Some(value) = i.checked_rem(values.len()).and_then(|i| values.get(i)) {
                    labels.insert(strategy.label_key.clone(), value.clone());
                }
            } else if let Some(strategy) = &op.unique_node_label_strategy {
                labels.insert(strategy.label_key.clone(), name);
            }
            self.cluster.set_node(&node);
            self.nodes.push(node.metadata.name.clone());
            if let Some(strategy) = &op.node_allocatable_strategy {
                self.cluster.set_volume_object(volumes::csi_node(strategy, &node.metadata.name));
            }
        }
        Ok(())
    }

    fn create_namespaces(&mut self, count: usize, op: &CreateNamespaces) -> Result<(), Stop> {
        let template: Namespace = match &op.namespace_template_path {
            Some(path) => self.templates.get(path, "Namespace")?,
            None => Namespace::default(),
        };
        for i in 0..count {
            let mut namespace = template.clone();
            namespace.metadata.name = format!("{}-{i}", op.prefix);
            self.set_namespace(namespace);
        }
        Ok(())
    }

    fn set_namespace(&mut self, mut namespace: Namespace) {
        let name = namespace.metadata.name.clone();
        namespace.metadata.labels.insert("kubernetes.io/metadata.name".to_owned(), name.clone());
        self.cluster.set_namespace(&namespace);
        self.namespaces.insert(name);
    }

    fn need_namespace(&mut self, name: &str) {
        if !self.namespaces.contains(name) {
            let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
            self.set_namespace(Namespace { metadata });
        }
    }

    fn create_pods(&mut self, index: usize, count: usize, op: &CreatePods) -> Result<(), Stop> {
        self.templates.set_params(&op.template_params);
        let path = op.pod_template_path.as_ref().or(self.case.default_pod_template_path.as_ref());
        let template: Pod = match path {
            Some(path) => self.templates.get(path, "Pod")?,
            None => base_pod(),
        };
        let numbered = match path {
            Some(path) if self.templates.has_placeholders(path)? => Some(path),
            _ => None,
        };
        let namespace = op.namespace.clone().unwrap_or_else(|| format!("namespace-{index}"));
        self.need_namespace(&namespace);
        let made = |runner: &mut Self, i: usize| {
            let mut pod = match numbered {
                Some(path) => runner.templates.numbered(path, "Pod", i)?,
                None => template.clone(),
            };
            pod.metadata.namespace.clone_from(&namespace);
            let objects = volumes::give(op, &mut runner.templates, &mut pod, i)?;
            objects.into_iter().flatten().for_each(|object| runner.cluster.set_volume_object(object));
            let mut pod = runner.admitted(pod)?;
            runner.make_claims(&mut pod)?;
            Ok(pod)
        };
        if !op.collect_metrics {
            for i in 0..count {
                let pod = made(self, i)?;
                let prepared = self.cluster.prepare(&pod);
                let outcome = self.decide(&prepared);
                self.setup_unplaced += usize::from(outcome.node().is_none());
                self.decided(&pod, &outcome)?;
            }
            return Ok(());
        }
        let time = op.duration.as_ref().map_or(Ok(Duration::ZERO), |text| duration(Some(text)));
        let until = self.now + time.map_err(|e| Stop::Failed(format!("createPods: {e}")))?;
        loop {
            let pods = (0..count).map(|i| made(self, i)).collect::<Result<Vec<_>, Stop>>()?;
            let measured = self.measure(pods)?;
            if !op.steady_state {
                return Ok(());
            }
            measured.iter().for_each(|(pod, prepared, outcome)| self.forget(pod, prepared, outcome));
            if self.now >= until {
                return Ok(());
            }
            self.n_pods += count;
        }
    }

    /// Decides about pods, and measures it.
    fn measure(&mut self, pods: Vec<Pod>) -> Result<Decided, Stop> {
        let (prepared, duration) =
            timed(|| pods.iter().map(|pod| self.cluster.prepare(pod)).collect::<Vec<_>>());
        self.prepare += duration;
        self.n_measured += pods.len();
        let mut measured = Vec::with_capacity(pods.len());
        for (pod, prepared) in pods.into_iter().zip(prepared) {
            measured.extend(self.decide_timed(pod, prepared)?);
        }
        self.unplaced += self.n_waiting();
        Ok(measured)
    }

    /// Notes what was decided in a measurement.
    fn measured(&mut self, decided: Decided) -> Result<Decided, Stop> {
        for (pod, _, outcome) in &decided {
            if let Outcome::Failed { error } = outcome {
                return Err(Stop::Failed(format!("{}: {error}", pod.key())));
            }
            self.unplaced += usize::from(outcome.node().is_none());
            self.checksum.add(
                &pod.metadata.namespace,
                &pod.metadata.name,
                outcome.node().unwrap_or_default(),
            );
            self.decided(pod, outcome)?;
        }
        Ok(decided)
    }

    fn create_pod_sets(&mut self, index: usize, count: usize, op: &CreatePodSets) -> Result<(), Stop> {
        let Op::CreatePods(n_pods, mut pods) = parse(&op.create_pods_op, &self.workload.params)? else {
            return Err(Stop::Failed("createPodSets: createPodsOp is no createPods".to_owned()));
        };
        self.n_pods = self.n_pods.saturating_add(n_pods.saturating_mul(count));
        for i in 0..count {
            pods.namespace = Some(format!("{}-{i}", op.namespace_prefix));
            self.create_pods(index, n_pods, &pods)?;
        }
        Ok(())
    }

    fn create_any(&mut self, count: usize, op: &CreateAny) -> Result<(), Stop> {
        let manifest = self.templates.manifest(&op.template_path, 0)?;
        let kind = manifest.kind.clone();
        if let Some(Kind::Device(kind)) = Kind::of(&manifest.api_version, &kind) {
            return (0..count).try_for_each(|i| self.create_device_object(kind, i, op));
        }
        if kind == "PodGroup" {
            return (0..count).try_for_each(|i| self.create_pod_group(i, op));
        }
        if kind != "Service" {
            return Err(Stop::NotSupported(format!("createAny of {kind}")));
        }
        let template: Service = self.templates.get(&op.template_path, &kind)?;
        for _ in 0..count {
            let mut service = template.clone();
            self.name(&mut service.metadata);
            service.metadata.namespace.clone_from(&op.namespace);
            self.cluster.set_service(&service);
        }
        Ok(())
    }

    /// Gives an object its name if it has none. Numbers have equal lengths, so that the order of names, which
    /// breaks ties between nodes, is the order of creation.
    fn name(&mut self, metadata: &mut ObjectMeta) {
        if metadata.name.is_empty() {
            metadata.name = format!("{}{:07}", metadata.generate_name, self.n_named);
            self.n_named += 1;
        }
    }

    fn admitted(&mut self, mut pod: Pod) -> Result<Pod, Stop> {
        self.name(&mut pod.metadata);
        let options =
            AdmissionOptions { rules: self.cluster.settings().rule_options(), ..AdmissionOptions::default() };
        match admit(&mut pod, &options).errors.first() {
            None => Ok(pod),
            Some(error) => Err(Stop::Failed(format!("{}: {}: {}", pod.key(), error.field, error.detail))),
        }
    }

    /// Decides about a pod and assigns it. One that is unschedulable preempts others if that helps: they leave at once.
    fn decide(&mut self, pod: &PreparedPod) -> Outcome {
        let outcome = self.cluster.place(pod);
        if !matches!(outcome, Outcome::Unschedulable { .. }) {
            return outcome;
        }
        let Preemption::Victims(preemption) = self.cluster.preempt(pod, &[]) else { return outcome };
        let victims = &preemption.victims;
        victims.iter().for_each(|victim| self.cluster.remove_pod(victim.namespace(), victim.name()));
        self.n_victims += victims.len();
        self.cluster.place(pod)
    }

    /// Notes that an operation has created a pod, and lets time pass.
    fn decided(&mut self, pod: &Pod, outcome: &Outcome) -> Result<(), Stop> {
        if self.deletes {
            let mut pod = pod.clone();
            pod.spec.node_name = outcome.node().unwrap_or_default().to_owned();
            self.created.push(pod);
        }
        self.n_decided += 1;
        (self.progress)(self.n_decided, self.n_pods);
        self.advance(DECISION)
    }
}

/// The node of operations without a template.
fn base_node(index: usize) -> Node {
    let mut node = Node::default();
    node.metadata.generate_name = format!("node-{index}-");
    let memory = Quantity::from_units(32 << 30);
    let amounts = [("pods", Quantity::from_units(110)), ("cpu", Quantity::from_units(4)), ("memory", memory)];
    node.status.capacity = Some(amounts.map(|(name, amount)| (name.to_owned(), amount)).into());
    node
}

/// The pod of operations without a template.
fn base_pod() -> Pod {
    let mut pod = Pod::default();
    pod.metadata.generate_name = "pod-".to_owned();
    let mut container = berth_api::object::Container {
        name: "pause".to_owned(),
        image: "registry.k8s.io/pause:3.10.2".to_owned(),
        ..Default::default()
    };
    let amounts = [("cpu", Quantity::from_millis(100)), ("memory", Quantity::from_units(500 << 20))];
    let amounts: berth_api::object::ResourceList =
        amounts.map(|(name, amount)| (name.to_owned(), amount)).into();
    container.resources.requests = amounts.clone();
    container.resources.limits = amounts;
    container.ports = vec![berth_api::object::ContainerPort { container_port: 80, ..Default::default() }];
    pod.spec.containers = vec![container].into();
    pod
}
