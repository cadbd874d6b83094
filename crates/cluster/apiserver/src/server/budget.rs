//! Amounts that all users share: bytes and watches. One user gets a part of each at most.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::request::User;

/// An amount that all users share.
pub struct Budget {
    total: usize,
    per_user: usize,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    all: usize,
    by_user: HashMap<String, usize>,
}

/// What one request has of a budget; given back on drop.
pub struct Share {
    budget: Arc<Budget>,
    user: Arc<User>,
    amount: usize,
}

impl Budget {
    /// An amount of which one user gets at most a part.
    pub fn new(total: usize, per_user: usize) -> Arc<Budget> {
        Arc::new(Budget { total, per_user, used: Mutex::default() })
    }

    pub fn share(self: &Arc<Self>, user: &Arc<User>) -> Share {
        Share { budget: self.clone(), user: user.clone(), amount: 0 }
    }

    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Takes more, and whether that is within the limits; if not, the share stays as it is.
    pub fn try_grow(&mut self, by: usize) -> bool {
        self.take(by, true)
    }

    /// Takes more, even beyond the limits: for what exists already.
    pub fn grow(&mut self, by: usize) {
        self.take(by, false);
    }

    fn take(&mut self, by: usize, within_limits: bool) -> bool {
        let (name, budget) = (self.user.name.as_str(), &self.budget);
        let mut used = budget.lock();
        let of_user = used.by_user.get(name).copied().unwrap_or_default();
        if within_limits && (used.all + by > budget.total || of_user + by > budget.per_user) {
            return false;
        }
        used.all += by;
        match used.by_user.get_mut(name) {
            Some(of_user) => *of_user += by,
            None => drop(used.by_user.insert(name.to_owned(), by)),
        }
        self.amount += by;
        true
    }

    pub fn shrink(&mut self, by: usize) {
        let by = by.min(self.amount);
        self.amount -= by;
        let mut used = self.budget.lock();
        used.all -= by;
        if let Some(of_user) = used.by_user.get_mut(&self.user.name) {
            *of_user -= by;
            if *of_user == 0 {
                used.by_user.remove(&self.user.name);
            }
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_a_part_and_all_users_get_the_total() {
        let budget = Budget::new(10, 6);
        let [a, b] = ["a", "b"].map(|name| Arc::new(User::node(name)));
        let (mut of_a, mut of_b) = (budget.share(&a), budget.share(&b));
        assert!(of_a.try_grow(6));
        assert!(!budget.share(&a).try_grow(1), "beyond the user's part");
        assert!(of_b.try_grow(4));
        assert!(!of_b.try_grow(1), "beyond the total");
        of_a.shrink(2);
        assert!(of_b.try_grow(2));
        of_b.grow(5);
        assert_eq!(budget.used(), 15);
        drop((of_a, of_b));
        assert_eq!(budget.used(), 0);
        assert!(budget.lock().by_user.is_empty());
    }
}
