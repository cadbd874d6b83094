//! The work that one request, event, page or file may cause, counted in the loops that do it.

use std::cell::Cell;
use std::error::Error;
use std::fmt;

/// Steps of work that may still be done. A step is what a loop does for one of its items: well below a microsecond.
#[derive(Debug)]
pub struct WorkBudget {
    limit: u64,
    left: Cell<u64>,
}

/// A request needs more work than its budget allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuchWork {
    /// The steps that were allowed.
    pub limit: u64,
}

impl WorkBudget {
    /// A budget of some steps.
    pub const fn new(limit: u64) -> WorkBudget {
        WorkBudget { limit, left: Cell::new(limit) }
    }

    /// A budget that only counts.
    pub const fn unlimited() -> WorkBudget {
        WorkBudget::new(u64::MAX)
    }

    /// Takes some steps, before they are made.
    ///
    /// # Errors
    /// They are more than what is left. Then nothing is left, and each further call fails as well.
    pub fn spend(&self, steps: usize) -> Result<(), TooMuchWork> {
        let left = self.left.get().checked_sub(steps as u64).filter(|left| *left > 0);
        self.left.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(TooMuchWork { limit: self.limit })
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// The steps that are left.
    pub fn left(&self) -> u64 {
        self.left.get()
    }

    /// The steps taken so far.
    pub fn n_spent(&self) -> u64 {
        self.limit - self.left.get()
    }
}

impl fmt::Display for TooMuchWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {} steps of work", self.limit)
    }
}

impl Error for TooMuchWork {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_spent_stays_spent() {
        let budget = WorkBudget::new(10);
        assert_eq!(budget.spend(4), Ok(()));
        assert_eq!((budget.n_spent(), budget.is_spent()), (4, false));
        let refused = budget.spend(7).unwrap_err();
        assert_eq!(refused.to_string(), "more than 10 steps of work");
        assert!(budget.is_spent());
        assert!(budget.spend(0).is_err());
        assert_eq!(WorkBudget::unlimited().spend(usize::MAX >> 1), Ok(()));
    }
}
