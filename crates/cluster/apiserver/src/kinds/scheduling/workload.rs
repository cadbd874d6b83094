//! Workloads of Kubernetes 1.36: templates of PodGroups.

use berth_api::syntax;
use berth_schema::resource::{Resource, WORKLOADS};

use super::device::names::{limited, validate_name};
use super::pod_group::{DISRUPTION_MODES, set_priority, validate_spec};
use crate::kinds::prelude::*;

const MAX_TEMPLATES: usize = 8;

pub struct Workload {
    typed: Typed,
}

pub static WORKLOAD: Workload = Workload {
    typed: Typed {
        enums: &[("PodGroupTemplate", "disruptionMode", DISRUPTION_MODES)],
        not_empty: &[("WorkloadSpec", "podGroupTemplates")],
        immutable: &["/spec/controllerRef", "/spec/podGroupTemplates"],
        check,
        ..Typed::new(&WORKLOADS)
    },
};

impl Workload {
    pub fn set_priorities(
        &self,
        context: &Context<'_>,
        resource: &Resource,
        workload: &mut Value,
    ) -> ApiResult {
        let name = name(workload).to_owned();
        for template in items_mut(&mut workload["spec"], "podGroupTemplates") {
            set_priority(context, template, "pod group template")
                .map_err(|why| Status::forbidden(resource, &name, &why))?;
        }
        Ok(())
    }
}

impl Strategy for Workload {
    /// A change that leaves out the priority of a template keeps it, as the plugin `Priority` does.
    fn prepare_update(&self, _context: &Context<'_>, new: &mut Value, old: &Value) {
        for template in items_mut(&mut new["spec"], "podGroupTemplates") {
            let before =
                items(&old["spec"], "podGroupTemplates").iter().find(|t| t["name"] == template["name"]);
            let priority = before.map_or(&Value::Null, |before| &before["priority"]);
            if let Some(template) = template.as_object_mut().filter(|_| !priority.is_null()) {
                default(template, "priority", priority.clone());
            }
        }
    }

    fn validate(&self, context: &Context<'_>, workload: &Value, causes: &mut Causes) {
        self.typed.validate(context, workload, causes);
    }

    fn validate_update(&self, context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        self.typed.validate_update(context, new, old, causes);
    }
}

fn check(workload: &Value, causes: &mut Causes) {
    let controller = &workload["spec"]["controllerRef"];
    validate_name("spec.controllerRef.apiGroup", &controller["apiGroup"], syntax::dns_subdomain, causes);
    for field in ["kind", "name"] {
        validate_name(
            &format!("spec.controllerRef.{field}"),
            &controller[field],
            syntax::path_segment,
            causes,
        );
    }
    let path = "spec.podGroupTemplates";
    let templates = limited(&workload["spec"]["podGroupTemplates"], path, MAX_TEMPLATES, causes);
    for i in repeated(templates.iter().map(|template| text(template, "/name"))) {
        causes.duplicate(&format!("{path}[{i}]"), &json!({"name": templates[i]["name"]}));
    }
    for (i, template) in templates.iter().enumerate() {
        let path = format!("{path}[{i}]");
        validate_name(&format!("{path}.name"), &template["name"], syntax::dns_label, causes);
        validate_spec(template, &path, causes);
    }
}
