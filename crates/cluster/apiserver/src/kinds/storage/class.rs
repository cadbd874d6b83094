//! StorageClasses and VolumeAttributesClasses.

use berth_schema::resource::VOLUME_ATTRIBUTES_CLASSES;

use crate::kinds::prelude::*;

pub struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            default_text(fields, "reclaimPolicy", "Delete");
            default_text(fields, "volumeBindingMode", "Immediate");
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        causes.not_empty("provisioner", &value["provisioner"]);
        causes.one_of("reclaimPolicy", &value["reclaimPolicy"], &["Delete", "Retain"]);
        let modes = ["Immediate", "WaitForFirstConsumer"];
        causes.one_of("volumeBindingMode", &value["volumeBindingMode"], &modes);
        for (i, term) in items(value, "allowedTopologies").iter().enumerate() {
            for (j, requirement) in items(term, "matchLabelExpressions").iter().enumerate() {
                let field = format!("allowedTopologies[{i}].matchLabelExpressions[{j}]");
                causes.not_empty(&format!("{field}.key"), &requirement["key"]);
                if items(requirement, "values").is_empty() {
                    causes.required(&format!("{field}.values"), "");
                }
            }
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if new[field] != old[field] {
                causes.forbidden(field, &format!("updates to {field} are forbidden."));
            }
        }
        causes.unchanged("volumeBindingMode", &new["volumeBindingMode"], &old["volumeBindingMode"]);
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

pub static ATTRIBUTES_STRATEGY: Typed =
    Typed { immutable: &["/driverName", "/parameters"], ..Typed::new(&VOLUME_ATTRIBUTES_CLASSES) };

pub const ATTRIBUTES_COLUMNS: &[Column] =
    &[NAME, Column::field("DriverName", "The CSI driver.", "/driverName"), AGE];
