//! Comparing a recorded answer with that of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use berth_api::object::{Pod, VolumeDecision};
use berth_engine::{Evaluation, NodeEvaluation, Outcome, Rejection};
use berth_input::config::Plugin;
use berth_input::recording::{RecordedError, RecordedNode, RecordedVolumes, Step};
use berth_rules::admission::AdmissionResult;
use serde::Serialize;
use serde_json::Value;

use super::volumes;

/// One difference between a recording and Berth's own answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub scenario: String,
    /// Pod, `namespace/name`; empty when the difference concerns the whole scenario.
    pub pod: String,
    /// Node, if the difference concerns one.
    pub node: Option<String>,
    /// The field that differs, such as `message` or `scores.InterPodAffinity`.
    pub field: String,
    pub expected: String,
    /// The value that the engine computed.
    pub got: String,
}

pub(super) struct Comparison<'a> {
    pub scenario: &'a str,
    pub pod: &'a str,
    pub differences: Vec<Difference>,
}

impl Comparison<'_> {
    pub(super) fn differ(&mut self, node: Option<&str>, field: &str, expected: String, got: String) {
        self.differences.push(Difference {
            scenario: self.scenario.to_owned(),
            pod: self.pod.to_owned(),
            node: node.map(str::to_owned),
            field: field.to_owned(),
            expected,
            got,
        });
    }

    pub(super) fn same<T: PartialEq + Debug + ?Sized>(&mut self, field: &str, expected: &T, got: &T) {
        if expected != got {
            self.differ(None, field, format!("{expected:?}"), format!("{got:?}"));
        }
    }

    pub(super) fn admission(&mut self, step: &Step, pod: &Pod, admission: &AdmissionResult, raw: bool) {
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

    pub(super) fn decision(&mut self, step: &Step, evaluation: &Evaluation) {
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
            if let Outcome::Placed { volumes, devices, .. } = &evaluation.outcome {
                self.volumes(step.volumes.as_ref(), volumes.as_deref());
                self.claims(&step.claims, devices.as_deref());
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

    fn volumes(&mut self, expected: Option<&RecordedVolumes>, got: Option<&VolumeDecision>) {
        let expected = expected.map(volumes::decision).unwrap_or_default();
        self.same("volumes", &expected, &got.cloned().unwrap_or_default());
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
            // kube-scheduler scores every pod by claims of devices and of storage: with 0, if it has none.
            let always = [Plugin::DynamicResources, Plugin::VolumeBinding].map(Plugin::name);
            let without = |plugin: &str| match always.contains(&plugin) {
                true => "0".to_owned(),
                false => "absent".to_owned(),
            };
            let score = |node: &RecordedNode, plugin: &str| {
                node.scores.get(plugin).map_or_else(|| without(plugin), ToString::to_string)
            };
            for plugin in expected.scores.keys().chain(got.scores.keys()).collect::<BTreeSet<_>>() {
                same(&format!("scores.{plugin}"), score(expected, plugin), score(&got, plugin));
            }
            same("total", expected.total.to_string(), got.total.to_string());
        }
    }
}

pub(super) fn rejected(rejection: &Rejection) -> RecordedNode {
    RecordedNode {
        plugin: Some(rejection.plugin.name().to_owned()),
        code: Some(rejection.status.name().to_owned()),
        reasons: rejection.reasons.iter().map(ToString::to_string).collect(),
        ..RecordedNode::default()
    }
}

fn recorded(error: &berth_rules::admission::FieldError) -> RecordedError {
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
