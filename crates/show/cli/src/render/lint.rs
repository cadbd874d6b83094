//! Findings of `berth lint` as text, as workflow commands of GitHub Actions and as JUnit XML.

use std::io::{self, Write};

use berth_api::syntax::format::counted;
use berth_lint::{Finding, LintReport, RULES, Severity};
use berth_picture::escaped as xml;
use berth_terminal::output::{ATTENTION, BAD, BOLD, DIM};

/// Writes the verdict, the findings by file and line, and what was not looked at.
pub fn write(out: &mut impl Write, report: &LintReport) -> io::Result<()> {
    let LintReport { findings, incomplete, hint, .. } = report;
    writeln!(out, "{}", verdict(report))?;
    for finding in findings {
        let style = match finding.severity {
            Severity::Error => BAD,
            Severity::Warning => ATTENTION,
            Severity::Info => DIM,
        };
        let Finding { severity, rule, path, message, fix, .. } = finding;
        writeln!(out)?;
        writeln!(
            out,
            "{BOLD}{}{BOLD:#}: {style}{severity}{style:#}: {}: {rule}",
            place(finding),
            object(finding)
        )?;
        writeln!(out, "  {path}")?;
        writeln!(out, "  {message}")?;
        let mut lines = fix.split('\n');
        writeln!(out, "  fix: {}", lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "    {line}"))?;
    }
    if !incomplete.is_empty() || hint.is_some() {
        writeln!(out)?;
    }
    for rule in incomplete {
        writeln!(out, "{BAD}incomplete{BAD:#}: {rule}")?;
    }
    hint.iter().try_for_each(|hint| writeln!(out, "{ATTENTION}hint{ATTENTION:#}: {hint}"))
}

/// `1 error, 2 warnings; checked 3 workloads, 7 pods`.
fn verdict(LintReport { findings, incomplete, checked, .. }: &LintReport) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let listed = |counts: &[(usize, &str)]| {
        let counts = counts.iter().filter(|(n, _)| *n > 0);
        counts
            .map(|(n, of)| if *of == "info" { format!("{n} info") } else { counted(*n, of) })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let found = listed(&[
        (count(Severity::Error), "error"),
        (count(Severity::Warning), "warning"),
        (count(Severity::Info), "info"),
    ]);
    let found = match found.as_str() {
        "" if incomplete.is_empty() => "No findings",
        "" => "Incomplete",
        found => found,
    };
    let checked = listed(&[(checked.n_workloads, "workload"), (checked.n_pods, "pod")]);
    format!("{found}; checked {}", if checked.is_empty() { "nothing" } else { &checked })
}

/// `web.yaml:12`.
fn place(finding: &Finding) -> String {
    match finding.line {
        Some(line) => format!("{}:{line}", finding.file),
        None => finding.file.clone(),
    }
}

/// `Deployment shop/web`.
fn object(Finding { kind, namespace, name, .. }: &Finding) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

pub fn write_workflow_commands(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    for finding in findings {
        let command = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Info => "notice",
        };
        let line = finding.line.map(|line| format!(",line={line}")).unwrap_or_default();
        let Finding { rule, path, message, fix, .. } = finding;
        writeln!(
            out,
            "::{command} file={}{line},title={rule}::{}",
            escaped(&finding.file, true),
            escaped(&format!("{}: {path}: {message}\nfix: {fix}", object(finding)), false)
        )?;
    }
    Ok(())
}

/// Text of a workflow command, or of one of its properties.
fn escaped(text: &str, property: bool) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    if property { text.replace(':', "%3A").replace(',', "%2C") } else { text }
}

/// Writes one test case for each finding, and one for each rule without findings.
pub fn write_junit(out: &mut impl Write, findings: &[Finding]) -> io::Result<()> {
    let clean = RULES.iter().filter(|rule| !findings.iter().any(|finding| finding.rule == rule.name));
    let clean: Vec<_> = clean.collect();
    let (n_tests, n_failures) = (findings.len() + clean.len(), findings.len());
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<testsuites tests=\"{n_tests}\" failures=\"{n_failures}\">")?;
    writeln!(
        out,
        "  <testsuite name=\"berth lint\" tests=\"{n_tests}\" failures=\"{n_failures}\" errors=\"0\" skipped=\"0\">"
    )?;
    for finding in findings {
        let Finding { rule, severity, path, message, fix, .. } = finding;
        writeln!(out, "    <testcase classname=\"{}\" name=\"{}\">", xml(rule), xml(&object(finding)))?;
        writeln!(
            out,
            "      <failure type=\"{severity}\" message=\"{}\">{}</failure>",
            xml(message),
            xml(&format!("{}: {path}: {message}; fix: {fix}", place(finding)))
        )?;
        writeln!(out, "    </testcase>")?;
    }
    for rule in clean {
        writeln!(out, "    <testcase classname=\"{0}\" name=\"{0}\"/>", rule.name)?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}
