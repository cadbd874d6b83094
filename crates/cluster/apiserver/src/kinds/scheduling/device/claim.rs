//! ResourceClaims and their templates.

use berth_api::object::device::ADMIN_ACCESS_LABEL;
use berth_api::syntax;
use berth_schema::resource::{NAMESPACES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource};

use super::{request, status};
use crate::kinds::prelude::*;

/// A kind with the spec of a claim.
pub struct Claim {
    typed: Typed,
    /// Pointer to the devices of the spec, and their path.
    devices: (&'static str, &'static str),
}

pub static CLAIM: Claim = Claim {
    typed: Typed {
        complete: |claim| request::default_counts(&mut claim["spec"]["devices"]),
        check: |claim, causes| request::validate_devices(&claim["spec"]["devices"], "spec.devices", causes),
        ..typed(&RESOURCE_CLAIMS)
    },
    devices: ("/spec/devices", "spec.devices"),
};

pub static CLAIM_TEMPLATE: Claim = Claim {
    typed: Typed {
        complete: |template| request::default_counts(&mut template["spec"]["spec"]["devices"]),
        check: |template, causes| {
            let labels = template["spec"]["metadata"]["labels"].as_object();
            for (key, label) in labels.into_iter().flatten() {
                causes.problems("spec.metadata.labels", &key.as_str().into(), syntax::label_key(key));
                causes.problems("spec.metadata.labels", label, syntax::label_value(text(label, "")));
            }
            request::validate_devices(&template["spec"]["spec"]["devices"], "spec.spec.devices", causes);
        },
        ..typed(&RESOURCE_CLAIM_TEMPLATES)
    },
    devices: ("/spec/spec/devices", "spec.spec.devices"),
};

const fn typed(resource: &'static Resource) -> Typed {
    Typed {
        defaults: &[
            ("DeviceSubRequest", "allocationMode", r#""ExactCount""#),
            ("DeviceToleration", "operator", r#""Equal""#),
            ("ExactDeviceRequest", "allocationMode", r#""ExactCount""#),
        ],
        fills_empty_texts: true,
        enums: &[
            ("DeviceAllocationConfiguration", "source", &["FromClaim", "FromClass"]),
            ("DeviceSubRequest", "allocationMode", &["All", "ExactCount"]),
            ("DeviceToleration", "operator", &["Equal", "Exists"]),
            ("ExactDeviceRequest", "allocationMode", &["All", "ExactCount"]),
        ],
        not_required: &[
            ("CELDeviceSelector", "expression"),
            ("DeviceRequest", "name"),
            ("DeviceRequestAllocationResult", "device"),
            ("DeviceRequestAllocationResult", "request"),
            ("DeviceSubRequest", "name"),
            ("NodeSelectorRequirement", "key"),
            ("NodeSelectorRequirement", "operator"),
        ],
        immutable: &["/spec"],
        ..Typed::new(resource)
    }
}

impl Strategy for Claim {
    fn default(&self, value: &mut Value) {
        self.typed.default(value);
    }

    /// A status that loses devices of the allocation loses what drivers report about them.
    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        match context.subresource {
            "status" => status::drop_deallocated(&mut new["status"], &old["status"]),
            _ => self.default(new),
        }
    }

    fn validates_change_first(&self) -> bool {
        *self.typed.resource == RESOURCE_CLAIM_TEMPLATES
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        self.typed.validate(context, value, causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        if *self.typed.resource == RESOURCE_CLAIM_TEMPLATES {
            self.typed.validate_update(context, new, old, causes);
        } else if new["spec"] != old["spec"] {
            causes.immutable("spec", &Value::Null);
        }
    }

    fn validate_status(&self, new: &Value, old: &Value, causes: &mut Causes) {
        status::validate(new, old, causes);
        self.typed.check_status(&new["status"], causes);
    }

    fn admit_create(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        value: &mut Value,
        warnings: &mut Vec<String>,
    ) -> ApiResult {
        let (pointer, path) = self.devices;
        let requests = value.pointer(pointer).map_or(&[][..], |devices| items(devices, "requests"));
        let is_admin = |request: &Value| request["exactly"]["adminAccess"] == true;
        let path = requests.iter().position(is_admin).map(|i| format!("{path}.requests[{i}].adminAccess"));
        require_admin_namespace(context, resource, value, path)?;
        self.validate_new(context, resource, value, warnings)
    }

    fn authorize_update(&self, context: &Context<'_>, new: &Value, old: &Value) -> ApiResult {
        if context.subresource != "status" {
            return Ok(());
        }
        let admin_access = |claim: &Value| {
            let results = items(&claim["status"]["allocation"]["devices"], "results");
            let i = results.iter().position(|result| result["adminAccess"] == true);
            i.map(|i| format!("status.allocation.devices.results[{i}].adminAccess"))
        };
        if admin_access(old).is_none() {
            require_admin_namespace(context, &RESOURCE_CLAIMS, new, admin_access(new))?;
        }
        status::authorize(context, new, old)
    }
}

/// Refuses the field at `path` in an object whose namespace is not labelled for it.
fn require_admin_namespace(
    context: &Context<'_>,
    resource: &Resource,
    object: &Value,
    path: Option<String>,
) -> ApiResult {
    let Some(path) = path else { return Ok(()) };
    let namespace = context.lookup.get(&NAMESPACES, "", text(object, "/metadata/namespace"));
    if namespace
        .is_some_and(|namespace| namespace.parsed()["metadata"]["labels"][ADMIN_ACCESS_LABEL] == "true")
    {
        return Ok(());
    }
    let mut causes = Causes::default();
    let why = format!(
        "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
    );
    causes.forbidden(&path, &why);
    causes.refuse(resource, object)
}

pub const CLAIM_COLUMNS: &[Column] = &[
    NAME,
    Column::text("State", "Whether it is allocated and reserved.", |row| {
        let allocation = match row.at("/status/allocation") {
            Some(_) => Some("allocated"),
            None => (!row.is_deleted()).then_some("pending"),
        };
        let reserved = (!row.list("/status/reservedFor").is_empty()).then_some("reserved");
        let states = [row.is_deleted().then_some("deleted"), allocation, reserved];
        states.into_iter().flatten().collect::<Vec<_>>().join(",").into()
    }),
    AGE,
];
