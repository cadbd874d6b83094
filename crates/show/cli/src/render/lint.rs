//! Findings of `berth lint` as workflow commands of GitHub Actions and as JUnit XML.

use std::io::{self, Write};

use berth_lint::{Finding, RULES, Severity};
use berth_picture::escaped as xml;

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
            escaped(&format!("{}: {path}: {message}\nfix: {fix}", finding.object()), false)
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
        writeln!(out, "    <testcase classname=\"{}\" name=\"{}\">", xml(rule), xml(&finding.object()))?;
        writeln!(
            out,
            "      <failure type=\"{severity}\" message=\"{}\">{}</failure>",
            xml(message),
            xml(&format!("{}: {path}: {message}; fix: {fix}", finding.position()))
        )?;
        writeln!(out, "    </testcase>")?;
    }
    for rule in clean {
        writeln!(out, "    <testcase classname=\"{0}\" name=\"{0}\"/>", rule.name)?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}
