//! ValidatingAdmissionPolicies, MutatingAdmissionPolicies and their bindings: stored, not evaluated.

use crate::strategy::typed::Typed;
use berth_schema::resource::{
    MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS, Resource, VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
};
use serde_json::Value;

use crate::table::columns::{AGE, Column, NAME, Printer};
use crate::table::row::{Row, UNSET};

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

const PARAM_KIND: Column = Column::text("ParamKind", "Kind of the parameters.");

pub static VALIDATING_COLUMNS: Printer = Printer::new(
    &[NAME, Column::integer("Validations", "How many validations it has."), PARAM_KIND, AGE],
    |row| vec![row.name(), row.count("/spec/validations").into(), param_kind(row), row.age()],
);

pub static MUTATING_COLUMNS: Printer = Printer::new(
    &[NAME, Column::integer("Mutations", "How many mutations it has."), PARAM_KIND, AGE],
    |row| vec![row.name(), row.count("/spec/mutations").into(), param_kind(row), row.age()],
);

pub static BINDING_COLUMNS: Printer = Printer::new(
    &[
        NAME,
        Column::text("PolicyName", "The policy it binds."),
        Column::text("ParamRef", "The object with the parameters."),
        AGE,
    ],
    |row| {
        let name = row.text("/spec/paramRef/name");
        let reference = match (row.text("/spec/paramRef/namespace"), name) {
            (Some(namespace), Some(name)) => format!("{namespace}/{name}"),
            (None, Some(name)) => name.to_owned(),
            _ if row.at("/spec/paramRef/selector").is_some() => "*".to_owned(),
            _ => UNSET.to_owned(),
        };
        vec![row.name(), row.text_or("/spec/policyName", ""), reference.into(), row.age()]
    },
);

fn param_kind(row: &Row<'_>) -> Value {
    match (row.text("/spec/paramKind/apiVersion"), row.text("/spec/paramKind/kind")) {
        (Some(api_version), Some(kind)) => format!("{api_version}/{kind}").into(),
        _ => UNSET.into(),
    }
}
