//! A label selector in few allocations: open watches and stored budgets hold many.

use std::cmp::Ordering;
use std::ops::Range;

use berth_rules::{Requirement, Selector};

/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels {
    /// Each key, and after it its values, without separators.
    text: Box<str>,
    ends: Box<[u32]>,
    /// How a key is compared, and with how many values.
    requirements: Box<[(Operator, u32)]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Gt,
    Lt,
}

impl From<&Selector> for Labels {
    fn from(selector: &Selector) -> Labels {
        let (mut text, mut ends, mut requirements) = (String::new(), Vec::new(), Vec::new());
        // Nothing is among no values.
        let nothing = [Requirement::In(String::new(), Vec::new())];
        let all = if *selector == Selector::Nothing { &nothing } else { selector.requirements() };
        for requirement in all {
            let bound;
            let (operator, values) = match requirement {
                Requirement::In(_, values) => (Operator::In, values.as_slice()),
                Requirement::NotIn(_, values) => (Operator::NotIn, values.as_slice()),
                Requirement::Exists(_) => (Operator::Exists, &[][..]),
                Requirement::DoesNotExist(_) => (Operator::DoesNotExist, &[][..]),
                Requirement::Gt(_, number) => (Operator::Gt, {
                    bound = [number.to_string()];
                    &bound[..]
                }),
                Requirement::Lt(_, number) => (Operator::Lt, {
                    bound = [number.to_string()];
                    &bound[..]
                }),
                // Selectors of the API have no versions.
                Requirement::VersionGt(..) | Requirement::VersionLt(..) => (Operator::In, &[][..]),
            };
            for part in [requirement.key()].into_iter().chain(values.iter().map(String::as_str)) {
                text.push_str(part);
                ends.push(text.len() as u32);
            }
            requirements.push((operator, values.len() as u32));
        }
        Labels { text: text.into(), ends: ends.into(), requirements: requirements.into() }
    }
}

impl Labels {
    pub fn len(&self) -> usize {
        self.requirements.len()
    }

    /// The memory it takes, in bytes.
    pub fn size(&self) -> usize {
        self.text.len() + size_of_val(&*self.ends) + size_of_val(&*self.requirements)
    }

    /// Whether labels, read through `get`, satisfy it.
    pub fn matches<'l>(&self, get: impl Fn(&str) -> Option<&'l str>) -> bool {
        let mut next = 0;
        self.requirements.iter().all(|(operator, n_values)| {
            let values = next + 1..next + 1 + *n_values as usize;
            let label = get(self.part(next));
            next = values.end;
            let number = |text: &str| text.parse::<i64>().ok();
            let is = |ordering| {
                let bound = || number(self.part(values.start));
                label
                    .and_then(number)
                    .zip(bound())
                    .is_some_and(|(label, bound)| label.cmp(&bound) == ordering)
            };
            match operator {
                Operator::In => label.is_some_and(|label| self.is_among(label, values)),
                Operator::NotIn => !label.is_some_and(|label| self.is_among(label, values)),
                Operator::Exists => label.is_some(),
                Operator::DoesNotExist => label.is_none(),
                Operator::Gt => is(Ordering::Greater),
                Operator::Lt => is(Ordering::Less),
            }
        })
    }

    /// A key or a value.
    fn part(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[place] as usize]
    }

    /// Whether a text is among values, which are sorted.
    fn is_among(&self, text: &str, mut values: Range<usize>) -> bool {
        while !values.is_empty() {
            let middle = usize::midpoint(values.start, values.end);
            match self.part(middle).cmp(text) {
                Ordering::Less => values.start = middle + 1,
                Ordering::Equal => return true,
                Ordering::Greater => values.end = middle,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_selects_what_the_selector_of_the_same_text_selects() {
        let keys = ["a", "b", "c"];
        let values = [None, Some(""), Some("1"), Some("5"), Some("x")];
        for text in
            ["", "a=1", "a!=1,b", "!a", "a in (1,5,x),c notin (x)", "a>1,b<5", "a>-1", "b in (),c", "a=,!b,c"]
        {
            let selector: Selector = text.parse().unwrap();
            let compact = Labels::from(&selector);
            assert_eq!(compact.len(), selector.requirements().len());
            for i in 0..values.len().pow(3) {
                let of = |key: &str| {
                    let place = keys.iter().position(|known| *known == key)?;
                    values[i / values.len().pow(place as u32) % values.len()]
                };
                assert_eq!(compact.matches(of), selector.matches(of), "{text:?} {i}");
            }
        }
        assert!(!Labels::from(&Selector::Nothing).matches(|_| Some("")));
    }

    #[test]
    fn many_short_requirements_take_a_few_times_their_text() {
        let text: Vec<String> = (0..5000).map(|i| format!("k{i}=v{i}")).collect();
        let text = text.join(",");
        assert!(Labels::from(&text.parse().unwrap()).size() < 3 * text.len());
    }
}
