//! A checked expression, which evaluates and estimates.

use crate::budget::{Budget, Failure};
use crate::issue::{Issue, show_issues};
use crate::tree::{Kind, Tree};
use crate::{CompositedVariables, LargestSize, Type, Value, check, estimate, eval, parser};

/// Limit of the bytes of an expression.
const MAX_BYTES: usize = 100 << 10;
/// Limit of the cost of an evaluation, in the units of cel-go.
pub const MAX_COST: u64 = 1_000_000;

#[derive(Debug)]
pub struct Program {
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
    pub fn estimated_cost(&self, largest_size: LargestSize<'_>) -> u64 {
        estimate::estimate(&self.tree, &self.checked, largest_size)
    }

    /// Whether the expression names a variable.
    pub fn uses(&self, variable: &str) -> bool {
        self.tree.nodes.iter().any(|node| matches!(&node.kind, Kind::Ident(name) if &**name == variable))
    }

    /// The value with these variables, or the reason why there is none as cel-go words it, and the cost.
    pub fn evaluate(&self, variables: &[(&str, Value)]) -> (Result<Value, String>, u64) {
        self.evaluate_composited(variables, (0, None))
    }

    /// The same at a depth of another evaluation, with variables that are evaluated when they are read.
    pub fn evaluate_composited(
        &self,
        variables: &[(&str, Value)],
        composited: (usize, Option<CompositedVariables<'_>>),
    ) -> (Result<Value, String>, u64) {
        let mut budget = Budget::new(MAX_COST, u64::MAX);
        let outcome = eval::evaluate(&self.tree, &self.prepared, variables, composited, &mut budget);
        (outcome.map_err(reason), budget.cost())
    }

    /// The value, if the evaluation takes no more than what is allowed, and what it took.
    pub fn evaluate_within(
        &self,
        variables: &[(&str, Value)],
        allowed: u64,
    ) -> (Option<Result<Value, String>>, Budget) {
        let mut budget = Budget::new(MAX_COST, allowed);
        let outcome = eval::evaluate(&self.tree, &self.prepared, variables, (0, None), &mut budget);
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
