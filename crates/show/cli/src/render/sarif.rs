//! Findings of `berth lint` as a SARIF 2.1.0 log.

use berth_lint::{Finding, RULES, Severity};
use serde_json::{Value, json};

/// The log: one run, with all rules.
pub fn log(findings: &[Finding]) -> Value {
    let rules = RULES.iter().map(|rule| {
        json!({
            "id": rule.name,
            "shortDescription": {"text": rule.summary},
            "help": {"text": format!("To fix it, {}.", rule.fix)},
            "defaultConfiguration": {"level": level(rule.severity)},
        })
    });
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "berth lint",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": rules.collect::<Vec<_>>(),
            }},
            "results": findings.iter().map(result).collect::<Vec<_>>(),
        }],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn result(finding: &Finding) -> Value {
    let Finding { rule, kind, namespace, name, path, file, line, message, fix, .. } = finding;
    let mut physical = json!({"artifactLocation": {"uri": uri(file)}});
    if let Some(line) = line {
        physical["region"] = json!({"startLine": line});
    }
    let object = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
    json!({
        "ruleId": rule,
        "ruleIndex": RULES.iter().position(|info| info.name == *rule),
        "level": level(finding.severity),
        "message": {"text": format!("{message}. Fix: {fix}")},
        "locations": [{
            "physicalLocation": physical,
            "logicalLocations": [{"name": object, "kind": "object", "fullyQualifiedName": format!("{kind} {object} {path}")}],
        }],
    })
}

/// A relative reference, or a file URI for an absolute path.
fn uri(file: &str) -> String {
    let mut uri = String::new();
    for byte in file.trim_start_matches("./").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'~' | b'-' => {
                uri.push(byte.into())
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    if file.starts_with('/') { format!("file://{uri}") } else { uri }
}

#[cfg(test)]
mod tests {
    use berth_api::read::SourceLocation;

    use super::*;

    #[test]
    fn a_result_names_rule_file_line_and_object() {
        let finding = |namespace: &str, file: &str, line| Finding {
            rule: RULES[1].name,
            severity: Severity::Info,
            kind: "Deployment".to_owned(),
            namespace: namespace.to_owned(),
            name: "web".to_owned(),
            path: "spec".to_owned(),
            file: file.to_owned(),
            line,
            message: "wrong".to_owned(),
            fix: "right".to_owned(),
            place: SourceLocation::file(file),
        };
        let log = log(&[finding("shop", "./a b.yaml", Some(3)), finding("", "/c.yaml", None)]);
        let run = &log["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"].as_array().map(Vec::len), Some(RULES.len()));
        let results = &run["results"];
        assert_eq!(results[0]["ruleId"], run["tool"]["driver"]["rules"][1]["id"]);
        assert_eq!((&results[0]["ruleIndex"], &results[0]["level"]), (&json!(1), &json!("note")));
        let place = &results[0]["locations"][0];
        assert_eq!(
            place["physicalLocation"],
            json!({"artifactLocation": {"uri": "a%20b.yaml"}, "region": {"startLine": 3}})
        );
        assert_eq!(place["logicalLocations"][0]["fullyQualifiedName"], "Deployment shop/web spec");
        let place = &results[1]["locations"][0]["physicalLocation"];
        assert_eq!(*place, json!({"artifactLocation": {"uri": "file:///c.yaml"}}));
    }
}
