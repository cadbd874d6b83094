//! Types of all parts of an expression, as cel-go's checker finds them.

use std::fmt::Write;
use std::sync::Arc;

use crate::declare::overloads;
use crate::function::Overload;
use crate::issue::Issue;
use crate::library::{regex, time};
use crate::tree::{ACCUMULATOR, Fold, Id, Kind, Tree};
use crate::types::{Substitution, TooComplex, Type};
use crate::value::Value;

/// What the checker finds, by node.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    pub types: Vec<Type>,
    /// The overloads that a call may be of.
    pub overloads: Vec<Vec<&'static Overload>>,
}

/// Names of types, which are values as well.
const TYPE_NAMES: [(&str, Type); 10] = [
    ("bool", Type::Bool),
    ("bytes", Type::Bytes),
    ("double", Type::Double),
    ("int", Type::Int),
    ("null_type", Type::Null),
    ("string", Type::String),
    ("uint", Type::Uint),
    ("list", Type::Dyn),
    ("map", Type::Dyn),
    ("type", Type::Dyn),
];

pub(crate) fn named_type(name: &str) -> Option<Type> {
    match name {
        "list" => Some(Type::list(Type::Dyn)),
        "map" => Some(Type::map(Type::Dyn, Type::Dyn)),
        "type" => Some(Type::type_of(Type::Dyn)),
        _ => TYPE_NAMES.iter().find(|(other, _)| *other == name).map(|(_, t)| t.clone()),
    }
}

pub(crate) fn check(tree: &Tree, variables: &[(&str, Type)]) -> Result<Checked, Vec<Issue>> {
    let mut checker = Checker {
        tree,
        substitution: Substitution::new(),
        scope: variables.iter().map(|(name, t)| (Arc::from(*name), t.clone())).collect(),
        checked: Checked {
            types: vec![Type::Error; tree.nodes.len()],
            overloads: tree.nodes.iter().map(|_| Vec::new()).collect(),
        },
        issues: Vec::new(),
    };
    let result = checker.check(tree.root).and_then(|()| {
        let types = std::mem::take(&mut checker.checked.types);
        types.iter().map(|t| checker.substitution.resolve(t, true)).collect::<Result<Vec<_>, _>>()
    });
    match result {
        Ok(types) if checker.issues.is_empty() => Ok(Checked { types, ..checker.checked }),
        Ok(_) => Err(checker.issues),
        Err(TooComplex) => Err(vec![Issue::new(0, "the types of the expression are too complex")]),
    }
}

struct Checker<'a> {
    tree: &'a Tree,
    substitution: Substitution,
    scope: Vec<(Arc<str>, Type)>,
    checked: Checked,
    issues: Vec<Issue>,
}

type Checks<T = ()> = Result<T, TooComplex>;

impl Checker<'_> {
    fn report(&mut self, id: Id, message: String) {
        self.issues.push(Issue::new(self.tree.nodes[id].offset, message));
    }

    fn type_of(&self, id: Id) -> Type {
        self.checked.types[id].clone()
    }

    /// Checks a node and those below it.
    fn check(&mut self, id: Id) -> Checks {
        let tree = self.tree;
        let found = match tree.kind(id) {
            Kind::Literal(value) => value.value_type(),
            Kind::Ident(name) => self.ident(id, name),
            Kind::Select { operand, field, test } => {
                self.check(*operand)?;
                let found = self.select(id, *operand, field, false)?;
                if *test { Type::Bool } else { found }
            }
            Kind::Call { function, is_method, arguments } => {
                self.call(id, function, *is_method, arguments)?
            }
            Kind::List(elements) => {
                let mut joined = None;
                for (element, is_optional) in elements {
                    let element_type = self.element(*element, *is_optional)?;
                    joined = Some(self.join(*element, joined, element_type)?);
                }
                Type::list(joined.unwrap_or_else(|| self.substitution.parameter()))
            }
            Kind::Map(entries) => {
                let (mut keys, mut values) = (None, None);
                for (key, value, is_optional) in entries {
                    self.check(*key)?;
                    keys = Some(self.join(*key, keys, self.type_of(*key))?);
                    let value_type = self.element(*value, *is_optional)?;
                    values = Some(self.join(*value, values, value_type)?);
                }
                let keys = keys.unwrap_or_else(|| self.substitution.parameter());
                Type::map(keys, values.unwrap_or_else(|| self.substitution.parameter()))
            }
            Kind::Bind { variable, init, result } => {
                self.check(*init)?;
                let init = self.type_of(*init);
                self.within(vec![(variable.clone(), init)], |this| this.check(*result))?;
                self.type_of(*result)
            }
            Kind::Fold(fold) => self.fold(fold)?,
        };
        // Also limits the size of types.
        self.checked.types[id] = self.substitution.resolve(&found, false)?;
        Ok(())
    }

    fn within(
        &mut self,
        variables: Vec<(Arc<str>, Type)>,
        check: impl FnOnce(&mut Self) -> Checks,
    ) -> Checks {
        let before = self.scope.len();
        self.scope.extend(variables);
        let result = check(self);
        self.scope.truncate(before);
        result
    }

    fn ident(&mut self, id: Id, name: &str) -> Type {
        if let Some((_, found)) = self.scope.iter().rev().find(|(other, _)| &**other == name) {
            return found.clone();
        }
        if let Some(named) = named_type(name) {
            return Type::type_of(named);
        }
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    /// The type of an element; that of an optional one is unwrapped.
    fn element(&mut self, id: Id, is_optional: bool) -> Checks<Type> {
        self.check(id)?;
        match self.type_of(id) {
            Type::Optional(inner) if is_optional => Ok((*inner).clone()),
            other => {
                if is_optional && !other.is_dyn() {
                    self.mismatch(id, &Type::optional(other.clone()), &other);
                }
                Ok(other)
            }
        }
    }

    fn mismatch(&mut self, id: Id, expected: &Type, found: &Type) {
        let message = format!("expected type '{}' but found '{}'", shown(expected), shown(found));
        self.report(id, message);
    }

    fn join(&mut self, id: Id, joined: Option<Type>, next: Type) -> Checks<Type> {
        let Some(joined) = joined else { return Ok(next) };
        if self.substitution.assignable(&joined, &next)? {
            return self.substitution.most_general(joined, next);
        }
        self.mismatch(id, &joined, &next);
        Ok(joined)
    }

    fn select(&mut self, id: Id, operand: Id, field: &str, is_optional: bool) -> Checks<Type> {
        let operand_type = self.type_of(operand);
        let (target, was_optional) = match operand_type {
            Type::Optional(inner) => ((*inner).clone(), true),
            other => (other, false),
        };
        let found = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(field) => field.clone(),
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, &target)?;
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                self.report(id, format!("type '{}' does not support field selection", shown(other)));
                Type::Dyn
            }
        };
        Ok(if was_optional || is_optional { Type::optional(found) } else { found })
    }

    fn call(&mut self, id: Id, function: &str, is_method: bool, arguments: &[Id]) -> Checks<Type> {
        for argument in arguments {
            self.check(*argument)?;
        }
        if function == "_?._" {
            let field = arguments.get(1).map(|name| self.tree.kind(*name));
            let Some(Kind::Literal(Value::String(field))) = field else {
                return Ok(Type::Error);
            };
            let found = self.select(id, arguments[0], field, true)?;
            self.checked.overloads[id] = overloads(function).into_iter().flatten().collect();
            return Ok(found);
        }
        self.literal_argument(function, is_method, arguments);
        let Some(all) = overloads(function) else {
            self.report(id, format!("undeclared reference to '{function}' (in container '')"));
            return Ok(Type::Error);
        };
        let types: Vec<_> = arguments.iter().map(|argument| self.type_of(*argument)).collect();
        if matches!(function, "_&&_" | "_||_") {
            for (argument, found) in arguments.iter().zip(&types) {
                if !self.substitution.assignable(found, &Type::Bool)? {
                    self.mismatch(*argument, &Type::Bool, found);
                }
            }
            self.checked.overloads[id] = all.iter().collect();
            return Ok(Type::Bool);
        }
        let (mut candidates, mut result) = (Vec::new(), None);
        for overload in all.iter().filter(|overload| overload.is_method == is_method) {
            let fresh: Vec<_> =
                (0..overload.n_type_parameters).map(|_| self.substitution.parameter()).collect();
            let parameters: Vec<_> =
                overload.parameters.iter().map(|parameter| instantiate(parameter, &fresh)).collect();
            if !self.substitution.all_assignable(&types, &parameters)? {
                continue;
            }
            candidates.push(overload);
            let found = self.substitution.resolve(&instantiate(&overload.result, &fresh), false)?;
            result = match result {
                Some(earlier) if earlier != found => Some(Type::Dyn),
                _ => Some(found),
            };
        }
        self.checked.overloads[id] = candidates;
        match result {
            Some(result) => Ok(result),
            None => {
                self.no_overload(id, function, is_method, &types)?;
                Ok(Type::Error)
            }
        }
    }

    /// Literals that a function cannot read are reported.
    fn literal_argument(&mut self, function: &str, is_method: bool, arguments: &[Id]) {
        let argument = match function {
            "matches" | "find" | "findAll" => arguments.get(1),
            "duration" | "timestamp" if !is_method => arguments.first(),
            _ => None,
        };
        let literal = argument.map(|argument| (*argument, self.tree.kind(*argument)));
        let Some((argument, Kind::Literal(Value::String(text)))) = literal else { return };
        let is_valid = match function {
            "duration" => time::parse_duration(text).is_some(),
            "timestamp" => time::parse_timestamp(text).is_some(),
            _ => regex::Pattern::new(text).is_ok(),
        };
        if !is_valid {
            self.report(argument, format!("invalid {function} argument"));
        }
    }

    fn no_overload(&mut self, id: Id, function: &str, is_method: bool, types: &[Type]) -> Checks {
        let mut names = Vec::new();
        for t in types {
            names.push(shown(&self.substitution.resolve(t, true)?));
        }
        let applied = match names.split_first() {
            Some((target, rest)) if is_method => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", names.join(", ")),
        };
        self.report(id, format!("found no matching overload for '{function}' applied to '{applied}'"));
        Ok(())
    }

    fn fold(&mut self, fold: &Fold) -> Checks<Type> {
        self.check(fold.range)?;
        self.check(fold.init)?;
        let range = self.type_of(fold.range);
        let (key, value) = match &range {
            Type::List(element) => (Type::Int, (**element).clone()),
            Type::Map(entry) => entry.as_ref().clone(),
            Type::Dyn | Type::Error => (Type::Dyn, Type::Dyn),
            Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, &range)?;
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    shown(other)
                );
                self.report(fold.range, message);
                (Type::Error, Type::Error)
            }
        };
        let is_list = matches!(range, Type::List(_));
        let mut variables = match &fold.second {
            Some(second) => vec![(fold.variable.clone(), key), (second.clone(), value)],
            None => vec![(fold.variable.clone(), if is_list { value } else { key })],
        };
        let accumulated = self.type_of(fold.init);
        let accumulator = (Arc::from(ACCUMULATOR), accumulated.clone());
        variables.insert(0, accumulator.clone());
        self.within(variables, |this| {
            this.check(fold.condition)?;
            this.assert(fold.condition, &Type::Bool)?;
            this.check(fold.step)?;
            this.assert(fold.step, &accumulated)
        })?;
        self.within(vec![accumulator], |this| this.check(fold.result))?;
        Ok(self.type_of(fold.result))
    }

    fn assert(&mut self, id: Id, expected: &Type) -> Checks {
        let found = self.type_of(id);
        if !self.substitution.assignable(expected, &found)? {
            let (expected, found) =
                (self.substitution.resolve(expected, true)?, self.substitution.resolve(&found, true)?);
            self.mismatch(id, &expected, &found);
        }
        Ok(())
    }
}

fn instantiate(t: &Type, parameters: &[Type]) -> Type {
    match t {
        Type::Param(parameter) => parameters[*parameter].clone(),
        Type::List(inner) => Type::list(instantiate(inner, parameters)),
        Type::Optional(inner) => Type::optional(instantiate(inner, parameters)),
        Type::Meta(inner) => Type::type_of(instantiate(inner, parameters)),
        Type::Map(entry) => Type::map(instantiate(&entry.0, parameters), instantiate(&entry.1, parameters)),
        other => other.clone(),
    }
}

/// A type in a message. Long ones are cut.
pub(crate) fn shown(t: &Type) -> String {
    struct Short(String);
    impl Write for Short {
        fn write_str(&mut self, part: &str) -> std::fmt::Result {
            self.0.push_str(part);
            if self.0.len() > 300 { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut text = Short(String::new());
    if write!(text, "{t}").is_err() {
        text.0.push_str("...");
    }
    text.0
}
