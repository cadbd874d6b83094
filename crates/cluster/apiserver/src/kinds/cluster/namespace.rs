//! Namespaces.

use berth_api::syntax;

use crate::kinds::prelude::*;

/// The namespaces that the API server creates at startup.
const SYSTEM: [&str; 3] = ["default", "kube-system", "kube-public"];

pub struct Namespace;

fn refuse_unknown(path: &str, finalizer: &Value, causes: &mut Causes) {
    let name = text(finalizer, "");
    if !name.contains('/') && name != "kubernetes" {
        causes.invalid(
            path,
            finalizer,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

impl Strategy for Namespace {
    fn default(&self, value: &mut Value) {
        let name = value["metadata"]["name"].clone();
        if name.is_string()
            && let Some(labels) = object(&mut value["metadata"], "labels")
        {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name);
        }
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        add_finalizer(value, "spec", "kubernetes");
        value["status"] = json!({"phase": "Active"});
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if context.subresource.is_empty() {
            // A replaced or applied object may have no spec, and `take` needs one.
            object(new, "spec");
            take(&mut new["spec"], &old["spec"], "finalizers");
        }
        self.default(new);
        if let Some(status) = object(new, "status") {
            default_text(status, "phase", "Active");
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let (phase, is) = match new["metadata"]["deletionTimestamp"].is_null() {
            true => ("Active", "empty"),
            false => ("Terminating", "not empty"),
        };
        let given = text(new, "/status/phase");
        if given != phase {
            let why = format!("may only be '{phase}' if `deletionTimestamp` is {is}");
            causes.invalid("status.Phase", &given.into(), &why);
        }
    }

    fn validate_subresource(&self, _context: &Context<'_>, new: &Value, _old: &Value, causes: &mut Causes) {
        for (i, finalizer) in items(&new["spec"], "finalizers").iter().enumerate() {
            let problems = syntax::label_key(text(finalizer, ""));
            let path = format!("spec.finalizers[{i}]");
            causes.problems(&path, finalizer, problems);
            refuse_unknown(&path, finalizer, causes);
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::dns_label(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        for finalizer in items(&value["spec"], "finalizers") {
            causes.problems("spec.finalizers", finalizer, syntax::label_key(text(finalizer, "")));
            refuse_unknown("spec.finalizers", finalizer, causes);
        }
    }

    /// The service account of the namespace.
    fn dependents(&self, name: &str) -> Vec<Value> {
        vec![json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name}
        })]
    }

    fn refuses_deletion(&self, name: &str) -> Option<&'static str> {
        SYSTEM.contains(&name).then_some("this namespace may not be deleted")
    }

    fn has_finalizers(&self, value: &Value) -> bool {
        !is_empty(&value["metadata"]["finalizers"]) || !is_empty(&value["spec"]["finalizers"])
    }

    fn mark_deleting(&self, value: &mut Value) {
        value["status"]["phase"] = Value::from("Terminating");
    }
}

pub const COLUMNS: &[Column] =
    &[NAME, Column::field("Status", "Whether it is in use or going away.", "/status/phase"), AGE];
