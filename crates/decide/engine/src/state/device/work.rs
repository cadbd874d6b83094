//! The budget of the work for devices and for places of groups. It counts steps and has no clock.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;

use crate::state::interned::intern::Symbol;

/// What searches for devices, and for places of groups, may still take, in steps: each look at a device and each result of a selector that is looked up is one,
/// and takes some ten nanoseconds; a unit of the cost of an expression is five.
///
/// There is one budget for all that a command, a page or a scheduling attempt asks, on whatever node. Copies share it, those in
/// copies of a cluster included. By default it has no limit. A decision that finds nothing left treats the remaining nodes as
/// infeasible, says so in its message, and is [cut](DeviceWork::is_cut). The search for places of a group goes on as far as a first
/// placement of all members takes.
#[derive(Clone, Debug)]
pub struct DeviceWork(Arc<Budgets>);

/// The least for a search that is repeated. An earlier decision may have had more steps, and results of selectors be forgotten.
const AGAIN: u64 = 15_000_000;

#[derive(Debug, Default)]
struct Budgets {
    /// What is left of all.
    total: AtomicU64,
    /// The most for one decision, beside its share of what is left of all; and what is left of it.
    per_decision: AtomicU64,
    shares: AtomicU64,
    decision: AtomicU64,
    /// The steps that were taken, of all budgets so far.
    n_spent: AtomicU64,
    is_cut: AtomicBool,
    was_cut: AtomicBool,
    found: Mutex<FoundReasons>,
}

/// Why the current decision rejected nodes, for when the reasons are asked again and nothing is left.
#[derive(Debug, Default)]
struct FoundReasons {
    /// The rules, and the state as of which they were looked at.
    of: Option<(Arc<dyn Any + Send + Sync>, u64)>,
    by_node: FxHashMap<Symbol, Cow<'static, str>>,
}

impl DeviceWork {
    /// A budget of `total` steps. A decision takes `per_decision` at most, and if that is not all of it, a quarter of what is left: the
    /// decisions after it find some.
    pub fn new(per_decision: u64, total: u64) -> DeviceWork {
        let work = DeviceWork(Arc::default());
        work.allow(per_decision, total);
        work
    }

    /// Begins anew, with a budget as that of [`DeviceWork::new`].
    pub fn allow(&self, per_decision: u64, total: u64) {
        self.0.total.store(total, Ordering::Relaxed);
        self.0.per_decision.store(per_decision, Ordering::Relaxed);
        self.0.shares.store(if per_decision < total { 4 } else { 1 }, Ordering::Relaxed);
        self.begin();
    }

    /// The steps that are left.
    pub fn left(&self) -> u64 {
        self.0.decision.load(Ordering::Relaxed).min(self.0.total.load(Ordering::Relaxed))
    }

    /// The steps that were taken so far, also with earlier budgets.
    pub fn n_spent(&self) -> u64 {
        self.0.n_spent.load(Ordering::Relaxed)
    }

    /// Whether something was not looked for since the last decision began, because nothing was left.
    pub fn is_cut(&self) -> bool {
        self.0.is_cut.load(Ordering::Relaxed)
    }

    /// Whether a decision was cut since the budget was made.
    pub fn was_cut(&self) -> bool {
        self.0.was_cut.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        let share = self.0.total.load(Ordering::Relaxed) / self.0.shares.load(Ordering::Relaxed);
        self.0.decision.store(share.min(self.0.per_decision.load(Ordering::Relaxed)), Ordering::Relaxed);
        self.0.is_cut.store(false, Ordering::Relaxed);
        *self.found() = FoundReasons::default();
    }

    fn found(&self) -> MutexGuard<'_, FoundReasons> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the reason for which a node was rejected, in a state that is counted by `seen`.
    pub(crate) fn keep_reason<R: Any + PartialEq + Send + Sync>(
        &self,
        rules: &Arc<R>,
        seen: u64,
        node: Symbol,
        reason: Cow<'static, str>,
    ) {
        // Without a limit, no decision is cut.
        if self.0.per_decision.load(Ordering::Relaxed) == u64::MAX {
            return;
        }
        let mut found = self.found();
        if !found.is_of(rules, seen) {
            *found = FoundReasons { of: Some((rules.clone(), seen)), ..FoundReasons::default() };
        }
        found.by_node.insert(node, reason);
    }

    /// Whether the current decision is cut, and whether one was.
    pub(crate) fn marks(&self) -> [bool; 2] {
        [self.is_cut(), self.was_cut()]
    }

    pub(crate) fn set_marks(&self, [is_cut, was_cut]: [bool; 2]) {
        self.0.is_cut.store(is_cut, Ordering::Relaxed);
        self.0.was_cut.store(was_cut, Ordering::Relaxed);
    }

    pub(crate) fn kept_reason<R: Any + PartialEq + Send + Sync>(
        &self,
        rules: &Arc<R>,
        seen: u64,
        node: Symbol,
    ) -> Option<Cow<'static, str>> {
        let found = self.found();
        found.by_node.get(&node).filter(|_| found.is_of(rules, seen)).cloned()
    }

    pub(crate) fn cut(&self) {
        self.0.is_cut.store(true, Ordering::Relaxed);
        self.0.was_cut.store(true, Ordering::Relaxed);
    }

    /// For a series of steps.
    pub(crate) fn meter(&self) -> Meter<'_> {
        let left = self.left();
        Meter { work: Some(self), began: left, left: Cell::new(left) }
    }

    /// For a search on one node that was made before, by a decision, and is repeated to write down what it found.
    pub(crate) fn again(&self) -> Meter<'static> {
        let left = self.0.per_decision.load(Ordering::Relaxed).max(AGAIN);
        Meter { work: None, began: left, left: Cell::new(left) }
    }

    pub(crate) fn spend(&self, steps: u64) {
        self.0.n_spent.fetch_add(steps, Ordering::Relaxed);
        for left in [&self.0.total, &self.0.decision] {
            let spend = |left: u64| Some(left.saturating_sub(steps));
            _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        }
    }
}

impl FoundReasons {
    fn is_of<R: Any + PartialEq + Send + Sync>(&self, rules: &Arc<R>, seen: u64) -> bool {
        let is_of = |of: &Arc<dyn Any + Send + Sync>| {
            std::ptr::addr_eq(Arc::as_ptr(of), Arc::as_ptr(rules))
                || (**of).downcast_ref::<R>().is_some_and(|of| *of == **rules)
        };
        self.of.as_ref().is_some_and(|(of, at)| *at == seen && is_of(of))
    }
}

impl Default for DeviceWork {
    fn default() -> Self {
        DeviceWork::new(u64::MAX, u64::MAX)
    }
}

/// Budgets make no difference to what is decided within them.
impl PartialEq for DeviceWork {
    fn eq(&self, _: &DeviceWork) -> bool {
        true
    }
}

/// Counts steps, and takes them from the budget in the end.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    work: Option<&'a DeviceWork>,
    began: u64,
    left: Cell<u64>,
}

impl Meter<'_> {
    pub(crate) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Takes steps; if they are more than what is left, nothing is left.
    pub(crate) fn spend(&self, steps: usize) {
        self.left.set(self.left.get().saturating_sub(steps as u64));
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if let Some(work) = self.work {
            work.spend(self.began - self.left.get());
            if self.is_spent() {
                work.cut();
            }
        }
    }
}
