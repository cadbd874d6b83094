//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings. Those that mutate are stored, not evaluated.

use berth_api::syntax;
use berth_cel::Type;
use berth_schema::resource::{
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, Resource, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
};

use crate::kinds::prelude::*;
use crate::strategy::expression::{MAX_VARIABLES, Scope};
use crate::strategy::webhook_check::{check_conditions, check_rule};

const POLICIES: &[&str] = &["Fail", "Ignore"];
const MAX_ANNOTATIONS: usize = 20;
const MAX_ANNOTATION_BYTES: usize = 5 << 10;

/// The rules of policies and bindings.
const fn typed(resource: &'static Resource) -> Typed {
    Typed {
        defaults: &[
            ("MatchResources", "matchPolicy", r#""Equivalent""#),
            ("MatchResources", "namespaceSelector", "{}"),
            ("MatchResources", "objectSelector", "{}"),
            ("MutatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
            ("NamedRuleWithOperations", "scope", r#""*""#),
            ("ValidatingAdmissionPolicySpec", "failurePolicy", r#""Fail""#),
        ],
        enums: &[
            ("MatchResources", "matchPolicy", &["Equivalent", "Exact"]),
            ("MutatingAdmissionPolicySpec", "failurePolicy", POLICIES),
            ("MutatingAdmissionPolicySpec", "reinvocationPolicy", &["IfNeeded", "Never"]),
            ("Mutation", "patchType", &["ApplyConfiguration", "JSONPatch"]),
            ("NamedRuleWithOperations", "operations", &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"]),
            ("NamedRuleWithOperations", "scope", &["*", "Cluster", "Namespaced"]),
            ("ParamRef", "parameterNotFoundAction", &["Allow", "Deny"]),
        ],
        not_empty: &[
            ("MutatingAdmissionPolicySpec", "mutations"),
            ("NamedRuleWithOperations", "apiGroups"),
            ("NamedRuleWithOperations", "apiVersions"),
            ("NamedRuleWithOperations", "operations"),
            ("NamedRuleWithOperations", "resources"),
        ],
        is_evaluated: false,
        ..Typed::new(resource)
    }
}

pub static VALIDATING: Typed = Typed {
    check: check_policy,
    spec: BY_CHECK,
    is_evaluated: true,
    ..typed(&VALIDATING_ADMISSION_POLICIES)
};
pub static VALIDATING_BINDING: Typed = Typed {
    check: check_binding,
    spec: BY_CHECK,
    is_evaluated: true,
    ..typed(&VALIDATING_ADMISSION_POLICY_BINDINGS)
};
pub static MUTATING: Typed = typed(&MUTATING_ADMISSION_POLICIES);
pub static MUTATING_BINDING: Typed = typed(&MUTATING_ADMISSION_POLICY_BINDINGS);

fn check_policy(policy: &Value, causes: &mut Causes) {
    let spec = &policy["spec"];
    let has_params = !spec["paramKind"].is_null();
    if !spec["failurePolicy"].is_null() {
        causes.one_of("spec.failurePolicy", &spec["failurePolicy"], POLICIES);
    }
    if has_params {
        check_param_kind("spec.paramKind", &spec["paramKind"], causes);
    }
    if spec["matchConstraints"].is_null() {
        causes.required("spec.matchConstraints", "");
    } else {
        check_resources("spec.matchConstraints", &spec["matchConstraints"], causes);
        if items(&spec["matchConstraints"], "resourceRules").is_empty() {
            causes.required("spec.matchConstraints.resourceRules", "");
        }
    }
    check_conditions("spec.matchConditions", spec, has_params, causes);
    let mut scope = Scope::new(has_params);
    for (i, variable) in
        limited(&spec["variables"], "spec.variables", MAX_VARIABLES, causes).iter().enumerate()
    {
        let (path, name) = (format!("spec.variables[{i}]"), text(variable, "/name"));
        if name.trim().is_empty() {
            causes.required(&format!("{path}.name"), "name is not specified");
        } else if !berth_cel::is_identifier(name) {
            causes.invalid(&format!("{path}.name"), &name.into(), "must be a valid CEL identifier");
        }
        let declare = |expression: &str| scope.declare(name, expression).err();
        check_expression(&format!("{path}.expression"), &variable["expression"], declare, causes);
    }
    let (validations, annotations) = (items(spec, "validations"), items(spec, "auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        causes.required("spec.validations", why);
        causes.required("spec.auditAnnotations", why);
    }
    for (i, validation) in validations.iter().enumerate() {
        check_validation(&format!("spec.validations[{i}]"), validation, &scope, causes);
    }
    if annotations.len() > MAX_ANNOTATIONS {
        let why = format!("must not have more than {MAX_ANNOTATIONS} auditAnnotations");
        return causes.invalid("spec.auditAnnotations", &spec["auditAnnotations"], &why);
    }
    let again = repeated(annotations.iter().map(|annotation| &annotation["key"]));
    for (i, annotation) in annotations.iter().enumerate() {
        let (path, key) = (format!("spec.auditAnnotations[{i}]"), text(annotation, "/key"));
        let qualified = format!("{}/{key}", name(policy));
        match name(policy) {
            "" => {
                let why = "requires metadata.name be non-empty";
                causes.invalid(&format!("{path}.key"), &annotation["key"], why);
            }
            _ => {
                let problems = syntax::label_key(&qualified);
                causes.problems(&format!("{path}.key"), &qualified.into(), problems);
            }
        }
        let (path_of_value, value) =
            (format!("{path}.valueExpression"), text(annotation, "/valueExpression"));
        let problem = |text: &str| scope.compile_as(&[Type::String, Type::Null], text.trim()).err();
        match value.trim() {
            "" => causes.required(&path_of_value, "valueExpression is not specified"),
            text if text.len() > MAX_ANNOTATION_BYTES => {
                let why = format!("must not exceed {MAX_ANNOTATION_BYTES} bytes in length");
                causes.required(&path_of_value, &why);
            }
            _ => check_expression(&path_of_value, &value.into(), problem, causes),
        }
        if again.contains(&i) {
            causes.duplicate(&format!("{path}.key"), &annotation["key"]);
        }
    }
}

fn check_expression(
    path: &str,
    expression: &Value,
    problem: impl FnOnce(&str) -> Option<String>,
    causes: &mut Causes,
) {
    match text(expression, "") {
        text if text.trim().is_empty() => causes.required(path, "expression is not specified"),
        text => problem(text).iter().for_each(|why| causes.invalid(path, expression, why)),
    }
}

fn check_validation(path: &str, validation: &Value, scope: &Scope, causes: &mut Causes) {
    let at = |field: &str| format!("{path}.{field}");
    let problem = |text: &str| scope.compile_as(&[Type::Bool], text).err();
    check_expression(&at("expression"), &validation["expression"], problem, causes);
    let (message, of_message) = (&validation["message"], &validation["messageExpression"]);
    let empty = "must be non-empty if specified";
    match text(of_message, "") {
        "" => {}
        text if text.trim().is_empty() => causes.invalid(&at("messageExpression"), of_message, empty),
        text => {
            if let Err(why) = scope.without_authorizer().compile_as(&[Type::String], text) {
                causes.invalid(&at("messageExpression"), of_message, &why);
            }
        }
    }
    match text(message, "") {
        "" => {}
        text if text.trim().is_empty() => causes.invalid(&at("message"), message, empty),
        text if text.trim().contains(['\n', '\r']) => {
            causes.invalid(&at("message"), message, "must not contain line breaks");
        }
        _ => {}
    }
    if !validation["reason"].is_null() {
        let reasons = &["Forbidden", "Invalid", "RequestEntityTooLarge"];
        causes.one_of(&at("reason"), &validation["reason"], reasons);
    }
}

fn check_param_kind(path: &str, param_kind: &Value, causes: &mut Causes) {
    let (path_of_version, version) = (format!("{path}.apiVersion"), text(param_kind, "/apiVersion"));
    match version.split('/').collect::<Vec<_>>()[..] {
        [""] => causes.required(&path_of_version, ""),
        [version] => causes.problems(&path_of_version, &version.into(), syntax::dns_1035_label(version)),
        [group, version] => {
            let problems = syntax::dns_subdomain(group);
            if !group.is_empty() && !problems.is_empty() {
                causes.invalid(&path_of_version, &group.into(), &problems.join(","));
            }
            match version {
                "" => {
                    causes.invalid(&path_of_version, &param_kind["apiVersion"], "version must be specified")
                }
                _ => causes.problems(&path_of_version, &version.into(), syntax::dns_1035_label(version)),
            }
        }
        _ => {
            let why = format!("unexpected GroupVersion string: {version}");
            causes.invalid(&path_of_version, &version.into(), &why);
        }
    }
    let (path, kind) = (format!("{path}.kind"), text(param_kind, "/kind"));
    let problems = syntax::dns_1035_label(&kind.to_ascii_lowercase());
    if kind.is_empty() {
        causes.required(&path, "");
    } else if !problems.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
        causes.invalid(&path, &kind.into(), &why);
    }
}

/// Checks `MatchResources` of a policy or a binding.
fn check_resources(path: &str, resources: &Value, causes: &mut Causes) {
    causes.one_of(&format!("{path}.matchPolicy"), &resources["matchPolicy"], &["Equivalent", "Exact"]);
    for field in ["namespaceSelector", "objectSelector"] {
        validate_label_selector(&format!("{path}.{field}"), &resources[field], causes);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in items(resources, field).iter().enumerate() {
            let path = format!("{path}.{field}[{i}]");
            let again = repeated(items(rule, "resourceNames"));
            for (j, name) in items(rule, "resourceNames").iter().enumerate() {
                let path = format!("{path}.resourceNames[{j}]");
                causes.problems(&path, name, syntax::path_segment(text(name, "")));
                if again.contains(&j) {
                    causes.duplicate(&path, name);
                }
            }
            check_rule(&path, rule, causes);
        }
    }
}

fn check_binding(binding: &Value, causes: &mut Causes) {
    let spec = &binding["spec"];
    match text(spec, "/policyName") {
        "" => causes.required("spec.policyName", ""),
        policy => causes.problems("spec.policyName", &policy.into(), syntax::dns_subdomain(policy)),
    }
    let (param_ref, path) = (&spec["paramRef"], "spec.paramRef");
    if !param_ref.is_null() {
        let (name, has_selector) = (text(param_ref, "/name"), !param_ref["selector"].is_null());
        let both = "name and selector are mutually exclusive";
        if !name.is_empty() {
            causes.problems(&format!("{path}.name"), &name.into(), syntax::path_segment(name));
            if has_selector {
                causes.forbidden(&format!("{path}.name"), both);
            }
        }
        validate_label_selector(&format!("{path}.selector"), &param_ref["selector"], causes);
        match (name.is_empty(), has_selector) {
            (false, true) => causes.forbidden(&format!("{path}.selector"), both),
            (true, false) => causes.required(path, "one of name or selector must be specified"),
            _ => {}
        }
        let (path, action) =
            (format!("{path}.parameterNotFoundAction"), &param_ref["parameterNotFoundAction"]);
        match text(action, "") {
            "" => causes.required(&path, ""),
            _ => causes.one_of(&path, action, &["Deny", "Allow"]),
        }
    }
    if !spec["matchResources"].is_null() {
        check_resources("spec.matchResources", &spec["matchResources"], causes);
    }
    let (path, actions) = ("spec.validationActions", items(spec, "validationActions"));
    let again = repeated(actions);
    for (i, action) in actions.iter().enumerate() {
        let path = format!("{path}[{i}]");
        causes.one_of(&path, action, &["Audit", "Deny", "Warn"]);
        if again.contains(&i) {
            causes.duplicate(&path, action);
        }
    }
    if ["Deny", "Warn"].iter().all(|wanted| actions.iter().any(|action| action == wanted)) {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API \
                   response and headers serves no purpose)";
        causes.invalid(path, &spec["validationActions"], why);
    }
    if actions.is_empty() {
        causes.required(path, "");
    }
}

const PARAM_KIND: Column = Column::text("ParamKind", "Kind of the parameters.", |row| {
    match (row.text("/spec/paramKind/apiVersion"), row.text("/spec/paramKind/kind")) {
        (Some(api_version), Some(kind)) => format!("{api_version}/{kind}").into(),
        _ => UNSET.into(),
    }
});

pub const VALIDATING_COLUMNS: &[Column] = &[
    NAME,
    Column::count("Validations", "How many validations it has.", "/spec/validations"),
    PARAM_KIND,
    AGE,
];

pub const MUTATING_COLUMNS: &[Column] =
    &[NAME, Column::count("Mutations", "How many mutations it has.", "/spec/mutations"), PARAM_KIND, AGE];

pub const BINDING_COLUMNS: &[Column] = &[
    NAME,
    Column::field("PolicyName", "The policy it binds.", "/spec/policyName"),
    Column::text("ParamRef", "The object with the parameters.", |row| {
        match (row.text("/spec/paramRef/namespace"), row.text("/spec/paramRef/name")) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}").into(),
            (None, Some(name)) => name.into(),
            _ if row.at("/spec/paramRef/selector").is_some() => "*".into(),
            _ => UNSET.into(),
        }
    }),
    AGE,
];
