//! Selection of objects: namespace, label selector, field selector.

use berth_rules::{FieldRequirement, FieldSelector, SelectorError};
use berth_schema::resource::Resource;

use super::facts::Facts;
use super::labels::Labels;

/// Why the selectors of a request cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The resource has no such selectable field; the text is kube-apiserver's.
    #[error("{0}")]
    UnknownField(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldPlace {
    Name,
    Namespace,
    Index(usize),
}

/// A field requirement whose field the resource has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ResolvedRequirement {
    place: FieldPlace,
    value: String,
    equal: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub namespace: Option<String>,
    labels: Labels,
    fields: Vec<ResolvedRequirement>,
}

impl Filter {
    /// Reads the two selectors of a request.
    ///
    /// # Errors
    /// A selector is malformed or names a field that is not selectable.
    pub fn parse(
        resource: &Resource,
        namespace: Option<&str>,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<Filter, FilterError> {
        let FieldSelector { requirements } = field_selector.parse()?;
        let fields = requirements.into_iter().map(|FieldRequirement { field, value, equal }| {
            Ok(ResolvedRequirement { place: place(resource, &field)?, value, equal })
        });
        Ok(Filter {
            namespace: namespace.map(str::to_owned),
            labels: Labels::from(&label_selector.parse()?),
            fields: fields.collect::<Result<_, FilterError>>()?,
        })
    }

    /// A filter that selects all objects in a namespace.
    pub fn in_namespace(namespace: &str) -> Filter {
        Filter { namespace: Some(namespace.to_owned()), ..Filter::default() }
    }

    /// Whether the filter selects all objects in its namespace.
    pub fn is_everything(&self) -> bool {
        self.n_requirements() == 0
    }

    /// How many requirements an object is compared with at most.
    pub fn n_requirements(&self) -> usize {
        self.fields.len() + self.labels.len()
    }

    /// The memory it takes, in bytes.
    pub fn size(&self) -> usize {
        let values = self.fields.iter().map(|field| field.value.capacity()).sum::<usize>();
        self.labels.size() + self.fields.capacity() * size_of::<ResolvedRequirement>() + values
    }

    /// The name that the field selector requires, if any.
    pub fn name(&self) -> Option<&str> {
        self.fields.iter().find(|f| f.equal && f.place == FieldPlace::Name).map(|f| f.value.as_str())
    }

    /// The value of the watched field that the field selector requires, if any.
    pub fn bound_to(&self, resource: &Resource) -> Option<&str> {
        let place = FieldPlace::Index(resource.watched_field()?);
        self.fields.iter().find(|f| f.equal && f.place == place).map(|f| f.value.as_str())
    }

    pub fn matches(&self, facts: &Facts) -> bool {
        self.namespace.as_deref().is_none_or(|namespace| facts.namespace() == namespace)
            && self.fields.iter().all(|f| {
                let value = match f.place {
                    FieldPlace::Name => facts.name(),
                    FieldPlace::Namespace => facts.namespace(),
                    FieldPlace::Index(i) => facts.field(i).unwrap_or_default(),
                };
                (value == f.value) == f.equal
            })
            && self.labels.matches(|key| facts.label(key))
    }
}

fn place(resource: &Resource, field: &str) -> Result<FieldPlace, FilterError> {
    match field {
        "metadata.name" => Ok(FieldPlace::Name),
        "metadata.namespace" => Ok(FieldPlace::Namespace),
        _ => {
            let index = resource.selectable_fields.iter().position(|selectable| selectable.name == field);
            Ok(FieldPlace::Index(index.ok_or_else(|| FilterError::UnknownField(unknown(resource, field)))?))
        }
    }
}

fn unknown(resource: &Resource, field: &str) -> String {
    let only_metadata = resource.selectable_fields.is_empty() && resource.custom.is_none();
    match resource.kind {
        "Job" => format!("field label {field:?} not supported for Job"),
        "ResourceSlice" => {
            format!(
                "field label not supported for {}, Kind={}: {field}",
                resource.api_version(),
                resource.kind
            )
        }
        _ if only_metadata => {
            format!(r#"{field:?} is not a known field selector: only "metadata.name", "metadata.namespace""#)
        }
        _ => format!("field label not supported: {field}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use berth_schema::resource::PODS;

    fn facts(labels: &[(&str, &str)], node: &str) -> Facts {
        let pods = &PODS;
        let labels: serde_json::Map<_, _> =
            labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect();
        let value = serde_json::json!({"metadata": {"name": "a", "namespace": "n", "labels": labels},
            "spec": {"nodeName": node}});
        Facts::of(pods, &value.into())
    }

    #[test]
    fn selectors_filter_objects() {
        let pods = &PODS;
        let object = facts(&[("app", "web"), ("n", "5")], "m");
        for (labels, fields, wanted) in [
            ("", "", true),
            ("app=web", "", true),
            ("", "spec.nodeName=m", true),
            ("", "spec.nodeName!=m", false),
            ("", "spec.nodeName==", false),
            ("", "metadata.name=a,metadata.namespace=n", true),
            ("", "status.phase!=Failed", true),
        ] {
            let filter = Filter::parse(pods, None, labels, fields).unwrap();
            assert_eq!(filter.matches(&object), wanted, "{labels:?} {fields:?}");
        }
        let elsewhere = Filter::parse(pods, Some("other"), "", "").unwrap();
        assert!(!elsewhere.matches(&object));
    }

    #[test]
    fn malformed_selectors_are_errors() {
        let pods = &PODS;
        for (labels, fields) in [("a b", ""), ("", "spec.nodeName"), ("", "spec.color=red")] {
            assert!(Filter::parse(pods, None, labels, fields).is_err(), "{labels:?} {fields:?}");
        }
    }
}
