//! Placement mistakes in manifests.

use std::collections::BTreeMap;

use berth_api::syntax::format::grouped;
use berth_lint::{Finding, LintReport, Severity};

use super::{Part, Report, Span, Tone, attention, bad, line, listed, strong, toned};

/// Beyond as many findings, they are also counted by rule.
const MAX_UNCOUNTED: usize = 10;

/// The findings by file and line, and what was not looked at.
pub fn report(of: &LintReport) -> Report {
    let LintReport { findings, incomplete, hint, .. } = of;
    let mut report = Report { is_good: findings.is_empty() && incomplete.is_empty(), ..Report::default() };
    report.verdict.push(line![verdict(of)]);
    findings.iter().for_each(|finding| add(report.part(finding.object()), finding));
    if findings.len() > MAX_UNCOUNTED {
        by_rule(report.part("By rule"), findings);
    }
    let part = report.part("Not looked at");
    for rule in incomplete {
        part.line(0, line![bad("incomplete"), format!(": {rule}")]);
    }
    if let Some(hint) = hint {
        part.line(0, line![attention("hint"), format!(": {hint}")]);
    }
    report
}

/// `1 error, 2 warnings; checked 3 workloads, 7 pods`.
fn verdict(LintReport { findings, incomplete, checked, .. }: &LintReport) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let mut found =
        listed(&[(count(Severity::Error), "error", ""), (count(Severity::Warning), "warning", "")]);
    if let n @ 1.. = count(Severity::Info) {
        let separator = if found.is_empty() { "" } else { ", " };
        found += &format!("{separator}{} info", grouped(n));
    }
    let found = match found.as_str() {
        "" if incomplete.is_empty() => "No findings",
        "" => "Incomplete",
        found => found,
    };
    let checked = listed(&[(checked.n_workloads, "workload", ""), (checked.n_pods, "pod", "")]);
    format!("{found}; checked {}", if checked.is_empty() { "nothing" } else { &checked })
}

fn add(part: &mut Part, finding: &Finding) {
    let Finding { severity, rule, path, message, fix, .. } = finding;
    let object = format!(": {}: {rule}", finding.object());
    part.line(0, line![strong(finding.position()), ": ", shown(*severity), object]);
    part.line(1, line![toned(Tone::Path, path)]);
    part.line(1, line![message]);
    let mut lines = fix.split('\n');
    part.line(1, line![format!("fix: {}", lines.next().unwrap_or_default())]);
    lines.for_each(|more| part.line(2, line![more]));
}

fn shown(severity: Severity) -> Span {
    let tone = match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Attention,
        Severity::Info => Tone::Dim,
    };
    toned(tone, severity)
}

/// The most severe rules first.
fn by_rule(part: &mut Part, findings: &[Finding]) {
    let mut rules: BTreeMap<&str, (Severity, usize)> = BTreeMap::new();
    for finding in findings {
        let (worst, n) = rules.entry(finding.rule).or_insert((finding.severity, 0));
        *worst = finding.severity.max(*worst);
        *n += 1;
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by_key(|(_, worst_and_n)| std::cmp::Reverse(*worst_and_n));
    part.table(&["Rule", "Severity", "Findings", "Reports"], rules, usize::MAX, |(rule, (worst, n))| {
        let about = berth_lint::rule(rule).map_or("", |info| info.summary);
        line![rule, shown(worst), grouped(n), about]
    });
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_lint::{LintInput, Selection};
    use berth_simulate::SimulationOptions;

    use super::*;

    fn linted(text: &str) -> Report {
        let inventory = Inventory::from_text(text).unwrap();
        let options = SimulationOptions::default();
        let input = LintInput::new(&inventory, &options.settings, |_| true, None);
        report(&berth_lint::lint(&input, &Selection::default()))
    }

    #[test]
    fn the_page_has_each_finding_with_its_object_field_and_fix() {
        let web = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: 'a<b', namespace: shop}, spec: {replicas: 2, selector: \
                   {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {affinity: {podAntiAffinity: \
                   {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}, \
                   containers: [{name: c, image: c}]}}}}";
        let page = crate::reports::page("Placement mistakes in manifests", &[], &linted(web));
        for text in [
            "<!doctype html>",
            "1 warning, 1 info; checked 1 workload",
            "unknown-topology-key",
            "Deployment shop/a&lt;b",
            "kubernetes.io/zone is not a label that nodes have by convention",
            "fix: did you mean topology.kubernetes.io/zone?",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("href"), "{page}");
    }

    #[test]
    fn a_report_without_findings_says_what_was_checked() {
        let report = linted(
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: c}]}}",
        );
        assert!(report.is_good);
        assert_eq!(report.verdict[0][0].text, "No findings; checked 1 pod");
    }
}
