//! The work of a rule, which has a limit.

use std::cell::RefCell;
use std::rc::Rc;

use berth_api::work::WorkBudget;

/// The budget of the rule that is being checked. What a rule finds when it is spent does not count.
#[derive(Clone)]
pub(crate) struct Work(Rc<RefCell<WorkBudget>>);

impl Work {
    pub(crate) fn new() -> Work {
        Work(Rc::new(RefCell::new(WorkBudget::unlimited())))
    }

    /// Begins the next rule.
    pub(crate) fn begin(&self, limit: u64) {
        self.0.replace(WorkBudget::new(limit));
    }

    /// Takes some steps; false if the rule has no more.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        self.0.borrow().spend(steps).is_ok()
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.borrow().is_spent()
    }
}
