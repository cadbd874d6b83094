//! The highest cost that an evaluation can have, estimated from the expression alone as cel-go does it.

use std::sync::Arc;

use crate::check::Checked;
use crate::function::{Cost, Overload, scaled};
use crate::tree::{ACCUMULATOR, Fold, Id, Kind, Tree};
use crate::types::Type;
use crate::value::Value;

/// A step from a variable to a part of its value.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The variable, or a field.
    Name(Arc<str>),
    /// Elements of a list.
    Items,
    /// Keys of a map.
    Keys,
    /// Values of a map.
    Values,
    /// Positions in a list.
    Positions,
}

/// The largest size of a part of a variable; none if it is not known.
pub type LargestSize<'a> = &'a dyn Fn(&[Step]) -> Option<u64>;

/// The highest cost of an expression.
pub(crate) fn estimate(tree: &Tree, checked: &Checked, largest_size: LargestSize<'_>) -> u64 {
    let none = || vec![None; tree.nodes.len()];
    let (sizes, entries) = (none(), vec![None; tree.nodes.len()]);
    let paths = vec![Vec::new(); tree.nodes.len()];
    Estimation { tree, checked, largest_size, sizes, entries, paths, locals: Vec::new() }.cost(tree.root)
}

/// Bounds of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size {
    min: u64,
    max: u64,
}

impl Size {
    const UNKNOWN: Size = Size { min: 0, max: u64::MAX };

    fn exactly(size: u64) -> Size {
        Size { min: size, max: size }
    }

    fn up_to(max: u64) -> Size {
        Size { min: 0, max }
    }

    fn plus(self, other: Size) -> Size {
        Size { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Size) -> Size {
        Size { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn union(self, other: Size) -> Size {
        Size { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Sizes of the parts of a list or map.
#[derive(Clone, Copy, Debug)]
struct Entry {
    is_list: bool,
    key: Size,
    value: Size,
}

impl Entry {
    fn union(a: Option<Entry>, b: Option<Entry>) -> Option<Entry> {
        let (a, b) = (a?, b?);
        Some(Entry { is_list: a.is_list, key: a.key.union(b.key), value: a.value.union(b.value) })
    }
}

struct Local {
    name: Arc<str>,
    path: Vec<Step>,
    size: Option<Size>,
    entry: Option<Entry>,
}

struct Estimation<'a> {
    tree: &'a Tree,
    checked: &'a Checked,
    largest_size: LargestSize<'a>,
    sizes: Vec<Option<Size>>,
    entries: Vec<Option<Entry>>,
    paths: Vec<Vec<Step>>,
    locals: Vec<Local>,
}

impl Estimation<'_> {
    fn cost(&mut self, id: Id) -> u64 {
        let tree = self.tree;
        match tree.kind(id) {
            Kind::Literal(_) => 0,
            Kind::Ident(name) => {
                self.paths[id] = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![Step::Name(name.clone())],
                };
                1
            }
            Kind::Select { operand, field, test } => {
                let cost = self.cost(*operand);
                if *test {
                    return cost;
                }
                let is_known = matches!(self.checked.types[*operand], Type::Map(_) | Type::Object(_));
                self.paths[id] = self.path_with(*operand, Step::Name(field.clone()));
                cost.saturating_add(u64::from(is_known))
            }
            Kind::Call { function, arguments, .. } => self.call(id, function, arguments),
            Kind::List(elements) => {
                let mut value = Size { min: if elements.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let mut cost = 10_u64;
                for (element, _) in elements {
                    cost = cost.saturating_add(self.cost(*element));
                    value = value.union(self.size(*element));
                }
                self.entries[id] = Some(Entry { is_list: true, key: Size::exactly(1), value });
                cost
            }
            Kind::Map(entries) => {
                let none = Size { min: if entries.is_empty() { 0 } else { u64::MAX }, max: 0 };
                let (mut keys, mut values) = (none, none);
                let mut cost = 30_u64;
                for (key, value, _) in entries {
                    cost = cost.saturating_add(self.cost(*key)).saturating_add(self.cost(*value));
                    keys = keys.union(self.size(*key));
                    values = values.union(self.size(*value));
                }
                self.entries[id] = Some(Entry { is_list: false, key: keys, value: values });
                cost
            }
            Kind::Bind { variable, init, result } => {
                // The reference makes a loop of it, over an empty list.
                let cost = self.cost(*init).saturating_add(10);
                self.push(variable, *init);
                let cost = cost.saturating_add(self.cost(*result));
                self.locals.pop();
                self.sizes[id] = self.known_size(*result);
                self.entries[id] = self.entry(*result);
                cost
            }
            Kind::Fold(fold) => self.fold(id, fold),
        }
    }

    fn fold(&mut self, id: Id, fold: &Fold) -> u64 {
        let cost = self.cost(fold.range).saturating_add(self.cost(fold.init));
        self.push(&Arc::from(ACCUMULATOR), fold.init);
        let entry = self.entry(fold.range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.types[fold.range], Type::List(_)),
        };
        let (key, value) = if is_list { (Step::Positions, Step::Items) } else { (Step::Keys, Step::Values) };
        let variable = |this: &mut Self, name: &Arc<str>, step: Step| {
            let size = entry.map(|entry| match step {
                Step::Keys | Step::Positions => entry.key,
                _ => entry.value,
            });
            let path = this.path_with(fold.range, step);
            this.locals.push(Local { name: name.clone(), path, size, entry: None });
        };
        match &fold.second {
            Some(second) => {
                variable(self, &fold.variable, key);
                variable(self, second, value);
            }
            None => variable(self, &fold.variable, if is_list { value } else { key }),
        }
        let round = self.cost(fold.condition).saturating_add(self.cost(fold.step));
        self.locals.truncate(self.locals.len() - 1 - usize::from(fold.second.is_some()));
        let cost = cost.saturating_add(self.cost(fold.result));
        self.locals.pop();
        let rounds = self.size(fold.range);
        match self.tree.kind(fold.init) {
            Kind::Literal(_) => self.sizes[id] = self.known_size(fold.init),
            Kind::List(_) | Kind::Map(_) => {
                self.sizes[id] = Some(rounds);
                self.entries[id] = self.entry(fold.step);
            }
            _ => {}
        }
        cost.saturating_add(rounds.max.saturating_mul(round))
    }

    fn push(&mut self, name: &Arc<str>, value: Id) {
        let (size, entry) = (self.known_size(value), self.entry(value));
        let path = self.path(value).to_vec();
        self.locals.push(Local { name: name.clone(), path, size, entry });
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| &*local.name == name)
    }

    fn path(&self, id: Id) -> &[Step] {
        if let Kind::Ident(name) = self.tree.kind(id)
            && let Some(local) = self.local(name)
        {
            return &local.path;
        }
        &self.paths[id]
    }

    fn path_with(&self, id: Id, step: Step) -> Vec<Step> {
        // Longer paths lead nowhere.
        const MAX: usize = 16;
        let path = self.path(id);
        if path.len() >= MAX { path.to_vec() } else { path.iter().cloned().chain([step]).collect() }
    }

    fn entry(&self, id: Id) -> Option<Entry> {
        let local = match self.tree.kind(id) {
            Kind::Ident(name) => self.local(name),
            _ => None,
        };
        self.entries[id].or_else(|| local.and_then(|local| local.entry))
    }

    fn size(&self, id: Id) -> Size {
        self.known_size(id).unwrap_or(Size::UNKNOWN)
    }

    fn known_size(&self, id: Id) -> Option<Size> {
        if let Some(size) = self.sizes[id] {
            return Some(size);
        }
        match self.tree.kind(id) {
            Kind::Literal(value) => return Some(Size::exactly(value.size())),
            Kind::List(elements) => return Some(Size::exactly(elements.len() as u64)),
            Kind::Map(entries) => return Some(Size::exactly(entries.len() as u64)),
            _ => {}
        }
        if let Some(max) = self.size_at(self.path(id)) {
            return Some(Size::up_to(max));
        }
        if is_scalar(&self.checked.types[id]) {
            return Some(Size::exactly(1));
        }
        match self.tree.kind(id) {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_at(&self, path: &[Step]) -> Option<u64> {
        if path.is_empty() { None } else { (self.largest_size)(path) }
    }

    fn call(&mut self, id: Id, function: &str, arguments: &[Id]) -> u64 {
        let costs: Vec<u64> = arguments.iter().map(|argument| self.cost(*argument)).collect();
        let sum = costs.iter().fold(0_u64, |sum, cost| sum.saturating_add(*cost));
        match (function, arguments) {
            ("dyn", [argument]) => {
                self.sizes[id] = self.known_size(*argument);
                self.entries[id] = self.entry(*argument);
                return sum.saturating_add(1);
            }
            ("_&&_" | "_||_", _) => return sum,
            ("_?_:_", [_, then, otherwise]) => {
                self.sizes[id] = Some(self.size(*then).union(self.size(*otherwise)));
                self.entries[id] = Entry::union(self.entry(*then), self.entry(*otherwise));
                return costs[0].saturating_add(costs[1].max(costs[2]));
            }
            _ => {}
        }
        let mut highest = 0;
        let mut result: Option<Size> = None;
        for overload in &self.checked.overloads[id] {
            highest = highest.max(self.function_cost(function, overload, arguments));
            let size = self.result_size(function, overload, arguments);
            result = match (result, size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let ("_[_]", [operand, _]) = (function, arguments) {
                result = self.entry(*operand).map(|entry| entry.value);
                match overload.parameters.first() {
                    Some(Type::List(_)) => self.paths[id] = self.path_with(*operand, Step::Items),
                    Some(Type::Map(_)) => self.paths[id] = self.path_with(*operand, Step::Values),
                    _ => {}
                }
            }
            result = result.or_else(|| self.known_size(id));
        }
        if let ("_+_", [a, b]) = (function, arguments) {
            self.entries[id] = Entry::union(self.entry(*a), self.entry(*b));
        }
        self.sizes[id] = result;
        sum.saturating_add(highest)
    }

    fn function_cost(&self, function: &str, overload: &Overload, arguments: &[Id]) -> u64 {
        let sizes: Vec<u64> = arguments.iter().map(|argument| self.size(*argument).max).collect();
        match function {
            // The reference counts these as one step.
            "quantity" | "isQuantity" | "semver" | "isSemver" | "cidr" | "isIP" | "isCIDR" | "ip"
            | "ip.isCanonical" => 1,
            "matches" if !overload.is_method => 1,
            "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" => {
                let Some(target) = arguments.first() else { return 1 };
                match &self.checked.types[*target] {
                    Type::List(element) if matches!(**element, Type::String | Type::Bytes) => {
                        let text = scaled(self.element_size(*target).max, 0.1);
                        sizes[0].saturating_mul(text.saturating_add(1))
                    }
                    Type::List(_) => sizes[0],
                    _ => Cost::Text(0).of(&sizes),
                }
            }
            "join" => scaled(self.joined_size(arguments).max, 0.1),
            _ => overload.cost.of(&sizes),
        }
    }

    fn element_size(&self, list: Id) -> Size {
        let path = self.path_with(list, Step::Items);
        match self.size_at(&path) {
            Some(max) if !self.path(list).is_empty() => Size::up_to(max),
            _ => Size::UNKNOWN,
        }
    }

    fn joined_size(&self, arguments: &[Id]) -> Size {
        let Some(list) = arguments.first() else { return Size::UNKNOWN };
        let n_elements = self.size(*list);
        let texts = n_elements.times(self.element_size(*list));
        let Some(separator) = arguments.get(1) else { return texts };
        let n_separators =
            Size { min: n_elements.min.saturating_sub(1), max: n_elements.max.saturating_sub(1) };
        texts.plus(self.size(*separator).times(n_separators))
    }

    fn result_size(&self, function: &str, overload: &Overload, arguments: &[Id]) -> Option<Size> {
        let size = |at: usize| arguments.get(at).map_or(Size::UNKNOWN, |argument| self.size(*argument));
        Some(match function {
            "lowerAscii" | "upperAscii" | "substring" | "trim" => size(0),
            "find" | "findAll" => Size::up_to(size(0).max),
            "join" => self.joined_size(arguments),
            "replace" => replaced_size(size(0), size(1), size(2)),
            "split" => {
                let limit = arguments.get(2).map(|limit| self.tree.kind(*limit));
                match limit {
                    Some(Kind::Literal(Value::Int(limit))) if *limit >= 0 => Size::up_to(*limit as u64),
                    _ => Size::up_to(size(0).max),
                }
            }
            "strings.quote" => {
                let twice = |size: u64| size.saturating_mul(2).saturating_add(2);
                Size { min: size(0).min.saturating_add(2), max: twice(size(0).max) }
            }
            "format" => size(0).plus(size(1)),
            "bytes" if overload.parameters == [Type::String] => {
                Size { min: size(0).min, max: size(0).max.saturating_mul(4) }
            }
            "string" if overload.parameters == [Type::Bytes] => {
                Size { min: size(0).min / 4, max: size(0).max }
            }
            "_+_" if matches!(overload.result, Type::String | Type::Bytes | Type::List(_)) => {
                size(0).plus(size(1))
            }
            _ => return None,
        })
    }
}

fn replaced_size(text: Size, from: Size, to: Size) -> Size {
    // An empty text is found before and after each character.
    let max = if from.min == 0 {
        text.max.saturating_add(1).saturating_mul(to.max).saturating_add(text.max)
    } else if to.max <= from.min {
        text.max
    } else {
        scaled(text.max, 1.0 / from.min as f64).saturating_mul(to.max)
    };
    let min = if from.max == 0 {
        text.min.saturating_add(1).saturating_mul(to.min).saturating_add(text.min)
    } else if from.max <= to.min {
        text.min
    } else {
        scaled(text.min, 1.0 / from.max as f64).saturating_mul(to.min)
    };
    Size { min, max }
}

fn is_scalar(t: &Type) -> bool {
    match t {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
