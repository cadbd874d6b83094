//! Selectors compiled to symbols.

use std::cmp::Ordering;

use berth_api::syntax::compare_versions;
use berth_rules::{Requirement, Selector};

use crate::state::interned::intern::{Labels, Symbol, Symbols};

/// A requirement over interned labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LabelRequirement {
    In(Symbol, Box<[Symbol]>),
    NotIn(Symbol, Box<[Symbol]>),
    Exists(Symbol),
    DoesNotExist(Symbol),
    Gt(Symbol, i64),
    Lt(Symbol, i64),
    VersionGt(Symbol, Box<str>),
    VersionLt(Symbol, Box<str>),
}

impl LabelRequirement {
    pub(crate) fn compile(symbols: &mut Symbols, requirement: &Requirement) -> Self {
        let key = symbols.intern(requirement.key());
        let mut values = |values: &[String]| {
            let mut values: Box<[Symbol]> = values.iter().map(|v| symbols.intern(v)).collect();
            values.sort_unstable();
            values
        };
        match requirement {
            Requirement::In(_, v) => LabelRequirement::In(key, values(v)),
            Requirement::NotIn(_, v) => LabelRequirement::NotIn(key, values(v)),
            Requirement::Exists(_) => LabelRequirement::Exists(key),
            Requirement::DoesNotExist(_) => LabelRequirement::DoesNotExist(key),
            Requirement::Gt(_, bound) => LabelRequirement::Gt(key, *bound),
            Requirement::Lt(_, bound) => LabelRequirement::Lt(key, *bound),
            Requirement::VersionGt(_, bound) => LabelRequirement::VersionGt(key, bound.as_str().into()),
            Requirement::VersionLt(_, bound) => LabelRequirement::VersionLt(key, bound.as_str().into()),
        }
    }

    /// The key and the values.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let values = match self {
            LabelRequirement::In(_, values) | LabelRequirement::NotIn(_, values) => &values[..],
            _ => &[],
        };
        values.iter().copied().chain([self.key()])
    }

    pub(crate) fn key(&self) -> Symbol {
        match self {
            LabelRequirement::In(key, _)
            | LabelRequirement::NotIn(key, _)
            | LabelRequirement::Exists(key)
            | LabelRequirement::DoesNotExist(key)
            | LabelRequirement::Gt(key, _)
            | LabelRequirement::Lt(key, _)
            | LabelRequirement::VersionGt(key, _)
            | LabelRequirement::VersionLt(key, _) => *key,
        }
    }

    pub(crate) fn matches(&self, symbols: &Symbols, labels: &Labels) -> bool {
        self.holds_for(symbols, labels.get(self.key()))
    }

    /// Whether a value (none: absent) satisfies it.
    pub(crate) fn holds_for(&self, symbols: &Symbols, value: Option<Symbol>) -> bool {
        let version = |bound: &str| compare_versions(symbols.text(value?), bound);
        let integer = || symbols.text(value?).parse::<i64>().ok();
        match self {
            LabelRequirement::In(_, values) => value.is_some_and(|v| values.binary_search(&v).is_ok()),
            LabelRequirement::NotIn(_, values) => value.is_none_or(|v| values.binary_search(&v).is_err()),
            LabelRequirement::Exists(_) => value.is_some(),
            LabelRequirement::DoesNotExist(_) => value.is_none(),
            LabelRequirement::Gt(_, bound) => integer().is_some_and(|n| n > *bound),
            LabelRequirement::Lt(_, bound) => integer().is_some_and(|n| n < *bound),
            LabelRequirement::VersionGt(_, bound) => version(bound).is_some_and(Ordering::is_gt),
            LabelRequirement::VersionLt(_, bound) => version(bound).is_some_and(Ordering::is_lt),
        }
    }
}

/// A selector over interned labels; `None` matches nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LabelMatcher(Option<Box<[LabelRequirement]>>);

impl LabelMatcher {
    pub(crate) fn compile(symbols: &mut Symbols, selector: &Selector) -> Self {
        match selector {
            Selector::Nothing => LabelMatcher(None),
            Selector::All(requirements) => LabelMatcher(Some(
                requirements.iter().map(|r| LabelRequirement::compile(symbols, r)).collect(),
            )),
        }
    }

    pub(crate) fn matches(&self, symbols: &Symbols, labels: &Labels) -> bool {
        self.0.as_ref().is_some_and(|all| all.iter().all(|r| r.matches(symbols, labels)))
    }

    /// Restricts it to labels without these keys.
    pub(crate) fn exclude(&mut self, keys: impl IntoIterator<Item = Symbol>) {
        if let Some(requirements) = self.0.take() {
            let excluded = keys.into_iter().map(LabelRequirement::DoesNotExist);
            self.0 = Some(requirements.into_iter().chain(excluded).collect());
        }
    }

    pub(crate) fn nothing() -> Self {
        LabelMatcher(None)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(|all| all.is_empty())
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.requirements().iter().flat_map(LabelRequirement::symbols)
    }

    pub(crate) fn requirements(&self) -> &[LabelRequirement] {
        self.0.as_deref().unwrap_or_default()
    }
}
