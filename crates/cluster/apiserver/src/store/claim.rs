//! Values that at most one object may have: cluster addresses and node ports of services.

use std::fmt;
use std::net::IpAddr;

use berth_schema::resource::{Resource, SERVICES};

use super::json::Json;

/// A value that at most one object may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    ClusterIp(IpAddr),
    NodePort(u16),
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Claim::ClusterIp(address) => write!(f, "IP {address}"),
            Claim::NodePort(port) => write!(f, "port {port}"),
        }
    }
}

pub fn claims_of(resource: &Resource, object: &Json<'_>) -> Vec<Claim> {
    if *resource != SERVICES {
        return Vec::new();
    }
    let Some(spec) = object.pointer("/spec").filter(|spec| spec["type"] != "ExternalName") else {
        return Vec::new();
    };
    let listed = |field: &str| spec[field].as_array().into_iter().flatten();
    let addresses = std::iter::once(&spec["clusterIP"]).chain(listed("clusterIPs"));
    let addresses = addresses.filter_map(|address| address.as_str()?.parse().ok()).map(Claim::ClusterIp);
    let has_node_ports = matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let ports = listed("ports").filter(|_| has_node_ports);
    let ports = ports.filter_map(|port| port["nodePort"].as_u64()?.try_into().ok()).filter(|port| *port != 0);
    let mut claims = Vec::new();
    for claim in addresses.chain(ports.map(Claim::NodePort)) {
        if !claims.contains(&claim) {
            claims.push(claim);
        }
    }
    claims
}
