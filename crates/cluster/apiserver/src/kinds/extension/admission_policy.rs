//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings: stored, not evaluated.

use berth_schema::resource::{
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, Resource, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
};

use crate::kinds::prelude::*;

const POLICIES: &[&str] = &["Fail", "Ignore"];

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
            ("ValidatingAdmissionPolicyBindingSpec", "validationActions", &["Audit", "Deny", "Warn"]),
            ("ValidatingAdmissionPolicySpec", "failurePolicy", POLICIES),
        ],
        not_empty: &[
            ("MutatingAdmissionPolicySpec", "mutations"),
            ("NamedRuleWithOperations", "apiGroups"),
            ("NamedRuleWithOperations", "apiVersions"),
            ("NamedRuleWithOperations", "operations"),
            ("NamedRuleWithOperations", "resources"),
            ("ValidatingAdmissionPolicyBindingSpec", "validationActions"),
        ],
        is_evaluated: false,
        ..Typed::new(resource)
    }
}

pub static VALIDATING: Typed = typed(&VALIDATING_ADMISSION_POLICIES);
pub static VALIDATING_BINDING: Typed = typed(&VALIDATING_ADMISSION_POLICY_BINDINGS);
pub static MUTATING: Typed = typed(&MUTATING_ADMISSION_POLICIES);
pub static MUTATING_BINDING: Typed = typed(&MUTATING_ADMISSION_POLICY_BINDINGS);

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
