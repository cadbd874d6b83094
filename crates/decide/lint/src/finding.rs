//! Findings.

use std::collections::HashMap;

use serde::Serialize;

use crate::rule::RuleInfo;
use crate::severity::Severity;
use crate::subject::Object;
use crate::work::Work;

/// A mistake in an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the rule, or `RULE/FINDING`.
    pub rule: &'static str,
    pub severity: Severity,
    pub kind: String,
    /// Namespace of the object; empty for one that is in none.
    pub namespace: String,
    pub name: String,
    pub path: String,
    /// Name of the input that has the object.
    pub file: String,
    /// Line of the field in the input, from 1; none if it is not known.
    pub line: Option<usize>,
    pub message: String,
    pub fix: String,
    /// Where the object was read.
    #[serde(skip)]
    pub place: berth_api::read::SourceLocation,
}

/// A finding with what it is sorted by: the order of its object, the rule and the path.
pub(crate) struct Found {
    pub(crate) position: (usize, &'static str, String),
    /// Whether the object is not exempt from the rule, and the rule had enough steps of work to know.
    pub(crate) counts: bool,
    pub(crate) finding: Finding,
}

pub(crate) struct Findings {
    rule: &'static [RuleInfo],
    work: Work,
    pub(crate) all: Vec<Found>,
    /// Which objects are exempt from a finding: annotations can be large.
    exempt: HashMap<(usize, &'static str), bool>,
}

impl Findings {
    pub(crate) fn new(rule: &'static [RuleInfo], work: Work) -> Findings {
        Findings { rule, work, all: Vec::new(), exempt: HashMap::new() }
    }

    /// Adds the finding of a rule that has one, with its severity and fix. `path` is that in the whole object.
    pub(crate) fn add(
        &mut self,
        object: &Object<'_>,
        path: String,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.add_info(&self.rule[0], object, path, message.into())
    }

    /// As [`Findings::add`], one of several findings of a rule: `claim-too-large` of `device/claim-too-large`.
    pub(crate) fn add_one(
        &mut self,
        name: &str,
        object: &Object<'_>,
        path: String,
        message: impl Into<String>,
    ) -> &mut Finding {
        let has_name = |info: &&RuleInfo| info.name.rsplit('/').next() == Some(name);
        let info = self.rule.iter().find(has_name).expect("the table has all findings of the rule");
        self.add_info(info, object, path, message.into())
    }

    fn add_info(
        &mut self,
        info: &'static RuleInfo,
        object: &Object<'_>,
        path: String,
        message: String,
    ) -> &mut Finding {
        let RuleInfo { name: rule, severity, fix, .. } = *info;
        let finding = Finding {
            rule,
            severity,
            kind: object.kind.to_owned(),
            namespace: object.namespace.to_owned(),
            name: object.name.to_owned(),
            path: path.clone(),
            file: object.source.file.to_string(),
            line: object.source.line,
            message,
            fix: fix.to_owned(),
            place: object.source.clone(),
        };
        let position = (object.order, rule, path);
        let is_exempt = self.exempt.entry((object.order, rule)).or_insert_with(|| object.is_exempt(info));
        let counts = !*is_exempt && !self.work.is_spent();
        self.all.push(Found { position, counts, finding });
        &mut self.all.last_mut().expect("a finding was just added").finding
    }
}

impl Finding {
    /// `web.yaml:12`.
    #[must_use]
    pub fn position(&self) -> String {
        self.line.map_or_else(|| self.file.clone(), |line| format!("{}:{line}", self.file))
    }

    /// `Deployment shop/web`.
    #[must_use]
    pub fn object(&self) -> String {
        let Finding { kind, namespace, name, .. } = self;
        if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
    }

    pub(crate) fn fix(&mut self, fix: impl Into<String>) -> &mut Self {
        self.fix = fix.into();
        self
    }

    pub(crate) fn severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self
    }
}
