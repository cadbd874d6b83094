//! What an evaluation may use, and how it fails.

use std::borrow::Cow;

/// Limit of the bytes of texts, lists and maps that an evaluation makes.
const MAX_MADE: u64 = 32 << 20;
/// What an element of a list or a map takes.
const ELEMENT_BYTES: usize = 32;
/// Limit of the steps of an evaluation that have no cost, such as those of regular expressions.
const MAX_STEPS: u64 = 50_000_000;
/// Steps, or bytes, that take as long as a unit of cost.
const STEPS_PER_COST: u64 = 10;

/// Why an evaluation has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error, which `&&`, `||` and loops may absorb.
    Error(Cow<'static, str>),
    /// A limit is reached, and the evaluation ends.
    Cancelled,
}

impl From<&'static str> for Failure {
    fn from(text: &'static str) -> Self {
        Failure::Error(text.into())
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Error(text.into())
    }
}

/// What is left for an evaluation.
#[derive(Debug)]
pub struct Budget {
    cost: u64,
    max_cost: u64,
    made: u64,
    steps: u64,
    max_steps: u64,
}

impl Budget {
    /// For an evaluation that may cost `max_cost`, of which the caller allows `allowed` in the unit of [`Budget::spent`].
    pub fn new(max_cost: u64, allowed: u64) -> Self {
        let max_steps = MAX_STEPS.min(allowed.saturating_mul(STEPS_PER_COST));
        Budget { cost: 0, max_cost: max_cost.min(allowed), made: 0, steps: 0, max_steps }
    }

    /// What the evaluation took of the time of a processor, in units of cost: also what has no cost.
    pub fn spent(&self) -> u64 {
        self.cost + (self.steps + self.made) / STEPS_PER_COST
    }

    /// Adds to the cost, in the units of cel-go.
    pub fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.max_cost { Err(Failure::Cancelled) } else { Ok(()) }
    }

    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Before a text of this many bytes is made.
    pub fn make(&mut self, len: usize) -> Result<(), Failure> {
        self.made = self.made.saturating_add(len as u64);
        if self.made > MAX_MADE { Err(Failure::Cancelled) } else { Ok(()) }
    }

    /// Before a list or a map of this many elements is made.
    pub fn make_elements(&mut self, n_elements: usize) -> Result<(), Failure> {
        self.make(n_elements.saturating_mul(ELEMENT_BYTES))
    }

    /// Before steps of work.
    pub fn work(&mut self, steps: u64) -> Result<(), Failure> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.max_steps { Err(Failure::Cancelled) } else { Ok(()) }
    }
}
