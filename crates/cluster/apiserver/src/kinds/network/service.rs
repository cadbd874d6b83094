//! Services: addresses and ports.

use std::collections::{HashMap, HashSet};
use std::net::Ipv4Addr;

use berth_api::syntax;
use berth_schema::resource::SERVICES;

use crate::kinds::prelude::*;
use crate::store::Claim;
use crate::strategy::field_rules::ip_address;

/// Node ports are given out of this range.
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;
/// The first two octets of cluster addresses: 10.96.0.0/16.
const NETWORK: [u8; 2] = [10, 96];
/// How often a random address is tried before giving up.
const ATTEMPTS: usize = 10_000;

pub struct Service;

impl Strategy for Service {
    fn default(&self, value: &mut Value) {
        default_service(value);
    }

    fn prepare_create(&self, context: &Context<'_>, value: &mut Value) {
        value["status"] = json!({"loadBalancer": {}});
        allocate(context, value, None);
    }

    fn prepare_update(&self, context: &Context<'_>, new: &mut Value, old: &Value) {
        if context.subresource.is_empty() {
            self.default(new);
            drop_of_type(&mut new["spec"], &old["spec"]);
            allocate(context, new, Some(old));
        }
        if new["spec"]["type"] == "LoadBalancer" {
            for balancer in items_mut(&mut new["status"]["loadBalancer"], "ingress") {
                if let Some(balancer) =
                    balancer.as_object_mut().filter(|balancer| balancer.contains_key("ip"))
                {
                    default(balancer, "ipMode", "VIP");
                }
            }
        }
    }

    fn name_problems(&self, name: &str) -> Vec<String> {
        syntax::dns_label(name)
    }

    fn validate(&self, _context: &Context<'_>, value: &Value, causes: &mut Causes) {
        validate(&value["spec"], causes);
    }

    fn validate_claim(&self, value: &Value, claim: &Claim, causes: &mut Causes) {
        let spec = &value["spec"];
        match claim {
            Claim::ClusterIp(address) => {
                let own = std::iter::once(&spec["clusterIP"]).chain(items(spec, "clusterIPs"));
                let mut own = own.filter_map(Value::as_str).filter(|own| own.parse() == Ok(*address));
                if let Some(own) = own.next() {
                    let why = format!("failed to allocate IP {own}: provided IP is already allocated");
                    causes.invalid("spec.clusterIPs", &json!([own]), &why);
                }
            }
            Claim::NodePort(number) => {
                let ports = items(spec, "ports").iter().enumerate();
                for (i, port) in ports.filter(|(_, port)| port["nodePort"] == *number) {
                    let field = format!("spec.ports[{i}].nodePort");
                    causes.invalid(&field, &port["nodePort"], "provided port is already allocated");
                }
            }
        }
    }

    fn validate_status(&self, new: &Value, _old: &Value, causes: &mut Causes) {
        let path = "status.loadBalancer.ingress";
        let balancers = items(&new["status"]["loadBalancer"], "ingress");
        if !balancers.is_empty() && new["spec"]["type"] != "LoadBalancer" {
            return causes.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        for (i, balancer) in balancers.iter().enumerate() {
            let (path, ip) = (format!("{path}[{i}]"), text(balancer, "/ip"));
            if !ip.is_empty() {
                causes.problems(&format!("{path}.ip"), &ip.into(), ip_address(ip));
            }
            match balancer["ipMode"].as_str() {
                None if !ip.is_empty() => {
                    causes.required(&format!("{path}.ipMode"), "must be specified when `ip` is set")
                }
                Some(_) if ip.is_empty() => {
                    causes.forbidden(&format!("{path}.ipMode"), "may not be specified when `ip` is not set");
                }
                Some(mode) => causes.one_of(&format!("{path}.ipMode"), &mode.into(), &["Proxy", "VIP"]),
                None => {}
            }
            let host = text(balancer, "/hostname");
            if !host.is_empty() {
                causes.problems(&format!("{path}.hostname"), &host.into(), syntax::dns_subdomain(host));
            }
        }
    }

    fn validate_update(&self, _context: &Context<'_>, new: &Value, old: &Value, causes: &mut Causes) {
        let (new, old) = (&new["spec"], &old["spec"]);
        let kept = old["type"] == "ExternalName"
            || new["type"] == "ExternalName"
            || text(old, "/clusterIP").is_empty();
        if !kept && new["clusterIP"] != old["clusterIP"] {
            causes.immutable("spec.clusterIPs[0]", &new["clusterIP"]);
        }
    }
}

fn default_service(value: &mut Value) {
    let Some(spec) = object(value, "spec") else { return };
    default_text(spec, "type", "ClusterIP");
    default_text(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        spec.remove("sessionAffinityConfig");
    } else {
        let config = spec.entry("sessionAffinityConfig").or_insert(Value::Null);
        if config["clientIP"]["timeoutSeconds"].is_null() {
            *config = json!({"clientIP": {"timeoutSeconds": 10_800}});
        }
    }
    let external = spec["type"] == "ExternalName";
    if !external {
        default(spec, "internalTrafficPolicy", "Cluster");
        default(spec, "ipFamilies", json!(["IPv4"]));
        default(spec, "ipFamilyPolicy", "SingleStack");
        if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) {
            default_text(spec, "externalTrafficPolicy", "Cluster");
        }
        if spec["type"] == "LoadBalancer" {
            default(spec, "allocateLoadBalancerNodePorts", true);
        }
    }
    for port in items_mut(&mut value["spec"], "ports").iter_mut().filter_map(Value::as_object_mut) {
        default_text(port, "protocol", "TCP");
        let number = port.get("port").cloned().unwrap_or(Value::Null);
        if port.get("targetPort").is_none_or(|target| target.is_null() || *target == "" || *target == 0) {
            port.insert("targetPort".to_owned(), number);
        }
    }
}

/// Takes away what a service has because of its type before, where the user did not change it.
fn drop_of_type(new: &mut Value, old: &Value) {
    let has_ports = |spec: &Value| ["NodePort", "LoadBalancer"].contains(&text(spec, "/type"));
    let numbers = |spec: &Value| -> Vec<Value> {
        items(spec, "ports").iter().map(|port| port["nodePort"].clone()).collect()
    };
    let mut dropped = Vec::new();
    if old["type"] != "ExternalName" && new["type"] == "ExternalName" {
        dropped.extend(["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if has_ports(old) && !has_ports(new) {
        dropped.push("externalTrafficPolicy");
        if numbers(new) == numbers(old) {
            for port in items_mut(new, "ports").iter_mut().filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        }
    }
    if old["type"] == "LoadBalancer" && new["type"] != "LoadBalancer" {
        dropped.extend(["allocateLoadBalancerNodePorts", "healthCheckNodePort", "loadBalancerClass"]);
    }
    for field in dropped {
        if let Some(spec) = new.as_object_mut().filter(|spec| spec.get(field) == old.get(field)) {
            spec.remove(field);
        }
    }
}

/// Allocates the addresses and node ports that a service requests; keeps those of `old`.
fn allocate(context: &Context<'_>, value: &mut Value, old: Option<&Value>) {
    let kind = text(value, "/spec/type").to_owned();
    if kind == "ExternalName" {
        return;
    }
    if let Some(old) = old
        && text(value, "/spec/clusterIP").is_empty()
        && let Some(spec) = value["spec"].as_object_mut()
    {
        for field in ["clusterIP", "clusterIPs"] {
            if let Some(kept) = old["spec"].get(field) {
                spec.insert(field.to_owned(), kept.clone());
            }
        }
    }
    if text(value, "/spec/clusterIP").is_empty() {
        let random = || Ipv4Addr::new(NETWORK[0], NETWORK[1], fastrand::u8(..), fastrand::u8(1..255));
        let is_free = |ip: &Ipv4Addr| !context.lookup.is_claimed(&SERVICES, &Claim::ClusterIp((*ip).into()));
        if let Some(ip) = (0..ATTEMPTS).map(|_| random()).find(is_free) {
            value["spec"]["clusterIP"] = Value::from(ip.to_string());
        }
    }
    let ip = value["spec"]["clusterIP"].clone();
    if let Some(spec) = value["spec"].as_object_mut() {
        spec.insert("clusterIPs".to_owned(), json!([ip]));
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        allocate_node_ports(context, value, old);
    }
}

fn allocate_node_ports(context: &Context<'_>, value: &mut Value, old: Option<&Value>) {
    let missing = |port: &Value| port["nodePort"].as_i64().unwrap_or(0) == 0;
    let key = |port: &Value| (port["port"].as_i64(), text(port, "/protocol").to_owned());
    let old_ports = old.map_or(&[][..], |old| items(&old["spec"], "ports"));
    let before: HashMap<_, _> =
        old_ports.iter().filter_map(|port| Some((key(port), port["nodePort"].as_u64()?))).collect();
    let ports = items_mut(&mut value["spec"], "ports");
    let mut own: HashSet<u64> = ports.iter().filter_map(|port| port["nodePort"].as_u64()).collect();
    for port in ports.iter_mut().filter(|port| missing(port)) {
        let kept = before.get(&key(port)).copied();
        // Without a free port the field stays absent.
        if let Some(node_port) = kept.or_else(|| free_node_port(context, &own)) {
            own.insert(node_port);
            port["nodePort"] = Value::from(node_port);
        }
    }
}

/// A node port that no service has, from a random place of the range on.
fn free_node_port(context: &Context<'_>, own: &HashSet<u64>) -> Option<u64> {
    let start = fastrand::u16(NODE_PORTS);
    let ports = (start..=*NODE_PORTS.end()).chain(*NODE_PORTS.start()..start);
    let is_free = |port: &u16| {
        !own.contains(&u64::from(*port)) && !context.lookup.is_claimed(&SERVICES, &Claim::NodePort(*port))
    };
    ports.into_iter().find(is_free).map(u64::from)
}

fn validate(spec: &Value, causes: &mut Causes) {
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    causes.one_of("spec.type", &spec["type"], &types);
    causes.one_of("spec.sessionAffinity", &spec["sessionAffinity"], &["ClientIP", "None"]);
    for value in spec["selector"].as_object().into_iter().flat_map(Map::values) {
        causes.problems("spec.selector", value, syntax::label_value(text(value, "")));
    }
    let seconds = &spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"];
    if spec["sessionAffinity"] == "ClientIP" && seconds.as_i64().is_some_and(|n| !(1..=86_400).contains(&n)) {
        let path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds";
        causes.invalid(path, seconds, "must be greater than 0 and less than 86400");
    }
    let policies: [(&str, &[&str]); 3] = [
        ("externalTrafficPolicy", &["Cluster", "Local"]),
        ("internalTrafficPolicy", &["Cluster", "Local"]),
        ("ipFamilyPolicy", &["PreferDualStack", "RequireDualStack", "SingleStack"]),
    ];
    for (field, all) in policies.into_iter().filter(|(field, _)| !spec[field].is_null()) {
        causes.one_of(&format!("spec.{field}"), &spec[field], all);
    }
    let is_external =
        matches!(text(spec, "/type"), "LoadBalancer" | "NodePort") || !is_empty(&spec["externalIPs"]);
    if !is_external && !is_empty(&spec["externalTrafficPolicy"]) {
        let why = "may only be set for externally-accessible services";
        causes.invalid("spec.externalTrafficPolicy", &spec["externalTrafficPolicy"], why);
    }
    if spec["type"] == "ExternalName" {
        causes.not_empty("spec.externalName", &spec["externalName"]);
        return;
    }
    let ports = items(spec, "ports");
    if ports.is_empty() && spec["clusterIP"] != "None" {
        causes.required("spec.ports", "");
    }
    for (i, port) in ports.iter().enumerate() {
        let number = &port["port"];
        if !number.as_i64().is_some_and(|n| (1..=65_535).contains(&n)) {
            let why = "must be between 1 and 65535, inclusive";
            causes.invalid(&format!("spec.ports[{i}].port"), number, why);
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            let field = format!("spec.ports[{i}].appProtocol");
            causes.problems(&field, &port["appProtocol"], syntax::label_key(protocol));
        }
        let field = format!("spec.ports[{i}].protocol");
        causes.one_of(&field, &port["protocol"], &["SCTP", "TCP", "UDP"]);
        let node_port = &port["nodePort"];
        if node_port.as_i64().is_some_and(|n| n != 0 && !NODE_PORTS.contains(&u16::try_from(n).unwrap_or(0)))
        {
            let (first, last) = (NODE_PORTS.start(), NODE_PORTS.end());
            let why = format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            );
            causes.invalid(&format!("spec.ports[{i}].nodePort"), node_port, &why);
        }
        let target = &port["targetPort"];
        let problems = match target {
            Value::Null => Vec::new(),
            Value::String(name) => syntax::port_name(name),
            number => syntax::port_number(number.as_i64().and_then(|n| n.try_into().ok()).unwrap_or(0)),
        };
        causes.problems(&format!("spec.ports[{i}].targetPort"), target, problems);
        let (field, name) = (format!("spec.ports[{i}].name"), text(port, "/name"));
        if !name.is_empty() {
            causes.problems(&field, &port["name"], syntax::dns_label(name));
        } else if ports.len() > 1 {
            causes.required(&field, "");
        }
    }
    for i in repeated(ports.iter().map(|port| text(port, "/name"))) {
        if !text(&ports[i], "/name").is_empty() {
            causes.duplicate(&format!("spec.ports[{i}].name"), &ports[i]["name"]);
        }
    }
    let key = |port: &'_ Value| (port["port"].as_i64(), text(port, "/protocol").to_owned());
    for i in repeated(ports.iter().map(key)) {
        let pair = json!({"port": ports[i]["port"], "protocol": ports[i]["protocol"]});
        causes.duplicate(&format!("spec.ports[{i}]"), &pair);
    }
}

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::field("Type", "How the service is exposed.", "/spec/type"),
    Column::text("Cluster-IP", "Address within the cluster.", |row| {
        row.text("/spec/clusterIPs/0").or_else(|| row.text("/spec/clusterIP")).unwrap_or(NONE).into()
    }),
    Column::text("External-IP", "Address outside of the cluster.", |row| external_ip(row).into()),
    Column::text("Port(s)", "Ports, their node ports and protocols.", |row| ports(row).into()),
    AGE,
    Column::text("Selector", "Which pods serve it.", |row| row.labels("/spec/selector")).wide(),
];

fn external_ip(row: &Row<'_>) -> String {
    let external = row.texts("/spec/externalIPs").into_iter();
    let (addresses, absent): (Vec<&str>, &str) = match row.text("/spec/type") {
        Some("ExternalName") => (row.text("/spec/externalName").into_iter().collect(), NONE),
        Some("LoadBalancer") => (row.balancers().into_iter().chain(external).collect(), "<pending>"),
        _ => (external.collect(), NONE),
    };
    if addresses.is_empty() { absent.to_owned() } else { addresses.join(",") }
}

fn ports(row: &Row<'_>) -> String {
    let each = row.list("/spec/ports").iter().map(|port| {
        let number = port["port"].as_i64().unwrap_or(0);
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        match port["nodePort"].as_i64() {
            Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { NONE.to_owned() } else { each.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_of_another_type_kept_ports_that_were_then_refused() {
        let old = json!({"type": "LoadBalancer", "clusterIP": "10.96.0.9", "externalTrafficPolicy": "Cluster",
            "allocateLoadBalancerNodePorts": true, "ports": [{"port": 80, "nodePort": 30080}]});
        let with = |fields: Value| {
            let mut new = old.clone();
            json_patch::merge(&mut new, &fields);
            drop_of_type(&mut new, &old);
            new
        };
        let expected = json!({"type": "ClusterIP", "clusterIP": "10.96.0.9", "ports": [{"port": 80}]});
        assert_eq!(with(json!({"type": "ClusterIP"})), expected);
        // What the user also changed is validated.
        let changed = with(
            json!({"type": "ClusterIP", "externalTrafficPolicy": "Local", "ports": [{"port": 80, "nodePort": 30081}]}),
        );
        assert_eq!(
            (&changed["externalTrafficPolicy"], &changed["ports"][0]["nodePort"]),
            (&json!("Local"), &json!(30081))
        );
        assert!(with(json!({"type": "ExternalName"}))["clusterIP"].is_null());
        assert_eq!(with(json!({"type": "NodePort"}))["ports"], old["ports"]);
    }
}
