//! Conditions over JSON, as policies and definitions state them.

use crate::{Program, Type, Value};

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
            Type::Bool => Ok(Expression { program }),
            other => Err(format!("must evaluate to bool but got {other}")),
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
