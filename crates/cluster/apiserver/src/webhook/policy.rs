//! ValidatingAdmissionPolicies: what their expressions say about a request, with the parameters that bindings name.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use berth_cel::{Program, Type, Value as CelValue};
use serde_json::Value;

use super::criteria::{Expression, Inputs, MatchConditions, MatchCriteria, OUT_OF_BUDGET, inputs};
use super::{AdmissionAttributes, ServedForm};
use crate::request::Reason;
use crate::strategy::expression::{MAX_VARIABLES, Scope, evaluated_message};
use crate::strategy::fields::{items, text};

/// Limit of the cost of a policy with one binding and one object of parameters.
const MAX_COST: u64 = 10_000_000;
/// Limit of the cost of all policies for a request. kube-apiserver has none.
const MAX_REQUEST_COST: u64 = 20_000_000;

/// A policy that has bindings.
#[derive(Debug)]
pub struct Policy {
    name: String,
    /// Whether a request is refused if the policy cannot be evaluated (`failurePolicy: Fail`).
    fail: bool,
    pub criteria: MatchCriteria,
    conditions: MatchConditions,
    param_kind: Option<ParamKind>,
    variables: HashMap<String, Result<Program, String>>,
    validations: Vec<Validation>,
    audit_annotations: Vec<Expression>,
    bindings: Vec<Binding>,
}

#[derive(Debug)]
pub struct ParamKind {
    pub api_version: String,
    pub kind: String,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: Reason,
}

#[derive(Debug)]
struct Binding {
    name: String,
    warns: bool,
    denies: bool,
    /// `None` for every request that the policy matches.
    criteria: Option<MatchCriteria>,
    param_ref: Option<Value>,
}

/// A policy refuses a request.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub message: String,
    pub reason: Reason,
}

/// Why there are no parameters.
pub enum ParamError {
    /// The policy names a kind that is not served: version and kind.
    UnknownKind(String),
    Reference(&'static str),
}

/// Finds the parameters that a `paramRef` names, for a request in a namespace.
pub type FindParams<'a> =
    &'a (dyn Fn(&ParamKind, Option<&Value>, &str) -> Result<Vec<Value>, ParamError> + Sync);

/// Something wrong with a request, in the words of an expression or its author.
type Problem = (String, Reason);

impl Policy {
    /// The policies that have bindings. Malformed ones, which are not stored, match nothing.
    pub fn all(policies: &[Value], bindings: &[Value]) -> Vec<Policy> {
        let mut by_policy: HashMap<&str, Vec<Binding>> = HashMap::new();
        for binding in bindings {
            by_policy.entry(text(binding, "/spec/policyName")).or_default().extend(Binding::read(binding));
        }
        let bound = policies
            .iter()
            .filter_map(|policy| Some((policy, by_policy.remove(text(policy, "/metadata/name"))?)));
        bound.filter_map(|(policy, bindings)| Policy::read(policy, bindings)).collect()
    }

    fn read(policy: &Value, bindings: Vec<Binding>) -> Option<Policy> {
        let spec = &policy["spec"];
        let param_kind = spec["paramKind"].is_object().then(|| ParamKind {
            api_version: text(spec, "/paramKind/apiVersion").to_owned(),
            kind: text(spec, "/paramKind/kind").to_owned(),
        });
        let mut scope = Scope::new(param_kind.is_some());
        let conditions = MatchConditions::read(spec, &scope);
        let declared = items(spec, "variables").iter().take(MAX_VARIABLES).map(|variable| {
            let name = text(variable, "/name");
            (name.to_owned(), scope.declare(name, text(variable, "/expression")))
        });
        let variables = declared.collect();
        let compiled =
            |text: &str, expected: &[Type]| Expression::new(text, |text| scope.compile_as(expected, text));
        let validation = |validation: &Value| Validation {
            expression: compiled(text(validation, "/expression"), &[Type::Bool]),
            message: text(validation, "/message").trim().to_owned(),
            message_expression: Some(text(validation, "/messageExpression"))
                .filter(|text| !text.is_empty())
                .map(|text| compiled(text, &[Type::String])),
            reason: match text(validation, "/reason") {
                "" => Reason::Invalid,
                reason => Reason::named(reason),
            },
        };
        let annotation =
            |annotation: &Value| compiled(text(annotation, "/valueExpression"), &[Type::String, Type::Null]);
        let validations = items(spec, "validations").iter().map(validation).collect();
        let audit_annotations = items(spec, "auditAnnotations").iter().map(annotation).collect();
        Some(Policy {
            name: text(policy, "/metadata/name").to_owned(),
            fail: spec["failurePolicy"] != "Ignore",
            criteria: MatchCriteria::of_resources(&spec["matchConstraints"])?,
            conditions,
            param_kind,
            variables,
            validations,
            audit_annotations,
            bindings,
        })
    }

    /// What is wrong with a request whose variables are given, and the cost of finding out.
    fn problems(&self, inputs: &Inputs) -> (Vec<Problem>, u64) {
        let failed = |message: String| match self.fail {
            true => vec![(message, Reason::Invalid)],
            false => Vec::new(),
        };
        match self.conditions.hold(&inputs[..]) {
            Ok(true) => {}
            Ok(false) => return (Vec::new(), 0),
            Err(errors) => return (failed(errors), 0),
        }
        let evaluation =
            Evaluation { policy: self, inputs, known: RefCell::default(), cost: Cell::default() };
        let mut problems = Vec::new();
        for validation in &self.validations {
            let outcome = evaluation.value(&validation.expression);
            if evaluation.cost.get() > MAX_COST {
                return (failed(OUT_OF_BUDGET.to_owned()), MAX_COST);
            }
            match outcome {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => problems.push((validation.message(&evaluation), validation.reason)),
                Err(error) => problems.extend(failed(error)),
            }
        }
        (problems, evaluation.cost.get())
    }

    /// What of the audit annotations cannot be evaluated. There is no audit log to write their values to.
    fn annotation_problems(&self, inputs: &Inputs) -> (Vec<Problem>, u64) {
        let evaluation =
            Evaluation { policy: self, inputs, known: RefCell::default(), cost: Cell::default() };
        let annotations = self.audit_annotations.iter().filter(|_| self.fail);
        let errors = annotations.map_while(|annotation| {
            (evaluation.cost.get() < MAX_COST).then(|| evaluation.value(annotation).err())
        });
        let problems = errors.flatten().map(|error| (error, Reason::Invalid)).collect();
        (problems, evaluation.cost.get())
    }
}

impl Binding {
    fn read(binding: &Value) -> Option<Binding> {
        let spec = &binding["spec"];
        let has = |action: &str| items(spec, "validationActions").iter().any(|other| other == action);
        let criteria = match &spec["matchResources"] {
            Value::Null => None,
            resources => Some(MatchCriteria::of_resources(resources)?),
        };
        Some(Binding {
            name: text(binding, "/metadata/name").to_owned(),
            warns: has("Warn"),
            denies: has("Deny"),
            criteria,
            param_ref: Some(spec["paramRef"].clone()).filter(Value::is_object),
        })
    }
}

impl Validation {
    /// The message of an expression that is false: one line of what the other expression says, or what the policy says.
    fn message(&self, evaluation: &Evaluation<'_>) -> String {
        let evaluated = self
            .message_expression
            .as_ref()
            .and_then(|expression| evaluated_message(&evaluation.value(expression).ok()?));
        let fixed = || Some(self.message.clone()).filter(|message| !message.is_empty());
        let of_expression = || format!("failed expression: {}", self.expression.text.trim());
        evaluated.or_else(fixed).unwrap_or_else(of_expression)
    }
}

/// The evaluation of a policy's expressions for a request. Each variable is evaluated when it is read first.
struct Evaluation<'a> {
    policy: &'a Policy,
    inputs: &'a Inputs,
    known: RefCell<HashMap<String, Result<CelValue, String>>>,
    cost: Cell<u64>,
}

impl Evaluation<'_> {
    fn value(&self, expression: &Expression) -> Result<CelValue, String> {
        let program = expression.program.as_ref().map_err(|error| format!("compilation error: {error}"))?;
        self.run(program, 0).map_err(|error| expression.failed(&error))
    }

    fn run(&self, program: &Program, depth: usize) -> Result<CelValue, String> {
        let variable = |name: &str, depth: usize| self.variable(name, depth);
        let (value, cost) = program.evaluate_composited(self.inputs, (depth, Some(&variable)));
        self.cost.set(self.cost.get().saturating_add(cost));
        value
    }

    fn variable(&self, name: &str, depth: usize) -> Result<CelValue, String> {
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone();
        }
        // Of two variables with one name, the second one may read itself.
        let of_itself = Err(format!("composited variable {name:?} fails to evaluate: it reads itself"));
        self.known.borrow_mut().insert(name.to_owned(), of_itself);
        let value = match self.policy.variables.get(name) {
            Some(Ok(program)) => self
                .run(program, depth)
                .map_err(|error| format!("composited variable {name:?} fails to evaluate: {error}")),
            Some(Err(error)) => Err(format!("composited variable {name:?} fails to compile: {error}")),
            None => Err(format!("no such key: {name}")),
        };
        self.known.borrow_mut().insert(name.to_owned(), value.clone());
        value
    }
}

/// Evaluates the policies that match a request. Adds the problems of bindings that warn to `warnings`.
///
/// # Errors
/// The first problem of a binding that denies.
pub async fn validate(
    policies: &[Policy],
    attributes: &AdmissionAttributes<'_>,
    object: Option<&Value>,
    params: FindParams<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), Refusal> {
    let mut refusal = None;
    let mut left = MAX_REQUEST_COST;
    // The same for all policies that want the same form.
    let mut known: Option<(&ServedForm, Inputs)> = None;
    for policy in policies {
        let Some(form) = policy.criteria.matches(attributes, object) else { continue };
        for binding in &policy.bindings {
            let matches = |criteria: &MatchCriteria| criteria.matches(attributes, object).is_some();
            if !binding.criteria.as_ref().is_none_or(matches) {
                continue;
            }
            let title =
                || format!("ValidatingAdmissionPolicy '{}' with binding '{}'", policy.name, binding.name);
            let mut deny = |(problem, reason): Problem| {
                let message = format!("{} denied request: {problem}", title());
                refusal.get_or_insert(Refusal { message, reason });
            };
            let found = match &policy.param_kind {
                Some(kind) => params(kind, binding.param_ref.as_ref(), attributes.namespace),
                None => Ok(vec![Value::Null]),
            };
            let found = match found {
                Ok(found) => found,
                Err(_) if !policy.fail => continue,
                Err(ParamError::Reference(why)) => {
                    deny((format!("failed to configure binding: {why}"), Reason::Invalid));
                    continue;
                }
                Err(ParamError::UnknownKind(kind)) => {
                    let message = format!(
                        "ValidatingAdmissionPolicy '{}' denied request: failed to configure policy: failed to find \
                         resource referenced by paramKind: '{kind}'",
                        policy.name
                    );
                    refusal.get_or_insert(Refusal { message, reason: Reason::Invalid });
                    break;
                }
            };
            if !known.as_ref().is_some_and(|(of, _)| std::ptr::eq(*of, form)) {
                let mut values = inputs(attributes, form, object);
                let namespace = attributes.namespace_object.map_or(CelValue::Null, CelValue::from);
                values.push(("namespaceObject", namespace));
                known = Some((form, values));
            }
            for params in &found {
                let Some((_, values)) = &mut known else { continue };
                values.push(("params", params.into()));
                let (problems, cost) = policy.problems(values);
                let (errors, more) = policy.annotation_problems(values);
                values.pop();
                let Some(rest) = left.checked_sub(cost + more) else {
                    deny((OUT_OF_BUDGET.to_owned(), Reason::Invalid));
                    break;
                };
                left = rest;
                if binding.warns {
                    let warning =
                        |(problem, _): &Problem| format!("Validation failed for {}: {problem}", title());
                    warnings.extend(problems.iter().map(warning));
                }
                let denied = problems.into_iter().filter(|_| binding.denies).chain(errors);
                denied.for_each(&mut deny);
                // An evaluation may take long: others go on in between.
                tokio::task::yield_now().await;
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}
