//! Built-in permissions, independent of roles: the admin may do everything, a node may do what a kubelet needs, other
//! authenticated users may read discovery and create self reviews.

use serde_json::{Value, json};

use super::identity::{AUTHENTICATED, MASTERS, User};
use super::rbac::Grants;

/// The action that a user requests, as `SubjectAccessReview` describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// The verb.
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// The resource's plural; empty for a path.
    pub resource: &'a str,
    /// The subresource.
    pub subresource: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// A path that is not a resource's.
    pub path: &'a str,
}

const READ: &[&str] = &["get", "list", "watch"];

/// `(verbs, group, resources)` of a node, besides leases and its own Node object.
const NODE_RULES: &[(&[&str], &str, &[&str])] = &[
    (
        READ,
        "",
        &[
            "services",
            "nodes",
            "pods",
            "configmaps",
            "secrets",
            "persistentvolumes",
            "persistentvolumeclaims",
        ],
    ),
    (READ, "", &["serviceaccounts", "namespaces"]),
    (READ, "storage.k8s.io", &["csidrivers", "storageclasses", "volumeattachments"]),
    (&["get", "create", "update", "patch", "delete"], "storage.k8s.io", &["csinodes"]),
    (&["get", "update", "patch"], "", &["persistentvolumeclaims/status"]),
    (&["create", "update", "patch", "delete"], "", &["nodes"]),
    (&["get", "update", "patch"], "", &["nodes/status"]),
    (&["create", "delete"], "", &["pods"]),
    (&["get", "update", "patch"], "", &["pods/status"]),
    (&["create"], "", &["pods/eviction", "serviceaccounts/token"]),
    (&["create", "update", "patch"], "", &["events"]),
    (&["create", "update", "patch"], "events.k8s.io", &["events"]),
    (&["create"], "authentication.k8s.io", &["tokenreviews"]),
    (&["create"], "authorization.k8s.io", &["subjectaccessreviews", "localsubjectaccessreviews"]),
    (&["get", "create", "update", "patch", "delete"], "coordination.k8s.io", &["leases"]),
];

/// Permissions of all authenticated users.
const EVERYONE_RULES: &[(&[&str], &str, &[&str])] = &[
    (&["create"], "authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
    (&["create"], "authentication.k8s.io", &["selfsubjectreviews"]),
];

const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];
const DISCOVERY_PATHS: &[&str] = &["/", "/api", "/apis", "/openapi"];

/// Whether a user has a built-in permission.
pub fn is_allowed(user: &User, what: &Attributes<'_>) -> bool {
    if user.is_in(MASTERS) {
        return true;
    }
    if what.resource.is_empty() {
        let under = |prefixes: &[&str]| prefixes.iter().any(|p| is_under(what.path, p));
        let reads = matches!(what.verb, "get" | "head");
        return reads && (under(PUBLIC_PATHS) || (user.is_in(AUTHENTICATED) && under(DISCOVERY_PATHS)));
    }
    let rules = rules_of(user);
    let full = if what.subresource.is_empty() {
        what.resource.to_owned()
    } else {
        format!("{}/{}", what.resource, what.subresource)
    };
    rules.into_iter().flatten().any(|(verbs, group, resources)| {
        verbs.contains(&what.verb) && *group == what.group && resources.contains(&full.as_str())
    })
}

type BuiltIn = &'static [(&'static [&'static str], &'static str, &'static [&'static str])];

fn rules_of(user: &User) -> [BuiltIn; 2] {
    let node: BuiltIn = if user.node_name().is_some() { NODE_RULES } else { &[] };
    let everyone: BuiltIn = if user.is_in(AUTHENTICATED) { EVERYONE_RULES } else { &[] };
    [node, everyone]
}

/// Rules as `SelfSubjectRulesReview` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// `resourceRules`.
    pub resource: Vec<Value>,
    /// `nonResourceRules`.
    pub non_resource: Vec<Value>,
}

/// Paths that all authenticated users may read.
const READABLE: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
];

/// All permissions of a user in a namespace: those of roles and the built-in ones.
pub fn rules_for(user: &User, grants: &Grants, namespace: &str) -> Rules {
    if user.is_in(MASTERS) {
        return Rules {
            resource: vec![json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})],
            non_resource: vec![json!({"verbs": ["*"], "nonResourceURLs": ["*"]})],
        };
    }
    let mut rules = Rules::default();
    for (verbs, group, resources) in rules_of(user).into_iter().flatten() {
        rules.resource.push(json!({"verbs": verbs, "apiGroups": [group], "resources": resources}));
    }
    rules.non_resource.push(json!({"verbs": ["get"], "nonResourceURLs": READABLE}));
    for rule in grants.rules(user, namespace) {
        if rule.non_resource_urls.is_empty() {
            let mut listed =
                json!({"verbs": rule.verbs, "apiGroups": rule.api_groups, "resources": rule.resources});
            if !rule.resource_names.is_empty() {
                listed["resourceNames"] = json!(rule.resource_names);
            }
            rules.resource.push(listed);
        } else {
            let listed = json!({"verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls});
            rules.non_resource.push(listed);
        }
    }
    rules
}

fn is_under(path: &str, prefix: &str) -> bool {
    path == prefix || (prefix != "/" && path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/')))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_admin_may_do_everything() {
        let (admin, node, anonymous) = (User::admin(), User::node("n"), User::anonymous());
        let account = User { name: "bot".into(), groups: vec![AUTHENTICATED.into()] };
        let what =
            |verb, resource, subresource| Attributes { verb, resource, subresource, ..Attributes::default() };
        for (attributes, wanted) in [
            (what("get", "pods", ""), [true, true, false, false]),
            (what("update", "pods", ""), [true, false, false, false]),
            (what("patch", "pods", "status"), [true, true, false, false]),
            (what("create", "pods", "binding"), [true, false, false, false]),
            (
                Attributes { verb: "get", path: "/apis/apps/v1", ..Attributes::default() },
                [true, true, true, false],
            ),
            (
                Attributes { verb: "get", path: "/readyz/ping", ..Attributes::default() },
                [true, true, true, true],
            ),
            (
                Attributes { verb: "get", path: "/metrics", ..Attributes::default() },
                [true, false, false, false],
            ),
        ] {
            let got = [&admin, &node, &account, &anonymous].map(|user| is_allowed(user, &attributes));
            assert_eq!(got, wanted, "{attributes:?}");
        }
        let refused = refusal(&node, &Attributes { namespace: "d", ..what("update", "pods", "") });
        assert_eq!(
            refused,
            "User \"system:node:n\" cannot update resource \"pods\" in API group \"\" in the namespace \"d\""
        );
    }
}
