//! Expressions of the Common Expression Language with the functions of Kubernetes 1.36.
//!
//! An expression is parsed (`lexer`, `parser`, `macros`), checked (`check`, with the types of `types` and the functions
//! of `library`), and evaluated (`eval`); `estimate` bounds the cost beforehand. Results, errors and costs are those of cel-go, which kube-apiserver and
//! kube-scheduler use. Nothing here trusts an expression: the depth of trees, the sizes of types, and the steps, texts
//! and costs of an evaluation have limits.

mod budget;
mod check;
mod declare;
mod estimate;
mod eval;
mod function;
mod issue;
mod lexer;
mod library;
mod macros;
mod opaque;
mod parser;
mod tree;
mod types;
mod value;

use budget::{Budget, Failure};
pub(crate) use estimate::{LargestSize, Step};
use issue::{Issue, show_issues};
use tree::{Kind, Tree};
pub(crate) use types::{ObjectType, Type};
pub(crate) use value::{Key, Map, Value};

pub(crate) use opaque::semver::Semver;

/// Limit of the bytes of an expression.
pub const MAX_BYTES: usize = 10 << 10;
/// Limit of the cost of an evaluation, in the units of cel-go.
pub const MAX_COST: u64 = 1_000_000;

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    tree: Tree,
    checked: check::Checked,
    prepared: Vec<eval::Prepared>,
}

impl Program {
    /// Reads an expression with variables of these types.
    pub fn compile(text: &str, variables: &[(&str, Type)]) -> Result<Program, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("must not be longer than {MAX_BYTES} bytes"));
        }
        let failed =
            |mut issues: Vec<Issue>| format!("compilation failed: {}", show_issues(&mut issues, text));
        let tree = parser::parse(text).map_err(|issue| failed(vec![issue]))?;
        let checked = check::check(&tree, variables).map_err(failed)?;
        Ok(Program { prepared: eval::prepare(&tree), checked, tree })
    }

    /// The type of the values.
    pub fn result(&self) -> &Type {
        &self.checked.types[self.tree.root]
    }

    /// Whether the expression can read a field of a variable.
    pub fn reads(&self, variable: &str, field: &str) -> bool {
        let is_variable = |id: usize| matches!(self.tree.kind(id), Kind::Ident(name) if &**name == variable);
        let nodes = &self.tree.nodes;
        let selected = nodes.iter().filter_map(|node| match &node.kind {
            Kind::Select { operand, field, .. } if is_variable(*operand) => Some(&**field),
            _ => None,
        });
        let n_uses = (0..nodes.len()).filter(|id| is_variable(*id)).count();
        selected.clone().count() < n_uses || selected.into_iter().any(|selected| selected == field)
    }

    /// The highest cost that an evaluation can have with variables of these sizes.
    pub fn estimated_cost(&self, largest_size: LargestSize) -> u64 {
        estimate::estimate(&self.tree, &self.checked, largest_size)
    }

    /// The value with these variables.
    ///
    /// # Errors
    /// The reason, as cel-go words it.
    pub fn evaluate(&self, variables: &[(&str, Value)]) -> Result<Value, String> {
        let mut budget = Budget::new(MAX_COST, u64::MAX);
        eval::evaluate(&self.tree, &self.prepared, variables, &mut budget).map_err(reason)
    }

    /// The value, if the evaluation takes no more than what is allowed, and what it took.
    pub fn evaluate_within(
        &self,
        variables: &[(&str, Value)],
        allowed: u64,
    ) -> (Option<Result<Value, String>>, Budget) {
        let mut budget = Budget::new(MAX_COST, allowed);
        let outcome = eval::evaluate(&self.tree, &self.prepared, variables, &mut budget);
        let is_cut = matches!(outcome, Err(Failure::Cancelled)) && budget.spent() >= allowed;
        ((!is_cut).then(|| outcome.map_err(reason)), budget)
    }
}

fn reason(failure: Failure) -> String {
    match failure {
        Failure::Error(text) => text.into_owned(),
        Failure::Cancelled => "operation cancelled: actual cost limit exceeded".to_owned(),
    }
}

/// A condition about JSON values.
#[derive(Debug)]
pub struct Expression {
    program: Program,
}

impl Expression {
    /// Reads an expression that may use these variables.
    ///
    /// # Errors
    /// It is malformed, too large, or uses another variable; the text is the reason.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Expression, String> {
        let variables: Vec<_> = variables.iter().map(|name| (*name, Type::Dyn)).collect();
        let program = Program::compile(text, &variables).map_err(|error| {
            if error.contains("undeclared reference to 'authorizer'") {
                "the variable \"authorizer\" is not supported by this API server; leave it out".to_owned()
            } else {
                error
            }
        })?;
        match program.result() {
            Type::Bool | Type::Dyn => Ok(Expression { program }),
            _ => Err("must evaluate to bool".to_owned()),
        }
    }

    /// Evaluates a condition.
    ///
    /// # Errors
    /// The evaluation fails or costs too much, or its result is not true or false; the text is the reason.
    pub fn holds(&self, variables: &[(&str, &serde_json::Value)]) -> Result<bool, String> {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        match self.program.evaluate(&variables)? {
            Value::Bool(holds) => Ok(holds),
            _ => Err("must evaluate to bool".to_owned()),
        }
    }
}

#[cfg(test)]
mod library_tests;
#[cfg(test)]
mod tests;
