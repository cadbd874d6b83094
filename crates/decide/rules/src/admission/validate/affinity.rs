//! Node affinity and inter-pod affinity, in both dialects.

use super::super::field::{BadValue, Errors, FieldError, Path};
use super::selector::{
    EXISTS_HAS_NO_VALUES, GT_HAS_ONE_VALUE, IN_NEEDS_VALUES, NOT_AN_OPERATOR, validate_integers,
    validate_label_keys, validate_label_selector,
};
use crate::parse_relax_after;
use crate::pod_term::LIMIT_ELSEWHERE;
use crate::{NODE_FIELDS, NOT_A_VERSION};
use berth_api::object::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm,
    PreferredSchedulingTerm, SelectorRequirement,
};
use berth_api::syntax;
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;
use berth_api::syntax::is_version;

const REQUIRED_IGNORED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const REQUIRED_REQUIRED: &str = "requiredDuringSchedulingRequiredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

const VERSION_GT_HAS_ONE_VALUE: &str =
    "must be specified single value when `operator` is 'VersionLt' or 'VersionGt'";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// The v1 API; with `comparisons`, `Gt` and `Lt` are accepted in pod selectors (an extension).
    V1 {
        comparisons: bool,
    },
    Proposal,
}

/// `spec.affinity`: v1 fields and, with extensions, the proposals' fields.
pub(super) fn validate_affinity(affinity: &Affinity, extensions: bool, path: &Path<'_>, errors: &mut Errors) {
    let enforced = extensions.then_some(Dialect::Proposal);
    validate(affinity, Dialect::V1 { comparisons: extensions }, enforced, path, errors);
}

/// A node selector of the v1 API, as slices and claims of devices have it. Paths begin with `.nodeSelectorTerms`.
pub fn validate_v1_node_selector(selector: &NodeSelector) -> Vec<FieldError> {
    let mut errors = Errors::default();
    let path = Path::Root("");
    validate_node_selector(selector, Dialect::V1 { comparisons: false }, &path, &mut errors);
    errors.into_list()
}

/// The annotation: all its fields have the proposals' meaning.
pub(super) fn validate_proposal(affinity: &Affinity, path: &Path<'_>, errors: &mut Errors) {
    validate(affinity, Dialect::Proposal, Some(Dialect::Proposal), path, errors);
}

/// `relaxAfter` of a rule, which only rules of the annotation that are required during scheduling may have.
fn validate_relax_after(relax_after: Option<&str>, is_allowed: bool, path: &Path<'_>, errors: &mut Errors) {
    let Some(text) = relax_after else { return };
    let path = path.child("relaxAfter");
    if !is_allowed {
        let detail = "may only be set on required rules of the annotation that are ignored during execution";
        errors.forbidden(&path, detail);
    } else if let Err(detail) = parse_relax_after(text) {
        errors.invalid(&path, text, detail);
    }
}

/// `enforced`: the dialect of the required-during-execution fields, `None` where they do not exist.
fn validate(
    affinity: &Affinity,
    dialect: Dialect,
    enforced: Option<Dialect>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if let Some(rules) = &affinity.node_affinity {
        validate_node_affinity(rules, dialect, enforced, &path.child("nodeAffinity"), errors);
    }
    for (name, rules) in
        [("podAffinity", &affinity.pod_affinity), ("podAntiAffinity", &affinity.pod_anti_affinity)]
    {
        if let Some(rules) = rules {
            let anti = name == "podAntiAffinity";
            validate_pod_affinity(rules, anti, dialect, enforced, &path.child(name), errors);
        }
    }
}

fn validate_node_affinity(
    rules: &NodeAffinity,
    dialect: Dialect,
    enforced: Option<Dialect>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if let (Some(dialect), Some(selector)) =
        (enforced, &rules.required_during_scheduling_required_during_execution)
    {
        let path = path.child(REQUIRED_REQUIRED);
        validate_node_selector(selector, dialect, &path, errors);
        validate_relax_after(selector.relax_after.as_deref(), false, &path, errors);
    }
    if let Some(selector) = &rules.required_during_scheduling_ignored_during_execution {
        let path = path.child(REQUIRED_IGNORED);
        validate_node_selector(selector, dialect, &path, errors);
        let is_allowed = dialect == Dialect::Proposal;
        validate_relax_after(selector.relax_after.as_deref(), is_allowed, &path, errors);
    }
    let preferred_path = path.child(PREFERRED);
    for (i, term) in rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
        validate_preferred_node_term(term, dialect, &preferred_path.index(i), errors);
    }
}

fn validate_node_selector(selector: &NodeSelector, dialect: Dialect, path: &Path<'_>, errors: &mut Errors) {
    let terms_path = path.child("nodeSelectorTerms");
    if selector.node_selector_terms.is_empty() && dialect != Dialect::Proposal {
        errors.required(&terms_path, "must have at least one node selector term");
    }
    for (i, term) in selector.node_selector_terms.iter().enumerate() {
        validate_node_term(term, dialect, true, &terms_path.index(i), errors);
    }
}

fn validate_preferred_node_term(
    term: &PreferredSchedulingTerm,
    dialect: Dialect,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    // In the proposals an empty term has the weight 0 without saying so; null is no term.
    if dialect != Dialect::Proposal || *term != PreferredSchedulingTerm::default() {
        validate_weight(term.weight, path, errors);
    }
    if let Some(preference) = &term.preference {
        validate_node_term(preference, dialect, false, &path.child("preference"), errors);
    }
    if dialect == Dialect::Proposal {
        let expressions_path = path.child("matchExpressions");
        if term.preference.is_some() && !term.match_expressions.is_empty() {
            errors.forbidden(&expressions_path, "may not be specified together with `preference`");
        }
        for (i, requirement) in term.match_expressions.iter().enumerate() {
            validate_node_expression(requirement, dialect, false, &expressions_path.index(i), errors);
        }
    }
}

fn validate_weight(weight: i32, path: &Path<'_>, errors: &mut Errors) {
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_term(
    term: &NodeSelectorTerm,
    dialect: Dialect,
    check_values: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let expressions_path = path.child("matchExpressions");
    for (i, requirement) in term.match_expressions.iter().enumerate() {
        validate_node_expression(requirement, dialect, check_values, &expressions_path.index(i), errors);
    }
    let fields_path = path.child("matchFields");
    for (i, requirement) in term.match_fields.iter().enumerate() {
        let field_path = fields_path.index(i);
        match dialect {
            Dialect::V1 { .. } => validate_node_field(requirement, &field_path, errors),
            Dialect::Proposal => validate_proposal_field(requirement, &field_path, errors),
        }
    }
    let annotations_path = path.child("matchAnnotations");
    if dialect != Dialect::Proposal {
        // Without extensions it is dropped, as the API server drops it.
        if !term.match_annotations.is_empty() && dialect == (Dialect::V1 { comparisons: true }) {
            let detail =
                format!("v1 has no such field: write the term in the annotation {AFFINITY_ANNOTATION}");
            errors.forbidden(&annotations_path, &detail);
        }
        return;
    }
    for (i, requirement) in term.match_annotations.iter().enumerate() {
        let annotation_path = annotations_path.index(i);
        validate_operator(requirement, dialect, &annotation_path, errors);
        // Case does not matter in keys of annotations.
        let problems = syntax::label_key(&requirement.key.to_lowercase());
        errors.invalid_each(&annotation_path.child("key"), &requirement.key, problems);
    }
}

/// Operator and number of values. In the proposals also the operands of comparisons: the v1 API does not check that the
/// values of `Gt` and `Lt` are integers; the scheduler fails on them later.
fn validate_operator(
    requirement: &SelectorRequirement,
    dialect: Dialect,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let SelectorRequirement { operator, values, .. } = requirement;
    let values_path = path.child("values");
    let is_proposal = dialect == Dialect::Proposal;
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => errors.required(&values_path, IN_NEEDS_VALUES),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values_path, EXISTS_HAS_NO_VALUES)
        }
        "Gt" | "Lt" if values.len() != 1 => errors.required(&values_path, GT_HAS_ONE_VALUE),
        "Gt" | "Lt" if is_proposal => validate_integers(values, &values_path, errors),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        "VersionGt" | "VersionLt" if is_proposal => match values.as_slice() {
            [version] if is_version(version) => {}
            [other] => errors.invalid(&values_path.index(0), other, NOT_A_VERSION),
            _ => errors.required(&values_path, VERSION_GT_HAS_ONE_VALUE),
        },
        _ => errors.invalid(&path.child("operator"), BadValue::Enumerated(operator), NOT_AN_OPERATOR),
    }
}

fn validate_node_expression(
    requirement: &SelectorRequirement,
    dialect: Dialect,
    check_values: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let SelectorRequirement { key, operator, values } = requirement;
    validate_operator(requirement, dialect, path, errors);
    errors.invalid_each(&path.child("key"), key, syntax::label_key(key));
    let compares = matches!(operator.as_str(), "Gt" | "Lt" | "VersionGt" | "VersionLt");
    if check_values && !(compares && dialect == Dialect::Proposal) {
        let values_path = path.child("values");
        for (i, value) in values.iter().enumerate() {
            errors.invalid_each(&values_path.index(i), value, syntax::label_value(value));
        }
    }
}

/// Any operator on any of the documented fields.
fn validate_proposal_field(requirement: &SelectorRequirement, path: &Path<'_>, errors: &mut Errors) {
    validate_operator(requirement, Dialect::Proposal, path, errors);
    if !NODE_FIELDS.contains(&requirement.key.as_str()) {
        errors.not_supported(&path.child("key"), &requirement.key, &NODE_FIELDS);
    }
}

fn validate_node_field(requirement: &SelectorRequirement, path: &Path<'_>, errors: &mut Errors) {
    let SelectorRequirement { key, operator, values } = requirement;
    let values_path = path.child("values");
    match operator.as_str() {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&values_path, detail);
        }
        "In" | "NotIn" => {}
        _ => errors.invalid(&path.child("operator"), BadValue::Enumerated(operator), NOT_AN_OPERATOR),
    }
    if key == "metadata.name" {
        for (i, value) in values.iter().enumerate() {
            errors.invalid_each(&values_path.index(i), value, syntax::dns_subdomain(value));
        }
    } else {
        errors.invalid(&path.child("key"), key, "not a valid field selector key");
    }
}

fn validate_pod_affinity(
    rules: &PodAffinity,
    anti: bool,
    dialect: Dialect,
    enforced: Option<Dialect>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    if let Some(dialect) = enforced {
        let enforced_path = path.child(REQUIRED_REQUIRED);
        for (i, term) in rules.required_during_scheduling_required_during_execution.iter().enumerate() {
            let path = enforced_path.index(i);
            validate_limit(term, enforced, anti, &path, errors);
            validate_relax_after(term.relax_after.as_deref(), false, &path, errors);
            validate_pod_term(term, dialect, &path, errors);
        }
    }
    let required_path = path.child(REQUIRED_IGNORED);
    for (i, term) in rules.required_during_scheduling_ignored_during_execution.iter().enumerate() {
        let path = required_path.index(i);
        let is_proposal = dialect == Dialect::Proposal;
        validate_limit(term, enforced, anti && is_proposal, &path, errors);
        validate_relax_after(term.relax_after.as_deref(), is_proposal, &path, errors);
        validate_pod_term(term, dialect, &path, errors);
    }
    let preferred_path = path.child(PREFERRED);
    for (i, weighted) in rules.preferred_during_scheduling_ignored_during_execution.iter().enumerate() {
        let term_path = preferred_path.index(i);
        validate_weight(weighted.weight, &term_path, errors);
        let (term, term_path) = (&weighted.pod_affinity_term, term_path.child("podAffinityTerm"));
        validate_limit(term, enforced, false, &term_path, errors);
        validate_relax_after(term.relax_after.as_deref(), false, &term_path, errors);
        validate_pod_term(term, dialect, &term_path, errors);
    }
}

/// Without extensions (`enforced`), a limit is dropped.
fn validate_limit(
    term: &PodAffinityTerm,
    enforced: Option<Dialect>,
    allowed: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    match term.limit.filter(|_| enforced.is_some()) {
        Some(_) if !allowed => errors.forbidden(&path.child("limit"), LIMIT_ELSEWHERE),
        Some(limit @ ..0) => {
            errors.invalid(&path.child("limit"), limit, "must be greater than or equal to 0")
        }
        _ => {}
    }
}

fn validate_pod_term(term: &PodAffinityTerm, dialect: Dialect, path: &Path<'_>, errors: &mut Errors) {
    let selector = term.label_selector.as_ref();
    let comparisons = dialect != Dialect::V1 { comparisons: false };
    validate_label_selector(selector, comparisons, &path.child("labelSelector"), errors);
    let namespace_selector = term.namespace_selector.as_ref();
    validate_label_selector(namespace_selector, false, &path.child("namespaceSelector"), errors);
    for namespace in term.namespaces.iter().flatten() {
        errors.invalid_each(&path.child("namespace"), namespace, syntax::dns_label(namespace));
    }
    validate_label_keys(&term.match_label_keys, &term.mismatch_label_keys, selector, path, errors);
    let key_path = path.child("topologyKey");
    if term.topology_key.is_empty() {
        // The proposal reads an empty key as "all topologies".
        if dialect == Dialect::Proposal {
            return;
        }
        errors.required(&key_path, "can not be empty");
    }
    errors.invalid_each(&key_path, &term.topology_key, syntax::label_key(&term.topology_key));
}
