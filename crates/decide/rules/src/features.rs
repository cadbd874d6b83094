//! Features of kubelets that a pod requires, and that nodes declare in `status.declaredFeatures`.

use berth_api::object::PodSpec;

/// The features that a pod can require when it is scheduled, as in Kubernetes 1.36. Nodes also declare others, which
/// matter to the API server.
const NAMES: [&str; 2] = ["RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"];
const RESTART_ALL_CONTAINERS: u8 = 1;
const USER_NAMESPACES_HOST_NETWORK: u8 = 1 << 1;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeFeatures(u8);

impl NodeFeatures {
    pub fn required_by(spec: &PodSpec) -> NodeFeatures {
        let mut rules =
            spec.containers.iter().chain(&spec.init_containers).flat_map(|c| &c.restart_policy_rules);
        let mut required = 0;
        if rules.any(|rule| rule.action == "RestartAllContainers") {
            required |= RESTART_ALL_CONTAINERS;
        }
        if spec.host_network && spec.host_users == Some(false) {
            required |= USER_NAMESPACES_HOST_NETWORK;
        }
        NodeFeatures(required)
    }

    /// The features among those that a node declares.
    pub fn declared(names: &[String]) -> NodeFeatures {
        let bit = |(i, name): (usize, &&str)| u8::from(names.iter().any(|n| n == name)) << i;
        NodeFeatures(NAMES.iter().enumerate().map(bit).sum())
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The features that are not among `others`.
    pub fn without(self, others: NodeFeatures) -> NodeFeatures {
        NodeFeatures(self.0 & !others.0)
    }

    /// The names, with the field of a pod that requires each.
    pub fn iter(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        const FIELDS: [&str; 2] = ["spec.containers[*].restartPolicyRules", "spec.hostUsers"];
        let named = NAMES.into_iter().zip(FIELDS).enumerate();
        named.filter(move |(i, _)| self.0 & 1 << i != 0).map(|(_, named)| named)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn features_are_required_by_restart_rules_and_by_user_namespaces_on_the_host_network() {
        let rules = json!([{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]);
        for (spec, names) in [
            (json!({"hostNetwork": true}), vec![]),
            (json!({"hostUsers": false}), vec![]),
            (json!({"hostNetwork": true, "hostUsers": false}), vec!["UserNamespacesHostNetworkSupport"]),
            (json!({"containers": rules}), vec!["RestartAllContainersOnContainerExits"]),
            (json!({"initContainers": rules}), vec!["RestartAllContainersOnContainerExits"]),
            (json!({"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}), vec![]),
        ] {
            let required = NodeFeatures::required_by(&serde_json::from_value(spec.clone()).unwrap());
            assert_eq!(required.iter().map(|(name, _)| name).collect::<Vec<_>>(), names, "{spec}");
            let names: Vec<_> = names.into_iter().chain(["Other"]).map(str::to_owned).collect();
            assert!(required.without(NodeFeatures::declared(&names)).is_empty());
            assert_eq!(required.without(NodeFeatures::default()), required);
        }
    }
}
