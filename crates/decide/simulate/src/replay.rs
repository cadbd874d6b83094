//! Replays: the engine repeats the decisions of a recording, and the answers are compared.

mod journal;
mod preemption;
mod timeline;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use berth_api::admission::{Admission, AdmissionOptions, admit};
use berth_api::config::SchedulerConfig;
use berth_api::object::Pod;
use berth_api::recording::{RecordedError, RecordedNode, Recording, Step};
use berth_engine::{Cluster, DisruptionBudget, Evaluation, NodeEvaluation, Outcome, Rejection, Settings};
use serde::Serialize;
use serde_json::Value;

pub use self::journal::{JournalError, JournalReplay};
pub use self::timeline::{Interval, Timeline, TimelineRecorder, is_evicted};
use self::volumes::{decision, volume_object};

/// One difference between a recording and Berth's own answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Scenario.
    pub scenario: String,
    /// Pod, `namespace/name`; empty when the difference concerns the whole scenario.
    pub pod: String,
    /// Node, if the difference concerns one.
    pub node: Option<String>,
    /// The field that differs, such as `message` or `scores.InterPodAffinity`.
    pub field: String,
    /// The recorded value.
    pub expected: String,
    /// The value that the engine computed.
    pub got: String,
}

/// The result of a replay.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Number of pending pods decided.
    pub n_steps: usize,
    /// All differences.
    pub differences: Vec<Difference>,
}

/// Repeats the decisions of a recorded scenario, with extensions off: the reference scheduler has none.
///
/// After each step the pod runs on the recorded node, so that one difference does not cascade. A replay cannot fail: an
/// invalid configuration or a recording without steps is a difference.
///
/// ```
/// use berth_simulate::replay::replay;
///
/// let recording = serde_json::from_str(
///     r#"{"scenario": {"name": "none", "pending": [{"metadata": {"name": "web", "namespace": "default"}}]},
///         "expect": {"steps": [{"pod": "default/web", "chosen": null,
///                               "message": "no nodes available to schedule pods"}]}}"#,
/// )?;
/// let replayed = replay(&recording);
/// assert_eq!((replayed.n_steps, replayed.differences.len()), (1, 0));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn replay(recording: &Recording) -> Replayed {
    let scenario = &recording.scenario;
    let mut replayed = Replayed { n_steps: scenario.pending.len(), differences: Vec::new() };
    let mut report = |pod: &str, field: &str, expected: String, got: String| {
        let (scenario, pod, field) = (scenario.name.clone(), pod.to_owned(), field.to_owned());
        replayed.differences.push(Difference { scenario, pod, node: None, field, expected, got });
    };

    let config = match scenario.config.as_ref().map(SchedulerConfig::from_value).transpose() {
        Ok(config) => config.unwrap_or_default(),
        Err(error) => {
            report("", "config", "a valid configuration".to_owned(), error.to_string());
            return replayed;
        }
    };
    if recording.expect.steps.len() != scenario.pending.len() {
        let steps = recording.expect.steps.len();
        report(
            "",
            "steps",
            format!("{} pending pods", scenario.pending.len()),
            format!("{steps} recorded steps"),
        );
        return replayed;
    }

    let mut cluster = Cluster::new(Settings::strict_v1(config));
    scenario.namespaces.iter().for_each(|n| cluster.set_namespace(n));
    scenario.services.iter().for_each(|s| cluster.set_service(s));
    scenario.nodes.iter().for_each(|n| cluster.set_node(n));
    for object in &scenario.objects {
        match volume_object(object) {
            Ok(object) => cluster.set_volume_object(object),
            Err(error) => report("", "objects", "readable objects".to_owned(), error),
        }
    }
    let admit = |pod: &Pod| {
        let mut pod = pod.clone();
        let options = AdmissionOptions { extensions: false, ..AdmissionOptions::default() };
        let admission = if scenario.raw { Admission::default() } else { admit(&mut pod, &options) };
        (pod, admission)
    };
    for pod in &scenario.pods {
        cluster.set_pod(&admit(pod).0);
    }
    for pod in &scenario.nominated {
        let prepared = cluster.prepare(&admit(pod).0);
        cluster.nominate(&prepared, &pod.status.nominated_node_name);
    }
    let budgets: Vec<_> = scenario.pdbs.iter().map(DisruptionBudget::from).collect();
    for (pod, step) in scenario.pending.iter().zip(&recording.expect.steps) {
        let (mut pod, admission) = admit(pod);
        let mut comparison = Comparison { scenario: &scenario.name, pod: &step.pod, differences: Vec::new() };
        comparison.same("pod", &step.pod, &pod.key());
        if step.is_full() {
            comparison.admission(step, &pod, &admission, scenario.raw);
        }
        if admission.is_accepted() {
            let prepared = cluster.prepare(&pod);
            let evaluation = cluster.evaluate(&prepared);
            comparison.decision(step, &evaluation);
            // Decisions without reasons are made in another way, by views where that is possible.
            comparison.same("decision", &evaluation.outcome, &cluster.decide(&prepared));
            if let (Some(node), Some(recorded)) = (&step.chosen, &step.volumes) {
                cluster.assume_volumes(&prepared, node, &decision(recorded));
            }
            if let (true, Some(recorded)) = (scenario.preemption, &step.preemption) {
                comparison.preemption(&mut cluster, &prepared, &budgets, recorded);
            }
        }
        replayed.differences.append(&mut comparison.differences);
        let preemption = step.preemption.as_ref();
        if let Some(node) = step.chosen.as_ref().or(preemption.and_then(|p| p.placed.as_ref())) {
            pod.spec.node_name = node.clone();
            pod.status.start_time = step.start_time.or(preemption.and_then(|p| p.start_time));
            cluster.set_pod(&pod);
        }
    }
    replayed
}

/// Compares one step.
struct Comparison<'a> {
    scenario: &'a str,
    pod: &'a str,
    differences: Vec<Difference>,
}

impl Comparison<'_> {
    fn differ(&mut self, node: Option<&str>, field: &str, expected: String, got: String) {
        self.differences.push(Difference {
            scenario: self.scenario.to_owned(),
            pod: self.pod.to_owned(),
            node: node.map(str::to_owned),
            field: field.to_owned(),
            expected,
            got,
        });
    }

    fn same<T: PartialEq + Debug + ?Sized>(&mut self, field: &str, expected: &T, got: &T) {
        if expected != got {
            self.differ(None, field, format!("{expected:?}"), format!("{got:?}"));
        }
    }

    fn admission(&mut self, step: &Step, pod: &Pod, admission: &Admission, raw: bool) {
        // The API server visits maps in random order, and so reports the errors in them in random order.
        let mut expected = step.invalid.clone().unwrap_or_default();
        let mut got: Vec<_> = admission.errors.iter().map(recorded).collect();
        expected.sort_unstable();
        got.sort_unstable();
        self.same("invalid", &expected, &got);
        self.same("warnings", step.warnings.as_deref().unwrap_or_default(), &admission.warnings);
        if raw || step.invalid.is_some() {
            return;
        }
        let affinity = pod.spec.affinity.as_ref().map(normal).unwrap_or_default();
        self.same(
            "admittedAffinity",
            &step.admitted_affinity.as_ref().map(pruned).unwrap_or_default(),
            &affinity,
        );
        let spread = normal(&pod.spec.topology_spread_constraints);
        self.same("admittedSpread", &step.admitted_spread.as_ref().map(pruned).unwrap_or_default(), &spread);
    }

    fn decision(&mut self, step: &Step, evaluation: &Evaluation) {
        if step.is_full() {
            let pre_filter = evaluation.pre_filter.as_ref().map(rejected);
            self.same("preFilter", &step.pre_filter, &pre_filter);
            let empty = BTreeMap::new();
            let nodes = if pre_filter.is_some() { &empty } else { &evaluation.nodes };
            self.nodes(step.nodes.as_ref().unwrap_or(&BTreeMap::new()), nodes);
            let failed = matches!(evaluation.outcome, Outcome::Failed { .. });
            self.same("err", &step.err.is_some(), &failed);
        }
        if let Some(best) = &step.best {
            self.same("best", best, &evaluation.best);
        }
        if step.chosen.is_some() || step.message.is_some() {
            let name = |node: Option<&str>| node.unwrap_or("no node").to_owned();
            let (expected, got) = (name(step.chosen.as_deref()), name(evaluation.outcome.node()));
            if expected != got {
                self.differ(None, "chosen", expected, got);
            }
            if let Outcome::Placed { volumes, .. } = &evaluation.outcome {
                self.volumes(step.volumes.as_ref(), volumes.as_deref());
            }
            if step.chosen.is_none() {
                self.same(
                    "message",
                    step.message.as_deref().unwrap_or_default(),
                    &evaluation.outcome.message(),
                );
            }
        }
    }

    fn nodes(&mut self, expected: &BTreeMap<String, RecordedNode>, got: &BTreeMap<String, NodeEvaluation>) {
        let blank = RecordedNode::default();
        for name in expected.keys().chain(got.keys()).collect::<BTreeSet<_>>() {
            let (Some(expected), Some(got)) = (expected.get(name), got.get(name)) else {
                let presence = |is_present: bool| if is_present { "recorded" } else { "absent" }.to_owned();
                self.differ(
                    Some(name),
                    "nodes",
                    presence(expected.contains_key(name)),
                    presence(got.contains_key(name)),
                );
                continue;
            };
            let got = match got {
                NodeEvaluation::NotConsidered(_) => RecordedNode {
                    plugin: Some("PreFilterResult".to_owned()),
                    code: Some("UnschedulableAndUnresolvable".to_owned()),
                    ..blank.clone()
                },
                NodeEvaluation::Rejected(rejection) => rejected(rejection),
                NodeEvaluation::Feasible(score) => RecordedNode {
                    scores: score.by_plugin.iter().map(|(p, s)| (p.name().to_owned(), *s)).collect(),
                    total: score.total,
                    ..blank.clone()
                },
            };
            let mut same = |field: &str, expected: String, got: String| {
                if expected != got {
                    self.differ(Some(name), field, expected, got);
                }
            };
            let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "feasible".to_owned());
            same("plugin", text(&expected.plugin), text(&got.plugin));
            same("code", text(&expected.code), text(&got.code));
            same("reasons", format!("{:?}", expected.reasons), format!("{:?}", got.reasons));
            let score = |node: &RecordedNode, plugin: &str| {
                node.scores.get(plugin).map_or_else(|| "absent".to_owned(), ToString::to_string)
            };
            for plugin in expected.scores.keys().chain(got.scores.keys()).collect::<BTreeSet<_>>() {
                same(&format!("scores.{plugin}"), score(expected, plugin), score(&got, plugin));
            }
            same("total", expected.total.to_string(), got.total.to_string());
        }
    }
}

fn rejected(rejection: &Rejection) -> RecordedNode {
    RecordedNode {
        plugin: Some(rejection.plugin.name().to_owned()),
        code: Some(rejection.status.name().to_owned()),
        reasons: rejection.reasons.iter().map(ToString::to_string).collect(),
        ..RecordedNode::default()
    }
}

fn recorded(error: &berth_api::admission::FieldError) -> RecordedError {
    RecordedError {
        error_type: error.error_type.as_str().to_owned(),
        field: error.field.clone(),
        detail: error.detail.clone(),
        error: error.error.clone(),
    }
}

fn normal(value: &impl Serialize) -> Value {
    serde_json::to_value(value).map(|v| pruned(&v)).unwrap_or_default()
}

/// The value without members that are null or empty lists: both may stand for an absent list.
fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(k, v)| (k.clone(), pruned(v)));
            let kept = members.filter(|(_, v)| !v.is_null());
            Value::Object(kept.collect())
        }
        Value::Array(items) if items.is_empty() => Value::Null,
        Value::Array(items) => Value::Array(items.iter().map(pruned).collect()),
        other => other.clone(),
    }
}
