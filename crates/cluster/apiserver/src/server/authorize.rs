//! Built-in permissions, independent of roles: the admin may do everything, authenticated users may read discovery and
//! create self reviews. `node_authorizer` has those of nodes.

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
    /// The node that the field selector of a list requires (`spec.nodeName=` or `nodeName=`).
    pub selected_node: &'a str,
}

/// Permissions of all authenticated users.
const EVERYONE_RULES: RuleTable = &[
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
    user.is_in(AUTHENTICATED) && is_listed(EVERYONE_RULES, what)
}

/// Rules as `(verbs, group, resources)`.
pub type RuleTable = &'static [(&'static [&'static str], &'static str, &'static [&'static str])];

/// Whether a rule allows the action.
pub fn is_listed(rules: RuleTable, what: &Attributes<'_>) -> bool {
    let full = if what.subresource.is_empty() {
        what.resource.to_owned()
    } else {
        format!("{}/{}", what.resource, what.subresource)
    };
    rules.iter().any(|(verbs, group, resources)| {
        verbs.contains(&what.verb) && *group == what.group && resources.contains(&full.as_str())
    })
}

/// Rules as `SelfSubjectRulesReview` lists them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// `resourceRules`.
    pub resource: Vec<Value>,
    /// `nonResourceRules`.
    pub non_resource: Vec<Value>,
    /// Why the lists are incomplete.
    pub incomplete: Option<&'static str>,
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
            incomplete: None,
        };
    }
    let mut rules = Rules::default();
    if user.node_name().is_some() {
        rules.incomplete = Some("node authorizer does not support user rule resolution");
    }
    for (verbs, group, resources) in EVERYONE_RULES.iter().filter(|_| user.is_in(AUTHENTICATED)) {
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
        let account = User { name: "bot".into(), groups: vec![AUTHENTICATED.into()], ..User::default() };
        let what =
            |verb, resource, subresource| Attributes { verb, resource, subresource, ..Attributes::default() };
        for (attributes, wanted) in [
            (what("get", "pods", ""), [true, false, false, false]),
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
