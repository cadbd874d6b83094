//! Expressions of the Common Expression Language with the functions of Kubernetes 1.36.
//!
//! An expression is parsed (`lexer`, `parser`, `macros`), checked (`check`, with the types of `types` and the functions
//! of `library`), and evaluated (`eval`). Results, errors and costs are those of cel-go, which kube-apiserver and
//! kube-scheduler use. Nothing here trusts an expression: the depth of trees, the sizes of types, and the steps, texts
//! and costs of an evaluation have limits.

mod budget;
mod check;
mod declare;
mod eval;
mod issue;
mod lexer;
mod library;
mod macros;
mod parser;
mod tree;
mod types;
mod value;

use budget::Budget;
use declare::Failure;
use issue::{Issue, show_issues};
use tree::Tree;
pub(crate) use types::{ObjectType, Type};
pub(crate) use value::{Key, Map, Value};

pub(crate) use library::semver::Semver;

/// Limit of the bytes of an expression.
pub const MAX_BYTES: usize = 10 << 10;
/// Limit of the cost of an evaluation, in the units of cel-go.
pub const MAX_COST: u64 = 1_000_000;

/// A checked expression.
#[derive(Debug)]
pub(crate) struct Program {
    tree: Tree,
    prepared: eval::Prepared,
    result: Type,
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
        let result = checked.types[tree.root].clone();
        Ok(Program { prepared: eval::Prepared::new(&tree), result, tree })
    }

    /// The type of the values.
    pub fn result(&self) -> &Type {
        &self.result
    }

    /// The value with these variables.
    ///
    /// # Errors
    /// The reason, as cel-go words it.
    pub fn evaluate(&self, variables: &[(&str, Value)]) -> Result<Value, String> {
        let mut budget = Budget::new(MAX_COST);
        eval::evaluate(&self.tree, &self.prepared, variables, &mut budget).map_err(|failure| match failure {
            Failure::Error(text) => text.into_owned(),
            Failure::Cancelled => "operation cancelled: actual cost limit exceeded".to_owned(),
        })
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
        Ok(Expression { program })
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
mod tests;
