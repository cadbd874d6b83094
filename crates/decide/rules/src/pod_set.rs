//! Sets of pods: namespaces and labels. How two sets relate is decided for all pods that could exist.

use std::collections::BTreeMap;

use super::pod_term::{NAME_LABEL, PodTerm};
use super::relation::satisfiable;
use super::{NamespaceScope, Requirement, Selector, SetRelation};
use berth_api::object::{Namespace, StringMap};

/// Steps of a comparison of namespaces by their labels, besides those of its sizes.
const NAMESPACES_STEPS: usize = 100;

/// The pods of some namespaces with some labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodSet {
    pub namespaces: NamespaceScope,
    pub selector: Selector,
}

impl PodSet {
    /// The pods that a term selects.
    pub fn of(term: &PodTerm) -> PodSet {
        PodSet { namespaces: term.namespaces.clone(), selector: term.selector.clone() }
    }

    /// Whether no pod could be in it.
    pub fn is_empty(&self, known: &KnownNamespaces) -> bool {
        !self.selector.is_satisfiable() || !known.meet(&self.namespaces, &NamespaceScope::all())
    }

    /// Steps that a comparison with another set costs: names and values are looked up, requirements compared with each other, and
    /// selectors of namespaces with the labels of each one.
    pub fn comparison_steps(&self, other: &PodSet, known: &KnownNamespaces) -> usize {
        let size = |set: &PodSet| {
            let NamespaceScope { names, selector } = &set.namespaces;
            names.len() + selector.n_values() + set.selector.n_values()
        };
        let pairs = |a: &Selector, b: &Selector| (a.requirements().len() + 1) * (b.requirements().len() + 1);
        let of_namespaces = match (&self.namespaces.selector, &other.namespaces.selector) {
            (Selector::Nothing, Selector::Nothing) => 0,
            (own, others) => {
                let per_namespace =
                    size(self) + size(other) + own.requirements().len() + others.requirements().len();
                NAMESPACES_STEPS + pairs(own, others) + known.labels.len().saturating_mul(2 + per_namespace)
            }
        };
        size(self) + size(other) + pairs(&self.selector, &other.selector) + of_namespaces
    }

    pub fn contains(&self, namespace: &str, labels: &StringMap, known: &KnownNamespaces) -> bool {
        self.selector.matches(|key| labels.get(key).map(String::as_str))
            && self.namespaces_contain(namespace, known)
    }

    pub fn namespaces_contain(&self, namespace: &str, known: &KnownNamespaces) -> bool {
        is_in(&self.namespaces, namespace, known.labels.get(namespace))
    }

    /// How it relates to another set. An empty set is disjoint from all sets.
    pub fn relation(&self, other: &PodSet, known: &KnownNamespaces) -> SetRelation {
        let relation = self.selector.relation(&other.selector);
        if relation == SetRelation::Disjoint || !known.meet(&self.namespaces, &other.namespaces) {
            return SetRelation::Disjoint;
        }
        let (is_within, contains) = match relation {
            SetRelation::Disjoint | SetRelation::Overlaps => return relation,
            SetRelation::Equal => (true, true),
            SetRelation::ContainedIn => (true, false),
            SetRelation::Contains => (false, true),
        };
        SetRelation::of_meeting(
            is_within && known.is_within(&self.namespaces, &other.namespaces),
            contains && known.is_within(&other.namespaces, &self.namespaces),
        )
    }
}

/// The namespaces of a cluster with their labels. Namespaces that are not among them could have any labels.
#[derive(Clone, Debug)]
pub struct KnownNamespaces {
    labels: BTreeMap<String, StringMap>,
    /// Matches the namespaces that are not known.
    others: Selector,
}

impl KnownNamespaces {
    /// The namespaces with the label that the API server adds.
    pub fn new<'a>(namespaces: impl IntoIterator<Item = &'a Namespace>) -> KnownNamespaces {
        let with_name = |namespace: &Namespace| {
            let name = &namespace.metadata.name;
            let mut labels = StringMap::clone(&namespace.metadata.labels);
            labels.insert(NAME_LABEL.to_owned(), name.clone());
            (name.clone(), labels)
        };
        let labels: BTreeMap<_, _> = namespaces.into_iter().map(with_name).collect();
        let is_other = Requirement::NotIn(NAME_LABEL.to_owned(), labels.keys().cloned().collect());
        KnownNamespaces { labels, others: Selector::new(vec![is_other]) }
    }

    /// Whether a selector matches the labels of a namespace. One that is not known has the label with its name alone.
    pub fn matches(&self, name: &str, selector: &Selector) -> bool {
        let labels = self.labels.get(name);
        selector.matches(|key| match labels {
            Some(labels) => labels.get(key).map(String::as_str),
            None => (key == NAME_LABEL).then_some(name),
        })
    }

    /// Whether a namespace could be in both.
    fn meet(&self, a: &NamespaceScope, b: &NamespaceScope) -> bool {
        if let (Selector::Nothing, Selector::Nothing) = (&a.selector, &b.selector) {
            return a.names.iter().any(|name| b.names.binary_search(name).is_ok());
        }
        let is_in_both = |(name, labels): (&String, &StringMap)| {
            is_in(a, name, Some(labels)) && is_in(b, name, Some(labels))
        };
        let (a, b) = (parts(a), parts(b));
        let could_be_in_both =
            |(a, b): (&Selector, &Selector)| satisfiable(&holding([a, b, &self.others]).collect::<Vec<_>>());
        self.labels.iter().any(is_in_both)
            || a.iter().flat_map(|a| b.iter().map(move |b| (a, b))).any(could_be_in_both)
    }

    /// Whether each namespace that could be in `a` is in `b`.
    fn is_within(&self, a: &NamespaceScope, b: &NamespaceScope) -> bool {
        if let (Selector::Nothing, Selector::Nothing) = (&a.selector, &b.selector) {
            return a.names.iter().all(|name| b.names.binary_search(name).is_ok());
        }
        let escapes = |(name, labels): (&String, &StringMap)| {
            is_in(a, name, Some(labels)) && !is_in(b, name, Some(labels))
        };
        let [named, labelled] = parts(b);
        // A namespace is outside `b` if it violates a requirement of each part.
        let could_escape = |a: &Selector| {
            named.requirements().iter().any(|name| {
                labelled.requirements().iter().any(|label| {
                    let violated = [(name, false), (label, false)];
                    satisfiable(&holding([a, &self.others]).chain(violated).collect::<Vec<_>>())
                })
            })
        };
        !self.labels.iter().any(escapes) && !parts(a).iter().any(could_escape)
    }
}

/// Whether a namespace is in the scope; without labels, as far as its name decides.
fn is_in(scope: &NamespaceScope, name: &str, labels: Option<&StringMap>) -> bool {
    let matches = |labels: &StringMap| scope.selector.matches(|key| labels.get(key).map(String::as_str));
    scope.names.iter().any(|listed| listed == name) || labels.map_or(scope.selector.is_everything(), matches)
}

/// A scope as two selectors of namespaces, at least one of which must match.
fn parts(scope: &NamespaceScope) -> [Selector; 2] {
    let named =
        |names: &[String]| Selector::new(vec![Requirement::In(NAME_LABEL.to_owned(), names.to_vec())]);
    let labelled = match &scope.selector {
        Selector::Nothing => named(&[]),
        selector => selector.clone(),
    };
    [named(&scope.names), labelled]
}

fn holding<'a>(
    selectors: impl IntoIterator<Item = &'a Selector>,
) -> impl Iterator<Item = (&'a Requirement, bool)> {
    selectors.into_iter().flat_map(Selector::requirements).map(|requirement| (requirement, true))
}

#[cfg(test)]
mod tests {
    use super::SetRelation::{ContainedIn, Contains, Disjoint, Equal, Overlaps};
    use super::*;

    /// `a b/team=x`: names, then labels of namespaces; `*` means all namespaces.
    fn scope(text: &str) -> NamespaceScope {
        let (names, selector) = text.split_once('/').map_or((text, None), |(names, s)| (names, Some(s)));
        let mut names: Vec<_> = names.split_whitespace().map(str::to_owned).collect();
        names.sort_unstable();
        let selector = match selector {
            None => Selector::Nothing,
            Some("*") => Selector::EVERYTHING,
            Some(selector) => selector.parse().unwrap(),
        };
        NamespaceScope { names, selector }
    }

    fn known() -> KnownNamespaces {
        let namespace = |name: &str, team: &str| {
            let mut namespace = Namespace::default();
            namespace.metadata.name = name.to_owned();
            namespace.metadata.labels.insert("team".to_owned(), team.to_owned());
            namespace
        };
        KnownNamespaces::new(&[namespace("a", "x"), namespace("b", "x"), namespace("c", "y")])
    }

    #[test]
    fn relations_of_namespaces() {
        for (left, right, expected) in [
            ("a", "a", Equal),
            ("a", "a b", ContainedIn),
            ("a", "b", Disjoint),
            ("a c", "b c", Overlaps),
            ("a", "/*", ContainedIn),
            ("a/*", "/*", Equal),
            ("a", "/team=x", ContainedIn),
            ("c", "/team=x", Disjoint),
            ("a b", "/team=x", ContainedIn),
            ("c/team=x", "/team=x", Contains),
            // Namespace d is not known: it could have any labels.
            ("d", "/team=x", Overlaps),
            ("a d", "d/team=x", ContainedIn),
            ("/team=x", "/team in (x,y)", ContainedIn),
            ("/team=x", "/tier=z", Overlaps),
            ("/team=x", "/team=y", Disjoint),
            ("/team", "/!team", Disjoint),
            ("/!team", "/*", ContainedIn),
            // A union that neither part of contains.
            ("/kubernetes.io/metadata.name in (a,d)", "d/team=x", ContainedIn),
            ("/kubernetes.io/metadata.name=a", "a", Equal),
            ("/kubernetes.io/metadata.name=d", "a", Disjoint),
        ] {
            let set = |text| PodSet { namespaces: scope(text), selector: Selector::EVERYTHING };
            let (a, b) = (set(left), set(right));
            assert_eq!(a.relation(&b, &known()), expected, "{left} and {right}");
            assert_eq!(b.relation(&a, &known()), expected.reversed(), "{right} and {left}");
        }
    }

    /// Every namespace with few labels, against the relation.
    #[test]
    fn relations_agree_with_namespaces() {
        let known = known();
        let mut all: Vec<_> =
            known.labels.iter().map(|(name, labels)| (name.clone(), labels.clone())).collect();
        for name in ["d", "e"] {
            for (team, tier) in [("", ""), ("x", ""), ("y", "z"), ("", "z"), ("x", "z"), ("y", "")] {
                let labels = [(NAME_LABEL, name), ("team", team), ("tier", tier)]
                    .map(|(k, v)| (k.to_owned(), v.to_owned()));
                all.push((
                    name.to_owned(),
                    labels.into_iter().filter(|(_, value)| !value.is_empty()).collect(),
                ));
            }
        }
        let names = ["", "a", "a c", "d", "a d"];
        let labels = [
            "",
            "/*",
            "/team=x",
            "/team",
            "/!team",
            "/tier=z",
            "/tier!=z",
            "/kubernetes.io/metadata.name in (a,d)",
        ];
        let scopes =
            || names.iter().flat_map(|names| labels.iter().map(move |labels| format!("{names}{labels}")));
        for left in scopes() {
            for right in scopes() {
                let set = |text: &str| PodSet { namespaces: scope(text), selector: Selector::EVERYTHING };
                let (a, b) = (set(&left), set(&right));
                let is_in = |set: &PodSet, (name, labels): &(String, StringMap)| {
                    is_in(&set.namespaces, name, Some(labels))
                };
                let any = |in_a, in_b| all.iter().any(|n| (is_in(&a, n), is_in(&b, n)) == (in_a, in_b));
                let expected = match any(true, true) {
                    false => Disjoint,
                    true => SetRelation::of_meeting(!any(true, false), !any(false, true)),
                };
                assert_eq!(a.relation(&b, &known), expected, "{left:?} and {right:?}");
            }
        }
    }

    #[test]
    fn relations_of_pods_need_namespaces_and_labels() {
        for (left, right, expected) in [
            (("a", "app=web"), ("a", "app=web"), Equal),
            (("a", "app=web"), ("b", "app=web"), Disjoint),
            (("a", "app=web"), ("/*", "app=web"), ContainedIn),
            (("a", "app"), ("/*", "app=web"), Overlaps),
            (("a", "app=web"), ("/*", "app=db"), Disjoint),
            (("a b", "app=web"), ("b c", "app=web"), Overlaps),
        ] {
            let set = |(names, labels): (&str, &str)| PodSet {
                namespaces: scope(names),
                selector: labels.parse().unwrap(),
            };
            let (a, b) = (set(left), set(right));
            assert_eq!(a.relation(&b, &known()), expected, "{left:?} and {right:?}");
            assert_eq!(b.relation(&a, &known()), expected.reversed(), "{right:?} and {left:?}");
        }
    }

    #[test]
    fn empty_sets() {
        for (namespaces, selector, is_empty) in [
            ("a", "", false),
            ("", "", true),
            ("/team=x,team=y", "", true),
            ("/team=z", "", false),
            ("a", "app=web,app=db", true),
        ] {
            let set = PodSet { namespaces: scope(namespaces), selector: selector.parse().unwrap() };
            assert_eq!(set.is_empty(&known()), is_empty, "{namespaces:?} {selector:?}");
        }
    }
}
