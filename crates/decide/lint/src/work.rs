//! The work of the rules, which has a limit.

use std::cell::RefCell;
use std::rc::Rc;

use berth_api::work::WorkBudget;

/// The budget of the rule that is being checked, and what is left for those after it. What a rule finds when its budget is spent does
/// not count.
#[derive(Clone)]
pub(crate) struct Work(Rc<RefCell<Budgets>>);

struct Budgets {
    rule: WorkBudget,
    left: u64,
}

impl Work {
    pub(crate) fn new() -> Work {
        Work(Rc::new(RefCell::new(Budgets { rule: WorkBudget::unlimited(), left: u64::MAX })))
    }

    /// Begins a run of all rules, with so many steps together.
    pub(crate) fn begin(&self, total: u64) {
        self.0.replace(Budgets { rule: WorkBudget::new(0), left: total });
    }

    /// Begins the next rule, with so many steps at most. Returns what it has.
    pub(crate) fn begin_rule(&self, limit: u64) -> u64 {
        let Budgets { rule, left } = &mut *self.0.borrow_mut();
        *left -= rule.n_spent();
        let steps = limit.min(*left);
        *rule = WorkBudget::new(steps);
        steps
    }

    /// Takes some steps; false if the rule has no more.
    pub(crate) fn spend(&self, steps: usize) -> bool {
        self.0.borrow().rule.spend(steps).is_ok()
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0.borrow().rule.is_spent()
    }

    /// The steps that the rule has left.
    pub(crate) fn left(&self) -> u64 {
        self.0.borrow().rule.left()
    }
}
