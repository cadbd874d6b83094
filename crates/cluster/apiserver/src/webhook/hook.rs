//! One webhook and the requests that it matches.

use std::time::Duration;

use serde_json::Value;

use super::criteria::{MatchConditions, MatchCriteria, inputs};
use super::{AdmissionAttributes, Denied, ServedForm};
use crate::request::Reason;
use crate::strategy::expression::Scope;
use crate::strategy::webhook_check::{REVIEW_VERSIONS, certificates};

#[derive(Clone, Debug)]
pub struct Hook {
    pub(super) name: String,
    /// Name of its configuration, and its index there.
    pub(super) id: (String, usize),
    pub(super) target: Target,
    /// Trusted CA certificates (DER); empty for the system's CAs.
    pub(super) roots: Vec<Vec<u8>>,
    pub(super) timeout: Duration,
    /// Whether a request is refused if the call fails (`failurePolicy: Fail`).
    pub(super) fail: bool,
    pub(super) dry_run: bool,
    /// Whether it is called again if later webhooks change the object (`reinvocationPolicy`).
    pub(super) reinvoke: bool,
    /// The version of the reviews that it is sent; `None` if it accepts no supported one.
    pub(super) review_version: Option<&'static str>,
    pub criteria: MatchCriteria,
    conditions: MatchConditions,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Url(String),
    Service { namespace: String, name: String, port: u16, path: String },
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    value[field].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

impl Hook {
    /// The webhooks of a stored configuration, in order. A malformed webhook, which is not stored, matches nothing.
    pub fn of(configuration: &Value) -> Vec<Hook> {
        let name = configuration["metadata"]["name"].as_str().unwrap_or_default();
        let webhooks = configuration["webhooks"].as_array().map_or(&[][..], Vec::as_slice);
        webhooks
            .iter()
            .enumerate()
            .filter_map(|(at, webhook)| Hook::read(webhook, (name.to_owned(), at)))
            .collect()
    }

    fn read(webhook: &Value, id: (String, usize)) -> Option<Hook> {
        let client = &webhook["clientConfig"];
        let service = &client["service"];
        let target = match client["url"].as_str() {
            Some(url) => Target::Url(url.to_owned()),
            None => Target::Service {
                namespace: text(service, "namespace"),
                name: text(service, "name"),
                port: service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                path: text(service, "path"),
            },
        };
        Some(Hook {
            name: text(webhook, "name"),
            id,
            target,
            roots: certificates(&text(client, "caBundle"))?,
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10).clamp(1, 30)),
            fail: webhook["failurePolicy"] != "Ignore",
            dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            reinvoke: webhook["reinvocationPolicy"] == "IfNeeded",
            review_version: texts(webhook, "admissionReviewVersions")
                .iter()
                .find_map(|version| REVIEW_VERSIONS.into_iter().find(|supported| supported == version)),
            criteria: MatchCriteria::of_webhook(webhook)?,
            conditions: MatchConditions::read(webhook, &Scope::new(false)),
        })
    }

    /// Whether the webhook is called for a request that it matches.
    pub(super) fn conditions_hold(
        &self,
        attributes: &AdmissionAttributes<'_>,
        form: &ServedForm,
        object: Option<&Value>,
    ) -> Result<bool, Denied> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        self.conditions.hold(&inputs(attributes, form, object)).map_err(|errors| {
            let (group, _, plural) = attributes.form.resource;
            let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
            let message = format!("{resource} {:?} is forbidden: {errors}", attributes.name);
            Denied { code: 403, reason: Reason::Forbidden, message }
        })
    }
}
