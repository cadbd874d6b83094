//! MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

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
            webhook_check::check(&format!("webhooks[{i}]"), webhook, causes);
        }
        let webhooks = items(value, "webhooks");
        for i in repeated(webhooks.iter().map(|webhook| text(webhook, "/name"))) {
            causes.duplicate(&format!("webhooks[{i}].name"), &webhooks[i]["name"]);
        }
    }
}

fn default_webhook(webhook: &mut Value, mutating: bool) {
    for rule in items_mut(webhook, "rules").iter_mut().filter_map(Value::as_object_mut) {
        default(rule, "scope", "*");
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
        default(fields, "reinvocationPolicy", "Never");
    }
}

pub const COLUMNS: &[Column] =
    &[NAME, Column::count("Webhooks", "How many webhooks it configures.", "/webhooks"), AGE];
