//! Fields of the design proposals in the spec of pods for a standard API server, which drops them; and `Gt` and `Lt` on pod
//! labels, which it refuses. The annotation says the same on any API server.

use berth_api::object::{Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_rules::{needs_extensions, parse_affinity_annotation};

use super::annotation_ignored::BERTH;
use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Subject;
use crate::terms::{EXECUTING, IGNORED, PREFERRED};

/// A rule of the spec that the API server does not keep.
struct Lost {
    path: String,
    message: &'static str,
}

const DROPPED: &str = "is a field of the design proposals, which a standard API server drops";
const REFUSED: &str = "uses Gt or Lt on pod labels, which a standard API server refuses";

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let Some(standard) = &input.standard_api_server else { return };
    for subject in input.subjects() {
        let Some(affinity) = subject.written.spec.affinity.as_deref() else { continue };
        let mut lost = Vec::new();
        let moved = lost_rules(affinity, &mut lost);
        if lost.is_empty() {
            continue;
        }
        let instead = instead(input, subject, moved);
        for Lost { path, message } in lost {
            let field = path.rsplit('.').next().unwrap_or_default().to_owned();
            let message = format!("{field} {message} ({standard})");
            findings.add(&subject.object, subject.path(path), message).fix(instead.clone());
        }
    }
}

/// The rules that a standard API server does not keep, as the annotation has them.
fn lost_rules(affinity: &Affinity, lost: &mut Vec<Lost>) -> Affinity {
    let mut moved = Affinity::default();
    let path = |rules: &str, field: &str| format!("spec.affinity.{rules}.{field}");
    if let Some(node) = &affinity.node_affinity
        && let Some(required) = &node.required_during_scheduling_required_during_execution
    {
        lost.push(Lost { path: path("nodeAffinity", EXECUTING), message: DROPPED });
        moved.node_affinity = Some(NodeAffinity {
            required_during_scheduling_required_during_execution: Some(required.clone()),
            ..NodeAffinity::default()
        });
    }
    let of_pods = [
        ("podAffinity", &affinity.pod_affinity, &mut moved.pod_affinity),
        ("podAntiAffinity", &affinity.pod_anti_affinity, &mut moved.pod_anti_affinity),
    ];
    for (name, rules, moved) in of_pods {
        let Some(rules) = rules else { continue };
        let mut of_rules = PodAffinity::default();
        let n_before = lost.len();
        let executing = &rules.required_during_scheduling_required_during_execution;
        if !executing.is_empty() {
            lost.push(Lost { path: path(name, EXECUTING), message: DROPPED });
            of_rules.required_during_scheduling_required_during_execution.clone_from(executing);
        }
        for (i, term) in rules.required_during_scheduling_ignored_during_execution.iter().enumerate() {
            if needs_extensions(term) {
                let path = format!("{}[{i}].labelSelector", path(name, IGNORED));
                lost.push(Lost { path, message: REFUSED });
                of_rules.required_during_scheduling_ignored_during_execution.push(term.clone());
            }
        }
        for (i, term) in rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
            if needs_extensions(&term.pod_affinity_term) {
                let path = format!("{}[{i}].podAffinityTerm.labelSelector", path(name, PREFERRED));
                lost.push(Lost { path, message: REFUSED });
                of_rules.preferred_during_scheduling_ignored_during_execution.push(term.clone());
            }
        }
        if lost.len() > n_before {
            *moved = Some(of_rules);
        }
    }
    moved
}

/// How to say the rules in the annotation: as YAML to paste, from the root of the object.
fn instead(input: &LintInput<'_>, subject: &Subject<'_>, moved: Affinity) -> String {
    let written = subject.written.metadata.annotations.get(AFFINITY_ANNOTATION);
    let existing = written.map(|text| parse_affinity_annotation(text).ok());
    let (affinity, how) = match existing {
        None => (Some(moved.clone()), "write the annotation"),
        Some(existing) => {
            (existing.and_then(|existing| with(existing, moved.clone())), "extend the annotation to")
        }
    };
    let how = if affinity.is_some() { how } else { "add these rules to those of the annotation" };
    let text = serde_json::to_string(&affinity.unwrap_or(moved)).unwrap_or_default().replace('\'', "''");
    let annotation = format!("{AFFINITY_ANNOTATION}: '{text}'");
    let mut yaml = String::new();
    let mut indent = String::new();
    let mut line = |indent: &str, text: &str| yaml.push_str(&format!("\n{indent}{text}"));
    for field in subject.template.split_terminator('.') {
        line(&indent, &format!("{field}:"));
        indent.push_str("  ");
    }
    line(&indent, "metadata:");
    line(&indent, "  annotations:");
    line(&indent, &format!("    {annotation}"));
    if !input.reads_annotations(subject) {
        line(&indent, "spec:");
        line(&indent, &format!("  schedulerName: {BERTH}"));
    }
    format!("remove it from the spec, and {how}{yaml}")
}

/// The rules of an annotation and these. None if one field cannot have both: the time of one after which it becomes a
/// preference would be that of the other.
fn with(mut existing: Affinity, moved: Affinity) -> Option<Affinity> {
    if let Some(node) = moved.node_affinity {
        let of_existing = existing.node_affinity.get_or_insert_default();
        let required = &mut of_existing.required_during_scheduling_required_during_execution;
        *required = match (required.take(), node.required_during_scheduling_required_during_execution) {
            (Some(one), Some(_)) if one.relax_after.is_some() => return None,
            (Some(one), Some(other)) => Some(both(&one, &other)),
            (one, other) => one.or(other),
        };
    }
    let of_pods = [
        (&mut existing.pod_affinity, moved.pod_affinity),
        (&mut existing.pod_anti_affinity, moved.pod_anti_affinity),
    ];
    for (existing, moved) in of_pods {
        let Some(moved) = moved else { continue };
        let existing = existing.get_or_insert_default();
        existing
            .required_during_scheduling_required_during_execution
            .extend(moved.required_during_scheduling_required_during_execution);
        existing
            .required_during_scheduling_ignored_during_execution
            .extend(moved.required_during_scheduling_ignored_during_execution);
        existing
            .preferred_during_scheduling_ignored_during_execution
            .extend(moved.preferred_during_scheduling_ignored_during_execution);
    }
    Some(existing)
}

/// The node selector that matches the nodes that both match: the terms of each are alternatives.
fn both(one: &NodeSelector, other: &NodeSelector) -> NodeSelector {
    let joined = |a: &NodeSelectorTerm, b: &NodeSelectorTerm| NodeSelectorTerm {
        match_expressions: [&a.match_expressions[..], &b.match_expressions].concat(),
        match_fields: [&a.match_fields[..], &b.match_fields].concat(),
        match_annotations: [&a.match_annotations[..], &b.match_annotations].concat(),
        is_null: a.is_null || b.is_null,
    };
    let terms = one.node_selector_terms.iter();
    let terms = terms.flat_map(|a| other.node_selector_terms.iter().map(move |b| joined(a, b)));
    NodeSelector { node_selector_terms: terms.collect(), relax_after: None }
}
