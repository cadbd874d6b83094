//! Required anti-affinity is restricted to trusted users (inter-pod affinity proposal, "Denial of Service").

use berth_rules::TopologyScope;

use super::attributes::PodAttributes;
use crate::answer::Denial;
use crate::findings::Findings;
use crate::policy::TrustedUsers;
use crate::request::UserInfo;
use crate::rule::Rule;

/// The controllers of Kubernetes create pods for users whose workloads were checked.
const CONTROLLERS_USER: &str = "system:kube-controller-manager";
const CONTROLLERS_GROUP: &str = "system:serviceaccounts:kube-system";

impl TrustedUsers {
    fn trust(&self, user: &UserInfo) -> bool {
        let account = user.username.strip_prefix("system:serviceaccount:");
        let is_account = |listed: &String| {
            let parts = account.and_then(|account| account.split_once(':'));
            parts.is_some_and(|(namespace, name)| listed.split_once('/') == Some((namespace, name)))
        };
        self.users.contains(&user.username)
            || user.groups.iter().any(|group| self.groups.contains(group))
            || self.service_accounts.iter().any(is_account)
    }
}

/// Whether the user may create the pod's required anti-affinity: trusted users may, and others with the topology keys
/// that are free.
pub(super) fn is_trusted(attributes: &PodAttributes<'_>, found: &mut Findings) {
    let Some(restriction) = &attributes.policy.trusted_users else { return };
    let user = &attributes.request.user_info;
    let is_controller =
        user.username == CONTROLLERS_USER || user.groups.iter().any(|g| g == CONTROLLERS_GROUP);
    let is_checked = is_controller && attributes.pod.object.metadata.controller().is_some();
    if is_checked || restriction.trust(user) {
        return;
    }
    let is_free = |scope: &TopologyScope| match scope {
        TopologyScope::Key(key) => restriction.topology_keys.contains(key),
        TopologyScope::All => false,
    };
    for term in attributes.pod.rules.required_anti_affinity.iter().filter(|term| !is_free(&term.topology)) {
        let free = match restriction.topology_keys.as_slice() {
            [] => String::new(),
            keys => format!("; other users may use the topology key {}", keys.join(" or ")),
        };
        let message = format!(
            "{}: required anti-affinity is for trusted users, and {:?} is none{free}",
            term.path, user.username
        );
        found.broken(restriction.action, Denial::forbidden(Rule::TrustedUsers, attributes.request, message));
    }
}
