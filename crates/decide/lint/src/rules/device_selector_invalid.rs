//! Selectors of devices that do not compile.

use berth_api::object::device::{DeviceObject, DeviceSelector as WrittenSelector};
use berth_api::rules::DeviceSelector;

use crate::devices::{claims, expression, linted};
use crate::finding::Findings;
use crate::input::LintInput;
use crate::subject::Object;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for (object, typed) in linted(input) {
        if let DeviceObject::DeviceClass(class) = typed {
            selectors(object, "spec", &class.spec.selectors, findings);
        }
    }
    for claim in claims(input) {
        for wanted in claim.requests().iter().flatten() {
            selectors(&claim.object, &wanted.path, wanted.selectors, findings);
        }
    }
}

fn selectors(object: &Object<'_>, path: &str, selectors: &[WrittenSelector], findings: &mut Findings) {
    for (i, selector) in selectors.iter().enumerate() {
        let error = match DeviceSelector::compile(expression(selector)) {
            Err(error) => error,
            Ok(selector) if selector.exceeds_cost_limit() => {
                "it may cost more than the API server allows".to_owned()
            }
            Ok(_) => continue,
        };
        findings.add(
            object,
            format!("{path}.selectors[{i}].cel.expression"),
            format!("the selector is not valid: {error}"),
        );
    }
}
