//! One webhook and the requests that it matches.

use std::sync::Arc;
use std::time::Duration;

use berth_rules::Selector;
use serde_json::Value;

use super::{AdmissionAttributes, Denied, ServedForm, review};
use crate::request::Reason;
use crate::strategy::webhook_check::{REVIEW_VERSIONS, VARIABLES, certificates, selector};
use berth_cel::Expression;

const NAMESPACE: (&str, &str, &str) = ("", "v1", "Namespace");

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
    /// Whether it matches only the resources that its rules name (`matchPolicy: Exact`).
    exact: bool,
    rules: Vec<Rule>,
    /// Names and expressions of the `matchConditions`.
    conditions: Arc<[(String, Result<Expression, String>)]>,
    namespaces: Selector,
    objects: Selector,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Url(String),
    Service { namespace: String, name: String, port: u16, path: String },
}

#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
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
        let rules = webhook["rules"].as_array().into_iter().flatten().map(|rule| Rule {
            operations: texts(rule, "operations"),
            groups: texts(rule, "apiGroups"),
            versions: texts(rule, "apiVersions"),
            resources: texts(rule, "resources"),
            scope: text(rule, "scope"),
        });
        let conditions = webhook["matchConditions"].as_array().into_iter().flatten().map(|condition| {
            let expression = condition["expression"].as_str().unwrap_or_default();
            (text(condition, "name"), Expression::compile(expression, VARIABLES))
        });
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
            exact: webhook["matchPolicy"] == "Exact",
            rules: rules.collect(),
            conditions: conditions.collect(),
            namespaces: selector(&webhook["namespaceSelector"])?,
            objects: selector(&webhook["objectSelector"])?,
        })
    }

    /// The form in which the webhook receives such requests, regardless of the object.
    pub fn wants<'a>(&self, attributes: &'a AdmissionAttributes<'_>) -> Option<&'a ServedForm> {
        let equivalent = attributes.equivalent.iter().filter(|_| !self.exact);
        let forms = std::iter::once(&attributes.form).chain(equivalent);
        forms.into_iter().find(|form| self.rules.iter().any(|rule| rule.matches(attributes, form)))
    }

    /// The form in which the webhook receives a request; `None` if it does not match. `object` is the object
    /// after the request.
    pub(super) fn matches<'a>(
        &self,
        attributes: &'a AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> Option<&'a ServedForm> {
        let form = self.wants(attributes)?;
        let is_namespace = attributes.form.kind == NAMESPACE;
        let own_labels = object.or(attributes.old_object).map(|object| &object["metadata"]["labels"]);
        let namespace_labels = if is_namespace { own_labels } else { attributes.namespace_labels };
        let of_namespace = attributes.namespace.is_empty() && !is_namespace;
        let objects = [object, attributes.old_object].into_iter().flatten();
        let selected = (of_namespace
            || has_labels(&self.namespaces, namespace_labels.unwrap_or(&Value::Null)))
            && (self.objects.is_everything()
                || objects
                    .into_iter()
                    .any(|object| has_labels(&self.objects, &object["metadata"]["labels"])));
        selected.then_some(form)
    }

    /// Whether the webhook is called for a request that it matches: no condition is false. Conditions that cannot be
    /// evaluated count as the failure policy says.
    pub(super) fn conditions_hold(
        &self,
        attributes: &AdmissionAttributes<'_>,
        form: &ServedForm,
        object: Option<&Value>,
    ) -> Result<bool, Denied> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let shown =
            |object: Option<&Value>| object.map_or(Value::Null, |object| form.shown(object).into_owned());
        let (new, old) = (shown(object), shown(attributes.old_object));
        let mut request = review::request("", attributes, form, None);
        if let Some(request) = request.as_object_mut() {
            ["object", "oldObject"].iter().for_each(|field| drop(request.remove(*field)));
        }
        let variables = [("object", &new), ("oldObject", &old), ("request", &request)];
        let mut failed = None;
        for (name, condition) in &*self.conditions {
            match condition.as_ref().map_err(Clone::clone).and_then(|condition| condition.holds(&variables)) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => drop(failed.get_or_insert((name, error))),
            }
        }
        match failed {
            None => Ok(true),
            Some(_) if !self.fail => Ok(false),
            Some((name, error)) => Err(Denied {
                code: 403,
                reason: Reason::Forbidden,
                message: format!(
                    "webhook {:?}: match condition {name:?} cannot be evaluated: {error}",
                    self.name
                ),
            }),
        }
    }
}

fn has_labels(selector: &Selector, labels: &Value) -> bool {
    selector.matches(|key| labels[key].as_str())
}

impl Rule {
    fn matches(&self, attributes: &AdmissionAttributes<'_>, form: &ServedForm) -> bool {
        let (group, version, plural) = form.resource;
        let any = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
        // A namespace is in no namespace, although requests name one.
        let namespaced = !attributes.namespace.is_empty() && form.kind != NAMESPACE;
        let in_scope = match self.scope.as_str() {
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => true,
        };
        in_scope
            && any(&self.operations, attributes.operation.as_str())
            && any(&self.groups, group)
            && any(&self.versions, version)
            && self.resources.iter().any(|resource| {
                let (wanted, sub) = resource.split_once('/').unwrap_or((resource, ""));
                let sub_fits = sub == attributes.subresource || (sub == "*" && resource.contains('/'));
                (wanted == "*" || wanted == plural) && sub_fits
            })
    }
}
