//! Which existing nodes are ours.

use berth_api::object::StringMap;

use crate::options::Adopt;

/// A parsed [`Adopt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NodeSelection {
    None,
    Some { requirements: Vec<Requirement>, names: Vec<String> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    key: String,
    wanted: Wanted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// A label selector that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "label selector {selector:?}: {part:?} is not a requirement; write key=value, key!=value, key in (a,b), key notin \
     (a,b), key or !key, separated by commas"
)]
pub struct SelectorError {
    /// The whole selector.
    pub selector: String,
    /// What was not understood.
    pub part: String,
}

impl NodeSelection {
    pub(crate) fn parse(adopt: &Adopt) -> Result<NodeSelection, SelectorError> {
        Ok(match adopt {
            Adopt::None => NodeSelection::None,
            Adopt::All => NodeSelection::Some { requirements: Vec::new(), names: Vec::new() },
            Adopt::Selected { labels, names } => {
                NodeSelection::Some { requirements: parse(labels)?, names: names.clone() }
            }
        })
    }

    pub(crate) fn matches(&self, name: &str, labels: &StringMap) -> bool {
        match self {
            NodeSelection::None => false,
            NodeSelection::Some { requirements, names } => {
                (names.is_empty() || names.iter().any(|n| n == name))
                    && requirements.iter().all(|requirement| requirement.matches(labels))
            }
        }
    }
}

impl Requirement {
    /// As Kubernetes does: what is unequal or not among values also matches where the label is missing.
    fn matches(&self, labels: &StringMap) -> bool {
        let value = labels.get(&self.key);
        match &self.wanted {
            Wanted::In(values) => value.is_some_and(|v| values.contains(v)),
            Wanted::NotIn(values) => value.is_none_or(|v| !values.contains(v)),
            Wanted::Exists => value.is_some(),
            Wanted::Absent => value.is_none(),
        }
    }
}

fn parse(selector: &str) -> Result<Vec<Requirement>, SelectorError> {
    let fail = |part: &str| SelectorError { selector: selector.to_owned(), part: part.trim().to_owned() };
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (i, c) in selector.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| fail(&selector[start..]))?,
            ',' if depth == 0 => {
                parts.push(&selector[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&selector[start..]);
    if selector.trim().is_empty() {
        return Ok(Vec::new());
    }
    parts.into_iter().map(|part| requirement(part.trim()).ok_or_else(|| fail(part))).collect()
}

fn requirement(text: &str) -> Option<Requirement> {
    let is_key = |k: &str| {
        !k.is_empty() && k.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    };
    let is_value = |v: &str| v.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let made = |key: &str, wanted: Wanted| {
        let key = key.trim();
        let values: &[String] = match &wanted {
            Wanted::In(values) | Wanted::NotIn(values) => values,
            _ => &[],
        };
        let is_good = is_key(key) && values.iter().all(|v| is_value(v));
        is_good.then(|| Requirement { key: key.to_owned(), wanted })
    };
    let values = |text: &str| -> Option<Vec<String>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|v| v.trim().to_owned()).collect())
    };
    if let Some(key) = text.strip_prefix('!') {
        return made(key, Wanted::Absent);
    }
    if let Some((key, value)) = text.split_once("!=") {
        return made(key, Wanted::NotIn(vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return made(key, Wanted::In(vec![value.trim().to_owned()]));
    }
    match text.split_once(char::is_whitespace) {
        None => made(text, Wanted::Exists),
        Some((key, rest)) => {
            let rest = rest.trim_start();
            if let Some(list) = rest.strip_prefix("notin") {
                return made(key, Wanted::NotIn(values(list)?));
            }
            made(key, Wanted::In(values(rest.strip_prefix("in")?)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let adopt = Adopt::Selected { labels: selector.to_owned(), names: Vec::new() };
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        NodeSelection::parse(&adopt).unwrap().matches("node", &labels)
    }

    #[test]
    fn every_form_of_requirement() {
        let cases: [(&str, bool, bool, bool); 9] = [
            // Selector; labels zone=a, zone=b, none.
            ("zone=a", true, false, false),
            ("zone == a", true, false, false),
            ("zone!=a", false, true, true),
            ("zone in (a, c)", true, false, false),
            ("zone notin (a,c)", false, true, true),
            ("zone", true, true, false),
            ("!zone", false, false, true),
            ("zone in (a,b),zone!=b", true, false, false),
            ("", true, true, true),
        ];
        for (selector, a, b, none) in cases {
            let found = (
                matches(selector, &[("zone", "a")]),
                matches(selector, &[("zone", "b")]),
                matches(selector, &[]),
            );
            assert_eq!(found, (a, b, none), "{selector}");
        }
    }

    #[test]
    fn names_narrow_and_nothing_is_taken_over_unasked() {
        let adopt = Adopt::Selected { labels: String::new(), names: vec!["a".to_owned()] };
        let selection = NodeSelection::parse(&adopt).unwrap();
        assert!(selection.matches("a", &StringMap::new()) && !selection.matches("b", &StringMap::new()));
        assert!(!NodeSelection::parse(&Adopt::None).unwrap().matches("a", &StringMap::new()));
    }

    #[test]
    fn what_is_no_requirement_is_named() {
        for (selector, part) in [
            ("a=b,,c", ""),
            ("a in b", "a in b"),
            ("a b", "a b"),
            ("=x", "=x"),
            ("a in (b", "a in (b"),
            ("a)", "a)"),
        ] {
            assert_eq!(parse(selector).unwrap_err().part, part, "{selector}");
        }
    }
}
