//! The findings of `berth lint` as a page: what there is to do first, then the findings by file.

use std::collections::BTreeMap;

use berth_api::syntax::format::{counted, grouped};
use berth_lint::{Finding, LintReport, Severity};
use maud::{Markup, html};

use super::document;
use crate::components::{Tone, card, field, table, verdict};
use crate::pages::severity;

pub fn lint(report: &LintReport) -> String {
    let LintReport { findings, invalid, incomplete, .. } = report;
    let mut files: Vec<(&str, Vec<&Finding>)> = Vec::new();
    for finding in findings {
        match files.iter_mut().find(|(file, _)| *file == finding.file) {
            Some((_, of_file)) => of_file.push(finding),
            None => files.push((&finding.file, vec![finding])),
        }
    }
    let content = html! {
        (outcome(report))
        @if !incomplete.is_empty() {
            (card("Rules that were not applied to all objects", &html! { ul { @for rule in incomplete { li { (rule) } } } }))
        }
        @if !invalid.is_empty() {
            (card("Objects that the API server rejects", &html! {
                ul { @for object in invalid { li { strong { (object.object) } ": " (object.errors.join("; ")) } } }
            }))
        }
        @if !findings.is_empty() { (by_rule(findings)) }
        @for (file, findings) in &files {
            section.card {
                h2 { (file) span.detail { (counted(findings.len(), "finding")) } }
                ol.findings { @for finding in findings { li { (self::finding(finding)) } } }
            }
        }
    };
    document("Placement mistakes in manifests", &content)
}

/// What was checked, and how many findings there are.
fn outcome(LintReport { findings, incomplete, checked, hint, .. }: &LintReport) -> Markup {
    let n = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (n(Severity::Error), n(Severity::Warning));
    let tone = match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Error) => Tone::Bad,
        Some(Severity::Warning) => Tone::Warn,
        Some(Severity::Info) => Tone::Info,
        None if incomplete.is_empty() => Tone::Good,
        None => Tone::Bad,
    };
    let line = html! {
        @if findings.is_empty() { strong { "No findings" } }
        @else {
            strong { (counted(findings.len(), "finding")) }
            ": " (counted(errors, "error")) ", " (counted(warnings, "warning")) ", " (grouped(findings.len() - errors - warnings)) " info"
        }
        " in " (counted(checked.n_workloads, "workload")) " and " (counted(checked.n_pods, "pod")) "."
    };
    verdict(tone, &line, &html! { @if let Some(hint) = hint { p.detail { (hint) } } })
}

fn by_rule(findings: &[Finding]) -> Markup {
    let mut rules: BTreeMap<&str, (Severity, usize)> = BTreeMap::new();
    for finding in findings {
        let (worst, n) = rules.entry(finding.rule).or_insert((finding.severity, 0));
        *worst = finding.severity.max(*worst);
        *n += 1;
    }
    let mut rules: Vec<_> = rules.into_iter().collect();
    rules.sort_by(|(a, (worst_a, n_a)), (b, (worst_b, n_b))| {
        (worst_b, n_b).cmp(&(worst_a, n_a)).then_with(|| a.cmp(b))
    });
    let row = |(rule, (worst, n)): (&str, (Severity, usize))| {
        let about = berth_lint::rule(rule).map_or("", |info| info.summary);
        vec![html! { code { (rule) } }, severity(worst), html! { (grouped(n)) }, html! { (about) }]
    };
    let headings = ["Rule", "Severity", "Findings", "What it reports"];
    table("By rule, the most severe first", &headings, rules.into_iter().map(row))
}

fn finding(
    Finding { rule, severity: of, kind, namespace, name, path, line, message, fix, .. }: &Finding,
) -> Markup {
    let name = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    html! {
        h3 {
            (severity(*of)) span { (kind) " " (name) }
            @if let Some(line) = line { span.detail { "line " (line) } }
            code.detail { (rule) }
        }
        p { (message) }
        p.detail { (field(path)) }
        @if fix.contains('\n') { div { strong { "Fix: " } pre { (fix) } } } @else { p { strong { "Fix: " } (fix) } }
    }
}

#[cfg(test)]
mod tests {
    use berth_input::inventory::Inventory;
    use berth_lint::{LintInput, Selection};
    use berth_simulate::SimulationOptions;

    use super::*;

    fn page(text: &str) -> String {
        let inventory = Inventory::from_text(text).unwrap();
        let options = SimulationOptions::default();
        let input = LintInput::new(&inventory, &options.settings, |_| true, None);
        lint(&berth_lint::lint(&input, &Selection::default()))
    }

    #[test]
    fn the_page_has_each_finding_with_its_object_field_and_fix() {
        let web = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: 'a<b', namespace: shop}, spec: {replicas: 2, selector: \
                   {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {affinity: {podAntiAffinity: \
                   {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}, \
                   containers: [{name: c, image: c}]}}}}";
        let page = page(web);
        for text in [
            "<!doctype html>",
            "verdict warn",
            "<strong>2 findings</strong>: 0 errors, 1 warning, 1 info in 1 workload and 0 pods.",
            "<code>unknown-topology-key</code>",
            "Deployment shop/a&lt;b",
            "kubernetes.io/zone is not a label that nodes have by convention",
            "<strong>Fix: </strong>did you mean topology.kubernetes.io/zone?",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("<script") && !page.contains("href"), "{page}");
    }

    #[test]
    fn a_page_without_findings_says_what_was_checked() {
        let page = page(
            "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: c}]}}",
        );
        assert!(page.contains("<strong>No findings</strong> in 0 workloads and 1 pod."), "{page}");
        assert!(page.contains("verdict good"), "{page}");
    }
}
