//! Attributes of devices that no driver publishes.

use crate::devices::{Devices, claims, expression};
use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    let devices = Devices::of(input);
    if devices.shapes.is_empty() {
        return;
    }
    let is_published = |name: &str| devices.shapes.iter().any(|shape| shape.attribute(name).is_some());
    for claim in claims(input) {
        for (i, constraint) in claim.spec.devices.constraints.iter().enumerate() {
            let named = [
                ("matchAttribute", &constraint.match_attribute),
                ("distinctAttribute", &constraint.distinct_attribute),
            ];
            for (field, name) in named {
                let Some(name) = name.as_deref().filter(|name| !is_published(name)) else { continue };
                let path = format!("{}.devices.constraints[{i}].{field}", claim.path);
                let message =
                    format!("no driver publishes the attribute {name}: no device satisfies the constraint");
                findings.add(&claim.object, path, message);
            }
        }
        for wanted in claim.requests().iter().flatten() {
            for (i, selector) in wanted.selectors.iter().enumerate() {
                let names = attributes(expression(selector)).into_iter();
                for name in names.filter(|name| !is_published(name)) {
                    let path = format!("{}.selectors[{i}].cel.expression", wanted.path);
                    findings.add(&claim.object, path, format!("no driver publishes the attribute {name}"));
                }
            }
        }
    }
}

/// The attributes that an expression reads, written as `device.attributes["DOMAIN"].NAME`.
fn attributes(expression: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for rest in expression.split("device.attributes[").skip(1) {
        let Some(quote) = rest.chars().next().filter(|first| matches!(first, '"' | '\'')) else { continue };
        let Some((domain, rest)) = rest[1..].split_once(quote) else { continue };
        let Some(rest) = rest.strip_prefix("].") else { continue };
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = format!("{domain}/{}", &rest[..end]);
        // A method, such as `orValue`, follows an optional field.
        if end > 0 && !rest[end..].starts_with('(') && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::attributes;

    #[test]
    fn attributes_are_found_in_expressions() {
        for (expression, expected) in [
            ("device.attributes[\"a.io\"].model == 'x'", vec!["a.io/model"]),
            ("device.attributes['a.io'].x && !device.attributes['a.io'].x", vec!["a.io/x"]),
            ("device.driver == 'a.io'", vec![]),
            ("device.attributes[device.driver].model == 'x'", vec![]),
            ("device.attributes['a.io'].size() > 1", vec![]),
        ] {
            assert_eq!(attributes(expression), expected, "{expression}");
        }
    }
}
