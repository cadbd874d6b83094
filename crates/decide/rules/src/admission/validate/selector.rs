//! Label selectors and the label keys merged into them.

use std::collections::{HashMap, HashSet};

use super::super::field::{BadValue, Errors, Path};
use berth_api::object::{LabelSelector, SelectorRequirement};
use berth_api::syntax;

pub(super) const IN_NEEDS_VALUES: &str = "must be specified when `operator` is 'In' or 'NotIn'";
pub(super) const EXISTS_HAS_NO_VALUES: &str =
    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
pub(super) const GT_HAS_ONE_VALUE: &str = "must be specified single value when `operator` is 'Lt' or 'Gt'";
pub(super) const NOT_AN_OPERATOR: &str = "not a valid selector operator";

/// `comparisons`: whether `Gt` and `Lt` are accepted, an extension.
pub(super) fn validate_label_selector(
    selector: Option<&LabelSelector>,
    comparisons: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let Some(selector) = selector else { return };
    super::validate_labels(&selector.match_labels, &path.child("matchLabels"), errors);
    let expressions_path = path.child("matchExpressions");
    for (i, requirement) in selector.match_expressions.iter().enumerate() {
        validate_requirement(requirement, comparisons, &expressions_path.index(i), errors);
    }
}

fn validate_requirement(
    requirement: &SelectorRequirement,
    comparisons: bool,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let SelectorRequirement { key, operator, values } = requirement;
    let values_path = path.child("values");
    let compares = comparisons && matches!(operator.as_str(), "Gt" | "Lt");
    match operator.as_str() {
        "In" | "NotIn" if values.is_empty() => errors.required(&values_path, IN_NEEDS_VALUES),
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&values_path, EXISTS_HAS_NO_VALUES)
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ if compares && values.len() != 1 => errors.required(&values_path, GT_HAS_ONE_VALUE),
        _ if compares => {}
        _ => errors.invalid(&path.child("operator"), BadValue::Enumerated(operator), NOT_AN_OPERATOR),
    }
    errors.invalid_each(&path.child("key"), key, syntax::label_key(key));
    if compares {
        validate_integers(values, &values_path, errors);
        return;
    }
    for (i, value) in values.iter().enumerate() {
        errors.invalid_each(&values_path.index(i), value, syntax::label_value(value));
    }
}

/// The values of `Gt` and `Lt` must be integers: others never match.
pub(super) fn validate_integers(values: &[String], path: &Path<'_>, errors: &mut Errors) {
    for (i, value) in values.iter().enumerate() {
        if value.parse::<i64>().is_err() {
            errors.invalid(&path.index(i), value, "must be an integer when `operator` is 'Lt' or 'Gt'");
        }
    }
}

/// Checks `matchLabelKeys` and `mismatchLabelKeys` against each other and the selector they were merged into.
pub(super) fn validate_label_keys(
    match_keys: &[String],
    mismatch_keys: &[String],
    selector: Option<&LabelSelector>,
    path: &Path<'_>,
    errors: &mut Errors,
) {
    let match_path = path.child("matchLabelKeys");
    for (keys, keys_path) in [(match_keys, match_path), (mismatch_keys, path.child("mismatchLabelKeys"))] {
        if !keys.is_empty() && selector.is_none() {
            errors.forbidden(&keys_path, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in keys.iter().enumerate() {
            errors.invalid_each(&keys_path.index(i), key, syntax::label_key(key));
        }
    }
    if match_keys.is_empty() {
        return;
    }
    if let Some(selector) = selector {
        // The merge has added one requirement on the key; a second one is the user's.
        let positions: HashMap<&str, usize> =
            match_keys.iter().enumerate().map(|(i, k)| (k.as_str(), i)).collect();
        let mut seen: HashSet<&str> = selector.match_labels.keys().map(String::as_str).collect();
        for requirement in &selector.match_expressions {
            let key = requirement.key.as_str();
            if let Some(position) = positions.get(key)
                && seen.contains(key)
            {
                errors.invalid(
                    &path.index(*position),
                    key,
                    "exists in both matchLabelKeys and labelSelector",
                );
            }
            seen.insert(key);
        }
    }
    let mismatch_keys: HashSet<&String> = mismatch_keys.iter().collect();
    for (i, key) in match_keys.iter().enumerate() {
        if mismatch_keys.contains(key) {
            errors.invalid(&match_path.index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys");
        }
    }
}
