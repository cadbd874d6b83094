//! Which rules are in force.

use std::collections::BTreeSet;

use crate::table::RULES;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule(pub String);

/// The rules in force: all but those that are disabled.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    disabled: BTreeSet<&'static str>,
}

impl Selection {
    /// Disables rules or single findings of them, by name or `*` for all.
    ///
    /// # Errors
    /// The first name that is no rule.
    pub fn disable(&mut self, names: &[String]) -> Result<(), UnknownRule> {
        for name in names {
            self.disabled.extend(named(name)?);
        }
        Ok(())
    }

    /// Enables rules or single findings of them again, by name or `*` for all.
    ///
    /// # Errors
    /// The first name that is no rule.
    pub fn enable(&mut self, names: &[String]) -> Result<(), UnknownRule> {
        for name in names {
            for rule in named(name)? {
                self.disabled.remove(rule);
            }
        }
        Ok(())
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        !self.disabled.contains(name)
    }
}

fn named(name: &str) -> Result<Vec<&'static str>, UnknownRule> {
    let selected = RULES.iter().filter(|info| info.is_selected_by(name));
    match selected.map(|info| info.name).collect::<Vec<_>>() {
        names if names.is_empty() => Err(UnknownRule(name.to_owned())),
        names => Ok(names),
    }
}
