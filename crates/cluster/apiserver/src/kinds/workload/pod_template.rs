//! PodTemplates.

use super::shared::validate_template;
use crate::kinds::prelude::*;
use crate::strategy::template;

pub struct PodTemplate;

impl Strategy for PodTemplate {
    fn default(&self, value: &mut Value) {
        if let Some(spec) = value.pointer_mut("/template/spec") {
            template::default_spec(spec);
        }
    }

    fn prepare_update(&self, _context: &Context<'_>, new: &mut Value, _old: &Value) {
        self.default(new);
    }

    fn validate(&self, context: &Context<'_>, value: &Value, causes: &mut Causes) {
        let mut of_template = Causes::default();
        let template = value.get("template").filter(|template| template.is_object()).cloned();
        let holder = json!({"template": template.unwrap_or_else(|| json!({}))});
        validate_template(context, &holder, &["Always", "Never", "OnFailure"], &mut of_template);
        causes.0.extend(of_template.0.into_iter().map(|mut cause| {
            cause.field = cause.field.trim_start_matches("spec.").to_owned();
            cause
        }));
    }
}
