//! What a user wants to do, for authorization.

use super::user::User;

/// The action that a user requests, as `SubjectAccessReview` describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// The resource's plural; empty for a path.
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// A path that is not a resource's.
    pub path: &'a str,
    /// The node that the field selector of a list requires (`spec.nodeName=` or `nodeName=`).
    pub selected_node: &'a str,
}

/// The reason of a denial, in kube-apiserver's format.
pub fn refusal(user: &User, what: &Attributes<'_>) -> String {
    if what.resource.is_empty() {
        return format!("User \"{}\" cannot {} path \"{}\"", user.name, what.verb, what.path);
    }
    let slash = if what.subresource.is_empty() { "" } else { "/" };
    let place = if what.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", what.namespace)
    };
    format!(
        "User \"{}\" cannot {} resource \"{}{slash}{}\" in API group \"{}\" {place}",
        user.name, what.verb, what.resource, what.subresource, what.group
    )
}
