//! Fields that the type of an object does not have.

use berth_schema::{UnknownField, unknown_fields};

use crate::finding::Findings;
use crate::input::LintInput;

pub(crate) fn check(input: &LintInput<'_>, findings: &mut Findings) {
    for object in &input.objects {
        for UnknownField { path, suggestion } in unknown_fields(object.raw) {
            let field = path.rsplit('.').next().unwrap_or_default();
            let message = format!("the API does not know the field {field}");
            let finding = findings.add(object, path, message);
            if let Some(suggestion) = suggestion {
                finding.fix(format!("did you mean {suggestion}?"));
            }
        }
    }
}
