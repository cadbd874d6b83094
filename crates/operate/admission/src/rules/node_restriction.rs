//! NodeRestriction for clusters whose API server runs without it: the rule of [`berth_api`], with the cluster's state.

use berth_rules::admission::Operation;
use berth_rules::admission::node_restriction::{
    self, Lookup, NODE_USER_PREFIX, NODES_GROUP, NodeRequest, Refusal,
};

use crate::answer::{Answer, Denial, ReviewError};
use crate::findings::Findings;
use crate::policy::{Action, Policy};
use crate::request::AdmissionRequest;
use crate::rule::Rule;
use crate::state::StateAccess;

/// The node whose identity makes a request, if the policy restricts nodes.
fn restricted_node<'r>(request: &'r AdmissionRequest, policy: &Policy) -> Option<&'r str> {
    let user = &request.user_info;
    let is_node = policy.node_restriction && user.groups.iter().any(|group| group == NODES_GROUP);
    user.username.strip_prefix(NODE_USER_PREFIX).filter(|_| is_node)
}

/// Checks that a node changes no annotation of a pod that says where pods may run. Plugins of API servers do not check this.
pub(crate) fn keeps_annotations(request: &AdmissionRequest, policy: &Policy, found: &mut Findings) {
    let is_change = request.operation == Operation::Update || request.is_binding();
    let Some(node) = restricted_node(request, policy).filter(|_| is_change) else { return };
    let kept = node_restriction::keeps_annotations::<()>(node, &request.object, &request.old_object);
    if let Err(Refusal::Forbidden(why)) = kept {
        found.broken(Action::Reject, Denial::forbidden(Rule::NodeRestriction, request, why));
    }
}

/// Checks the request of a node's identity; other users are not restricted.
pub(crate) fn keeps_to_own_node<K: StateAccess>(
    request: &AdmissionRequest,
    policy: &Policy,
    access: &K,
) -> Result<Answer, ReviewError> {
    let Some(node) = restricted_node(request, policy) else { return Ok(Answer::allowed()) };
    let name = || request.object.pointer("/metadata/name").and_then(|name| name.as_str());
    let node_request = NodeRequest {
        node,
        operation: request.operation,
        group: &request.resource.group,
        resource: &request.resource.resource,
        subresource: &request.sub_resource,
        namespace: &request.namespace,
        name: if request.name.is_empty() { name().unwrap_or_default() } else { &request.name },
        object: &request.object,
        old_object: &request.old_object,
    };
    let checked = if node.is_empty() {
        Err(Refusal::Forbidden(format!(
            "could not determine node from user {:?}",
            request.user_info.username
        )))
    } else {
        node_restriction::keeps_to_own_node(&node_request, &StateLookup(access))
    };
    match checked {
        Ok(()) => Ok(Answer::allowed()),
        Err(Refusal::Forbidden(why)) => {
            Ok(Answer::denied(Denial::forbidden(Rule::NodeRestriction, request, why)))
        }
        Err(Refusal::Unknown(error)) => Err(error),
    }
}

struct StateLookup<'a, K>(&'a K);

impl<K: StateAccess> Lookup for StateLookup<'_, K> {
    type Error = ReviewError;

    fn node_uid(&self, node: &str) -> Result<String, ReviewError> {
        let uid = self.0.ask("NodeRestriction", |state| state.nodes.uid(node).map(str::to_owned))?;
        uid.ok_or_else(|| ReviewError::Unseen(format!("node {node:?}")))
    }

    fn is_bound(&self, namespace: &str, pod: &str, node: &str) -> Result<bool, ReviewError> {
        let on = self.0.ask("NodeRestriction", |state| {
            state.cluster().node_of(namespace, pod).map(|there| there == node)
        })?;
        on.ok_or_else(|| ReviewError::Unseen(format!("pod {namespace}/{pod} on a node")))
    }
}
