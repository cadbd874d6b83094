//! Expressions as trees. Macros are expanded.

use std::sync::Arc;

use crate::value::Value;

/// Position of a node in its tree.
pub(crate) type Id = usize;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    pub root: Id,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub kind: Kind,
    /// Byte offset in the text.
    pub offset: usize,
    /// Number of nodes on the longest path downwards.
    pub depth: usize,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Literal(Value),
    Ident(Arc<str>),
    /// `operand.field`, or with `test` `has(operand.field)`.
    Select {
        operand: Id,
        field: Arc<str>,
        test: bool,
    },
    /// Operators are functions such as `_+_`. The target of a method is the first argument.
    Call {
        function: Arc<str>,
        is_method: bool,
        arguments: Vec<Id>,
    },
    /// The flag marks optional elements.
    List(Vec<(Id, bool)>),
    /// Keys, values, and the mark of optional entries.
    Map(Vec<(Id, Id, bool)>),
    /// The value of `result` with a variable that is evaluated when it is first used.
    Bind {
        variable: Arc<str>,
        init: Id,
        result: Id,
    },
    Fold(Box<Fold>),
}

/// A loop over a list or the keys of a map.
#[derive(Debug)]
pub(crate) struct Fold {
    pub range: Id,
    pub variable: Arc<str>,
    /// With a second variable, the first one is the index or key, and the second one the value.
    pub second: Option<Arc<str>>,
    pub init: Id,
    pub condition: Id,
    pub step: Id,
    pub result: Id,
}

/// Name of what loops accumulate. No text of an expression can have it.
pub(crate) const ACCUMULATOR: &str = "@result";

impl Tree {
    pub fn add(&mut self, offset: usize, kind: Kind) -> Id {
        let mut deepest = 0;
        for_each_child(&kind, &mut |child| deepest = deepest.max(self.nodes[child].depth));
        self.nodes.push(Node { kind, offset, depth: deepest + 1 });
        self.nodes.len() - 1
    }

    pub fn call(&mut self, offset: usize, function: &str, arguments: Vec<Id>) -> Id {
        self.add(offset, Kind::Call { function: function.into(), is_method: false, arguments })
    }

    pub fn kind(&self, id: Id) -> &Kind {
        &self.nodes[id].kind
    }
}

fn for_each_child(kind: &Kind, visit: &mut dyn FnMut(Id)) {
    match kind {
        Kind::Literal(_) | Kind::Ident(_) => {}
        Kind::Select { operand, .. } => visit(*operand),
        Kind::Call { arguments, .. } => arguments.iter().for_each(|id| visit(*id)),
        Kind::List(elements) => elements.iter().for_each(|(id, _)| visit(*id)),
        Kind::Map(entries) => entries.iter().for_each(|(key, value, _)| {
            visit(*key);
            visit(*value);
        }),
        Kind::Bind { init, result, .. } => {
            visit(*init);
            visit(*result);
        }
        Kind::Fold(fold) => {
            [fold.range, fold.init, fold.condition, fold.step, fold.result].into_iter().for_each(visit)
        }
    }
}
