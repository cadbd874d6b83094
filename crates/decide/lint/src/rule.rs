//! What is known of a rule without applying it.

use std::fmt;

use crate::severity::Severity;

/// A rule, or one of several findings of a rule.
#[derive(Clone, Copy)]
pub struct RuleInfo {
    /// The name of the rule, or `RULE/FINDING`.
    pub name: &'static str,
    /// Its name before findings of several rules became those of one, which still selects it.
    pub(crate) former: Option<&'static str>,
    /// The usual severity of its findings; a finding that depends on what the input does not show has a lower one.
    pub severity: Severity,
    pub summary: &'static str,
    pub fix: &'static str,
}

impl fmt::Debug for RuleInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl RuleInfo {
    /// The name of the rule: `device` of `device/claim-too-large`.
    pub fn rule(&self) -> &'static str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// Whether a name selects it: its own, the former one, that of its rule, or `*` for all.
    pub(crate) fn is_selected_by(&self, name: &str) -> bool {
        [self.name, self.rule(), "*"].contains(&name) || self.former == Some(name)
    }
}
