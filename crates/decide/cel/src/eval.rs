//! Evaluation of checked expressions.

use std::sync::Arc;

use crate::budget::{Budget, Failure};
use crate::check::named_type;
use crate::declare::overloads;
use crate::function::{Outcome, Overload};
use crate::library::operators::{find, insert, mismatch};
use crate::library::regex;
use crate::tree::{ACCUMULATOR, Fold, Id, Kind, Tree};
use crate::value::{Key, Map, Value};

/// Limit of the depth of an evaluation. It can be deeper than the tree, because variables are evaluated where they are
/// used first.
const MAX_DEPTH: usize = 400;

/// What is prepared for the evaluations of a node.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The value, if the node is a literal, or a list of literals.
    constant: Option<Value>,
    /// The regular expression of a call, if it is a literal.
    pattern: Option<regex::Pattern>,
    /// All overloads of the function of a call.
    overloads: &'static [Overload],
}

/// Prepares the evaluations of all nodes.
pub(crate) fn prepare(tree: &Tree) -> Vec<Prepared> {
    let mut nodes: Vec<Prepared> = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        let mut prepared = Prepared::default();
        match &node.kind {
            Kind::Literal(value) => prepared.constant = Some(value.clone()),
            Kind::List(elements) => {
                let constant =
                    |(id, is_optional): &(Id, bool)| nodes[*id].constant.clone().filter(|_| !is_optional);
                prepared.constant =
                    elements.iter().map(constant).collect::<Option<Vec<_>>>().map(Value::list);
            }
            Kind::Call { function, arguments, .. } => {
                prepared.overloads = overloads(function).unwrap_or_default();
                if let ("matches" | "find" | "findAll", Some(pattern)) = (&**function, arguments.get(1))
                    && let Kind::Literal(Value::String(pattern)) = tree.kind(*pattern)
                {
                    prepared.pattern = regex::Pattern::new(pattern).ok();
                }
            }
            _ => {}
        }
        nodes.push(prepared);
    }
    nodes
}

/// Gives the fields of the variable `variables` when they are read: the value of a name. An evaluation for it begins at the depth that it
/// is given.
pub type CompositedVariables<'a> = &'a dyn Fn(&str, usize) -> Result<Value, String>;

const COMPOSITED: &str = "variables";
/// Levels of a tree whose evaluation takes as much of the stack as an evaluation that begins.
const LEVELS_OF_VARIABLE: usize = 4;

pub(crate) fn evaluate(
    tree: &Tree,
    prepared: &[Prepared],
    variables: &[(&str, Value)],
    composited: (usize, Option<CompositedVariables<'_>>),
    budget: &mut Budget,
) -> Outcome {
    let (depth, composited) = composited;
    let scope = variables.iter().map(|(name, value)| (*name, Slot::Known(Ok(value.clone())))).collect();
    Evaluation { tree, prepared, scope, composited, budget, depth }.value(tree.root)
}

enum Slot {
    Known(Outcome),
    /// Not used yet.
    Unknown(Id),
}

struct Evaluation<'a> {
    tree: &'a Tree,
    prepared: &'a [Prepared],
    scope: Vec<(&'a str, Slot)>,
    composited: Option<CompositedVariables<'a>>,
    budget: &'a mut Budget,
    depth: usize,
}

impl<'a> Evaluation<'a> {
    fn value(&mut self, id: Id) -> Outcome {
        if let Some(constant) = &self.prepared[id].constant {
            return Ok(constant.clone());
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Failure::Cancelled);
        }
        let tree = self.tree;
        let outcome = match tree.kind(id) {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Ident(name) => self.ident(name),
            Kind::Select { operand, field, test } => self.select(*operand, field, *test),
            Kind::Call { function, arguments, .. } => self.call(id, function, arguments),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Bind { variable, init, result } => {
                // As much as the loop costs that the reference makes of it.
                self.budget.charge(10)?;
                self.scope.push((&**variable, Slot::Unknown(*init)));
                let outcome = self.value(*result);
                self.scope.pop();
                outcome
            }
            Kind::Fold(fold) => self.fold(fold),
        };
        self.depth -= 1;
        outcome
    }

    fn ident(&mut self, name: &str) -> Outcome {
        self.budget.charge(1)?;
        let Some(position) = self.scope.iter().rposition(|(other, _)| *other == name) else {
            return match named_type(name) {
                Some(named) => Ok(Value::Type(named)),
                None => Err(format!("no such variable: {name}").into()),
            };
        };
        match &self.scope[position].1 {
            Slot::Known(outcome) => outcome.clone(),
            Slot::Unknown(init) => {
                let init = *init;
                let inner = self.scope.split_off(position);
                let outcome = self.value(init);
                self.scope.extend(inner);
                self.scope[position].1 = Slot::Known(outcome.clone());
                outcome
            }
        }
    }

    fn select(&mut self, operand: Id, field: &Arc<str>, test: bool) -> Outcome {
        if let (Some(composited), Kind::Ident(name)) = (self.composited, self.tree.kind(operand))
            && &**name == COMPOSITED
            && !self.scope.iter().any(|(local, _)| *local == COMPOSITED)
        {
            // As much as the variable and its field cost.
            self.budget.charge(1 + u64::from(!test))?;
            return if test {
                Ok(Value::Bool(true))
            } else {
                Ok(composited(field, self.depth + LEVELS_OF_VARIABLE)?)
            };
        }
        let operand = self.value(operand)?;
        let key = Value::String(field.clone());
        if test {
            let found = match &operand {
                Value::Optional(inner) => match inner {
                    Some(inner) => find(inner, &key)?,
                    None => None,
                },
                operand => find(operand, &key)?,
            };
            return Ok(Value::Bool(found.is_some()));
        }
        self.budget.charge(1)?;
        if let Value::Optional(inner) = &operand {
            let found = inner.as_ref().map_or(Ok(None), |inner| find(inner, &key))?;
            return Ok(Value::Optional(found.map(Arc::new)));
        }
        find(&operand, &key)?.ok_or_else(|| format!("no such key: {field}").into())
    }

    fn call(&mut self, id: Id, function: &str, arguments: &[Id]) -> Outcome {
        match (function, arguments) {
            ("_&&_", [left, right]) => return self.logical(*left, *right, false),
            ("_||_", [left, right]) => return self.logical(*left, *right, true),
            ("_?_:_", [condition, then, otherwise]) => {
                return match self.value(*condition)? {
                    Value::Bool(true) => self.value(*then),
                    Value::Bool(false) => self.value(*otherwise),
                    _ => Err("no such overload".into()),
                };
            }
            ("@not_strictly_false", [condition]) => {
                let condition = self.value(*condition);
                self.budget.charge(1)?;
                return match condition {
                    Err(Failure::Cancelled) => Err(Failure::Cancelled),
                    Ok(Value::Bool(value)) => Ok(Value::Bool(value)),
                    _ => Ok(Value::Bool(true)),
                };
            }
            ("or" | "orValue", [target, other]) => {
                let target = self.value(*target)?;
                self.budget.charge(1)?;
                return match target {
                    Value::Optional(None) => self.value(*other),
                    Value::Optional(Some(_)) if function == "or" => Ok(target),
                    Value::Optional(Some(inner)) => Ok((*inner).clone()),
                    _ => Err("no such overload".into()),
                };
            }
            ("_+_" | "cel.@mapInsert", [so_far, more @ ..]) if self.is_accumulator(*so_far) => {
                return self.accumulate(id, function, more);
            }
            _ => {}
        }
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.value(*argument)?);
        }
        self.apply(id, function, &values)
    }

    /// The value of a function that needs all its arguments.
    fn apply(&mut self, id: Id, function: &str, values: &[Value]) -> Outcome {
        let fits = |overload: &&Overload| {
            overload.parameters.len() == values.len()
                && overload
                    .parameters
                    .iter()
                    .zip(values)
                    .all(|(parameter, value)| parameter.accepts(value.type_name()))
        };
        let Some(overload) = self.prepared[id].overloads.iter().find(fits) else {
            self.budget.charge(1)?;
            // A function with a known pattern checks its argument itself.
            return match self.prepared[id].pattern {
                Some(_) => Err("no such overload".into()),
                None => Err(mismatch(function, values)),
            };
        };
        let sizes: Vec<u64> = values.iter().map(Value::size).collect();
        self.budget.charge(overload.cost.of(&sizes))?;
        match &self.prepared[id].pattern {
            Some(pattern) => pattern.apply(function, values, self.budget),
            None => (overload.function)(values, self.budget),
        }
    }

    /// `&&`, which is decided by false, or `||`, which is decided by true, whatever the other operand is.
    fn logical(&mut self, left: Id, right: Id, decides: bool) -> Outcome {
        let left = self.value(left);
        match &left {
            Ok(Value::Bool(value)) if *value == decides => return left,
            Err(Failure::Cancelled) => return left,
            _ => {}
        }
        match (left, self.value(right)) {
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(decides)),
            (_, Err(Failure::Cancelled)) => Err(Failure::Cancelled),
            (Ok(Value::Bool(_)), Ok(Value::Bool(right))) => Ok(Value::Bool(right)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Err("no such overload".into()),
        }
    }

    fn is_accumulator(&self, id: Id) -> bool {
        matches!(self.tree.kind(id), Kind::Ident(name) if &**name == ACCUMULATOR)
    }

    /// Adds to what a loop has so far; lists and maps are not copied.
    fn accumulate(&mut self, id: Id, function: &str, more: &[Id]) -> Outcome {
        let mut values = vec![Value::Null];
        for more in more {
            values.push(self.value(*more)?);
        }
        self.budget.charge(1)?;
        let position = self.scope.iter().rposition(|(name, _)| *name == ACCUMULATOR);
        let position = position.ok_or("no such variable")?;
        let Slot::Known(so_far) =
            std::mem::replace(&mut self.scope[position].1, Slot::Known(Ok(Value::Null)))
        else {
            return Err("no such variable".into());
        };
        match (so_far?, &values[1..]) {
            (Value::List(mut list), [Value::List(more)]) => {
                self.budget.charge(1)?;
                self.budget.make_elements(more.len())?;
                Arc::make_mut(&mut list).extend(more.iter().cloned());
                Ok(Value::List(list))
            }
            (Value::Map(mut map), more) if function == "cel.@mapInsert" => {
                self.budget.charge(1)?;
                insert(Arc::make_mut(&mut map), more, self.budget)?;
                Ok(Value::Map(map))
            }
            (so_far, _) => {
                values[0] = so_far;
                self.apply(id, function, &values)
            }
        }
    }

    fn list(&mut self, elements: &[(Id, bool)]) -> Outcome {
        let mut list = Vec::with_capacity(elements.len());
        for (element, is_optional) in elements {
            match self.value(*element)? {
                Value::Optional(inner) if *is_optional => list.extend(inner.map(|inner| (*inner).clone())),
                value => list.push(value),
            }
        }
        self.budget.charge(10)?;
        Ok(Value::list(list))
    }

    fn map(&mut self, entries: &[(Id, Id, bool)]) -> Outcome {
        let mut map = Map::default();
        for (key, value, is_optional) in entries {
            let key = self.value(*key)?;
            let value = match self.value(*value)? {
                Value::Optional(None) if *is_optional => continue,
                Value::Optional(Some(inner)) if *is_optional => (*inner).clone(),
                value => value,
            };
            let Some(key) = Key::of(&key) else {
                return Err(format!("unsupported key type: {}", key.type_name()).into());
            };
            map.entries.insert(key, value);
        }
        self.budget.charge(30)?;
        Ok(Value::Map(Arc::new(map)))
    }

    fn fold(&mut self, fold: &'a Fold) -> Outcome {
        let range = self.value(fold.range)?;
        let init = self.value(fold.init);
        let depth = self.scope.len();
        self.scope.push((ACCUMULATOR, Slot::Known(init)));
        let ended = match &range {
            Value::List(list) => list.iter().enumerate().try_for_each(|(position, value)| {
                self.round(fold, depth, Value::Int(position as i64), value.clone(), true)
            }),
            Value::Map(map) => map
                .entries
                .iter()
                .try_for_each(|(key, value)| self.round(fold, depth, key.value(), value.clone(), false)),
            other => {
                Err(Some(format!("got '{}', expected iterable type", other.implementation_name()).into()))
            }
        };
        self.scope.truncate(depth + 1);
        let outcome = match ended {
            Err(Some(failure)) => Err(failure),
            _ => self.value(fold.result),
        };
        self.scope.truncate(depth);
        outcome
    }

    /// One element of a loop. An error without a failure ends the loop.
    fn round(
        &mut self,
        fold: &'a Fold,
        depth: usize,
        key: Value,
        value: Value,
        is_list: bool,
    ) -> Result<(), Option<Failure>> {
        self.scope.truncate(depth + 1);
        match &fold.second {
            Some(second) => {
                self.scope.push((&fold.variable, Slot::Known(Ok(key))));
                self.scope.push((second, Slot::Known(Ok(value))));
            }
            None => self.scope.push((&fold.variable, Slot::Known(Ok(if is_list { value } else { key })))),
        }
        if let Value::Bool(false) = self.value(fold.condition)? {
            return Err(None);
        }
        let outcome = self.value(fold.step);
        if let Err(Failure::Cancelled) = outcome {
            return Err(Some(Failure::Cancelled));
        }
        self.scope[depth].1 = Slot::Known(outcome);
        Ok(())
    }
}
