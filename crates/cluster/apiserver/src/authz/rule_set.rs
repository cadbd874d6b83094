//! Sets of rules, by their numbers.

use std::cmp::Ordering;

use smallvec::SmallVec;

/// Numbers of rules: words of 64 numbers with their places, without empty words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RuleSet(SmallVec<[(u32, u64); 1]>);

impl RuleSet {
    /// Adds a number that is not below any in the set.
    pub fn push(&mut self, number: usize) {
        let (place, bit) = ((number / 64) as u32, 1 << (number % 64));
        match self.0.last_mut() {
            Some((last, bits)) if *last == place => *bits |= bit,
            _ => self.0.push((place, bit)),
        }
    }

    /// Appends another set, whose numbers are moved behind all others by whole words.
    pub fn append(&mut self, n_words: usize, other: &RuleSet) {
        self.0.extend(other.0.iter().map(|(place, bits)| (place + n_words as u32, *bits)));
    }

    pub fn union(&self, other: &RuleSet) -> RuleSet {
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut all = SmallVec::new();
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some((a, _)), Some((b, _))) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return RuleSet(all),
            };
            let a = left.next_if(|_| order.is_le());
            let b = right.next_if(|_| order.is_ge());
            let words = || a.into_iter().chain(b);
            all.extend(
                words().next().map(|(place, _)| (*place, words().fold(0, |all, (_, bits)| all | bits))),
            );
        }
    }

    /// What is in both: one step for each word of the smaller set.
    pub fn intersection(&self, other: &RuleSet) -> RuleSet {
        let (few, many) = if self.0.len() <= other.0.len() { (self, other) } else { (other, self) };
        let both = few.0.iter().filter_map(|(place, bits)| {
            let at = many.0.binary_search_by_key(place, |(place, _)| *place).ok()?;
            Some((*place, bits & many.0[at].1)).filter(|(_, bits)| *bits != 0)
        });
        RuleSet(both.collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn n_words(&self) -> usize {
        self.0.len()
    }
}
