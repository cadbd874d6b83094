//! Namespaces.

use berth_api::syntax;
use serde_json::{Value, json};

use crate::strategy::fields::{is_empty, object};
use crate::strategy::metadata::take;
use crate::strategy::{Context, Strategy};
use crate::table::columns::{AGE, Column, NAME, Printer};

/// The namespaces that the API server creates at startup.
const SYSTEM: [&str; 3] = ["default", "kube-system", "kube-public"];

pub struct Namespace;

impl Strategy for Namespace {
    fn default(&self, value: &mut Value) {
        let name = value["metadata"]["name"].clone();
        if let Some(labels) = object(&mut value["metadata"], "labels") {
            labels.insert("kubernetes.io/metadata.name".to_owned(), name);
        }
    }

    fn prepare_create(&self, _context: &Context<'_>, value: &mut Value) {
        if let Some(spec) = object(value, "spec") {
            let finalizers = spec.entry("finalizers").or_insert(json!([]));
            if let Some(list) = finalizers.as_array_mut()
                && !list.iter().any(|f| f == "kubernetes")
            {
                list.push(Value::from("kubernetes"));
            }
        }
        value["status"] = json!({"phase": "Active"});
    }

    fn prepare_update(&self, _context: &Context<'_>, subresource: &str, new: &mut Value, old: &Value) {
        if subresource.is_empty() {
            take(&mut new["spec"], &old["spec"], "finalizers");
            self.default(new);
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::dns_label(name)
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

pub static COLUMNS: Printer =
    Printer::new(&[NAME, Column::text("Status", "Whether it is in use or going away."), AGE], |row| {
        vec![row.name(), row.text_or("/status/phase", ""), row.age()]
    });
