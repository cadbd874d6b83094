//! Built-in permissions, independent of roles: the admin may do everything, authenticated users may read discovery and
//! create self reviews. `node` has those of nodes.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use super::role::Role;
use crate::request::{AUTHENTICATED, Attributes, MASTERS, User};

pub const EVERYONE_RULES: RuleTable = &[
    (&["create"], "authorization.k8s.io", &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
    (&["create"], "authentication.k8s.io", &["selfsubjectreviews"]),
];

const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version"];
const DISCOVERY_PATHS: &[&str] = &["/", "/.well-known", "/api", "/apis", "/openapi", "/openid"];

pub fn is_allowed(user: &User, what: &Attributes<'_>) -> bool {
    roles(user).any(|role| role.allows(what))
}

/// The built-in permissions of all users, of authenticated ones, and of the admin, as roles.
static ROLES: LazyLock<[Arc<Role>; 3]> = LazyLock::new(|| {
    let reads = |paths: &[&str]| {
        let below = paths.iter().filter(|path| **path != "/").map(|path| format!("{path}/*"));
        let urls: Vec<String> = paths.iter().map(|path| (*path).to_owned()).chain(below).collect();
        json!({"verbs": ["get", "head"], "nonResourceURLs": urls})
    };
    let mut authenticated = vec![reads(DISCOVERY_PATHS)];
    authenticated.extend(EVERYONE_RULES.iter().map(listed));
    let everything =
        json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    [vec![reads(PUBLIC_PATHS)], authenticated, vec![everything]].map(|rules| Arc::new(Role::of(&rules)))
});

/// The built-in permissions of a user as roles.
pub fn roles(user: &User) -> impl Iterator<Item = &'static Arc<Role>> {
    let has = [true, user.is_in(AUTHENTICATED), user.is_in(MASTERS)];
    ROLES.iter().zip(has).filter(|(_, has)| *has).map(|(role, _)| role)
}

/// A rule of a table as a role has it.
pub fn listed((verbs, group, resources): &(&[&str], &str, &[&str])) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

/// Rules as `(verbs, group, resources)`.
pub type RuleTable = &'static [(&'static [&'static str], &'static str, &'static [&'static str])];

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::refusal;

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
