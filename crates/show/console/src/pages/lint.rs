//! Placement mistakes in the objects.

use std::collections::BTreeMap;

use berth_api::syntax::format::{counted, grouped};
use berth_lint::{Finding, LintInput, Selection, Severity};
use maud::{Markup, html};

use super::answer::{Answer, Page, PageError};
use super::parts;
use crate::components::{Tone, badge, empty, field};
use crate::{Request, State, links};

const SEVERITIES: [Severity; 3] = [Severity::Error, Severity::Warning, Severity::Info];

pub(super) fn page(state: &mut State, request: &Request<'_>) -> Answer {
    let (inventory, options) = state.objects();
    let input = LintInput::new(&inventory, &options.settings, |_| true, None);
    let report = berth_lint::lint(&input, &Selection::default());
    let wanted_severity = request.parameter("severity");
    let wanted_rule = request.parameter("rule");
    if let Some(text) = &wanted_severity
        && !SEVERITIES.iter().any(|severity| severity.to_string() == **text)
    {
        return Err(PageError::Parameter(format!("severity={text}: give error, warning or info")));
    }
    if let Some(text) = &wanted_rule
        && berth_lint::rule(text).is_none()
    {
        return Err(PageError::Parameter(format!("rule={text}: give one of the rules on the page /lint")));
    }
    let is_wanted = |finding: &&Finding| {
        wanted_severity.as_ref().is_none_or(|text| finding.severity.to_string() == **text)
            && wanted_rule.as_ref().is_none_or(|rule| finding.rule == rule)
    };
    let mut shown: Vec<_> = report.findings.iter().filter(is_wanted).collect();
    shown.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let (rows, pages) = parts::paged(request, &shown)?;
    let row = |finding: &&Finding| {
        vec![
            parts::object(&finding.kind, &finding.namespace, &finding.name),
            severity(finding.severity),
            html! { code { (finding.rule) } },
            html! { (finding.message) div { (field(&finding.path)) } div { "Fix: " (finding.fix) } },
        ]
    };
    let content = html! {
        (summary(&report.findings))
        @if inventory.workloads.iter().any(|workload| workload.raw.is_none()) {
            p.hint {
                "The console does not keep the text of objects. It does not check annotations that exempt objects, update "
                "strategies and unknown fields; berth lint does."
            }
        }
        @if wanted_severity.is_some() || wanted_rule.is_some() { p { (parts::link("/lint", "All findings")) } }
        (parts::short_list("Rules that were not applied to all objects", (&report.incomplete, "rule"), |rule| html! { (rule) }))
        @if shown.is_empty() && report.incomplete.is_empty() { (empty("No findings.", &html! { "Mistakes about placement in the objects appear here." })) }
        @else {
            (parts::table(&counted(shown.len(), "finding"), &["Object", "Severity", "Rule", "Finding"], rows.iter().map(row)))
            (pages)
        }
        (parts::short_list("Objects that the API server rejects", (&report.invalid, "object"), |invalid| {
            html! { (invalid.object) ": " (invalid.errors.join("; ")) }
        }))
    };
    Ok(Page::new("Lint", content))
}

/// The counts by severity and by rule, with links to these findings.
fn summary(findings: &[Finding]) -> Markup {
    let mut by_rule: BTreeMap<&str, usize> = BTreeMap::new();
    for finding in findings {
        *by_rule.entry(finding.rule).or_default() += 1;
    }
    let row = |(rule, n): (&&str, &usize)| {
        let about = berth_lint::rule(rule).map_or("", |info| info.summary);
        vec![parts::link(&links::with("/lint", "rule", rule), rule), parts::number(*n), html! { (about) }]
    };
    html! {
        ul.chips aria-label="Severities" {
            @for severity in SEVERITIES {
                @let n = findings.iter().filter(|finding| finding.severity == severity).count();
                li { a class={ "badge " (tone(severity).class()) } href=(links::with("/lint", "severity", &severity.to_string())) { (severity.to_string()) " " (grouped(n)) } }
            }
        }
        (parts::table_of("Findings by rule", &["Rule", "Findings", "What it reports"], by_rule.iter().map(row).collect()))
    }
}

fn severity(severity: Severity) -> Markup {
    badge(tone(severity), &severity.to_string())
}

fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Error => Tone::Bad,
        Severity::Warning => Tone::Warn,
        Severity::Info => Tone::Info,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, cluster, get, state};

    #[test]
    fn findings_have_their_rule_object_and_fix() {
        check(
            "/lint",
            &[
                "<a href=\"/lint?rule=replicas-exceed-domains\">replicas-exceed-domains</a>",
                "shop/<a href=\"/workloads/Deployment/shop/web\">Deployment web</a>",
                "Fix: ",
            ],
        );
        let mut state = state(&cluster());
        let (status, body) = get(&mut state, "/lint?severity=bad");
        assert!(status == 400 && body.contains("severity=bad: give error, warning or info"), "{body}");
        let (_, body) = get(&mut state, "/lint?rule=unknown-field");
        assert!(body.contains("No findings."), "{body}");
    }
}
