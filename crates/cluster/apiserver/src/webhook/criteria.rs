//! The requests that a webhook, a policy or a binding is for: rules, selectors and conditions.

use std::sync::Arc;

use berth_cel::{Program, Type, Value as CelValue};
use berth_rules::Selector;
use serde_json::Value;

use super::{AdmissionAttributes, ServedForm, review};
use crate::strategy::expression::Scope;
use crate::strategy::fields::{items, text};
use crate::strategy::webhook_check::selector;

const NAMESPACE: (&str, &str, &str) = ("", "v1", "Namespace");
/// Limit of the cost of all conditions.
const MAX_COST: u64 = 2_500_000;

#[derive(Clone, Debug)]
pub struct MatchCriteria {
    /// Whether it matches only the resources that its rules name (`matchPolicy: Exact`).
    exact: bool,
    /// `None` if it matches every resource.
    rules: Option<Vec<Rule>>,
    excluded: Vec<Rule>,
    namespaces: Selector,
    objects: Selector,
}

#[derive(Clone, Debug)]
struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    resources: Vec<String>,
    scope: String,
    /// Empty for all names.
    names: Vec<String>,
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    items(value, field).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn rules(value: &Value, field: &str) -> Vec<Rule> {
    let rule = |rule: &Value| Rule {
        operations: texts(rule, "operations"),
        groups: texts(rule, "apiGroups"),
        versions: texts(rule, "apiVersions"),
        resources: texts(rule, "resources"),
        scope: text(rule, "/scope").to_owned(),
        names: texts(rule, "resourceNames"),
    };
    items(value, field).iter().map(rule).collect()
}

impl MatchCriteria {
    /// Those of a webhook; `None` if they are malformed.
    pub fn of_webhook(webhook: &Value) -> Option<MatchCriteria> {
        Some(MatchCriteria { rules: Some(rules(webhook, "rules")), ..MatchCriteria::of_resources(webhook)? })
    }

    /// The `MatchResources` of a policy or a binding; `None` if they are malformed.
    pub fn of_resources(value: &Value) -> Option<MatchCriteria> {
        Some(MatchCriteria {
            exact: value["matchPolicy"] == "Exact",
            rules: Some(rules(value, "resourceRules")).filter(|rules| !rules.is_empty()),
            excluded: rules(value, "excludeResourceRules"),
            namespaces: selector(&value["namespaceSelector"])?,
            objects: selector(&value["objectSelector"])?,
        })
    }

    /// The form in which such requests are reviewed, regardless of the object.
    pub fn wants<'a>(&self, attributes: &'a AdmissionAttributes<'_>) -> Option<&'a ServedForm> {
        let found = |rules: &[Rule]| {
            let equivalent = attributes.equivalent.iter().filter(|_| !self.exact);
            let mut forms = std::iter::once(&attributes.form).chain(equivalent);
            forms.find(|form| rules.iter().any(|rule| rule.matches(attributes, form)))
        };
        if found(&self.excluded).is_some() {
            return None;
        }
        self.rules.as_deref().map_or(Some(&attributes.form), found)
    }

    /// The form in which a request is reviewed; `None` if it does not match. `object` is the object after the request.
    pub fn matches<'a>(
        &self,
        attributes: &'a AdmissionAttributes<'_>,
        object: Option<&Value>,
    ) -> Option<&'a ServedForm> {
        let form = self.wants(attributes)?;
        let is_namespace = attributes.form.kind == NAMESPACE;
        let own = object.or(attributes.old_object);
        let namespace = if is_namespace { own } else { attributes.namespace_object };
        let of_namespace = attributes.namespace.is_empty() && !is_namespace;
        let selects =
            |selector: &Selector, of: &Value| selector.matches(|key| of["metadata"]["labels"][key].as_str());
        let objects = [object, attributes.old_object].into_iter().flatten();
        let selected = (of_namespace || selects(&self.namespaces, namespace.unwrap_or(&Value::Null)))
            && (self.objects.is_everything()
                || objects.into_iter().any(|object| selects(&self.objects, object)));
        selected.then_some(form)
    }
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
            && (self.names.is_empty() || self.names.iter().any(|name| name == attributes.name))
            && self.resources.iter().any(|resource| {
                let (wanted, sub) = resource.split_once('/').unwrap_or((resource, ""));
                let sub_fits = sub == attributes.subresource || (sub == "*" && resource.contains('/'));
                (wanted == "*" || wanted == plural) && sub_fits
            })
    }
}

/// Variables with their values.
pub type Inputs = Vec<(&'static str, CelValue)>;

/// What expressions read of a request, but the namespace and parameters.
pub fn inputs(attributes: &AdmissionAttributes<'_>, form: &ServedForm, object: Option<&Value>) -> Inputs {
    let shown =
        |object: Option<&Value>| object.map_or(CelValue::Null, |object| CelValue::from(&*form.shown(object)));
    let request = review::request("", attributes, form, None);
    vec![
        ("object", shown(object)),
        ("oldObject", shown(attributes.old_object)),
        ("request", CelValue::from(&request)),
    ]
}

/// An expression with its text. What does not compile was stored by an earlier version of this program.
#[derive(Debug)]
pub struct Expression {
    pub text: String,
    pub program: Result<Program, String>,
}

impl Expression {
    pub fn new(text: &str, compile: impl FnOnce(&str) -> Result<Program, String>) -> Expression {
        Expression { program: compile(text), text: text.to_owned() }
    }

    /// An error as kube-apiserver words it.
    pub fn failed(&self, error: &str) -> String {
        format!("expression '{}' resulted in error: {error}", self.text)
    }
}

pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// The `matchConditions` of a webhook or a policy.
#[derive(Clone, Debug)]
pub struct MatchConditions {
    conditions: Arc<[Expression]>,
    /// Whether what cannot be evaluated is an error (`failurePolicy: Fail`).
    fail: bool,
}

impl MatchConditions {
    pub fn read(of: &Value, scope: &Scope) -> MatchConditions {
        let compiled = |condition: &Value| {
            Expression::new(text(condition, "/expression").trim(), |text| {
                scope.compile_as(&[Type::Bool], text)
            })
        };
        MatchConditions {
            conditions: items(of, "matchConditions").iter().map(compiled).collect(),
            fail: of["failurePolicy"] != "Ignore",
        }
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether no condition is false. Those that cannot be evaluated count as the failure policy says.
    pub fn hold(&self, inputs: &[(&'static str, CelValue)]) -> Result<bool, String> {
        let mut inputs = inputs.to_vec();
        // kube-apiserver gives conditions no namespace.
        inputs.push(("namespaceObject", CelValue::Null));
        let (mut errors, mut left) = (Vec::new(), MAX_COST);
        for condition in &*self.conditions {
            let (value, cost) = match &condition.program {
                Ok(program) => program.evaluate(&inputs),
                Err(error) => (Err(error.clone()), 0),
            };
            let Some(rest) = left.checked_sub(cost) else {
                errors = vec![OUT_OF_BUDGET.to_owned()];
                break;
            };
            left = rest;
            match value {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(error) => errors.push(condition.failed(&error)),
            }
        }
        match errors.as_slice() {
            [] => Ok(true),
            _ if !self.fail => Ok(false),
            [error] => Err(error.clone()),
            errors => Err(format!("[{}]", errors.join(", "))),
        }
    }
}
