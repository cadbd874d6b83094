//! Policies of the [descheduler](https://github.com/kubernetes-sigs/descheduler), read as requests for plans.
//!
//! A policy (`DeschedulerPolicy`, `descheduler/v1alpha2`) becomes one [`Request`]. Each plugin that has an equivalent adds a goal, first
//! those of the extension point `deschedule`, then those of `balance`, as the descheduler runs them. A plan has one set of pods that
//! may move: a pod moves only if each plugin with a goal, and the evictor of its profile, may evict it. What is written instead of a
//! field, and what has no equivalent, is a [`Note`].
//!
//! This module does not plan. The fields and their meaning are those of `pkg/api/v1alpha2` and of the arguments in
//! `pkg/framework/plugins` of the descheduler.

mod args;
mod evictor;
mod note;
mod profile;
mod strategies;

pub use note::{Effect, Note};

use berth_api::read::fields::{Fields, Findings, Node};
use berth_input::config::ConfigErrors;
use berth_rules::Selector;
use jiff::Timestamp;
use serde_json::Value;

use self::args::unsigned;
use self::evictor::Scope;
use self::note::Notes;
use self::profile::read_profile;
use crate::movable::Movable;
use crate::request::Request;
use crate::threshold::Threshold;

pub const API_VERSION: &str = "descheduler/v1alpha2";
pub const KIND: &str = "DeschedulerPolicy";

/// What a policy asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Translation {
    /// The request; it has no goals if no plugin of the policy has an equivalent.
    pub request: Request,
    /// How the plugins and fields are translated, in the order of the file; the evictor of a profile follows its plugins.
    pub notes: Vec<Note>,
}

impl Translation {
    /// Reads a policy (JSON, or YAML turned into a JSON value). `priority_of` is the value of a priority class, if it exists; `now`
    /// is the time of the request.
    ///
    /// # Errors
    /// All values that the descheduler rejects, each with its path. Plugins and fields that are not known are notes.
    pub fn from_value(
        policy: &Value,
        priority_of: &dyn Fn(&str) -> Option<i32>,
        now: Timestamp,
    ) -> Result<Translation, ConfigErrors> {
        let findings = Findings::default();
        let mut translation = Translation { request: Request::new(Vec::new(), now), notes: Vec::new() };
        let root = Node { value: policy, path: String::new(), findings: &findings };
        if let Some(mut root) = root.fields()
            && is_policy(&mut root)
        {
            read(&mut root, &mut translation, priority_of);
        }
        findings.finish()?;
        Ok(translation)
    }
}

/// Checks `kind` and `apiVersion`; false when the rest cannot be read.
fn is_policy(root: &mut Fields<'_>) -> bool {
    let mut required = |field, value: &str| {
        let found = root.get(field).filter(|node| node.value.as_str() != Some(""));
        if found.is_none() {
            root.findings
                .error(field, format!("Required value: write {value:?}, as in a policy of the descheduler"));
        }
        found
    };
    let (Some(kind), Some(version)) = (required("kind", KIND), required("apiVersion", API_VERSION)) else {
        return false;
    };
    let is_kind = kind.string() == Some(KIND);
    match (kind.string(), version.string()) {
        (Some("ConfigMap"), _) => {
            kind.invalid(&format!("must be {KIND:?}: give the text of its policy.yaml as a file"));
        }
        _ if !is_kind => kind.invalid(&format!("must be {KIND:?}: give a file with a policy of the descheduler")),
        (_, Some(API_VERSION)) => return true,
        (_, Some("descheduler/v1alpha1")) => version.invalid(&format!(
            "the descheduler has not read it since 0.31: write {API_VERSION:?}, and each of `strategies` as a plugin of a profile"
        )),
        _ => version.invalid(&format!("must be {API_VERSION:?}")),
    }
    false
}

fn read(root: &mut Fields<'_>, translation: &mut Translation, priority_of: &dyn Fn(&str) -> Option<i32>) {
    let Translation { request, notes } = translation;
    let mut notes = Notes { all: notes, profile: None, plugin: None };
    // `kubectl apply -f` needs a name; nothing here does.
    let _ = root.get("metadata");
    let mut scope = Scope { movable: Movable::ALL, settle: None };
    if let Some(node) = root.get("nodeSelector")
        && let Some(text) = node.string().filter(|text| !text.is_empty())
    {
        match text.parse::<Selector>() {
            Ok(nodes) => {
                scope.movable.nodes = Some(nodes);
                let text =
                    format!("--node-selector '{text}': only the pods of these nodes move, to any node");
                notes.instead(&node.path, text);
            }
            Err(error) => node.invalid(&format!("must be a label selector such as disk=ssd: {error}")),
        }
    }
    for (field, flag) in [
        ("maxNoOfPodsToEvictPerNode", "--max-evictions-per-node"),
        ("maxNoOfPodsToEvictPerNamespace", "--max-evictions-per-namespace"),
    ] {
        if let Some((node, n)) = unsigned(root, field) {
            let text = format!("a plan has no such limit; `berth enforcer {flag} {n}` limits its evictions");
            notes.no_equivalent(&node.path, text);
        }
    }
    if let Some((node, n)) = unsigned(root, "maxNoOfPodsToEvictTotal") {
        request.max_moves = Some(usize::try_from(n).unwrap_or(usize::MAX));
        notes.instead(&node.path, format!("--max-moves {n}"));
    }
    for (field, text) in [
        ("gracePeriodSeconds", "the terminationGracePeriodSeconds of each pod holds"),
        ("evictionFailureEventNotification", "no setting for events of evictions"),
        ("metricsCollector", "nodes are measured by what their pods request"),
        ("metricsProviders", "nodes are measured by what their pods request"),
    ] {
        if let Some(node) = root.get(field) {
            notes.no_equivalent(&node.path, text);
        }
    }
    let (mut deschedule, mut balance) = (Vec::new(), Vec::new());
    let mut threshold: Option<Threshold> = None;
    for node in root.items("profiles") {
        let Some(found) = read_profile(&node, &mut notes, priority_of) else { continue };
        deschedule.extend(found.deschedule);
        balance.extend(found.balance);
        threshold = threshold.into_iter().chain(found.threshold).reduce(Threshold::max);
        scope = scope.and(found.scope);
    }
    notes.unread(root);
    for goal in deschedule.into_iter().chain(balance) {
        if !request.goals.contains(&goal) {
            request.goals.push(goal);
        }
    }
    if request.goals.is_empty() {
        notes.no_equivalent("profiles", "no plugin that is enabled has a goal, so nothing moves");
        return;
    }
    request.threshold = threshold.unwrap_or(request.threshold);
    let settle = scope.settle.unwrap_or(request.movable.settle);
    request.movable = Movable { settle, ..scope.movable };
    let Movable { namespaces, pods, .. } = &request.movable;
    for (what, selector) in [("namespaces", namespaces), ("labels", pods)] {
        if selector.as_ref().is_some_and(|selector| !selector.is_satisfiable()) {
            let text = format!(
                "no pod is in the {what} of all plugins with a goal, so nothing moves: give the plugins for different pods in files of \
                 their own"
            );
            notes.no_equivalent("profiles", text);
        }
    }
}
