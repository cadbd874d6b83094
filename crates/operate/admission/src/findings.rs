//! What a rule found: reasons to refuse, warnings, and measurements.

use crate::answer::{Answer, Denial};
use crate::policy::Action;
use crate::rule::Rule;

/// Warnings beyond this many are left out.
const MAX_WARNINGS: usize = 100;

/// The findings of the rules so far. The first denial is kept; warnings accumulate.
#[derive(Debug, Default)]
pub(crate) struct Findings(Answer);

impl Findings {
    /// A rule is broken, which the action decides about.
    pub(crate) fn broken(&mut self, action: Action, denial: Denial) {
        match action {
            Action::Reject => {
                self.0.denied.get_or_insert(denial);
            }
            Action::Warn => self.warn(denial.message),
            Action::Allow => {}
        }
    }

    /// Something the user should know.
    pub(crate) fn warn(&mut self, warning: String) {
        if self.0.warnings.len() < MAX_WARNINGS && !self.0.warnings.contains(&warning) {
            self.0.warnings.push(warning);
        }
    }

    /// A rule measured something, which an audit log can keep.
    pub(crate) fn measured(&mut self, rule: Rule, text: String) {
        let measured = self.0.audit.entry(rule.name()).or_default();
        if !measured.is_empty() {
            measured.push_str("; ");
        }
        measured.push_str(&text);
    }

    pub(crate) fn is_denied(&self) -> bool {
        self.0.denied.is_some()
    }

    pub(crate) fn into_answer(self) -> Answer {
        self.0
    }
}
