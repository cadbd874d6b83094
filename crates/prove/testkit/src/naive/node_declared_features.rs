//! `NodeDeclaredFeatures`: a pod runs only on nodes whose kubelets declare the features that it needs.

use berth_api::object::Node;

use super::{Code, Question, Verdict, reject};

pub fn filter(q: Question, node: &Node) -> Verdict {
    let spec = &q.pod.spec;
    let declares = |feature: &str| node.status.declared_features.iter().any(|name| name == feature);
    let restarts_all = spec.containers.iter().chain(&spec.init_containers).any(|container| {
        container.restart_policy_rules.iter().any(|rule| rule.action == "RestartAllContainers")
    });
    let has_user_namespace = spec.host_network && spec.host_users == Some(false);
    if restarts_all && !declares("RestartAllContainersOnContainerExits")
        || has_user_namespace && !declares("UserNamespacesHostNetworkSupport")
    {
        reject(Code::UnschedulableAndUnresolvable, "node(s) didn't match Pod's required features")
    } else {
        Ok(())
    }
}
