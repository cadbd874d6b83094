//! The request: `AdmissionRequest` of `admission.k8s.io/v1`.

use berth_api::object::{Pod, nullable};
use berth_api::read::{ValueError, from_value};
use berth_rules::admission::Operation;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// The version of `AdmissionReview` that is read and written.
pub const API_VERSION: &str = "admission.k8s.io/v1";
/// The kind of what is read and written.
pub const KIND: &str = "AdmissionReview";

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// Name, such as `system:node:node-1`.
    #[serde(deserialize_with = "nullable")]
    pub username: String,
    /// Groups, such as `system:nodes`.
    #[serde(deserialize_with = "nullable")]
    pub groups: Vec<String>,
}

/// A resource by group and plural name; the group of the core API is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resource {
    #[serde(deserialize_with = "nullable")]
    pub group: String,
    #[serde(deserialize_with = "nullable")]
    pub version: String,
    /// Plural name, such as `pods`.
    #[serde(deserialize_with = "nullable")]
    pub resource: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionRequest {
    /// Ties the answer to the question.
    pub uid: String,
    pub operation: Operation,
    pub resource: Resource,
    /// To which subresource; empty for the object itself.
    #[serde(default, deserialize_with = "nullable")]
    pub sub_resource: String,
    /// Name of the object; may be empty before the server applies `generateName`.
    #[serde(default, deserialize_with = "nullable")]
    pub name: String,
    /// Namespace; empty for what has none.
    #[serde(default, deserialize_with = "nullable")]
    pub namespace: String,
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object as it would be; null for deletions.
    #[serde(default)]
    pub object: Value,
    /// The object as it is; null for creations.
    #[serde(default)]
    pub old_object: Value,
    /// Nothing is stored whatever is answered.
    #[serde(default, deserialize_with = "nullable")]
    pub dry_run: bool,
}

/// Why text is no question.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("the body is no AdmissionReview: {0}")]
    Json(#[from] serde_json::Error),
    #[error(
        "the body is {api_version:?} {kind:?}; send {KIND:?} of {API_VERSION:?} (admissionReviewVersions: [v1])"
    )]
    Kind { api_version: String, kind: String },
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// The object of the request cannot be read.
    #[error("request.{field}: not a {kind}: {source}")]
    Object {
        /// `object` or `oldObject`.
        field: &'static str,
        kind: &'static str,
        source: ValueError,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    request: Option<AdmissionRequest>,
}

/// Only the fields that identify a review: a review of another version must not fail with an error about its
/// fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Type {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default, rename = "request")]
    _request: IgnoredAny,
}

impl AdmissionRequest {
    /// Reads the body of a webhook call, an `AdmissionReview`.
    pub fn from_review(body: &[u8]) -> Result<AdmissionRequest, RequestError> {
        let is_right = |api_version: &str, kind: &str| api_version == API_VERSION && kind == KIND;
        match serde_json::from_slice::<Review>(body) {
            Ok(review) if is_right(&review.api_version, &review.kind) => {
                review.request.ok_or(RequestError::NoRequest)
            }
            Ok(Review { api_version, kind, .. }) => Err(RequestError::Kind { api_version, kind }),
            Err(error) => match serde_json::from_slice::<Type>(body) {
                Ok(Type { api_version, kind, .. }) if !is_right(&api_version, &kind) => {
                    Err(RequestError::Kind { api_version, kind })
                }
                _ => Err(error.into()),
            },
        }
    }

    /// Reads the request alone, without the review around it.
    pub fn from_value(value: Value) -> Result<AdmissionRequest, RequestError> {
        Ok(serde_json::from_value(value)?)
    }

    /// Whether it is about this resource of this group, and this subresource.
    pub fn is_about(&self, group: &str, resource: &str, sub_resource: &str) -> bool {
        self.resource.group == group
            && self.resource.resource == resource
            && self.sub_resource == sub_resource
    }

    /// Whether a pod is bound, by the subresource or beside it.
    pub fn is_binding(&self) -> bool {
        self.operation == Operation::Create
            && (self.is_about("", "pods", "binding") || self.is_about("", "bindings", ""))
    }

    /// The new object as a pod in the request's namespace. A binding is a pod with its annotations on its node.
    pub fn pod(&self) -> Result<Pod, RequestError> {
        let mut pod = self.pod_of("object", &self.object)?;
        if self.is_binding() {
            self.object["target"]["name"].as_str().unwrap_or_default().clone_into(&mut pod.spec.node_name);
        }
        Ok(pod)
    }

    /// The old object as a pod; `None` if there is none.
    pub fn old_pod(&self) -> Result<Option<Pod>, RequestError> {
        match &self.old_object {
            Value::Null => Ok(None),
            old => self.pod_of("oldObject", old).map(Some),
        }
    }

    fn pod_of(&self, field: &'static str, value: &Value) -> Result<Pod, RequestError> {
        let mut pod =
            from_value::<Pod>(value).map_err(|source| RequestError::Object { field, kind: "Pod", source })?;
        if pod.metadata.namespace.is_empty() {
            pod.metadata.namespace.clone_from(&self.namespace);
        }
        Ok(pod)
    }

    /// The name of the object in messages, as kube-apiserver's plugins find it: that of the request, else the object's
    /// own, else the prefix of the one to be generated.
    pub fn shown_name(&self) -> &str {
        if !self.name.is_empty() {
            return &self.name;
        }
        let metadata = &self.object["metadata"];
        let named = ["name", "generateName"].map(|field| metadata[field].as_str().unwrap_or_default());
        named.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }

    /// `pods`, or `leases.coordination.k8s.io`.
    pub fn group_resource(&self) -> String {
        let Resource { group, resource, .. } = &self.resource;
        if group.is_empty() { resource.clone() } else { format!("{resource}.{group}") }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_no_review_of_v1_is_told_as_what_it_is() {
        let request = json!({"uid": "1", "operation": "CREATE", "resource": {"resource": "pods"}});
        let read = |body: Value| {
            AdmissionRequest::from_review(body.to_string().as_bytes()).map_err(|e| e.to_string())
        };
        let review = |version: &str| json!({"apiVersion": version, "kind": KIND, "request": request});
        assert_eq!(read(review(API_VERSION)).unwrap().uid, "1");
        for (body, expected) in [
            (
                review("admission.k8s.io/v1beta1"),
                "the body is \"admission.k8s.io/v1beta1\" \"AdmissionReview\"; send",
            ),
            (json!({"apiVersion": "v1", "kind": "Pod", "request": 3}), "the body is \"v1\" \"Pod\"; send"),
            (json!({"apiVersion": API_VERSION, "kind": KIND}), "the AdmissionReview has no request"),
            (
                json!({"apiVersion": API_VERSION, "kind": KIND, "request": {"uid": "1", "operation": "BREAK"}}),
                "the body is no AdmissionReview: unknown variant `BREAK`",
            ),
            (json!([]), "the body is \"\" \"\"; send"),
            (json!(3), "the body is no AdmissionReview: "),
        ] {
            let error = read(body).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(AdmissionRequest::from_review(b"{").is_err());
    }
}
