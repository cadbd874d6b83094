//! What a function is: its types, its cost and its implementation.

use crate::budget::{Budget, Failure};
use crate::types::Type;
use crate::value::Value;

pub(crate) type Outcome = Result<Value, Failure>;

/// The implementation of an overload. The arguments have the types of its parameters.
pub(crate) type Function = fn(&[Value], &mut Budget) -> Outcome;

/// Name, signature, cost, implementation. A signature has a letter for each parameter, a point after the target of a
/// method, and the result after a colon; `|` separates alternatives.
///
/// | letter | type |
/// |---|---|
/// | `b i u d s y t` | bool, int, uint, double, string, bytes, type |
/// | `D T` | duration, timestamp |
/// | `Q V I C U F` | quantity, version, IP address, CIDR, URL, named format |
/// | `* A B` | any type; types that are equal at each place |
/// | `[x] {xy} ?x` | list, map, optional |
/// | `O M N P` | one overload each: ordered types, numbers, numbers and durations, pairs of different numbers |
pub(crate) type Row = (&'static str, &'static str, Cost, Function);

/// What an evaluation of a function costs, by the sizes of the arguments (the target of a method is the first one).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    One,
    /// A walk over the text of an argument.
    Text(usize),
    /// The same, and a new text.
    TextTwice(usize),
    /// A comparison of two values.
    Shorter,
    /// A new text of two.
    Both,
    Search,
    /// A regular expression on a text.
    Regex,
    /// A walk over the elements of an argument.
    Elements(usize),
    /// Each element of the one list with each of the other.
    Product(u64),
    /// Steps, and a walk over the text of the second argument.
    StepsAndText(u64),
    Steps(u64),
    /// A new text of all elements of a list, which the function itself charges for.
    Join,
}

/// Cost of a character of a text, and of a character of a regular expression.
const PER_CHARACTER: f64 = 0.1;
const PER_PATTERN_CHARACTER: f64 = 0.25;

/// `size × factor`, rounded up.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

impl Cost {
    /// The cost with arguments of these sizes.
    pub fn of(self, sizes: &[u64]) -> u64 {
        let size = |at: usize| sizes.get(at).copied().unwrap_or(1);
        match self {
            Cost::One => 1,
            Cost::Join => 0,
            Cost::Text(at) => scaled(size(at), PER_CHARACTER),
            Cost::TextTwice(at) => scaled(size(at), 2.0 * PER_CHARACTER),
            Cost::Shorter => scaled(size(0).min(size(1)), PER_CHARACTER),
            Cost::Both => scaled(size(0).saturating_add(size(1)), PER_CHARACTER),
            Cost::Search => scaled(size(0), PER_CHARACTER).saturating_mul(scaled(size(1), PER_CHARACTER)),
            Cost::Regex => scaled(size(0).saturating_add(1), PER_CHARACTER)
                .saturating_mul(scaled(size(1), PER_PATTERN_CHARACTER)),
            Cost::Elements(at) => size(at),
            Cost::Product(factor) => size(0).saturating_mul(size(1)).saturating_mul(factor).saturating_add(1),
            Cost::StepsAndText(steps) => steps.saturating_add(scaled(size(1), PER_CHARACTER)),
            Cost::Steps(steps) => steps,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Overload {
    pub is_method: bool,
    pub parameters: Vec<Type>,
    pub result: Type,
    pub n_type_parameters: usize,
    pub cost: Cost,
    pub function: Function,
}
