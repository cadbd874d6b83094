//! NodeRestriction: the rule of [`berth_api`], with the stored objects.

use berth_api::admission::Operation;
use berth_api::admission::node_restriction::{Lookup, NodeRequest, Refusal, keeps_to_own_node};
use berth_schema::resource::{NODES, PODS, Resource};
use serde_json::Value;

use super::Context;
use crate::server::status::Status;
use crate::store::Store;

/// Refuses a request of a node that concerns objects other than the node's own.
///
/// # Errors
/// The request concerns another node's objects.
pub fn admit(
    context: &Context<'_>,
    resource: &Resource,
    subresource: &str,
    operation: Operation,
    object: &Value,
    old_object: &Value,
) -> Result<(), Box<Status>> {
    let Some(node) = context.user.node_name() else { return Ok(()) };
    if node.is_empty() {
        let why = format!("could not determine node from user {:?}", context.user.name);
        return Err(Status::forbidden(resource, "", &why));
    }
    let (namespace, name) = crate::store::key(if old_object.is_null() { object } else { old_object });
    let (group, plural) = (resource.group, resource.plural);
    let request = NodeRequest {
        node,
        operation,
        group,
        resource: plural,
        subresource,
        namespace,
        name,
        object,
        old_object,
    };
    keeps_to_own_node(&request, &context.shared.store).map_err(|refusal| match refusal {
        Refusal::Forbidden(why) => Status::forbidden(resource, name, &why),
        Refusal::Unknown(status) => status,
    })
}

impl Lookup for Store {
    type Error = Box<Status>;

    fn node_uid(&self, node: &str) -> Result<String, Box<Status>> {
        let found = self.get(&NODES, "", node).ok_or_else(|| Status::not_found(&NODES, node))?;
        Ok(found.value()["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
    }

    fn is_bound(&self, namespace: &str, pod: &str, node: &str) -> Result<bool, Box<Status>> {
        let found = self.get(&PODS, namespace, pod).ok_or_else(|| Status::not_found(&PODS, pod))?;
        Ok(found.value()["spec"]["nodeName"] == node)
    }
}
