//! Selectors of workloads, parsed once.

use berth_api::object::{LabelSelector, StringMap};
use berth_api::read::from_value;
use berth_rules::Selector;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// `spec.selector` of a workload: a label selector, or the plain map of a ReplicationController.
///
/// One that is absent, empty or not valid selects nothing: a controller without a usable selector must not touch pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkloadSelector {
    pub(crate) written: LabelSelector,
    parsed: Selector,
}

impl Default for WorkloadSelector {
    fn default() -> Self {
        WorkloadSelector { written: LabelSelector::default(), parsed: Selector::Nothing }
    }
}

impl WorkloadSelector {
    pub(crate) fn new(written: LabelSelector) -> Self {
        let parsed = Selector::parse(Some(&written)).unwrap_or(Selector::Nothing);
        let parsed = if parsed.is_everything() { Selector::Nothing } else { parsed };
        WorkloadSelector { written, parsed }
    }

    pub(crate) fn matches(&self, labels: &StringMap) -> bool {
        matches(&self.parsed, labels)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.parsed, Selector::Nothing)
    }
}

impl<'de> Deserialize<'de> for WorkloadSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let plain = value.as_object().is_some_and(|map| map.values().all(Value::is_string));
        let written = if plain {
            from_value::<StringMap>(&value)
                .map(|match_labels| LabelSelector { match_labels, ..Default::default() })
        } else {
            from_value::<Option<LabelSelector>>(&value).map(Option::unwrap_or_default)
        };
        written.map(WorkloadSelector::new).map_err(serde::de::Error::custom)
    }
}

pub(crate) fn matches(selector: &Selector, labels: &StringMap) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_written_forms_are_read_and_no_selector_selects_nothing() {
        let labels = StringMap::from([("app".to_owned(), "web".to_owned())]);
        for (written, matches) in [
            (r#"{"app":"web"}"#, true),
            (r#"{"app":"db"}"#, false),
            (r#"{"matchLabels":{"app":"web"}}"#, true),
            (r#"{"matchExpressions":[{"key":"app","operator":"Exists"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"app","operator":"Sounds"}]}"#, false),
            ("{}", false),
            ("null", false),
        ] {
            let selector: WorkloadSelector = serde_json::from_str(written).unwrap();
            assert_eq!(selector.matches(&labels), matches, "{written}");
        }
    }
}
