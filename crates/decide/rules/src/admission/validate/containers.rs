//! Containers: names, ports, and the rules of the node's network.

use std::collections::HashSet;

use super::super::field::{Errors, Path};
use super::resources::validate_container_resources;
use berth_api::object::{Container, ContainerPort, PodSpec};
use berth_api::syntax;

pub(super) fn validate_containers(containers: &[Container], path: &Path<'_>, errors: &mut Errors) {
    if containers.is_empty() {
        errors.required(path, "");
        return;
    }
    let mut names = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        let container_path = path.index(i);
        validate_container(container, &container_path, errors);
        if !names.insert(container.name.as_str()) {
            errors.duplicate(&container_path.child("name"), &container.name);
        }
        validate_restart_policy(container, &container_path, errors);
    }
    validate_host_ports(containers, path, errors);
}

pub(super) fn validate_init_containers(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    let mut names: HashSet<&str> = spec.containers.iter().map(|c| c.name.as_str()).collect();
    for (i, container) in spec.init_containers.iter().enumerate() {
        let container_path = path.index(i);
        validate_container(container, &container_path, errors);
        validate_restart_policy(container, &container_path, errors);
        if names.contains(container.name.as_str()) {
            errors.duplicate(&container_path.child("name"), &container.name);
        } else if !container.name.is_empty() {
            names.insert(&container.name);
        }
        // Init containers run one by one, so each is checked alone; kube-apiserver always reports index 0.
        validate_host_ports(std::slice::from_ref(container), path, errors);
    }
}

fn validate_container(container: &Container, path: &Path<'_>, errors: &mut Errors) {
    if container.name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_each(&path.child("name"), &container.name, syntax::dns_label(&container.name));
    }
    if container.image.is_empty() {
        errors.required(&path.child("image"), "");
    }
    validate_ports(&container.ports, &path.child("ports"), errors);
    validate_container_resources(&container.resources, &path.child("resources"), errors);
}

fn validate_restart_policy(container: &Container, path: &Path<'_>, errors: &mut Errors) {
    let policies = ["Always", "Never", "OnFailure"];
    if let Some(policy) = container.restart_policy.as_deref().filter(|policy| !policies.contains(policy)) {
        errors.not_supported(&path.child("restartPolicy"), policy, &policies);
    }
}

fn validate_ports(ports: &[ContainerPort], path: &Path<'_>, errors: &mut Errors) {
    let mut names = HashSet::new();
    for (i, port) in ports.iter().enumerate() {
        let port_path = path.index(i);
        if !port.name.is_empty() {
            let problems = syntax::port_name(&port.name);
            if !problems.is_empty() {
                errors.invalid_each(&port_path.child("name"), &port.name, problems);
            } else if !names.insert(port.name.as_str()) {
                errors.duplicate(&port_path.child("name"), &port.name);
            }
        }
        if port.container_port == 0 {
            errors.required(&port_path.child("containerPort"), "");
        } else {
            validate_port_number(port.container_port, &port_path.child("containerPort"), errors);
        }
        if port.host_port != 0 {
            validate_port_number(port.host_port, &port_path.child("hostPort"), errors);
        }
        if port.protocol.is_empty() {
            errors.required(&port_path.child("protocol"), "");
        } else if !matches!(port.protocol.as_str(), "SCTP" | "TCP" | "UDP") {
            errors.not_supported(&port_path.child("protocol"), &port.protocol, &["SCTP", "TCP", "UDP"]);
        }
    }
}

fn validate_port_number(port: i32, path: &Path<'_>, errors: &mut Errors) {
    for message in syntax::port_number(port) {
        errors.invalid(path, port, message);
    }
}

fn validate_host_ports(containers: &[Container], path: &Path<'_>, errors: &mut Errors) {
    let mut taken = HashSet::new();
    for (i, container) in containers.iter().enumerate() {
        let container_path = path.index(i);
        let ports_path = container_path.child("ports");
        for (j, port) in container.ports.iter().enumerate().filter(|(_, port)| port.host_port != 0) {
            if !taken.insert((&port.protocol, &port.host_ip, port.host_port)) {
                let claim = format!("{}/{}/{}", port.protocol, port.host_ip, port.host_port);
                errors.duplicate(&ports_path.index(j).child("hostPort"), &claim);
            }
        }
    }
}

pub(super) fn validate_host_network(spec: &PodSpec, path: &Path<'_>, errors: &mut Errors) {
    if !spec.host_network {
        return;
    }
    for (i, container) in spec.containers.iter().enumerate() {
        let container_path = path.index(i);
        let ports_path = container_path.child("ports");
        for (j, port) in container.ports.iter().enumerate() {
            if port.host_port != port.container_port {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(&ports_path.index(j).child("hostPort"), port.host_port, detail);
            }
        }
    }
}

/// Accepted in pod templates, not in pods.
pub(super) fn validate_image_whitespace(containers: &[Container], path: &Path<'_>, errors: &mut Errors) {
    for (i, container) in containers.iter().enumerate() {
        if container.image.trim().len() != container.image.len() {
            let detail = "must not have leading or trailing whitespace";
            errors.invalid(&path.index(i).child("image"), &container.image, detail);
        }
    }
}
