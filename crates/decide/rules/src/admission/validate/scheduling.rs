//! Scheduling gates, topology spread constraints, tolerations and priority.

use std::collections::{HashMap, HashSet};

use super::super::field::{BadValue, Errors, Path};
use super::selector::{validate_label_keys, validate_label_selector};
use berth_api::feature_gates::FeatureGates;
use berth_api::object::{PodSpec, Toleration, TopologySpreadConstraint};
use berth_api::syntax;

pub(super) fn validate_gates(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for (i, gate) in spec.scheduling_gates.iter().enumerate() {
        let gate_path = path.index(i);
        errors.invalid_each(&gate_path, &gate.name, syntax::label_key(&gate.name));
        if !seen.insert(gate.name.as_str()) {
            errors.duplicate(&gate_path, &gate.name);
        }
    }
}

pub(super) fn validate_spread(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    let constraints = || spec.topology_spread_constraints.iter().enumerate();
    let last: HashMap<_, _> =
        constraints().map(|(i, c)| ((&c.topology_key, &c.when_unsatisfiable), i)).collect();
    for (i, constraint) in constraints() {
        let is_repeated = last[&(&constraint.topology_key, &constraint.when_unsatisfiable)] > i;
        validate_constraint(constraint, is_repeated, &path.index(i), errors);
    }
}

fn validate_constraint(
    constraint: &TopologySpreadConstraint,
    is_repeated: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    const NOT_POSITIVE: &str = "must be greater than zero";
    let TopologySpreadConstraint { topology_key, when_unsatisfiable, .. } = constraint;
    if constraint.max_skew <= 0 {
        errors.invalid(&path.child("maxSkew"), constraint.max_skew, NOT_POSITIVE);
    }
    if topology_key.is_empty() {
        errors.required(&path.child("topologyKey"), "can not be empty");
    }
    if !matches!(when_unsatisfiable.as_str(), "DoNotSchedule" | "ScheduleAnyway") {
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        errors.not_supported(&path.child("whenUnsatisfiable"), when_unsatisfiable, &actions);
    }
    if is_repeated {
        let pair = format!("{{{topology_key}, {when_unsatisfiable}}}");
        errors.duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), &pair);
    }
    if let Some(min_domains) = constraint.min_domains {
        let min_path = path.child("minDomains");
        if min_domains <= 0 {
            errors.invalid(&min_path, min_domains, NOT_POSITIVE);
        }
        if when_unsatisfiable != "DoNotSchedule" {
            let detail = format!(
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when_unsatisfiable}"
            );
            errors.invalid(&min_path, min_domains, detail);
        }
    }
    for (name, policy) in [
        ("nodeAffinityPolicy", &constraint.node_affinity_policy),
        ("nodeTaintsPolicy", &constraint.node_taints_policy),
    ] {
        if let Some(policy) = policy.as_deref().filter(|policy| !matches!(*policy, "Honor" | "Ignore")) {
            errors.not_supported(&path.child(name), policy, &["Honor", "Ignore"]);
        }
    }
    let selector = constraint.label_selector.as_ref();
    validate_label_keys(&constraint.match_label_keys, &[], selector, path, errors);
    validate_label_selector(selector, false, &path.child("labelSelector"), errors);
}

pub(super) fn validate_tolerations(
    tolerations: &[Toleration],
    gates: FeatureGates,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    for (i, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, gates, &path.index(i), errors);
    }
}

fn validate_toleration(toleration: &Toleration, gates: FeatureGates, path: &Path<'_>, errors: &mut Errors) {
    let compares = gates.taint_toleration_comparison_operators;
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let operator_path = path.child("operator");
    let effect_path = path.child("effect");
    if !key.is_empty() {
        errors.invalid_each(&path.child("key"), key, syntax::label_key(key));
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&operator_path, BadValue::Enumerated(operator), detail);
    }
    if toleration_seconds.is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&effect_path, BadValue::Enumerated(effect), detail);
    }
    match operator.as_str() {
        "" | "Equal" => {
            let problems = syntax::label_value(value);
            if !problems.is_empty() {
                errors.invalid(&operator_path, value, problems.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                errors.invalid(&operator_path, value, "value must be empty when `operator` is 'Exists'");
            }
        }
        "Gt" | "Lt" if compares => {
            if let Err(problem) = syntax::decimal_integer(value) {
                let is_number = problem.starts_with("strconv");
                errors.invalid(&path.child("value"), value, problem);
                // The API server parses it once more; signs and leading zeros are no errors then.
                let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
                if !is_number && (digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit())) {
                    let why = format!("strconv.ParseInt: parsing {value:?}: invalid syntax");
                    errors.invalid(&path.child("value"), value, why);
                }
            }
        }
        "Gt" | "Lt" => errors.not_supported(&operator_path, operator, &["Equal", "Exists", "Lt", "Gt"]),
        _ => errors.not_supported(&operator_path, operator, &["Equal", "Exists"]),
    }
    if !matches!(effect.as_str(), "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        errors.not_supported(&effect_path, effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
    }
}

pub(super) fn validate_priority(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    let class = &spec.priority_class_name;
    if !class.is_empty() {
        errors.invalid_each(&path.child("priorityClassName"), class, syntax::dns_subdomain(class));
    }
    match spec.preemption_policy.as_deref() {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => errors.required(&path.child("preemptionPolicy"), ""),
        Some(policy) => {
            let policies = ["PreemptLowerPriority", "Never"];
            errors.not_supported(&path.child("preemptionPolicy"), policy, &policies);
        }
    }
}
