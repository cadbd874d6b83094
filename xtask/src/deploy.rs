//! The Helm chart's templates, out of the kustomize files: those are written, these are made.
//!
//! A comment `# helm: ...` says what the chart has in a place:
//!
//! - behind a value, it is the chart's value; lines that are indented deeper, the value's own, are left out;
//! - on a line of its own, it is a line of the chart.
//!
//! All else is the same. What the chart makes of it with default values is what the files say: a test of `berth-cli`
//! holds that.

use std::fs;
use std::path::Path;

const MARK: &str = "# helm:";
const FOLDER: &str = "deploy/helm/berth/templates";
const HEAD: &str = "# Made by `cargo xtask deploy` out of deploy/kustomize; change it there.\n";

/// What becomes which template.
const TEMPLATES: [(&str, &str); 8] = [
    ("deploy/kustomize/base/scheduler.yaml", "scheduler.yaml"),
    ("deploy/kustomize/base/enforcer.yaml", "enforcer.yaml"),
    ("deploy/kustomize/base/webhook.yaml", "webhook.yaml"),
    ("deploy/kustomize/components/service-monitor/service-monitor.yaml", "service-monitor.yaml"),
    ("deploy/kustomize/components/cert-manager/certificate.yaml", "certificate.yaml"),
    ("deploy/kustomize/components/binding-guard/webhook.yaml", "binding-guard.yaml"),
    ("deploy/kustomize/components/node-restriction/webhook.yaml", "node-restriction.yaml"),
    ("deploy/kustomize/components/match-label-keys/webhook.yaml", "match-label-keys.yaml"),
];

/// Writes all templates.
///
/// # Errors
/// A file cannot be read or written, or has a comment that says nothing.
pub fn generate(root: &Path) -> Result<String, String> {
    let templates = templates(root)?;
    for (name, text) in &templates {
        let path = root.join(FOLDER).join(name);
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(format!("deploy: {} templates in {FOLDER}", templates.len()))
}

/// Every template's name and text.
fn templates(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let template = |(source, name): (&'static str, &'static str)| {
        let path = root.join(source);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok((name, format!("{HEAD}{}", template(&text).map_err(|e| format!("{source}:{e}"))?)))
    };
    TEMPLATES.into_iter().map(template).collect()
}

/// The chart's text for a file's.
fn template(text: &str) -> Result<String, String> {
    let mut made = String::new();
    // Lines that are indented deeper belong to a value that was replaced.
    let mut replaced: Option<usize> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start().len();
        if replaced.is_some_and(|at| indent > at || line.trim().is_empty()) {
            continue;
        }
        replaced = None;
        let Some((before, chart)) = line.split_once(MARK) else {
            made.push_str(line);
            made.push('\n');
            continue;
        };
        let chart = chart.strip_prefix(' ').unwrap_or(chart);
        if chart.trim().is_empty() {
            return Err(format!("{}: nothing behind {MARK}", number + 1));
        }
        if before.trim().is_empty() {
            made.push_str(before);
        } else {
            let key = key(before).ok_or_else(|| format!("{}: no value before {MARK}", number + 1))?;
            // Of an item `- key: value` the other keys stand below the key.
            replaced = Some(if key.ends_with(": ") {
                key.len() - key.trim_start_matches([' ', '-']).len()
            } else {
                indent
            });
            made.push_str(&key);
        }
        made.push_str(chart);
        made.push('\n');
    }
    Ok(made)
}

/// What comes before the value of a line, with a space: its key, or the dash of a list.
fn key(line: &str) -> Option<String> {
    let (indent, text) = line.split_at(line.len() - line.trim_start().len());
    if let Some(item) = text.strip_prefix("- ").filter(|item| !item.contains(": ")) {
        return (!item.trim().is_empty()).then(|| format!("{indent}- "));
    }
    let (key, _) = text.split_once(':')?;
    Some(format!("{indent}{key}: "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_is_what_the_kustomize_files_make_of_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let made = templates(&root).unwrap();
        let mut names: Vec<_> = fs::read_dir(root.join(FOLDER))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".yaml"))
            .collect();
        names.sort();
        let mut expected: Vec<_> = made.iter().map(|(name, _)| *name).collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
        for (name, text) in made {
            let checked_in = fs::read_to_string(root.join(FOLDER).join(name)).unwrap();
            assert!(
                checked_in == text,
                "{FOLDER}/{name} is not what the files make of it: cargo xtask deploy"
            );
        }
    }

    #[test]
    fn values_are_replaced_with_all_that_belongs_to_them_and_lines_are_added() {
        let text = "# helm: {{- if .Values.x }}\na: 1 # why\nb: 2 # helm: {{ .Values.b }}\nc: # helm: {{ .Values.c }}\n  \
                    d: 1\n\n  e: 2\nf:\n- g # helm: {{ .Values.g }}\n- h: 1 # helm: {{ .Values.h }}\n  # helm:   i: 1\n\
                    # helm: {{- end }}\n";
        let expected = "{{- if .Values.x }}\na: 1 # why\nb: {{ .Values.b }}\nc: {{ .Values.c }}\nf:\n\
                        - {{ .Values.g }}\n- h: {{ .Values.h }}\n    i: 1\n{{- end }}\n";
        assert_eq!(template(text).unwrap(), expected);
        assert_eq!(template("a: 1 # helm:\n").unwrap_err(), "1: nothing behind # helm:");
        assert_eq!(template("a # helm: b\n").unwrap_err(), "1: no value before # helm:");
    }
}
