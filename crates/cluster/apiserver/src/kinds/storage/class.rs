//! StorageClasses and VolumeAttributesClasses.

use berth_schema::resource::VOLUME_ATTRIBUTES_CLASSES;
use serde_json::Value;

use crate::strategy::fields::{Causes, default_text, items, text};
use crate::strategy::typed::Typed;
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, Column, NAME, Printer};

const RECLAIM_POLICIES: [&str; 2] = ["Delete", "Retain"];
const BINDING_MODES: [&str; 2] = ["Immediate", "WaitForFirstConsumer"];

pub struct StorageClass;

impl Strategy for StorageClass {
    fn default(&self, value: &mut Value) {
        if let Some(fields) = value.as_object_mut() {
            default_text(fields, "reclaimPolicy", "Delete");
            default_text(fields, "volumeBindingMode", "Immediate");
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        if text(value, "/provisioner").is_empty() {
            causes.required("provisioner", "");
        }
        for (field, supported) in [("reclaimPolicy", RECLAIM_POLICIES), ("volumeBindingMode", BINDING_MODES)]
        {
            if !supported.contains(&text(value, &format!("/{field}"))) {
                causes.not_supported(field, &value[field], &supported);
            }
        }
        for (i, term) in items(value, "allowedTopologies").iter().enumerate() {
            for (j, requirement) in items(term, "matchLabelExpressions").iter().enumerate() {
                let field = format!("allowedTopologies[{i}].matchLabelExpressions[{j}]");
                if text(requirement, "/key").is_empty() {
                    causes.required(&format!("{field}.key"), "");
                }
                if items(requirement, "values").is_empty() {
                    causes.required(&format!("{field}.values"), "");
                }
            }
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, causes: &mut Causes) {
        for field in ["parameters", "provisioner", "reclaimPolicy"] {
            if new[field] != old[field] {
                causes.forbidden(field, &format!("updates to {field} are forbidden."));
            }
        }
        if new["volumeBindingMode"] != old["volumeBindingMode"] {
            causes.immutable("volumeBindingMode", &new["volumeBindingMode"]);
        }
    }
}

pub static STORAGE_COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("Provisioner", "Who makes the volumes."),
        Column::text("ReclaimPolicy", "What happens to a volume when its claim is gone."),
        Column::text("VolumeBindingMode", "When a volume is bound."),
        Column::text("AllowVolumeExpansion", "Whether volumes may grow."),
        AGE,
    ],
    |row| {
        let is_default = row
            .at("/metadata/annotations")
            .is_some_and(|annotations| annotations["storageclass.kubernetes.io/is-default-class"] == "true");
        let name = row.text("/metadata/name").unwrap_or_default();
        vec![
            if is_default { format!("{name} (default)").into() } else { name.into() },
            row.text_or("/provisioner", ""),
            row.text_or("/reclaimPolicy", "Delete"),
            row.text_or("/volumeBindingMode", "Immediate"),
            row.at("/allowVolumeExpansion").cloned().unwrap_or(Value::Bool(false)),
            row.age(),
        ]
    },
);

pub static ATTRIBUTES_STRATEGY: Typed =
    Typed { immutable: &["/driverName", "/parameters"], ..Typed::new(&VOLUME_ATTRIBUTES_CLASSES) };

pub static ATTRIBUTES_COLUMNS: Printer =
    Printer::new(&[NAME, Column::text("DriverName", "The CSI driver."), AGE], |row| {
        vec![row.name(), row.text_or("/driverName", ""), row.age()]
    });
