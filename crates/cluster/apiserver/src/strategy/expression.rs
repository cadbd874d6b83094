//! Expressions of admission policies and match conditions: what they may read, and of which types.

use std::sync::LazyLock;

use berth_cel::{Program, Type, Value};

/// Limit of the variables of a policy: the type of each has the types of all before it.
pub const MAX_VARIABLES: usize = 500;

/// What every expression may read. As kube-apiserver declares it: not all fields of a namespace.
static DECLARED: LazyLock<Vec<(&'static str, Type)>> = LazyLock::new(|| {
    let strings = || Type::list(Type::String);
    let texts = |name: &'static str, fields: &[&'static str]| {
        Type::object(name, fields.iter().map(|field| (*field, Type::String)))
    };
    let kind = texts("kubernetes.GroupVersionKind", &["group", "version", "kind"]);
    let resource = texts("kubernetes.GroupVersionResource", &["group", "version", "resource"]);
    let user = [
        ("username", Type::String),
        ("uid", Type::String),
        ("groups", strings()),
        ("extra", Type::map(Type::String, strings())),
    ];
    let request = [
        ("kind", kind.clone()),
        ("resource", resource.clone()),
        ("subResource", Type::String),
        ("requestKind", kind),
        ("requestResource", resource),
        ("requestSubResource", Type::String),
        ("name", Type::String),
        ("namespace", Type::String),
        ("operation", Type::String),
        ("userInfo", Type::object("kubernetes.UserInfo", user)),
        ("dryRun", Type::Bool),
        ("options", Type::Dyn),
    ];
    let labels = || Type::map(Type::String, Type::String);
    let metadata = [
        ("name", Type::String),
        ("generateName", Type::String),
        ("namespace", Type::String),
        ("labels", labels()),
        ("annotations", labels()),
        ("UID", Type::String),
        ("creationTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("deletionTimestamp", Type::Timestamp),
        ("generation", Type::Int),
        ("resourceVersion", Type::String),
        ("finalizers", strings()),
    ];
    let condition = [
        ("status", Type::String),
        ("type", Type::String),
        ("lastTransitionTime", Type::Timestamp),
        ("message", Type::String),
        ("reason", Type::String),
    ];
    let conditions = Type::list(Type::object("kubernetes.NamespaceCondition", condition));
    let status = [("conditions", conditions), ("phase", Type::String)];
    let namespace = [
        ("metadata", Type::object("kubernetes.NamespaceMetadata", metadata)),
        ("spec", Type::object("kubernetes.NamespaceSpec", [("finalizers", strings())])),
        ("status", Type::object("kubernetes.NamespaceStatus", status)),
    ];
    vec![
        ("object", Type::Dyn),
        ("oldObject", Type::Dyn),
        ("namespaceObject", Type::object("kubernetes.Namespace", namespace)),
        ("request", Type::object("kubernetes.AdmissionRequest", request)),
    ]
});

/// The message that a `messageExpression` gives: one line that is not too long.
pub fn evaluated_message(value: &Value) -> Option<String> {
    const MAX_BYTES: usize = 5 << 10;
    let Value::String(text) = value else { return None };
    let text = text.trim();
    let is_shown = !text.is_empty() && text.len() <= MAX_BYTES && !text.contains('\n');
    is_shown.then(|| text.to_owned())
}

/// What the expressions of one policy or webhook may read beyond that.
#[derive(Clone, Debug)]
pub struct Scope {
    has_params: bool,
    /// Whether kube-apiserver has the variable `authorizer` there.
    has_authorizer: bool,
    /// The types of earlier expressions by name: the fields of `variables`.
    variables: Option<Vec<(String, Type)>>,
}

impl Scope {
    pub fn new(has_params: bool) -> Scope {
        Scope { has_params, has_authorizer: true, variables: None }
    }

    pub fn without_authorizer(&self) -> Scope {
        Scope { has_authorizer: false, ..self.clone() }
    }

    /// Reads an expression.
    ///
    /// # Errors
    /// The text is the reason, in the words of kube-apiserver.
    fn compile(&self, text: &str) -> Result<Program, String> {
        let variables = self.variables.clone();
        let declared = DECLARED
            .iter()
            .cloned()
            .chain(self.has_params.then_some(("params", Type::Dyn)))
            .chain(variables.map(|fields| ("variables", Type::object("kubernetes.variables", fields))));
        Program::compile(text, &declared.collect::<Vec<_>>()).map_err(|error| {
            if self.has_authorizer && error.contains("undeclared reference to 'authorizer'") {
                "the variable \"authorizer\" is not supported by this API server; leave it out".to_owned()
            } else {
                error
            }
        })
    }

    /// Reads an expression whose value has one of some types.
    pub fn compile_as(&self, expected: &[Type], text: &str) -> Result<Program, String> {
        let program = self.compile(text)?;
        match (expected, program.result()) {
            (expected, found) if expected.contains(found) => Ok(program),
            ([expected], found) => Err(format!("must evaluate to {expected} but got {found}")),
            (_, found) => Err(format!("must evaluate to one of [string null_type] but got {found}")),
        }
    }

    /// Reads a variable, which the expressions after it may read.
    pub fn declare(&mut self, name: &str, text: &str) -> Result<Program, String> {
        self.variables.get_or_insert_default();
        let program = self.compile(text);
        let result = program.as_ref().map_or(Type::Dyn, |program| field_type(program.result()));
        self.variables.get_or_insert_default().push((name.to_owned(), result));
        program
    }
}

/// The type of a variable whose expression has a type.
fn field_type(result: &Type) -> Type {
    match result {
        Type::List(items) => Type::list(field_type(items)),
        Type::Map(entry) => Type::map(field_type(&entry.0), field_type(&entry.1)),
        Type::Object(_) | Type::Optional(_) | Type::Opaque(_) | Type::Meta(_) => Type::Dyn,
        other => other.clone(),
    }
}
