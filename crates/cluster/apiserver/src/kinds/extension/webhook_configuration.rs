//! MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

use berth_api::syntax;

use crate::kinds::prelude::*;
use crate::strategy::webhook_check;

pub struct WebhookConfiguration {
    /// Whether the webhooks may change objects.
    mutating: bool,
}

pub static MUTATING: WebhookConfiguration = WebhookConfiguration { mutating: true };
pub static VALIDATING: WebhookConfiguration = WebhookConfiguration { mutating: false };

impl Strategy for WebhookConfiguration {
    fn default(&self, value: &mut Value) {
        for webhook in items_mut(value, "webhooks") {
            default_webhook(webhook, self.mutating);
        }
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        for (i, webhook) in items(value, "webhooks").iter().enumerate() {
            validate_webhook(&format!("webhooks[{i}]"), webhook, causes);
        }
        let webhooks = items(value, "webhooks");
        for i in repeated(webhooks.iter().map(|webhook| text(webhook, "/name"))) {
            causes.duplicate(&format!("webhooks[{i}].name"), &webhooks[i]["name"]);
        }
    }
}

fn default_webhook(webhook: &mut Value, mutating: bool) {
    for rule in items_mut(webhook, "rules").iter_mut().filter_map(Value::as_object_mut) {
        default_text(rule, "scope", "*");
    }
    if let Some(service) = webhook.pointer_mut("/clientConfig/service").and_then(Value::as_object_mut) {
        default(service, "port", 443);
    }
    let Some(fields) = webhook.as_object_mut() else { return };
    default(fields, "failurePolicy", "Fail");
    default(fields, "matchPolicy", "Equivalent");
    default(fields, "namespaceSelector", json!({}));
    default(fields, "objectSelector", json!({}));
    default(fields, "timeoutSeconds", 10);
    if mutating {
        default_text(fields, "reinvocationPolicy", "Never");
    }
}

fn validate_webhook(path: &str, webhook: &Value, causes: &mut Causes) {
    for (field, value, why) in webhook_check::check(path, webhook) {
        causes.invalid(&field, &value, &why);
    }
    let (name, field) = (text(webhook, "/name"), format!("{path}.name"));
    causes.not_empty(&field, &webhook["name"]);
    let mut problems = if name.is_empty() { Vec::new() } else { syntax::dns_subdomain(name) };
    if problems.is_empty() && !name.is_empty() && name.split('.').count() < 3 {
        problems.push("should be a domain with at least three segments separated by dots".to_owned());
    }
    causes.problems(&field, &webhook["name"], problems);
    let config = &webhook["clientConfig"];
    if config["url"].is_null() == config["service"].is_null() {
        causes.required(&format!("{path}.clientConfig"), "exactly one of url or service is required");
    }
    if is_empty(&webhook["admissionReviewVersions"]) {
        let detail = "must specify one of v1, v1beta1";
        causes.required(&format!("{path}.admissionReviewVersions"), detail);
    }
    let field = format!("{path}.sideEffects");
    match &webhook["sideEffects"] {
        Value::Null => causes.required(&field, "must specify one of None, NoneOnDryRun"),
        effects => causes.one_of(&field, effects, &["None", "NoneOnDryRun"]),
    }
    causes.one_of(&format!("{path}.failurePolicy"), &webhook["failurePolicy"], &["Fail", "Ignore"]);
    causes.one_of(&format!("{path}.matchPolicy"), &webhook["matchPolicy"], &["Equivalent", "Exact"]);
    if !webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| (1..=30).contains(&seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        causes.invalid(&format!("{path}.timeoutSeconds"), &webhook["timeoutSeconds"], why);
    }
}

pub const COLUMNS: &[Column] =
    &[NAME, Column::count("Webhooks", "How many webhooks it configures.", "/webhooks"), AGE];
