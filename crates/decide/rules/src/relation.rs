//! How the sets of two selectors relate: decided from the selectors alone, for all labels that pods could have.
//!
//! Requirements distinguish values by the values they list and the bounds they compare with. Per key it is therefore
//! enough to try each listed value, integers next to the bounds, one other text, and no label.

use std::collections::BTreeMap;

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
                a == b && !values.iter().any(|value| others.binary_search(value).is_ok())
            }
            _ => false,
        };
        self.requirements().iter().any(|a| other.requirements().iter().any(|b| excludes((a, b))))
    }

    /// Whether another selector matches whatever this one does; both can match something.
    pub(super) fn is_within(&self, other: &Selector) -> bool {
        let escapes = |requirement: &Requirement| {
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
        let fits = |value: Option<&str>| of_key.iter().all(|(r, holds)| r.matches(value) == *holds);
        if fits(None) {
            continue;
        }
        // A value that is in a list is in the shortest one.
        let lists = of_key.iter().filter_map(|constraint| match constraint {
            (Requirement::In(_, values), true) | (Requirement::NotIn(_, values), false) => Some(values),
            _ => None,
        });
        let value = match lists.min_by_key(|values| values.len()) {
            Some(values) => values.iter().find(|value| fits(Some(value))).cloned(),
            None => values(of_key.iter().map(|(r, _)| *r)).into_iter().find(|value| fits(Some(value))),
        };
        labels.insert(key.to_owned(), value?);
    }
    Some(labels)
}

/// One value of each kind that requirements on one key distinguish.
fn values<'a>(requirements: impl Iterator<Item = &'a Requirement>) -> Vec<String> {
    let (mut listed, mut integers) = (Vec::new(), Vec::new());
    for requirement in requirements {
        match requirement {
            Requirement::In(_, values) | Requirement::NotIn(_, values) => {
                listed.extend(values.iter().cloned())
            }
            Requirement::Gt(_, bound) | Requirement::Lt(_, bound) => {
                integers.extend([bound.saturating_sub(1), *bound, bound.saturating_add(1)]);
            }
            Requirement::Exists(_) | Requirement::DoesNotExist(_) => {}
            // Selectors of pods do not compare versions.
            Requirement::VersionGt(..) | Requirement::VersionLt(..) => {}
        }
    }
    // A label value starts with a letter or a digit, so that it is no negative integer. The same integer can be written
    // with more zeros, if the short form is listed.
    let written = integers.iter().filter(|n| **n >= 0).map(|n| unlisted(n.to_string(), "0", &listed));
    let written: Vec<_> = written.collect();
    let other = unlisted("x".to_owned(), "x", &listed);
    listed.extend(written.into_iter().chain([other]));
    listed
}

fn unlisted(mut value: String, prefix: &str, listed: &[String]) -> String {
    while listed.contains(&value) {
        value.insert_str(0, prefix);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::SetRelation::{ContainedIn, Contains, Disjoint, Equal, Overlaps};
    use super::*;

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
