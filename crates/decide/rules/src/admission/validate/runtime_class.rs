//! Validation of a runtime class.

use std::collections::HashSet;

use super::{resources, scheduling, validate_labels};
use crate::admission::field::{Errors, FieldError, Path, go_json};
use berth_api::feature_gates::FeatureGates;
use berth_api::object::{RuntimeClass, Toleration};
use berth_api::syntax;

/// Validates the handler, the overhead and the scheduling rules of a runtime class.
pub fn validate_runtime_class(class: &RuntimeClass) -> Vec<FieldError> {
    let mut errors = Errors::default();
    errors.invalid_each(&Path::Root("handler"), &class.handler, syntax::short_name(&class.handler));
    if let Some(overhead) = &class.overhead {
        resources::validate_overhead(&overhead.pod_fixed, &Path::Root("overhead"), &mut errors);
    }
    if let Some(rules) = &class.scheduling {
        let path = Path::Root("scheduling");
        validate_labels(&rules.node_selector, &path.child("nodeSelector"), &mut errors);
        let tolerations = path.child("tolerations");
        // As upstream: its tolerations never compare, whatever gates are on.
        let gates = FeatureGates::default();
        scheduling::validate_tolerations(&rules.tolerations, gates, &tolerations, &mut errors);
        let mut seen = HashSet::new();
        for (i, Toleration { key, operator, value, effect, toleration_seconds }) in
            rules.tolerations.iter().enumerate()
        {
            if !seen.insert((key, operator, value, effect)) {
                let [key, operator, value, effect] = [key, operator, value, effect].map(|text| go_json(text));
                let seconds = toleration_seconds.map_or_else(|| "null".to_owned(), |n| n.to_string());
                let json = format!(
                    r#"{{"Key":{key},"Operator":{operator},"Value":{value},"Effect":{effect},"TolerationSeconds":{seconds}}}"#
                );
                errors.duplicate_json(&tolerations.index(i), &json);
            }
        }
    }
    errors.into_list()
}
