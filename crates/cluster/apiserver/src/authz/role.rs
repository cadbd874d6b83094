//! A role as requests read it: which of its rules name a verb, a group, a resource, an object or a path.
//!
//! It grants a permission if one rule is in the sets of all parts of the permission. That is a matter of a few words of
//! bits, however many rules there are, and it takes memory for the texts of the role once.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Included, Unbounded};

use berth_api::object::LabelSelector;
use berth_api::read::from_value;
use berth_rules::Selector;
use serde_json::Value;

use super::rule_set::RuleSet;
use crate::request::Attributes;
use crate::store::Compiled;

/// The rules of a role, by what they name.
#[derive(Debug, Default)]
pub struct Role {
    /// The words of a set of all its rules.
    pub n_words: usize,
    /// For an aggregated role, the labels of the cluster roles whose rules it has.
    pub aggregates: Option<Box<[Selector]>>,
    verbs: Index,
    groups: Index,
    resources: Index,
    names: Index,
    /// The rules for objects of every name.
    nameless: RuleSet,
    paths: Index,
    /// The paths that end with `*`, without it.
    prefixes: BTreeMap<Box<str>, RuleSet>,
}

/// The rules that name a text.
#[derive(Debug, Default)]
struct Index(HashMap<Box<str>, RuleSet>);

impl Index {
    fn add(&mut self, text: &str, rule: usize) {
        match self.0.get_mut(text) {
            Some(rules) => rules.push(rule),
            None => self.0.entry(text.into()).or_default().push(rule),
        }
    }

    /// The rules that name one of some texts.
    fn any(&self, texts: &[&str]) -> RuleSet {
        let named = texts.iter().filter_map(|text| self.0.get(*text));
        named.fold(RuleSet::default(), |all, rules| all.union(rules))
    }
}

impl Compiled for Role {
    fn compile(value: Cow<'_, Value>) -> Role {
        let is_cluster_role = value["metadata"]["namespace"].is_null();
        let selectors =
            value["aggregationRule"]["clusterRoleSelectors"].as_array().filter(|_| is_cluster_role);
        let selector = |selector| Selector::parse(Some(&from_value::<LabelSelector>(selector).ok()?)).ok();
        Role {
            aggregates: selectors.map(|selectors| selectors.iter().filter_map(selector).collect()),
            ..Role::of(value["rules"].as_array().map_or(&[], Vec::as_slice))
        }
    }
}

impl Role {
    pub fn of(rules: &[Value]) -> Role {
        let mut role = Role { n_words: rules.len().div_ceil(64), ..Role::default() };
        for (number, rule) in rules.iter().enumerate() {
            let texts = |field: &str| rule[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            texts("verbs").for_each(|verb| role.verbs.add(verb, number));
            texts("apiGroups").for_each(|group| role.groups.add(group, number));
            texts("resources").for_each(|resource| role.resources.add(resource, number));
            texts("resourceNames").for_each(|name| role.names.add(name, number));
            if texts("resourceNames").next().is_none() {
                role.nameless.push(number);
            }
            for url in texts("nonResourceURLs") {
                match url.strip_suffix('*') {
                    Some(prefix) => role.prefixes.entry(prefix.into()).or_default().push(number),
                    None => role.paths.add(url, number),
                }
            }
        }
        role
    }

    pub fn verb(&self, verb: &str) -> RuleSet {
        self.verbs.any(&["*", verb])
    }

    pub fn group(&self, group: &str) -> RuleSet {
        self.groups.any(&["*", group])
    }

    /// The rules for a resource (`pods`, `pods/binding`, `*/scale`).
    pub fn resource(&self, resource: &str) -> RuleSet {
        match resource.split_once('/') {
            Some((_, sub)) if !sub.is_empty() => self.resources.any(&["*", resource, &format!("*/{sub}")]),
            _ => self.resources.any(&["*", resource]),
        }
    }

    pub fn name(&self, name: &str) -> RuleSet {
        self.nameless.union(&self.names.any(&[name]))
    }

    /// The rules for objects of every name.
    pub fn nameless(&self) -> RuleSet {
        self.nameless.clone()
    }

    pub fn path(&self, path: &str) -> RuleSet {
        let mut found = self.paths.any(&[path]);
        // Each step leads to the next shorter text that can be a prefix of the path.
        let mut longest = Some(path);
        while let Some(at_most) = longest
            && let Some((prefix, rules)) =
                self.prefixes.range::<str, _>((Unbounded, Included(at_most))).next_back()
        {
            let equal = path.chars().zip(prefix.chars()).take_while(|(a, b)| a == b);
            let common = &path[..equal.map(|(a, _)| a.len_utf8()).sum()];
            longest = Some(common);
            if common.len() == prefix.len() {
                found = found.union(rules);
                longest = common.char_indices().next_back().map(|(last, _)| &common[..last]);
            }
        }
        found
    }

    pub fn allows(&self, what: &Attributes<'_>) -> bool {
        let verbs = self.verb(what.verb);
        if what.resource.is_empty() {
            return !verbs.intersection(&self.path(what.path)).is_empty();
        }
        let resource = match what.subresource {
            "" => Cow::Borrowed(what.resource),
            subresource => Cow::Owned(format!("{}/{subresource}", what.resource)),
        };
        let resources = verbs.intersection(&self.resource(&resource));
        !resources.is_empty()
            && !resources.intersection(&self.group(what.group)).intersection(&self.name(what.name)).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_cover_the_permissions_they_name() {
        let binding = Attributes {
            verb: "create",
            resource: "pods",
            subresource: "binding",
            name: "p",
            ..Attributes::default()
        };
        let list = Attributes { verb: "list", resource: "pods", ..Attributes::default() };
        let path = Attributes { verb: "get", path: "/metrics/x", ..Attributes::default() };
        let of = |group: &str, verbs: &[&str], resources: &[&str], names: &[&str]| {
            Role::of(&[
                json!({"apiGroups": [group], "verbs": verbs, "resources": resources, "resourceNames": names}),
            ])
        };
        for (role, wanted) in [
            (of("", &["create"], &["pods/binding"], &[]), [true, false]),
            (of("", &["*"], &["pods"], &[]), [false, true]),
            (of("", &["*"], &["*/binding"], &[]), [true, false]),
            (of("*", &["*"], &["*"], &[]), [true, true]),
            (of("apps", &["*"], &["*"], &[]), [false, false]),
            (of("", &["create", "list"], &["pods/*", "pods"], &[]), [false, true]),
            (of("", &["*"], &["*"], &["p"]), [true, false]),
            (of("", &["*"], &["*"], &["q"]), [false, false]),
        ] {
            assert_eq!([&binding, &list].map(|what| role.allows(what)), wanted, "{role:?}");
            assert!(!role.allows(&path));
        }
        for (url, wanted) in [("/metrics", false), ("/metrics/*", true), ("*", true), ("/metrics/x", true)] {
            let role = Role::of(&[json!({"verbs": ["get"], "nonResourceURLs": [url]})]);
            assert_eq!(role.allows(&path), wanted, "{url}");
            assert!(!role.allows(&list));
        }
    }

    #[test]
    fn a_path_has_the_rules_of_all_its_prefixes() {
        let urls = ["*", "/a*", "/aé*", "/aéb*", "/az*", "/b*", "/aé/c*", "/aé/c"];
        let rules: Vec<Value> = urls.iter().map(|url| json!({"nonResourceURLs": [url]})).collect();
        let role = Role::of(&rules);
        for (path, wanted) in [
            ("/aé/c", &[0, 1, 2, 6, 7][..]),
            ("/aéb", &[0, 1, 2, 3]),
            ("/", &[0]),
            ("", &[0]),
            ("/az", &[0, 1, 4]),
        ] {
            let mut expected = RuleSet::default();
            wanted.iter().for_each(|number| expected.push(*number));
            assert_eq!(role.path(path), expected, "{path}");
        }
    }
}
