//! What PersistentVolumes, claims, and templates of claims have in common.

use berth_api::object::volume::STORAGE;
use berth_api::syntax;
use serde_json::Value;

use super::fields::{Causes, is_empty, items, quantity, text, validate_label_selector};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];

/// Validates the fields of a volume or a claim that have the same rules.
pub fn validate_spec(spec: &Value, path: &str, no_access_mode: &str, causes: &mut Causes) {
    let (modes, field) = (items(spec, "accessModes"), format!("{path}.accessModes"));
    if modes.is_empty() {
        causes.required(&field, no_access_mode);
    }
    for mode in modes {
        causes.one_of(&field, mode, &ACCESS_MODES);
    }
    let once_pod = modes.iter().filter(|mode| **mode == "ReadWriteOncePod").count();
    if once_pod > 0 && once_pod < modes.len() {
        causes.forbidden(&field, "may not use ReadWriteOncePod with other access modes");
    }
    if !spec["volumeMode"].is_null() {
        causes.one_of(&format!("{path}.volumeMode"), &spec["volumeMode"], &VOLUME_MODES);
    }
    let class = text(spec, "/storageClassName");
    if !class.is_empty() {
        let field = format!("{path}.storageClassName");
        causes.problems(&field, &class.into(), syntax::dns_subdomain(class));
    }
}

/// Validates the specification of a claim, or of a template of claims.
pub fn validate_claim(spec: &Value, path: &str, causes: &mut Causes) {
    validate_spec(spec, path, "at least 1 access mode is required", causes);
    validate_label_selector(&format!("{path}.selector"), &spec["selector"], causes);
    let class = text(spec, "/volumeAttributesClassName");
    if !class.is_empty() {
        causes.problems(
            &format!("{path}.volumeAttributesClassName"),
            &class.into(),
            syntax::dns_subdomain(class),
        );
    }
    let (amount, field) = (&spec["resources"]["requests"][STORAGE], format!("{path}.resources[storage]"));
    if is_empty(amount) {
        causes.required(&field, "");
    } else {
        validate_amount(&field, amount, causes);
    }
}

/// Validates an amount of storage, which must be positive.
pub fn validate_amount(field: &str, value: &Value, causes: &mut Causes) {
    match quantity(value) {
        None => causes.invalid(field, value, "must be a quantity, such as 5Gi"),
        Some(amount) if amount.is_zero() || amount.is_negative() => {
            causes.invalid(field, value, "must be greater than zero");
        }
        Some(_) => {}
    }
}
