//! The tools, with their typed arguments, and the command that each of them runs.

use std::fmt::Display;
use std::sync::Arc;

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use serde_json::Value;

use super::read;

pub struct Definition {
    pub name: &'static str,
    pub description: &'static str,
    pub schema: fn() -> Arc<JsonObject>,
    pub call: fn(JsonObject) -> Result<Call, String>,
}

/// A command with its words after the options of the cluster.
pub struct Call {
    pub command: &'static str,
    pub words: Vec<String>,
    /// For standard input.
    pub manifests: Option<String>,
    pub answer: Answer,
}

/// How the answer is written.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// As tables in Markdown, the verdict first
    #[default]
    Report,
    /// As JSON with all details
    Json,
}

pub const TOOLS: [Definition; 6] = [
    definition::<Explain>(
        "explain",
        "Why a pod is pending or on its node: the rule that excludes each node, and verified repairs. Without a pod: all pods that do not run, by cause.",
    ),
    definition::<WhatIf>(
        "what_if",
        "What happens to the pods of the cluster if it is changed: drains, lost zones, new nodes, taints, other manifests. The first line says whether it is safe.",
    ),
    definition::<Capacity>(
        "capacity",
        "How many more replicas of a workload fit, by domain, and which nodes a number of replicas needs.",
    ),
    definition::<Lint>("lint", "Placement mistakes of the manifests in the cluster, or of those given."),
    definition::<Rebalance>(
        "rebalance",
        "Which running pods to move so that rules hold, pods spread, pending pods fit or nodes get free; every move is proved legal.",
    ),
    definition::<Audit>(
        "audit",
        "Rules of running pods that are broken now, and which eviction would mend each.",
    ),
];

/// A tool's arguments.
trait Tool: for<'a> Deserialize<'a> + JsonSchema {
    const COMMAND: &str;

    fn add_words(self, words: &mut Words);
}

const fn definition<T: Tool>(name: &'static str, description: &'static str) -> Definition {
    Definition { name, description, schema: schema::<T>, call: call::<T> }
}

fn schema<T: Tool>() -> Arc<JsonObject> {
    let (mut schema, mut common) = (schema_of::<T>(), schema_of::<Common>());
    if let (Some(Value::Object(all)), Some(Value::Object(more))) =
        (schema.get_mut("properties"), common.get_mut("properties"))
    {
        all.append(more);
    }
    Arc::new(schema)
}

/// Without references, which some clients do not follow.
fn schema_of<T: JsonSchema>() -> JsonObject {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    schema.as_object().cloned().unwrap_or_default()
}

fn call<T: Tool>(mut arguments: JsonObject) -> Result<Call, String> {
    let common = COMMON.iter().filter_map(|name| arguments.shift_remove_entry(*name)).collect();
    let Common { manifests, answer } = read(common)?;
    let tool: T = read(arguments)?;
    let mut words = Words::default();
    if manifests.is_some() {
        words.option("filename", Some("-"));
    }
    words.option(
        "output",
        Some(match answer {
            Answer::Report => "markdown",
            Answer::Json => "json",
        }),
    );
    tool.add_words(&mut words);
    Ok(Call { command: T::COMMAND, words: words.0, manifests, answer })
}

/// Words of a command line. An option has its value in the same word, and names come after `--`: no value is read as an option.
#[derive(Default)]
struct Words(Vec<String>);

impl Words {
    fn flag(&mut self, name: &str, is_set: bool) {
        self.0.extend(is_set.then(|| format!("--{name}")));
    }

    fn option(&mut self, name: &str, values: impl IntoIterator<Item: Display>) {
        self.0.extend(values.into_iter().map(|value| format!("--{name}={value}")));
    }

    /// An option with two values, of which the first is a node.
    fn of_node(&mut self, option: &str, node: &str, value: String) {
        self.0.extend([format!("--{option}"), format!("node/{}", node.trim_start_matches("node/")), value]);
    }

    fn name(&mut self, name: Option<String>) {
        self.0.extend(name.into_iter().flat_map(|name| ["--".to_owned(), name]));
    }
}

const COMMON: [&str; 2] = ["manifests", "answer"];

/// What all tools take.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Common {
    /// Manifests in YAML or JSON that change the cluster: an object replaces the one of the same kind, namespace and name, others are added
    manifests: Option<String>,
    #[serde(default)]
    answer: Answer,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Explain {
    /// NAME, NAMESPACE/NAME, or a workload such as deploy/NAME, whose last pending pod is explained
    pod: Option<String>,
    namespace: Option<String>,
    /// Only this node, with all details
    node: Option<String>,
    /// All rules, nodes, scores and repairs
    #[serde(default)]
    all: bool,
}

impl Tool for Explain {
    const COMMAND: &str = "explain";

    fn add_words(self, words: &mut Words) {
        words.option("namespace", self.namespace);
        words.option("node", self.node);
        words.flag("all", self.all);
        words.name(self.pod);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhatIf {
    /// The changes, in their order
    #[serde(default)]
    changes: Vec<Change>,
    /// After the changes, remove every domain of this node label in turn: zone, region, node, or a label key
    each: Option<String>,
    /// The namespace of workloads and pods that the changes name
    namespace: Option<String>,
    /// What would make the unplaced pods fit
    #[serde(default)]
    repairs: bool,
    /// What an upgrade to this version of Kubernetes changes, such as 1.38; without other changes
    upgrade: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", rename_all_fields = "snake_case", deny_unknown_fields)]
enum Change {
    /// Cordon a node and evict its pods, as far as disruption budgets allow
    Drain {
        node: String,
    },
    Cordon {
        node: String,
    },
    Uncordon {
        node: String,
    },
    /// Remove a node with its pods
    RemoveNode {
        node: String,
    },
    /// Remove all nodes with a label, such as zone=eu-west-1a
    RemoveDomain {
        label: String,
    },
    /// Nodes with a label, such as zone=eu-west-1a, are unreachable
    Lose {
        label: String,
    },
    /// Replace the nodes with these labels (KEY=VALUE,...) or all, in turn: cordon, drain, replace, uncordon
    RollNodes {
        labels: String,
    },
    /// Add copies of a node
    AddNodes {
        count: u16,
        like: String,
    },
    /// Set a label KEY=VALUE of a node, or remove it with KEY-
    SetLabel {
        node: String,
        label: String,
    },
    /// Taint a node with KEY[=VALUE]:EFFECT, or remove taints with KEY- or KEY:EFFECT-
    Taint {
        node: String,
        taint: String,
    },
    /// Set the replicas of a workload, such as deploy/web
    Scale {
        workload: String,
        replicas: u16,
    },
    /// Evict a pod, NAME or NAMESPACE/NAME, if disruption budgets allow it
    Evict {
        pod: String,
    },
    /// A device fails: DRIVER[/POOL[/DEVICE]]
    FailDevice {
        device: String,
    },
}

impl Tool for WhatIf {
    const COMMAND: &str = "what-if";

    fn add_words(self, words: &mut Words) {
        for change in self.changes {
            match change {
                Change::Drain { node } => words.option("drain", [node]),
                Change::Cordon { node } => words.option("cordon", [node]),
                Change::Uncordon { node } => words.option("uncordon", [node]),
                Change::RemoveNode { node } => words.option("remove-node", [node]),
                Change::RemoveDomain { label } => words.option("remove-domain", [label]),
                Change::Lose { label } => words.option("lose", [label]),
                Change::RollNodes { labels } => words.option("roll-nodes", [labels]),
                Change::AddNodes { count, like } => {
                    words.option("add-nodes", [count]);
                    words.option("like", [like]);
                }
                Change::SetLabel { node, label } => words.of_node("set-label", &node, label),
                Change::Taint { node, taint } => words.of_node("taint", &node, taint),
                Change::Scale { workload, replicas } => {
                    words.option("scale", [format!("{workload}={replicas}")])
                }
                Change::Evict { pod } => words.option("evict", [pod]),
                Change::FailDevice { device } => words.option("fail-device", [device]),
            }
        }
        words.option("each", self.each);
        words.option("namespace", self.namespace);
        words.flag("repairs", self.repairs);
        words.option("upgrade", self.upgrade);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Capacity {
    /// Such as deploy/web
    workload: String,
    namespace: Option<String>,
    /// The node label whose values are the domains: zone (the default), region, node, or a label key
    topology_key: Option<String>,
    /// Total number of replicas: the nodes that they need are shown
    target: Option<u32>,
    /// The node that new nodes copy
    like: Option<String>,
    /// Also count replicas that fit after moves of running pods
    #[serde(default)]
    after_defragmentation: bool,
}

impl Tool for Capacity {
    const COMMAND: &str = "capacity";

    fn add_words(self, words: &mut Words) {
        words.option("namespace", self.namespace);
        words.option("topology-key", self.topology_key);
        words.option("target", self.target);
        words.option("like", self.like);
        words.flag("after-defragmentation", self.after_defragmentation);
        words.name(Some(self.workload));
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Lint {
    /// Rules to disable, or single findings of them (RULE/FINDING)
    #[serde(default)]
    disable: Vec<String>,
    /// Only the findings that this version of Kubernetes has beyond those of the one in use
    against: Option<String>,
}

impl Tool for Lint {
    const COMMAND: &str = "lint";

    fn add_words(self, words: &mut Words) {
        words.option("disable", self.disable);
        words.option("against", self.against);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rebalance {
    /// What to improve, the most important first: required, defragment, spread, preferences, consolidate, balance
    #[serde(default)]
    goals: Vec<String>,
    /// Make room for this pending pod or workload, instead of the goals
    r#for: Option<String>,
    max_moves: Option<u32>,
    /// The price of a node is in this label, by which `consolidate` weighs nodes
    price_label: Option<String>,
}

impl Tool for Rebalance {
    const COMMAND: &str = "rebalance";

    fn add_words(self, words: &mut Words) {
        words.option("goal", self.goals);
        words.option("for", self.r#for);
        words.option("max-moves", self.max_moves);
        words.option("price-label", self.price_label);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Audit {
    namespace: Option<String>,
    /// Only rules that are required during execution
    #[serde(default)]
    executing_only: bool,
    /// Counts by workload and rule, without the pods
    #[serde(default)]
    summary: bool,
}

impl Tool for Audit {
    const COMMAND: &str = "audit";

    fn add_words(self, words: &mut Words) {
        words.option("namespace", self.namespace);
        words.flag("executing-only", self.executing_only);
        words.flag("summary", self.summary);
    }
}
