//! How the sets of two selectors relate: decided from the selectors alone, for all labels that pods could have.
//!
//! Requirements distinguish values by the values they list and the bounds they compare with. Per key it is therefore
//! enough to try each listed value, integers next to the bounds, one other text, and no label.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::mem::discriminant;

use serde::Serialize;

use super::{Requirement, Selector};
use berth_api::object::StringMap;

/// The relation of a set to another one, for selectors that can match something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SetRelation {
    /// The same labels are in both.
    Equal,
    Contains,
    ContainedIn,
    /// Some labels are in both, and each set has others.
    Overlaps,
    /// No labels are in both.
    Disjoint,
}

impl SetRelation {
    /// The relation of two sets that have something in common.
    pub(super) fn of_meeting(is_within: bool, contains: bool) -> SetRelation {
        match (is_within, contains) {
            (true, true) => SetRelation::Equal,
            (true, false) => SetRelation::ContainedIn,
            (false, true) => SetRelation::Contains,
            (false, false) => SetRelation::Overlaps,
        }
    }

    #[must_use]
    pub fn reversed(self) -> SetRelation {
        match self {
            SetRelation::Contains => SetRelation::ContainedIn,
            SetRelation::ContainedIn => SetRelation::Contains,
            relation => relation,
        }
    }
}

impl Selector {
    /// Whether any labels could satisfy it.
    pub fn is_satisfiable(&self) -> bool {
        *self != Selector::Nothing && satisfiable(&self.holding())
    }

    /// How the labels that this selector matches relate to those that another one matches.
    pub fn relation(&self, other: &Selector) -> SetRelation {
        match self.common_labels(other) {
            None => SetRelation::Disjoint,
            Some(_) => SetRelation::of_meeting(self.is_within(other), other.is_within(self)),
        }
    }

    /// Labels that both selectors match, as few as possible.
    pub fn common_labels(&self, other: &Selector) -> Option<StringMap> {
        if *self == Selector::Nothing || *other == Selector::Nothing || self.names_other_values(other) {
            return None;
        }
        solution(&self.holding().into_iter().chain(other.holding()).collect::<Vec<_>>())
    }

    /// Whether both list values of a key, and none in common: most pairs of selectors are disjoint for this reason.
    fn names_other_values(&self, other: &Selector) -> bool {
        let excludes = |pair: (&Requirement, &Requirement)| match pair {
            (Requirement::In(a, values), Requirement::In(b, others)) => {
                let mut others = others.as_slice();
                a == b && !values.iter().any(|value| is_next(&mut others, value))
            }
            _ => false,
        };
        self.requirements().iter().any(|a| other.requirements().iter().any(|b| excludes((a, b))))
    }

    /// Whether another selector matches whatever this one does; both can match something.
    pub(super) fn is_within(&self, other: &Selector) -> bool {
        let escapes = |requirement: &Requirement| {
            if self.requirements().binary_search(requirement).is_ok() {
                return false;
            }
            // The requirements on other keys can hold with it.
            let on_key = self.requirements().iter().filter(|other| other.key() == requirement.key());
            let constraints: Vec<_> =
                on_key.map(|other| (other, true)).chain([(requirement, false)]).collect();
            satisfiable(&constraints)
        };
        !other.requirements().iter().any(escapes)
    }

    fn holding(&self) -> Vec<(&Requirement, bool)> {
        self.requirements().iter().map(|requirement| (requirement, true)).collect()
    }
}

/// Whether some labels satisfy the requirements that are to hold (`true`) and violate the others.
pub(super) fn satisfiable(constraints: &[(&Requirement, bool)]) -> bool {
    solution(constraints).is_some()
}

/// Labels that satisfy the requirements that are to hold (`true`) and violate the others.
fn solution(constraints: &[(&Requirement, bool)]) -> Option<StringMap> {
    let mut labels = StringMap::new();
    let mut by_key: BTreeMap<&str, Vec<&(&Requirement, bool)>> = BTreeMap::new();
    for constraint in constraints {
        by_key.entry(constraint.0.key()).or_default().push(constraint);
    }
    for (key, of_key) in by_key {
        let of_key = OfKey::of(&of_key);
        if of_key.lists.is_empty() && of_key.allows(None) {
            continue;
        }
        let value = match of_key.lists.as_slice() {
            [] => of_key.values().into_iter().find(|value| of_key.allows(Some(value))),
            [first, others @ ..] => of_key.first_listed(first, others.to_vec()),
        };
        labels.insert(key.to_owned(), value?);
    }
    Some(labels)
}

/// Whether a value is the next one of a sorted list, after those below it, which are dropped.
fn is_next<T: AsRef<str>>(list: &mut &[T], value: &str) -> bool {
    while let Some((next, others)) = list.split_first() {
        match next.as_ref().cmp(value) {
            Ordering::Less => *list = others,
            order => return order == Ordering::Equal,
        }
    }
    false
}

/// What is asked of one key, without what other requirements imply: a value is compared with few of them.
#[derive(Default)]
struct OfKey<'a> {
    /// The value is in each of them.
    lists: Vec<&'a [String]>,
    /// The value is none of these, which are sorted.
    excluded: Vec<&'a str>,
    /// One of each operator that is to hold, and of each that is not to.
    others: Vec<(&'a Requirement, bool)>,
}

impl<'a> OfKey<'a> {
    fn of(constraints: &[&(&'a Requirement, bool)]) -> OfKey<'a> {
        let mut of_key = OfKey::default();
        for &&(requirement, holds) in constraints {
            match requirement {
                Requirement::In(_, values) | Requirement::NotIn(_, values) => {
                    if matches!(requirement, Requirement::In(..)) == holds {
                        of_key.lists.push(values);
                    } else {
                        of_key.excluded.extend(values.iter().map(String::as_str));
                    }
                }
                _ => of_key.add(requirement, holds),
            }
        }
        of_key.excluded.sort();
        of_key
    }

    fn add(&mut self, requirement: &'a Requirement, holds: bool) {
        use Requirement::{Gt, Lt, VersionGt, VersionLt};
        let is_like = |known: &&mut (&Requirement, bool)| {
            discriminant(known.0) == discriminant(requirement) && known.1 == holds
        };
        match (requirement, self.others.iter_mut().find(is_like)) {
            (VersionGt(..) | VersionLt(..), _) | (_, None) => self.others.push((requirement, holds)),
            (_, Some((known, _))) => {
                let is_stricter = match (requirement, &**known) {
                    (Gt(_, bound), Gt(_, other)) => (bound > other) == holds,
                    (Lt(_, bound), Lt(_, other)) => (bound < other) == holds,
                    _ => false,
                };
                if is_stricter {
                    *known = requirement;
                }
            }
        }
    }

    /// The first value of a list that the other lists have as well, and that nothing else excludes: one pass of all lists.
    fn first_listed(&self, list: &[String], mut others: Vec<&[String]>) -> Option<String> {
        let mut excluded = self.excluded.as_slice();
        let is_common = |value: &&String| {
            others.iter_mut().all(|other| is_next(other, value))
                && !is_next(&mut excluded, value)
                && self.allows(Some(value))
        };
        list.iter().find(is_common).cloned()
    }

    /// Whether the requirements without lists allow a value. Those that are generated are not among the excluded ones.
    fn allows(&self, value: Option<&str>) -> bool {
        self.others.iter().all(|(requirement, holds)| requirement.matches(value) == *holds)
    }

    /// One value of each kind that requirements without lists distinguish.
    fn values(&self) -> Vec<String> {
        // A label value starts with a letter or a digit, so that it is no negative integer. The same integer can be written
        // with more zeros, if the short form is excluded.
        let integers = self.others.iter().flat_map(|(requirement, _)| match requirement {
            Requirement::Gt(_, bound) | Requirement::Lt(_, bound) => {
                vec![bound.saturating_sub(1), *bound, bound.saturating_add(1)]
            }
            // Selectors of pods do not compare versions.
            _ => Vec::new(),
        });
        let integers = integers.filter(|n| *n >= 0).map(|n| self.not_excluded(n.to_string(), "0"));
        integers.chain([self.not_excluded("x".to_owned(), "x")]).collect()
    }

    fn not_excluded(&self, mut value: String, prefix: &str) -> String {
        while self.excluded.binary_search(&value.as_str()).is_ok() {
            value.insert_str(0, prefix);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::SetRelation::{ContainedIn, Contains, Disjoint, Equal, Overlaps};
    use super::*;
    use std::cell::Cell;

    fn selector(text: &str) -> Selector {
        let list = |values: &str| {
            let mut values: Vec<_> = values.split('|').map(str::to_owned).collect();
            values.sort_unstable();
            values
        };
        let requirement = |word: &str| {
            if let Some((key, values)) = word.split_once("!=") {
                Requirement::NotIn(key.to_owned(), list(values))
            } else if let Some((key, values)) = word.split_once('=') {
                Requirement::In(key.to_owned(), list(values))
            } else if let Some((key, bound)) = word.split_once('>') {
                Requirement::Gt(key.to_owned(), bound.parse().unwrap())
            } else if let Some((key, bound)) = word.split_once('<') {
                Requirement::Lt(key.to_owned(), bound.parse().unwrap())
            } else if let Some(key) = word.strip_prefix('!') {
                Requirement::DoesNotExist(key.to_owned())
            } else {
                Requirement::Exists(word.to_owned())
            }
        };
        Selector::new(text.split_whitespace().map(requirement).collect())
    }

    #[test]
    fn each_value_was_compared_with_every_requirement_on_its_key() {
        let words: Vec<_> = (0..1000).map(|i| format!("a>{i} a<{} a!={i}", 2000 - i)).collect();
        let (many, few) = (selector(&words.join(" ")), selector("a>999 a<1001"));
        let holding = many.holding();
        let of_key = OfKey::of(&holding.iter().collect::<Vec<_>>());
        assert_eq!((of_key.others.len(), of_key.excluded.len(), of_key.values().len()), (2, 1000, 7));
        assert_eq!(many.relation(&few), Equal);
        assert_eq!(
            few.common_labels(&many),
            Some([("a".to_owned(), "1000".to_owned())].into_iter().collect())
        );
    }

    #[test]
    fn values_of_lists_were_looked_up_one_by_one() {
        struct Counted(String, Cell<usize>);
        impl AsRef<str> for Counted {
            fn as_ref(&self) -> &str {
                self.1.set(self.1.get() + 1);
                &self.0
            }
        }
        let values: Vec<_> = (1000..2000).map(|i| i.to_string()).collect();
        let counted: Vec<_> = values.iter().map(|value| Counted(value.clone(), Cell::default())).collect();
        let mut rest = counted.as_slice();
        assert!(values.iter().all(|value| is_next(&mut rest, value)));
        assert!(counted.iter().all(|value| value.1.get() <= 2));
    }

    #[test]
    fn relations_of_selectors() {
        for (a, b, expected) in [
            ("", "", Equal),
            ("a=x", "", ContainedIn),
            ("a=x", "a=x", Equal),
            ("a=x|y", "a=y|z", Overlaps),
            ("a=x", "a=y", Disjoint),
            ("a=x", "b=y", Overlaps),
            ("a=x b=y", "b=y", ContainedIn),
            ("a", "a!=x", Overlaps),
            ("a a!=x", "a!=x", ContainedIn),
            ("!a", "a!=x", ContainedIn),
            ("!a", "a", Disjoint),
            ("a>5", "a", ContainedIn),
            ("a>5 a<7", "a=6", Contains),
            ("a>5 a<7 a!=6", "a=06", Contains),
            ("a>5", "a<6", Disjoint),
            ("a>5", "a<7", Overlaps),
            ("a>3", "a>5", Contains),
            ("a>5", "!a", Disjoint),
            ("a=10|20 a>15", "a=20", Equal),
            ("a=x a=y", "", Disjoint),
            ("a<0", "", Disjoint),
            ("a>9223372036854775807", "", Disjoint),
        ] {
            let (left, right) = (selector(a), selector(b));
            assert_eq!(left.relation(&right), expected, "{a} and {b}");
            assert_eq!(right.relation(&left), expected.reversed(), "{b} and {a}");
        }
        assert_eq!(Selector::Nothing.relation(&Selector::EVERYTHING), Disjoint);
    }

    /// Every labelling with two keys and few values, against the relation.
    #[test]
    fn relations_agree_with_labellings() {
        let words = ["a=x", "a=x|1", "a!=x", "a!=1|x", "a", "!a", "a>0", "a<2", "a>1", "b=x", "b!=x", "!b"];
        let values =
            [None, Some("x"), Some("y"), Some("0"), Some("1"), Some("01"), Some("2"), Some("02"), Some("3")];
        let pairs =
            || (0..words.len()).flat_map(|i| (0..=i).map(move |j| format!("{} {}", words[i], words[j])));
        for left in pairs() {
            for right in pairs() {
                let (a, b) = (selector(&left), selector(&right));
                let (mut both, mut only_a, mut only_b) = (false, false, false);
                for (in_a, in_b) in values.iter().flat_map(|a| values.iter().map(move |b| (a, b))) {
                    let labels = |key: &str| if key == "a" { *in_a } else { *in_b };
                    let (in_left, in_right) = (a.matches(labels), b.matches(labels));
                    both |= in_left && in_right;
                    only_a |= in_left && !in_right;
                    only_b |= in_right && !in_left;
                }
                let expected = match (both, only_a, only_b) {
                    (false, ..) => Disjoint,
                    (true, false, false) => Equal,
                    (true, true, false) => Contains,
                    (true, false, true) => ContainedIn,
                    (true, true, true) => Overlaps,
                };
                assert_eq!(a.relation(&b), expected, "{left} and {right}");
            }
        }
    }
}
