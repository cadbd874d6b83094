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

    /// What is in one of two sets.
    pub fn union(&self, other: &RuleSet) -> RuleSet {
        self.merge(other, |a, b| a | b)
    }

    /// What is in both.
    pub fn intersection(&self, other: &RuleSet) -> RuleSet {
        self.merge(other, |a, b| a & b)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many words it has.
    pub fn n_words(&self) -> usize {
        self.0.len()
    }

    fn merge(&self, other: &RuleSet, combine: impl Fn(u64, u64) -> u64) -> RuleSet {
        let (mut left, mut right) = (self.0.as_slice(), other.0.as_slice());
        let mut merged = SmallVec::new();
        loop {
            let (place, a, b) = match (left, right) {
                ([(i, a), ..], [(j, b), ..]) => match i.cmp(j) {
                    Ordering::Less => (*i, *a, 0),
                    Ordering::Equal => (*i, *a, *b),
                    Ordering::Greater => (*j, 0, *b),
                },
                ([(i, a), ..], []) => (*i, *a, 0),
                ([], [(j, b), ..]) => (*j, 0, *b),
                ([], []) => return RuleSet(merged),
            };
            left = &left[usize::from(a != 0)..];
            right = &right[usize::from(b != 0)..];
            let bits = combine(a, b);
            if bits != 0 {
                merged.push((place, bits));
            }
        }
    }
}
