//! What the endpoints of a service are: pure functions of the service and its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::view::{EndpointSlice, Pod, Service, ServicePort};

const MAX_SLICE: usize = 100;
/// The most addresses of an Endpoints object.
pub(super) const MAX_ADDRESSES: usize = 1000;

/// Endpoints with the same ports, by the uid of their pod.
pub(super) type Groups = BTreeMap<Vec<u8>, (Vec<Value>, BTreeMap<String, Value>)>;

/// A slice as it should be: its number within the service, if it is new.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slice {
    /// Of an existing slice; `None` for a new one.
    pub(super) name: Option<String>,
    pub(super) ports: Vec<Value>,
    pub(super) endpoints: Vec<Value>,
}

/// Whether a pod is an endpoint of the services that select it.
fn is_endpoint(pod: &Pod) -> bool {
    !pod.status.pod_ip.is_empty() && !pod.is_terminal()
}

fn ports(service: &Service, pod: &Pod) -> Vec<Value> {
    let number = |port: &ServicePort| match &port.target_port {
        Value::String(name) => {
            let mut named = pod.spec.named_ports.iter();
            let is_it = |port: &&crate::view::NamedPort, protocol: &str| {
                port.name == *name && (port.protocol.is_empty() || port.protocol == protocol)
            };
            named.find(|named| is_it(named, &port.protocol)).map(|named| named.container_port)
        }
        Value::Number(number) => number.as_i64().and_then(|number| i32::try_from(number).ok()),
        _ => Some(port.port),
    };
    let written = |port: &ServicePort| {
        let mut written = json!({"name": port.name, "protocol": port.protocol, "port": number(port)?});
        if let Some(protocol) = &port.app_protocol {
            written["appProtocol"] = protocol.as_str().into();
        }
        Some(written)
    };
    service.spec.ports.iter().filter_map(written).collect()
}

/// The endpoints of EndpointSlices. `zone_of` is that of a node.
pub(super) fn endpoints(
    service: &Service,
    pods: &[Arc<Pod>],
    zone_of: impl Fn(&str) -> Option<String>,
) -> Groups {
    let mut groups = Groups::new();
    for pod in pods.iter().filter(|pod| is_endpoint(pod)) {
        let ports = ports(service, pod);
        let (ready, ending) = (pod.is_ready(), pod.metadata.is_deleting());
        let mut endpoint = json!({
            "addresses": [pod.status.pod_ip],
            "conditions": {
                "ready": service.spec.publish_not_ready_addresses || ready && !ending,
                "serving": ready,
                "terminating": ending,
            },
            "targetRef": target(pod),
            "nodeName": pod.spec.node_name,
        });
        if let Some(zone) = zone_of(&pod.spec.node_name) {
            endpoint["zone"] = zone.into();
        }
        let key = Value::from(ports.clone()).to_string().into_bytes();
        let group = groups.entry(key).or_insert_with(|| (ports, BTreeMap::new()));
        group.1.insert(pod.metadata.uid.clone(), endpoint);
    }
    groups
}

fn target(pod: &Pod) -> Value {
    let metadata = &pod.metadata;
    json!({"kind": "Pod", "name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid})
}

/// The slices of a service. Endpoints stay in their slices, so that a change of one pod changes one slice. Slices that are
/// not listed are to be deleted; without endpoints, one slice is left.
pub(super) fn slices(mut wanted: Groups, existing: &[Arc<EndpointSlice>]) -> Vec<Slice> {
    let mut slices: Vec<Slice> = Vec::new();
    let mut by_ports: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for slice in existing {
        let key = Value::from(slice.ports.clone()).to_string().into_bytes();
        let Some((_, endpoints)) = wanted.get_mut(&key) else { continue };
        let uids = slice.endpoints.iter().filter_map(|endpoint| endpoint["targetRef"]["uid"].as_str());
        let kept: Vec<Value> = uids.filter_map(|uid| endpoints.remove(uid)).collect();
        if !kept.is_empty() {
            let name = Some(slice.metadata.name.clone());
            by_ports.entry(key).or_default().push(slices.len());
            slices.push(Slice { name, ports: slice.ports.clone(), endpoints: kept });
        }
    }
    let kept: BTreeSet<String> = slices.iter().filter_map(|slice| slice.name.clone()).collect();
    let mut free = existing.iter().map(|slice| &slice.metadata.name).filter(|name| !kept.contains(*name));
    for (key, (ports, endpoints)) in wanted {
        let mut endpoints = endpoints.into_values().peekable();
        for i in by_ports.get(&key).into_iter().flatten() {
            let Some(slice) = slices.get_mut(*i) else { continue };
            let n = MAX_SLICE.saturating_sub(slice.endpoints.len());
            slice.endpoints.extend(endpoints.by_ref().take(n));
        }
        while endpoints.peek().is_some() {
            let endpoints = endpoints.by_ref().take(MAX_SLICE).collect();
            slices.push(Slice { name: free.next().cloned(), ports: ports.clone(), endpoints });
        }
    }
    if slices.is_empty() {
        slices.push(Slice { name: free.next().cloned(), ports: Vec::new(), endpoints: Vec::new() });
    }
    slices
}

/// Addresses with the same ports.
#[derive(Default)]
struct Subset {
    ports: Vec<Value>,
    ready: Vec<Value>,
    not_ready: Vec<Value>,
}

/// The subsets of an Endpoints object, and whether addresses were left out.
pub(super) fn subsets(service: &Service, pods: &[Arc<Pod>]) -> (Vec<Value>, bool) {
    let mut groups: BTreeMap<Vec<u8>, Subset> = BTreeMap::new();
    let mut pods: Vec<&Arc<Pod>> = pods
        .iter()
        .filter(|pod| {
            is_endpoint(pod) && (!pod.metadata.is_deleting() || service.spec.publish_not_ready_addresses)
        })
        .collect();
    // Ready ones first, where there are too many.
    pods.sort_by_cached_key(|pod| {
        let address = pod.status.pod_ip.parse::<IpAddr>().ok();
        (!pod.is_ready(), address, pod.metadata.name.clone())
    });
    let is_cut = pods.len() > MAX_ADDRESSES;
    for pod in pods.into_iter().take(MAX_ADDRESSES) {
        let ports = ports(service, pod);
        if ports.is_empty() && !service.spec.ports.is_empty() {
            continue;
        }
        let address =
            json!({"ip": pod.status.pod_ip, "nodeName": pod.spec.node_name, "targetRef": target(pod)});
        let key = Value::from(ports.clone()).to_string().into_bytes();
        let subset = groups.entry(key).or_insert_with(|| Subset { ports, ..Subset::default() });
        let is_ready = pod.is_ready() || service.spec.publish_not_ready_addresses;
        if is_ready { &mut subset.ready } else { &mut subset.not_ready }.push(address);
    }
    let written = |Subset { mut ports, ready, not_ready }: Subset| {
        let mut subset = json!({});
        for (field, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
            if !addresses.is_empty() {
                subset[field] = addresses.into();
            }
        }
        // The name of a single port is left out.
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            if port.get("name").is_some_and(|name| name == "") {
                port.shift_remove("name");
            }
        }
        if !ports.is_empty() {
            subset["ports"] = ports.into();
        }
        subset
    };
    (groups.into_values().map(written).collect(), is_cut)
}
