//! The annotation with the design proposals' `Affinity`, for API servers that drop unknown fields.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::label_keys::merge_affinity;
use berth_api::object::{Affinity, Pod};
use berth_api::read::{explained, from_value_strictly, quote_integer_bounds};
use berth_api::syntax::annotations::AFFINITY_ANNOTATION;

/// Why the text of the annotation is not an `Affinity`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    #[error("neither JSON nor YAML: {0}")]
    Syntax(String),
    /// A field has the wrong type, is unknown, or is there twice.
    #[error("{}{message}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
    Field {
        /// Path inside the annotation, such as `podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]`;
        /// empty for the whole.
        path: String,
        message: String,
    },
}

/// Reads the text of the annotation: JSON or YAML. An empty text is an empty affinity. A field that is not known may be a
/// misspelt rule, so the whole annotation is an error.
///
/// # Errors
/// The text is neither JSON nor YAML, or a field has the wrong type, is unknown, or is there twice.
pub fn parse_affinity_annotation(text: &str) -> Result<Affinity, AnnotationError> {
    let mut value = parse_value(text)?;
    if value.is_null() {
        return Ok(Affinity::default());
    }
    quote_integer_bounds(&mut value);
    from_value_strictly(&value)
        .map_err(|error| AnnotationError::Field { path: error.path(), message: explained(&error, &value) })
}

/// The affinity of a pod's annotation, with the pod's label keys merged into its selectors; `None` without the
/// annotation.
pub fn annotation_affinity(pod: &Pod) -> Result<Option<Affinity>, AnnotationError> {
    let Some(text) = pod.metadata.annotations.get(AFFINITY_ANNOTATION) else { return Ok(None) };
    let mut affinity = parse_affinity_annotation(text)?;
    merge_affinity(&mut affinity, &pod.metadata.labels);
    Ok(Some(affinity))
}

fn parse_value(text: &str) -> Result<Value, AnnotationError> {
    // JSON comes first, because JSON allows tabs for indentation and YAML does not.
    match serde_json::from_str::<UniqueFields>(text) {
        Ok(UniqueFields(value)) => return Ok(value),
        Err(error) if error.is_data() => {
            return Err(AnnotationError::Field { path: String::new(), message: error.to_string() });
        }
        Err(_) => {}
    }
    if text.trim().is_empty() {
        return Ok(Value::Null);
    }
    let options = serde_saphyr::options! { with_snippet: false };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| AnnotationError::Syntax(e.to_string()))
}

/// JSON in which no object has a field twice: serde_json takes the last one. The reader of YAML looks for itself.
struct UniqueFields(Value);

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueFields, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(UniqueFields)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueFields(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((name, UniqueFields(value))) = fields.next_entry::<String, _>()? {
            if map.contains_key(&name) {
                return Err(A::Error::custom(format!("duplicate field {name:?}")));
            }
            map.insert(name, value);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_bounds_need_no_quotes_in_terms_about_nodes_and_pods() {
        let yaml = "nodeAffinity:\n  requiredDuringSchedulingRequiredDuringExecution:\n    nodeSelectorTerms:\n    - matchExpressions: \
                    [{key: cores, operator: Gt, values: [8]}]\n      matchAnnotations: [{key: slot, operator: Lt, values: [2]}]\n";
        let affinity = parse_affinity_annotation(yaml).unwrap().node_affinity.unwrap();
        let required = affinity.required_during_scheduling_required_during_execution.unwrap();
        let term = &required.node_selector_terms[0];
        assert_eq!(term.match_expressions[0].values, ["8"]);
        assert_eq!(term.match_annotations[0].values, ["2"]);
        let unquoted = yaml.replace("operator: Gt", "operator: In");
        assert!(parse_affinity_annotation(&unquoted).is_err(), "labels are strings");
    }

    #[test]
    fn json_and_yaml_read_alike() {
        let json = r#"{"podAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [{"labelSelector":
            {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["20"]}]}, "namespaces": []}]}}"#;
        let yaml = "podAffinity:\n  requiredDuringSchedulingRequiredDuringExecution:\n  - labelSelector:\n      \
                    matchExpressions: [{key: size, operator: Gt, values: [20]}]\n    namespaces: []\n";
        let affinity = parse_affinity_annotation(yaml).unwrap();
        assert_eq!(affinity, parse_affinity_annotation(json).unwrap());
        let terms = affinity.pod_affinity.unwrap().required_during_scheduling_required_during_execution;
        assert_eq!(terms[0].namespaces, Some(vec![]));
        assert_eq!(terms[0].label_selector.as_ref().unwrap().match_expressions[0].values, ["20"]);
        for nothing in ["", " \n", "null", "{}"] {
            assert_eq!(parse_affinity_annotation(nothing).unwrap(), Affinity::default(), "{nothing:?}");
        }
    }

    #[test]
    fn a_null_term_is_none_and_stays_null() {
        let text = r#"{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[null,{}]},
            "preferredDuringSchedulingIgnoredDuringExecution":[null]},
            "podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[null]}}"#;
        let affinity = parse_affinity_annotation(text).unwrap();
        let written = serde_json::to_value(&affinity).unwrap();
        assert_eq!(serde_json::from_value::<Affinity>(written.clone()).unwrap(), affinity);
        let required = &written["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        assert_eq!(required["nodeSelectorTerms"], serde_json::json!([null, {}]));
        let mut pod = Pod::default();
        pod.metadata.annotations.insert(AFFINITY_ANNOTATION.to_owned(), text.to_owned());
        assert_eq!(crate::admission::validate_annotations(&pod), []);
        let rules = crate::PodRules::parse(&pod, crate::RuleOptions::default());
        let terms = &rules.required_node_affinity[0].terms;
        assert_eq!(*terms, [crate::NodeTerm::Nothing, crate::NodeTerm::All(vec![])]);
        assert_eq!(rules.preferred_node_affinity, []);
        assert_eq!(rules.required_affinity[0].selector, crate::Selector::Nothing);
    }

    #[test]
    fn says_where_it_is_wrong() {
        for (text, starts) in [
            ("nodeAffinity: [", "neither JSON nor YAML: "),
            ("hello", "invalid type: string \"hello\""),
            (
                "podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: many}]}",
                "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: invalid type: string",
            ),
            (
                "nodeAffinity: {requiredDuringSchedulingRequiredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
              [{key: a, operator: In, values: [1]}]}]}}",
                "nodeAffinity.requiredDuringSchedulingRequiredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]\
              .values[0]: invalid type: integer `1`, expected a string: quote it",
            ),
            ("{podAntiAfinity: {}}", "podAntiAfinity: unknown field; did you mean \"podAntiAffinity\"?"),
            (
                "{\"nodes\": null}",
                "nodes: unknown field; known here: nodeAffinity, podAffinity, podAntiAffinity",
            ),
            (
                r#"{"podAntiAffinity": {"requiredDuringSchedulingRequiredDuringExecution": [null,
                  {"topologyKey": "zone", "labelSelector": {"matchExpression": []}}]}}"#,
                "podAntiAffinity.requiredDuringSchedulingRequiredDuringExecution[1].labelSelector.matchExpression: unknown \
               field; did you mean \"matchExpressions\"?",
            ),
            (
                "podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {limits: 3}}]}",
                "podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.limits: unknown field; did you \
               mean \"limit\"?",
            ),
            (
                r#"{"podAffinity": {}, "podAffinity": null}"#,
                "duplicate field \"podAffinity\" at line 1 column",
            ),
            ("podAffinity: {}\npodAffinity: {}", "neither JSON nor YAML: duplicate"),
        ] {
            let error = parse_affinity_annotation(text).unwrap_err().to_string();
            assert!(error.starts_with(starts), "{text}: {error}");
        }
    }

    #[test]
    fn an_alias_bomb_is_refused() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let aliases = format!("*a{}, ", level - 1).repeat(9);
            text.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
        }
        assert!(matches!(parse_affinity_annotation(&text), Err(AnnotationError::Syntax(_))));
    }
}
