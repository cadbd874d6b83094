//! Sets of completion indexes, such as `0-2,5`.

use std::fmt;

/// A set of indexes as inclusive intervals: sorted, disjoint and not adjacent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(Vec<(i32, i32)>);

impl Indexes {
    /// Parses the text form; skips values not below `completions` and values out of order.
    pub fn parse(text: &str, completions: i32) -> Self {
        let mut indexes = Indexes::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            let last = last.min(completions.saturating_sub(1));
            let after = indexes.0.last().map_or(-1, |&(_, last)| last);
            if first > after && first <= last {
                indexes.push(first, last);
            }
        }
        indexes
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, first: i32, last: i32) {
        match self.0.last_mut() {
            Some((_, before)) if *before + 1 == first => *before = last,
            _ => self.0.push((first, last)),
        }
    }

    pub fn contains(&self, index: i32) -> bool {
        self.end_of(index).is_some()
    }

    /// Adds a non-negative index.
    pub fn insert(&mut self, index: i32) {
        if self.contains(index) {
            return;
        }
        let at = self.0.partition_point(|&(first, _)| first <= index);
        self.0.insert(at, (index, index));
        if self.0.get(at + 1).is_some_and(|&(first, _)| index.checked_add(1) == Some(first)) {
            self.0[at].1 = self.0.remove(at + 1).1;
        }
        if at > 0 && self.0[at - 1].1 + 1 == index {
            self.0[at - 1].1 = self.0.remove(at).1;
        }
    }

    /// The last index of the interval with an index.
    fn end_of(&self, index: i32) -> Option<i32> {
        let at = self.0.partition_point(|&(first, _)| first <= index).checked_sub(1)?;
        Some(self.0[at].1).filter(|last| index <= *last)
    }

    /// The indexes below `completions` that neither has. Intervals are skipped: a status may claim billions of indexes.
    pub fn free<'a>(&'a self, other: &'a Indexes, completions: i32) -> impl Iterator<Item = i32> + 'a {
        let mut next = 0;
        std::iter::from_fn(move || {
            while let Some(last) = self.end_of(next).or_else(|| other.end_of(next)) {
                next = last.saturating_add(1);
            }
            let index = next;
            next = next.saturating_add(1);
            (index < completions).then_some(index)
        })
    }

    /// The number of indexes that both have.
    pub fn n_common(&self, other: &Indexes) -> i64 {
        let (mut n, mut others) = (0, other.0.iter().peekable());
        for &(first, last) in &self.0 {
            while others.next_if(|&&(_, end)| end < first).is_some() {}
            while let Some(&&(start, end)) = others.peek().filter(|&&&(start, _)| start <= last) {
                n += i64::from(last.min(end)) - i64::from(first.max(start)) + 1;
                if end > last {
                    break;
                }
                others.next();
            }
        }
        n
    }

    pub fn len(&self) -> i32 {
        self.0.iter().map(|&(first, last)| last - first + 1).sum()
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, &(first, last)) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_parsed_merged_and_formatted() {
        for (text, completions, written) in [
            ("", 5, ""),
            ("0-2,5", 9, "0-2,5"),
            ("0-2,5", 3, "0-2"),
            ("0,1", 9, "0,1"),
            ("0,1,2", 9, "0-2"),
            ("3,1,x,4-", 9, "3"),
            ("0-2147483647", 4, "0-3"),
        ] {
            assert_eq!(Indexes::parse(text, completions).to_string(), written, "{text}");
        }
        let mut indexes = Indexes::default();
        for (index, written) in
            [(3, "3"), (5, "3,5"), (0, "0,3,5"), (4, "0,3-5"), (4, "0,3-5"), (1, "0,1,3-5"), (2, "0-5")]
        {
            indexes.insert(index);
            assert_eq!(indexes.to_string(), written);
        }
        assert_eq!((indexes.len(), indexes.contains(5), indexes.contains(6)), (6, true, false));
    }

    #[test]
    fn billions_of_claimed_indexes_are_skipped_and_not_visited() {
        let claimed = Indexes::parse("0-2,4-1999999990", i32::MAX);
        let failed = Indexes::parse("3,1999999991-1999999995", i32::MAX);
        let free: Vec<_> = claimed.free(&failed, 2_000_000_000).collect();
        assert_eq!(free, [1_999_999_996, 1_999_999_997, 1_999_999_998, 1_999_999_999]);
        for (a, b, n) in [
            ("0-1999999990", "5-1999999999", 1_999_999_986),
            ("0-9,20-29", "5-24", 10),
            ("1,3,5", "0-2,4-9", 2),
            ("", "0-9", 0),
            ("3", "1,2", 0),
        ] {
            let (a, b) = (Indexes::parse(a, i32::MAX), Indexes::parse(b, i32::MAX));
            assert_eq!((a.n_common(&b), b.n_common(&a)), (n, n), "{a} {b}");
        }
    }
}
