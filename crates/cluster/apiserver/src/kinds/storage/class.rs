//! StorageClasses and VolumeAttributesClasses.

use std::collections::HashSet;

use berth_api::syntax;

use crate::kinds::prelude::*;

pub struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            default(fields, "reclaimPolicy", "Delete");
            default(fields, "volumeBindingMode", "Immediate");
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_provisioner(value, "provisioner", causes);
        validate_parameters(&value["parameters"], causes);
        if !is_empty(&value["reclaimPolicy"]) {
            causes.one_of("reclaimPolicy", &value["reclaimPolicy"], &["Delete", "Retain"]);
        }
        let modes = ["Immediate", "WaitForFirstConsumer"];
        causes.one_of("volumeBindingMode", &value["volumeBindingMode"], &modes);
        validate_topologies(items(value, "allowedTopologies"), causes);
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            causes.unchanged(field, &new[field], &old[field]);
        }
    }
}

fn validate_provisioner(class: &Value, field: &str, causes: &mut Causes) {
    let name = text(&class[field], "").to_lowercase();
    causes.not_empty(field, &class[field]);
    if !name.is_empty() {
        causes.problems(field, &name.as_str().into(), syntax::label_key(&name));
    }
}

const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 << 10;

fn validate_parameters(parameters: &Value, causes: &mut Causes) {
    let path = "parameters";
    let Some(entries) = parameters.as_object() else { return };
    if entries.len() > MAX_PARAMETERS {
        return causes.too_long(path, MAX_PARAMETERS);
    }
    if entries.contains_key("") {
        causes.invalid(path, &"".into(), "field can not be empty.");
    }
    let n_bytes: usize = entries.iter().map(|(name, value)| name.len() + text(value, "").len()).sum();
    if n_bytes > MAX_PARAMETER_BYTES {
        causes.too_long(path, MAX_PARAMETER_BYTES);
    }
}

fn validate_topologies(terms: &[Value], causes: &mut Causes) {
    let repeated_terms: HashSet<usize> = repeated(terms).into_iter().collect();
    for (i, term) in terms.iter().enumerate() {
        let path = format!("allowedTopologies[{i}].matchLabelExpressions");
        let requirements = items(term, "matchLabelExpressions");
        let keys = requirements.iter().map(|requirement| text(requirement, "/key"));
        let repeated_keys: HashSet<usize> = repeated(keys).into_iter().collect();
        for (j, requirement) in requirements.iter().enumerate() {
            let path = format!("{path}[{j}]");
            let values = items(requirement, "values");
            if values.is_empty() {
                causes.required(&format!("{path}.values"), "");
            }
            for k in repeated(values) {
                causes.duplicate(&format!("{path}.values[{k}]"), &values[k]);
            }
            let key = text(requirement, "/key");
            causes.problems(&format!("{path}.key"), &key.into(), syntax::label_key(key));
            if repeated_keys.contains(&j) {
                causes.duplicate(&format!("{path}.key"), &key.into());
            }
        }
        if requirements.is_empty() || repeated_terms.contains(&i) {
            causes.duplicate(&path, &"".into());
        }
    }
}

pub const STORAGE_COLUMNS: &[Column] = &[
    NAME.with(|row| {
        let is_default = row
            .at("/metadata/annotations")
            .is_some_and(|annotations| annotations["storageclass.kubernetes.io/is-default-class"] == "true");
        let name = row.text("/metadata/name").unwrap_or_default();
        format!("{name}{}", if is_default { " (default)" } else { "" }).into()
    }),
    Column::field("Provisioner", "Who makes the volumes.", "/provisioner"),
    Column::field("ReclaimPolicy", "What happens to a volume when its claim is gone.", "/reclaimPolicy")
        .or("Delete"),
    Column::field("VolumeBindingMode", "When a volume is bound.", "/volumeBindingMode").or("Immediate"),
    Column::flag("AllowVolumeExpansion", "Whether volumes may grow.", "/allowVolumeExpansion"),
    AGE,
];

pub struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn validates_change_first(&self) -> bool {
        true
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        add_finalizer(value, "metadata", "kubernetes.io/vac-protection");
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate_provisioner(value, "driverName", causes);
        validate_parameters(&value["parameters"], causes);
        if is_empty(&value["parameters"]) {
            causes.required("parameters", "must contain at least one key/value pair");
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["driverName", "parameters"] {
            if new[field] != old[field] {
                causes.forbidden(field, &format!("updates to {field} are forbidden."));
            }
        }
    }
}

pub const ATTRIBUTES_COLUMNS: &[Column] =
    &[NAME, Column::field("DriverName", "The CSI driver.", "/driverName"), AGE];
