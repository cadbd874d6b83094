//! NodeRestriction: the rule of [`berth_api`], with the stored objects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_rules::admission::Operation;
use berth_rules::admission::node_restriction::{
    self, NODE_USER_PREFIX, NodeRequest, Refusal, keeps_to_own_node,
};
use berth_schema::resource::{CERTIFICATE_SIGNING_REQUESTS, NODES, PODS, Resource};
use rcgen::{CertificateSigningRequestParams, DnType, DnValue};
use serde_json::Value;

use crate::request::{ApiResult, Status};
use crate::store::key;
use crate::strategy::{Context, Lookup};

/// Refuses a request of a node that concerns objects other than the node's own.
pub fn admit(
    context: &Context<'_>,
    resource: &Resource,
    operation: Operation,
    object: &Value,
    old_object: &Value,
) -> ApiResult {
    let Some(node) = context.user.node_name() else { return Ok(()) };
    if node.is_empty() {
        let why = format!("could not determine node from user {:?}", context.user.name);
        return Err(Status::forbidden(resource, "", &why));
    }
    let (namespace, name) = key(if old_object.is_null() { object } else { old_object });
    let (group, plural) = (resource.group, resource.plural);
    let request = NodeRequest {
        node,
        operation,
        group,
        resource: plural,
        subresource: context.subresource,
        namespace,
        name,
        object,
        old_object,
    };
    if *resource == CERTIFICATE_SIGNING_REQUESTS && operation == Operation::Create {
        check_signing_request(node, object).map_err(|why| Status::forbidden(resource, name, &why))?;
    }
    keeps_to_own_node(&request, &Objects(context.lookup)).map_err(|refusal| match refusal {
        Refusal::Forbidden(why) => Status::forbidden(resource, name, &why),
        Refusal::Unknown(status) => status,
    })
}

/// A node requests a kubelet's certificate for itself only.
fn check_signing_request(node: &str, object: &Value) -> Result<(), String> {
    let spec = &object["spec"];
    if !matches!(
        spec["signerName"].as_str(),
        Some("kubernetes.io/kubelet-serving" | "kubernetes.io/kube-apiserver-client-kubelet")
    ) {
        return Ok(());
    }
    let pem = STANDARD.decode(spec["request"].as_str().unwrap_or_default()).ok();
    let pem = pem.and_then(|pem| String::from_utf8(pem).ok()).unwrap_or_default();
    let request =
        CertificateSigningRequestParams::from_pem(&pem).map_err(|e| format!("unable to parse csr: {e}"))?;
    let name = match request.params.distinguished_name.get(&DnType::CommonName) {
        Some(DnValue::PrintableString(name)) => name.as_str(),
        Some(DnValue::Utf8String(name)) => name,
        _ => "",
    };
    if name.strip_prefix(NODE_USER_PREFIX) == Some(node) {
        return Ok(());
    }
    Err(format!("can only create a node CSR with CN={NODE_USER_PREFIX}{node}"))
}

struct Objects<'a>(&'a dyn Lookup);

impl node_restriction::Lookup for Objects<'_> {
    type Error = Box<Status>;

    fn node_uid(&self, node: &str) -> ApiResult<String> {
        let found = self.0.get(&NODES, "", node).ok_or_else(|| Status::not_found(&NODES, node))?;
        Ok(found.value()["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
    }

    fn is_bound(&self, namespace: &str, pod: &str, node: &str) -> ApiResult<bool> {
        let found = self.0.get(&PODS, namespace, pod).ok_or_else(|| Status::not_found(&PODS, pod))?;
        Ok(PODS.watched_field().and_then(|field| found.facts.field(field)).is_some_and(|on| on == node))
    }
}
