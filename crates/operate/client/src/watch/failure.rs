//! What keeps the objects of a resource from being known.

/// Why the objects of a resource are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchFailure {
    /// This client may not read them. The watch keeps trying.
    #[error("no permission to read {resource}: {}", crate::call::rule_to_add(group, resource, &["list", "watch"]))]
    Forbidden {
        /// The API group; empty for the core group.
        group: String,
        resource: String,
    },
    /// The server does not have the resource. The watch keeps trying.
    #[error(
        "{path}: the server does not have this resource (404): is it the address of a Kubernetes API server?"
    )]
    Missing { path: String },
    /// There are more of them than the client keeps. The watch has ended.
    #[error(
        "{path}: with this list, the objects exceed the limit of {limit} bytes for their JSON and {OBJECT_COST} bytes for \
         each, or for the memory of the process{remedy}"
    )]
    TooLarge {
        path: String,
        limit: usize,
        /// What to do about it; may be empty.
        remedy: &'static str,
    },
}

/// What an object costs besides its JSON.
pub(super) const OBJECT_COST: usize = 2 << 10;

impl WatchFailure {
    /// The permission that the watch of a collection, such as `/apis/apps/v1/replicasets`, needs.
    pub(super) fn forbidden(path: &str) -> WatchFailure {
        let mut parts = path.trim_start_matches('/').split('/');
        let group = if parts.next() == Some("apis") { parts.next().unwrap_or_default() } else { "" };
        let resource = path.rsplit('/').next().unwrap_or_default();
        WatchFailure::Forbidden { group: group.to_owned(), resource: resource.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_rule_to_add() {
        for (path, rule) in [
            ("/api/v1/nodes", r#"{apiGroups: [""], resources: ["nodes"], verbs: ["list", "watch"]}"#),
            (
                "/apis/apps/v1/namespaces/n/replicasets",
                r#"{apiGroups: ["apps"], resources: ["replicasets"], verbs: ["list", "watch"]}"#,
            ),
        ] {
            let text = WatchFailure::forbidden(path).to_string();
            assert!(text.ends_with(rule), "{text}");
        }
    }
}
