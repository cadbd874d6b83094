//! Selectors: label requirements in a canonical form.

use std::cmp::Ordering;

use berth_api::object::{LabelSelector, SelectorRequirement};
use berth_api::syntax;
use berth_api::syntax::{compare_versions, is_version};

/// Which comparisons a field accepts, and with which operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// The operators are invalid.
    Refused,
    /// Integers that are valid label values, so not negative ones: in node terms of v1.
    LabelValues,
    Integers,
    /// All integers, and `VersionGt` and `VersionLt` with versions: in node terms of the proposals.
    IntegersAndVersions,
}

/// What is said of a bound of `VersionGt` or `VersionLt` that is none.
pub(crate) const NOT_A_VERSION: &str =
    "must be a version that begins with a digit, such as 5.15.0-91-generic";

/// One parsed requirement on a label, or on an annotation or a field of a node.
///
/// `Gt` and `Lt` compare 64-bit integers; a label that is absent or not an integer does not match.
/// `VersionGt` and `VersionLt` compare versions ([`compare_versions`]) in the same way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requirement {
    /// The label is present with one of the values (sorted, no duplicates).
    In(String, Vec<String>),
    /// The label is absent, or present with none of the values (sorted, no duplicates).
    NotIn(String, Vec<String>),
    /// The label is present.
    Exists(String),
    /// The label is absent.
    DoesNotExist(String),
    /// The label is an integer above the bound.
    Gt(String, i64),
    /// The label is an integer below the bound.
    Lt(String, i64),
    /// The label is a version above the bound.
    VersionGt(String, String),
    /// The label is a version below the bound.
    VersionLt(String, String),
}

impl Requirement {
    /// The label key, or the path of an annotation or a field with a leading dot.
    pub fn key(&self) -> &str {
        match self {
            Requirement::In(key, _) | Requirement::NotIn(key, _) => key,
            Requirement::Exists(key) | Requirement::DoesNotExist(key) => key,
            Requirement::Gt(key, _) | Requirement::Lt(key, _) => key,
            Requirement::VersionGt(key, _) | Requirement::VersionLt(key, _) => key,
        }
    }

    /// Whether a label with this value (`None`: absent) satisfies it.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self {
            Requirement::In(_, values) => value.is_some_and(|v| contains(values, v)),
            Requirement::NotIn(_, values) => !value.is_some_and(|v| contains(values, v)),
            Requirement::Exists(_) => value.is_some(),
            Requirement::DoesNotExist(_) => value.is_none(),
            Requirement::Gt(_, bound) => integer(value).is_some_and(|n| n > *bound),
            Requirement::Lt(_, bound) => integer(value).is_some_and(|n| n < *bound),
            Requirement::VersionGt(_, bound) => version(value, bound).is_some_and(Ordering::is_gt),
            Requirement::VersionLt(_, bound) => version(value, bound).is_some_and(Ordering::is_lt),
        }
    }

    fn parse(requirement: &SelectorRequirement, comparison: Comparison) -> Result<Requirement, String> {
        let SelectorRequirement { key, values, .. } = requirement;
        let reasons = syntax::label_key(key);
        if !reasons.is_empty() {
            return Err(format!("key: Invalid value: {key:?}: {}", reasons.join("; ")));
        }
        let parsed = Requirement::parse_for_key(key.clone(), requirement, comparison)?;
        let compares = !matches!(parsed, Requirement::In(..) | Requirement::NotIn(..));
        if compares && comparison != Comparison::LabelValues {
            return Ok(parsed);
        }
        for (i, value) in values.iter().enumerate() {
            let reasons = syntax::label_value(value);
            if !reasons.is_empty() {
                let reasons = reasons.join("; ");
                return Err(format!("values[{i}][{key}]: Invalid value: {value:?}: {reasons}"));
            }
        }
        Ok(parsed)
    }

    /// Parses operator and values for a key that is checked, or for an annotation or a field, whose values are any text.
    pub(super) fn parse_for_key(
        key: String,
        SelectorRequirement { operator, values, .. }: &SelectorRequirement,
        comparison: Comparison,
    ) -> Result<Requirement, String> {
        let sorted = || {
            let mut values = values.clone();
            values.sort_unstable();
            values.dedup();
            values
        };
        let single = |operators| match values.as_slice() {
            [value] => Ok(value),
            _ => Err(format!(
                "values: Invalid value: for '{operators}' operators, exactly one value is required"
            )),
        };
        Ok(match operator.as_str() {
            "In" | "NotIn" if values.is_empty() => {
                return Err(
                    "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
                        .into(),
                );
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let shown = format!("[{}]", values.join(" "));
                return Err(format!(
                    "values: Invalid value: {shown:?}: values set must be empty for exists and does not exist"
                ));
            }
            "In" => Requirement::In(key, sorted()),
            "NotIn" => Requirement::NotIn(key, sorted()),
            "Exists" => Requirement::Exists(key),
            "DoesNotExist" => Requirement::DoesNotExist(key),
            "Gt" | "Lt" if comparison != Comparison::Refused => {
                let value = single("Gt', 'Lt")?;
                let Some(bound) = integer(Some(value)) else {
                    return Err(format!(
                        "values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                };
                if operator == "Gt" { Requirement::Gt(key, bound) } else { Requirement::Lt(key, bound) }
            }
            "VersionGt" | "VersionLt" if comparison == Comparison::IntegersAndVersions => {
                let bound = single("VersionGt', 'VersionLt")?.clone();
                if !is_version(&bound) {
                    return Err(format!("values[0]: Invalid value: {bound:?}: {NOT_A_VERSION}"));
                }
                match operator.as_str() {
                    "VersionGt" => Requirement::VersionGt(key, bound),
                    _ => Requirement::VersionLt(key, bound),
                }
            }
            _ => return Err(format!("operator: Invalid value: {operator:?}: not a valid selector operator")),
        })
    }

    fn to_api(&self) -> SelectorRequirement {
        let (operator, values) = match self {
            Requirement::In(_, values) => ("In", values.clone()),
            Requirement::NotIn(_, values) => ("NotIn", values.clone()),
            Requirement::Exists(_) => ("Exists", Vec::new()),
            Requirement::DoesNotExist(_) => ("DoesNotExist", Vec::new()),
            Requirement::Gt(_, bound) => ("Gt", vec![bound.to_string()]),
            Requirement::Lt(_, bound) => ("Lt", vec![bound.to_string()]),
            Requirement::VersionGt(_, bound) => ("VersionGt", vec![bound.clone()]),
            Requirement::VersionLt(_, bound) => ("VersionLt", vec![bound.clone()]),
        };
        SelectorRequirement { key: self.key().to_owned(), operator: operator.to_owned(), values }
    }

    /// Parses a list of requirements, each error prefixed with its place (`matchExpressions[1].`).
    pub(super) fn parse_all(
        requirements: &[SelectorRequirement],
        comparison: Comparison,
    ) -> Result<Vec<Requirement>, String> {
        let parse =
            |(i, r)| Requirement::parse(r, comparison).map_err(|e| format!("matchExpressions[{i}].{e}"));
        requirements.iter().enumerate().map(parse).collect()
    }
}

fn contains(sorted: &[String], value: &str) -> bool {
    sorted.binary_search_by(|v| v.as_str().cmp(value)).is_ok()
}

fn version(value: Option<&str>, bound: &str) -> Option<Ordering> {
    compare_versions(value?, bound)
}

fn integer(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

/// A label selector: nothing, or requirements that are ANDed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// Matches nothing (a null selector).
    Nothing,
    /// Matches what satisfies all of them, sorted and without duplicates; none at all matches everything.
    All(Vec<Requirement>),
}

impl Selector {
    pub const EVERYTHING: Selector = Selector::All(Vec::new());

    /// A selector from requirements in any order.
    pub fn new(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_unstable();
        requirements.dedup();
        Selector::All(requirements)
    }

    /// Parses a label selector of the API, without `Gt` and `Lt`. A null selector selects nothing.
    ///
    /// # Errors
    /// A requirement is invalid; the text names it.
    pub fn parse(selector: Option<&LabelSelector>) -> Result<Selector, String> {
        Selector::parse_with(selector, Comparison::Refused)
    }

    pub(super) fn parse_with(
        selector: Option<&LabelSelector>,
        comparison: Comparison,
    ) -> Result<Selector, String> {
        let Some(selector) = selector else { return Ok(Selector::Nothing) };
        let mut requirements = Requirement::parse_all(&selector.match_expressions, comparison)?;
        for (key, value) in &selector.match_labels {
            requirements.push(Requirement::In(key.clone(), vec![value.clone()]));
        }
        Ok(Selector::new(requirements))
    }

    pub fn is_everything(&self) -> bool {
        matches!(self, Selector::All(requirements) if requirements.is_empty())
    }

    /// Its requirements; none for a selector that matches nothing.
    pub fn requirements(&self) -> &[Requirement] {
        match self {
            Selector::Nothing => &[],
            Selector::All(requirements) => requirements,
        }
    }

    /// The selector as the API writes it; [`Selector::parse`] reads it back.
    pub fn to_api(&self) -> Option<LabelSelector> {
        let Selector::All(requirements) = self else { return None };
        let match_expressions = requirements.iter().map(Requirement::to_api).collect();
        Some(LabelSelector { match_expressions, ..LabelSelector::default() })
    }

    /// Whether labels, read through `get`, satisfy it.
    pub fn matches<'a>(&self, mut get: impl FnMut(&str) -> Option<&'a str>) -> bool {
        match self {
            Selector::Nothing => false,
            Selector::All(requirements) => requirements.iter().all(|r| r.matches(get(r.key()))),
        }
    }
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Requirement::In(key, values) if values.len() == 1 => write!(f, "{key}={}", values[0]),
            Requirement::In(key, values) => write_values(f, key, "in", values),
            Requirement::NotIn(key, values) => write_values(f, key, "not in", values),
            Requirement::Exists(key) => write!(f, "{key}"),
            Requirement::DoesNotExist(key) => write!(f, "!{key}"),
            Requirement::Gt(key, bound) => write!(f, "{key} > {bound}"),
            Requirement::Lt(key, bound) => write!(f, "{key} < {bound}"),
            Requirement::VersionGt(key, bound) => write!(f, "{key} > version {bound}"),
            Requirement::VersionLt(key, bound) => write!(f, "{key} < version {bound}"),
        }
    }
}

impl Selector {
    pub fn n_values(&self) -> usize {
        let of = |requirement: &Requirement| match requirement {
            Requirement::In(_, values) | Requirement::NotIn(_, values) => values.len(),
            _ => 0,
        };
        self.requirements().iter().map(of).sum()
    }
}

/// Value by value: who wants only the beginning of a text can stop.
fn write_values(
    f: &mut std::fmt::Formatter<'_>,
    key: &str,
    operator: &str,
    values: &[String],
) -> std::fmt::Result {
    write!(f, "{key} {operator} (")?;
    for (i, value) in values.iter().enumerate() {
        write!(f, "{}{value}", if i > 0 { ", " } else { "" })?;
    }
    f.write_str(")")
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Selector::Nothing => f.write_str("no pods (null selector)"),
            Selector::All(requirements) if requirements.is_empty() => f.write_str("everything"),
            Selector::All(requirements) => {
                for (i, requirement) in requirements.iter().enumerate() {
                    let separator = if i > 0 { ", " } else { "" };
                    write!(f, "{separator}{requirement}")?;
                }
                Ok(())
            }
        }
    }
}
