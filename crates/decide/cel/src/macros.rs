//! Macros: calls that stand for loops and bindings.

use std::sync::Arc;

use crate::issue::Issue;
use crate::tree::{ACCUMULATOR, Fold, Id, Kind, Tree};
use crate::value::Value;

/// Expands a call without a target; none if it is no macro.
pub(crate) fn expand_function(
    tree: &mut Tree,
    offset: usize,
    name: &str,
    arguments: &[Id],
) -> Result<Option<Id>, Issue> {
    let ("has", [argument]) = (name, arguments) else { return Ok(None) };
    match tree.kind(*argument) {
        Kind::Select { operand, field, test: false } => {
            let kind = Kind::Select { operand: *operand, field: field.clone(), test: true };
            Ok(Some(tree.add(offset, kind)))
        }
        _ => Err(Issue::new(tree.nodes[*argument].offset, "invalid argument to has() macro")),
    }
}

/// Name of the target of a macro that uses it twice. No text of an expression can have it.
const TARGET: &str = "@target";

/// Namespaces of functions.
const LIBRARIES: [&str; 6] = ["cel", "format", "ip", "optional", "sets", "strings"];

/// The namespace that a target is.
pub(crate) fn library(tree: &Tree, target: Id) -> Option<&'static str> {
    let Kind::Ident(name) = tree.kind(target) else { return None };
    LIBRARIES.into_iter().find(|library| *library == &**name)
}

/// Expands a call with a target; none if it is no macro.
pub(crate) fn expand_method(
    tree: &mut Tree,
    offset: usize,
    name: &str,
    target: Id,
    arguments: &[Id],
) -> Result<Option<Id>, Issue> {
    if name == "bind" && library(tree, target) == Some("cel") {
        let [variable, init, result] = *arguments else { return Ok(None) };
        let Kind::Ident(variable) = tree.kind(variable) else {
            let offset = tree.nodes[variable].offset;
            return Err(Issue::new(offset, "cel.bind() variable names must be simple identifiers"));
        };
        let variable = variable.clone();
        return Ok(Some(tree.add(offset, Kind::Bind { variable, init, result })));
    }
    let mut expansion = Expansion { tree, offset, target };
    match (name, arguments) {
        ("all" | "exists" | "exists_one" | "existsOne", [variable, condition]) => {
            let variable = expansion.variable(*variable)?;
            Ok(Some(expansion.quantifier(name, variable, None, *condition)))
        }
        ("all" | "exists" | "exists_one" | "existsOne", [key, value, condition]) => {
            let (key, value) = (expansion.variable(*key)?, expansion.variable(*value)?);
            Ok(Some(expansion.quantifier(name, key, Some(value), *condition)))
        }
        ("map" | "filter", [variable, element]) => {
            let variable = expansion.variable(*variable)?;
            let (element, condition) = match name {
                "map" => (*element, None),
                _ => (expansion.ident(&variable), Some(*element)),
            };
            Ok(Some(expansion.list(variable, None, condition, element)))
        }
        ("map", [variable, condition, element]) => {
            let variable = expansion.variable(*variable)?;
            Ok(Some(expansion.list(variable, None, Some(*condition), *element)))
        }
        ("transformList", [key, value, rest @ .., element]) if rest.len() <= 1 => {
            let (key, value) = (expansion.variable(*key)?, expansion.variable(*value)?);
            Ok(Some(expansion.list(key, Some(value), rest.first().copied(), *element)))
        }
        ("transformMap" | "transformMapEntry", [key, value, rest @ .., entry]) if rest.len() <= 1 => {
            let (key, value) = (expansion.variable(*key)?, expansion.variable(*value)?);
            let is_entry = name == "transformMapEntry";
            Ok(Some(expansion.map(key, value, rest.first().copied(), *entry, is_entry)))
        }
        ("optMap" | "optFlatMap", [variable, result]) => {
            let variable = expansion.variable(*variable)?;
            Ok(Some(expansion.optional(variable, *result, name == "optFlatMap")))
        }
        _ => Ok(None),
    }
}

struct Expansion<'a> {
    tree: &'a mut Tree,
    offset: usize,
    target: Id,
}

impl Expansion<'_> {
    fn variable(&self, argument: Id) -> Result<Arc<str>, Issue> {
        match self.tree.kind(argument) {
            Kind::Ident(name) => Ok(name.clone()),
            _ => Err(Issue::new(self.tree.nodes[argument].offset, "argument must be a simple name")),
        }
    }

    fn add(&mut self, kind: Kind) -> Id {
        self.tree.add(self.offset, kind)
    }

    fn ident(&mut self, name: &str) -> Id {
        self.add(Kind::Ident(name.into()))
    }

    fn literal(&mut self, value: Value) -> Id {
        self.add(Kind::Literal(value))
    }

    fn call(&mut self, function: &str, arguments: Vec<Id>) -> Id {
        self.tree.call(self.offset, function, arguments)
    }

    fn fold(
        &mut self,
        variables: (Arc<str>, Option<Arc<str>>),
        init: Id,
        condition: Option<Id>,
        step: Id,
        result: Option<Id>,
    ) -> Id {
        let condition = condition.unwrap_or_else(|| self.literal(Value::Bool(true)));
        let result = result.unwrap_or_else(|| self.ident(ACCUMULATOR));
        let (variable, second) = variables;
        self.add(Kind::Fold(Box::new(Fold {
            range: self.target,
            variable,
            second,
            init,
            condition,
            step,
            result,
        })))
    }

    fn quantifier(&mut self, name: &str, variable: Arc<str>, second: Option<Arc<str>>, holds: Id) -> Id {
        let so_far = self.ident(ACCUMULATOR);
        let again = self.ident(ACCUMULATOR);
        match name {
            "all" => {
                let condition = self.call("@not_strictly_false", vec![so_far]);
                let step = self.call("_&&_", vec![again, holds]);
                let init = self.literal(Value::Bool(true));
                self.fold((variable, second), init, Some(condition), step, None)
            }
            "exists" => {
                let not = self.call("!_", vec![so_far]);
                let condition = self.call("@not_strictly_false", vec![not]);
                let step = self.call("_||_", vec![again, holds]);
                let init = self.literal(Value::Bool(false));
                self.fold((variable, second), init, Some(condition), step, None)
            }
            _ => {
                let one = self.literal(Value::Int(1));
                let more = self.call("_+_", vec![so_far, one]);
                let step = self.call("_?_:_", vec![holds, more, again]);
                let init = self.literal(Value::Int(0));
                let (count, one) = (self.ident(ACCUMULATOR), self.literal(Value::Int(1)));
                let result = self.call("_==_", vec![count, one]);
                self.fold((variable, second), init, None, step, Some(result))
            }
        }
    }

    /// `step`, where the condition holds.
    fn only_if(&mut self, condition: Option<Id>, step: Id) -> Id {
        match condition {
            None => step,
            Some(condition) => {
                let unchanged = self.ident(ACCUMULATOR);
                self.call("_?_:_", vec![condition, step, unchanged])
            }
        }
    }

    fn list(
        &mut self,
        variable: Arc<str>,
        second: Option<Arc<str>>,
        condition: Option<Id>,
        element: Id,
    ) -> Id {
        let init = self.add(Kind::List(Vec::new()));
        let so_far = self.ident(ACCUMULATOR);
        let more = self.add(Kind::List(vec![(element, false)]));
        let step = self.call("_+_", vec![so_far, more]);
        let step = self.only_if(condition, step);
        self.fold((variable, second), init, None, step, None)
    }

    fn map(
        &mut self,
        key: Arc<str>,
        value: Arc<str>,
        condition: Option<Id>,
        entry: Id,
        is_entry: bool,
    ) -> Id {
        let init = self.add(Kind::Map(Vec::new()));
        let mut arguments = vec![self.ident(ACCUMULATOR)];
        if !is_entry {
            arguments.push(self.ident(&key));
        }
        arguments.push(entry);
        let step = self.call("cel.@mapInsert", arguments);
        let step = self.only_if(condition, step);
        self.fold((key, Some(value)), init, None, step, None)
    }

    fn optional(&mut self, variable: Arc<str>, result: Id, is_optional: bool) -> Id {
        let method = |tree: &mut Tree, offset, function: &str, target| {
            let kind = Kind::Call { function: function.into(), is_method: true, arguments: vec![target] };
            tree.add(offset, kind)
        };
        let first = self.ident(TARGET);
        let has_value = method(self.tree, self.offset, "hasValue", first);
        let second = self.ident(TARGET);
        let init = method(self.tree, self.offset, "value", second);
        let bound = self.add(Kind::Bind { variable, init, result });
        let some = if is_optional { bound } else { self.call("optional.of", vec![bound]) };
        let none = self.call("optional.none", Vec::new());
        let result = self.call("_?_:_", vec![has_value, some, none]);
        self.add(Kind::Bind { variable: TARGET.into(), init: self.target, result })
    }
}
