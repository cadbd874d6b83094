//! Random choices by a seed, so that histories never change.

use std::ops::Range;

use berth_api::split_mix::SplitMix64;

/// The seeds of a random test: `n` from `first` on, or as many as `BERTH_HISTORIES` says from `BERTH_HISTORY_SEED` on.
pub fn seeds(first: u64, n: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok()?.parse().ok();
    let first = number("BERTH_HISTORY_SEED").unwrap_or(first);
    first..first + number("BERTH_HISTORIES").unwrap_or(n)
}

/// A reproducible sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(SplitMix64::new(seed))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `n`; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % (n.max(1) as u64)) as usize
    }

    /// True in this many of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of the items; `None` for an empty slice.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        from.get(self.below(from.len()))
    }

    /// One of the words; the slice must not be empty.
    pub fn word(&mut self, from: &[&str]) -> String {
        self.pick(from).copied().unwrap_or_default().to_owned()
    }

    /// Between `least` and `most` distinct words, fewer if there are not enough.
    pub fn words(&mut self, from: &[&str], least: usize, most: usize) -> Vec<String> {
        let n = least + self.below(most.saturating_sub(least) + 1);
        let mut left = from.to_vec();
        let mut words = Vec::new();
        while words.len() < n && !left.is_empty() {
            let i = self.below(left.len());
            words.push(left.swap_remove(i).to_owned());
        }
        words
    }
}
