//! What an evaluation may use.

use super::declare::Failure;

/// Limit of the bytes of texts, and of the elements of lists, that an evaluation makes.
const MAX_MADE: u64 = 32 << 20;
/// Limit of the steps of an evaluation that have no cost, such as those of regular expressions.
const MAX_STEPS: u64 = 200_000_000;

/// What is left for an evaluation.
#[derive(Debug)]
pub(crate) struct Budget {
    cost: u64,
    max_cost: u64,
    made: u64,
    steps: u64,
}

impl Budget {
    pub fn new(max_cost: u64) -> Self {
        Budget { cost: 0, max_cost, made: 0, steps: 0 }
    }

    /// Adds to the cost, in the units of cel-go.
    pub fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.max_cost { Err(Failure::Cancelled) } else { Ok(()) }
    }

    /// The cost so far.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Before a text, or a list, of this length is made.
    pub fn make(&mut self, len: usize) -> Result<(), Failure> {
        self.made = self.made.saturating_add(len as u64);
        if self.made > MAX_MADE { Err(Failure::Cancelled) } else { Ok(()) }
    }

    /// Before steps of work.
    pub fn work(&mut self, steps: u64) -> Result<(), Failure> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS { Err(Failure::Cancelled) } else { Ok(()) }
    }
}
