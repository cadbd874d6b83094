//! Services.

use serde_json::Value;

use super::columns::{AGE, Column, NAME, Printer};
use super::row::{NONE, Row};

pub(super) static SERVICE: Printer = Printer::new(
    &[
        NAME,
        Column::text("Type", "How the service is exposed."),
        Column::text("Cluster-IP", "Address within the cluster."),
        Column::text("External-IP", "Address outside of the cluster."),
        Column::text("Port(s)", "Ports, their node ports and protocols."),
        AGE,
        Column::text("Selector", "Which pods serve it.").wide(),
    ],
    |row| {
        let cluster_ip = row.text("/spec/clusterIPs/0").or_else(|| row.text("/spec/clusterIP"));
        vec![
            row.name(),
            row.text_or("/spec/type", ""),
            cluster_ip.unwrap_or(NONE).into(),
            external_ip(row).into(),
            ports(row).into(),
            row.age(),
            row.labels("/spec/selector"),
        ]
    },
);

fn external_ip(row: &Row<'_>) -> String {
    let external = row.list("/spec/externalIPs").iter().filter_map(Value::as_str);
    let (addresses, absent): (Vec<&str>, &str) = match row.text("/spec/type") {
        Some("ExternalName") => (row.text("/spec/externalName").into_iter().collect(), NONE),
        Some("LoadBalancer") => {
            let ingress = row.list("/status/loadBalancer/ingress").iter();
            let ingress = ingress.filter_map(|i| i["ip"].as_str().or_else(|| i["hostname"].as_str()));
            (ingress.chain(external).collect(), "<pending>")
        }
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
