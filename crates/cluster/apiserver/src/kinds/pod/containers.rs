//! Containers of pods and of templates of pods, but for what placement reads.

use std::collections::{HashMap, HashSet};

use berth_api::syntax;

use super::volumes::{field_reference, resource_field};
use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{
    Check, Each, Fields as Object, Name, Number, OneOf, Required, Text,
};
use crate::strategy::field_rules::*;

/// In kube-apiserver's order. Name, image, ports and resources are validated by `berth_rules`.
const COMMON: Fields = &[
    ("terminationMessagePolicy", &[OneOf(&["File", "FallbackToLogsOnError"])]),
    ("env", &[Each(&[Object(&[("name", &[REQUIRED, Name(variable_name)]), ("", &[Check(value_source)])])])]),
    ("", &[Check(environment_sources)]),
    ("imagePullPolicy", &[OneOf(&["Always", "IfNotPresent", "Never"])]),
    ("securityContext", &[Object(SECURITY_CONTEXT)]),
    (
        "restartPolicyRules",
        &[Each(&[Object(&[
            ("action", &[OneOf(&["Restart", "RestartAllContainers"])]),
            (
                "exitCodes",
                &[Required("must be specified"), Object(&[("operator", &[OneOf(&["In", "NotIn"])])])],
            ),
        ])])],
    ),
];
const SECURITY_CONTEXT: Fields = &[
    ("runAsUser", &[ID]),
    ("runAsGroup", &[ID]),
    ("procMount", &[OneOf(&["Default", "Unmasked"])]),
    ("seccompProfile", &[Check(seccomp)]),
    ("", &[Check(escalation)]),
    ("appArmorProfile", &[Check(app_armor)]),
];
/// What a container does while it runs.
const RUNNING: Fields = &[
    (
        "lifecycle",
        &[Object(&[("postStart", &[Check(lifecycle_handler)]), ("preStop", &[Check(lifecycle_handler)])])],
    ),
    ("livenessProbe", &[Object(PROBE), Object(&[("successThreshold", &[Number(1, 1, "must be 1")])])]),
    (
        "readinessProbe",
        &[Object(PROBE), Object(&[("terminationGracePeriodSeconds", &[Check(not_of_readiness)])])],
    ),
    ("startupProbe", &[Object(PROBE), Object(&[("successThreshold", &[Number(1, 1, "must be 1")])])]),
];
const PROBE: Fields = &[
    ("", &[Check(probe_handler)]),
    ("initialDelaySeconds", &[NOT_NEGATIVE]),
    ("timeoutSeconds", &[NOT_NEGATIVE]),
    ("periodSeconds", &[NOT_NEGATIVE]),
    ("successThreshold", &[NOT_NEGATIVE]),
    ("failureThreshold", &[NOT_NEGATIVE]),
    ("terminationGracePeriodSeconds", &[Number(1, i64::MAX, "must be greater than 0")]),
];
const EXEC: Member = ("exec", "exec", &[("command", &[REQUIRED])]);
const HTTP_GET: Member = (
    "httpGet",
    "httpGet",
    &[
        ("path", &[REQUIRED]),
        ("", &[Check(port_field)]),
        ("scheme", &[OneOf(&["HTTP", "HTTPS"])]),
        ("httpHeaders", &[Check(headers)]),
    ],
);
const TCP_SOCKET: Member = ("tcpSocket", "tcpSocket", &[("", &[Check(port_field)])]);
const GRPC: Member =
    ("grpc", "grpc", &[("", &[Check(port_field)]), ("mode", &[OneOf(&["Plaintext", "TLS"])])]);
const SLEEP: Member = ("sleep", "sleep", &[]);

fn headers(headers: &Value, path: &str, causes: &mut Causes) {
    for header in headers.as_array().into_iter().flatten() {
        let name = text(header, "/name");
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            let why = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex \
                       used for validation is '[-A-Za-z0-9]+')";
            causes.invalid(path, &name.into(), why);
        }
    }
}

fn probe_handler(probe: &Value, path: &str, causes: &mut Causes) {
    one_member(probe, path, &[EXEC, HTTP_GET, TCP_SOCKET, GRPC], "handler type", causes);
}

fn lifecycle_handler(handler: &Value, path: &str, causes: &mut Causes) {
    one_member(handler, path, &[EXEC, HTTP_GET, TCP_SOCKET, SLEEP], "handler type", causes);
}

fn not_of_readiness(seconds: &Value, path: &str, causes: &mut Causes) {
    causes.invalid(path, seconds, "must not be set for readinessProbes");
}

fn port_field(action: &Value, path: &str, causes: &mut Causes) {
    let zero = 0.into();
    let given = if action["port"].is_null() { &zero } else { &action["port"] };
    port(given, &format!("{path}.port"), causes);
}

/// The fields of a pod that a variable may have.
const OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const KEY: Fields = &[("name", &[Text(syntax::dns_subdomain)]), ("key", &[REQUIRED, Name(config_key)])];
const VALUE_SOURCES: Fields = &[
    ("fieldRef", &[Check(|value, path, causes| field_reference(value, path, OF_VARIABLES, causes))]),
    ("resourceFieldRef", &[Check(|value, path, causes| resource_field(value, path, false, causes))]),
    ("configMapKeyRef", &[Object(KEY)]),
    ("secretKeyRef", &[Object(KEY)]),
    (
        "fileKeyRef",
        &[Object(&[
            ("key", &[REQUIRED, Name(variable_name)]),
            ("volumeName", &[REQUIRED, Name(syntax::dns_label)]),
            ("path", &[REQUIRED, Text(no_backsteps)]),
        ])],
    ),
];

fn value_source(variable: &Value, path: &str, causes: &mut Causes) {
    let (source, path) = (&variable["valueFrom"], format!("{path}.valueFrom"));
    if source.is_null() {
        return;
    }
    apply(source, &path, VALUE_SOURCES, causes);
    let why = match VALUE_SOURCES.iter().filter(|(field, _)| !source[field].is_null()).count() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !is_empty(&variable["value"]) => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    causes.invalid(&path, &"".into(), why);
}

fn environment_sources(container: &Value, path: &str, causes: &mut Causes) {
    const REFERENCE: &[Rule] = &[Object(&[("name", &[REQUIRED, Name(syntax::dns_subdomain)])])];
    let path = format!("{path}.envFrom");
    for (i, source) in items(container, "envFrom").iter().enumerate() {
        let rules: Fields =
            &[("prefix", &[Name(variable_name)]), ("configMapRef", REFERENCE), ("secretRef", REFERENCE)];
        apply(source, &format!("{path}[{i}]"), rules, causes);
        match ["configMapRef", "secretRef"].iter().filter(|field| !source[field].is_null()).count() {
            0 => causes.invalid(&path, &"".into(), "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => causes.invalid(&path, &"".into(), "may not have more than one field specified at a time"),
        }
    }
}

/// The seccomp profile of a pod or of a container.
pub fn seccomp(profile: &Value, path: &str, causes: &mut Causes) {
    let (ty, file) = (format!("{path}.type"), format!("{path}.localhostProfile"));
    match text(profile, "/type") {
        "" => causes.required(&ty, "type is required when seccompProfile is set"),
        _ => causes.one_of(&ty, &profile["type"], &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    match (profile["type"] == "Localhost", profile["localhostProfile"].as_str()) {
        (true, None) => causes.required(&file, "must be set when seccomp type is Localhost"),
        (true, Some(given)) => causes.problems(&file, &given.into(), relative_path(given)),
        (false, Some(_)) => causes.invalid(&file, profile, "can only be set when seccomp type is Localhost"),
        (false, None) => {}
    }
}

/// The AppArmor profile of a pod or of a container.
pub fn app_armor(profile: &Value, path: &str, causes: &mut Causes) {
    let (ty, file) = (format!("{path}.type"), format!("{path}.localhostProfile"));
    let given = profile["localhostProfile"].as_str();
    match text(profile, "/type") {
        "" => causes.required(&ty, "type is required when appArmorProfile is set"),
        "Localhost" => match given {
            Some(given) if given.trim() != given => {
                causes.invalid(&file, &given.into(), "must not be padded with whitespace");
            }
            Some(given) if !given.is_empty() => {}
            _ => causes.required(&file, "must be set when AppArmor type is Localhost"),
        },
        "RuntimeDefault" | "Unconfined" => {
            if let Some(given) = given {
                causes.invalid(&file, &given.into(), "can only be set when AppArmor type is Localhost");
            }
        }
        _ => causes.one_of(&ty, &profile["type"], &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

/// kube-apiserver prints its own form of the context.
fn escalation(context: &Value, path: &str, causes: &mut Causes) {
    if context["allowPrivilegeEscalation"] == false && context["privileged"] == true {
        let fields = [
            "Capabilities",
            "Privileged",
            "SELinuxOptions",
            "WindowsOptions",
            "RunAsUser",
            "RunAsGroup",
            "RunAsNonRoot",
            "ReadOnlyRootFilesystem",
            "AllowPrivilegeEscalation",
            "ProcMount",
            "SeccompProfile",
            "AppArmorProfile",
        ];
        let json_name = |field: &str| match field {
            "SELinuxOptions" => "seLinuxOptions".to_owned(),
            field => format!("{}{}", field[..1].to_lowercase(), &field[1..]),
        };
        let shown = fields.iter().map(|field| ((*field).to_owned(), context[json_name(field)].clone()));
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        causes.invalid(path, &shown.collect(), why);
    }
}

/// Validates the containers of a pod spec, which mount some volumes.
pub fn validate(spec: &Value, path: &str, volumes: &HashMap<&str, &Value>, causes: &mut Causes) {
    for list in ["containers", "initContainers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let path = format!("{path}.{list}[{i}]");
            validate_common(container, &path, causes);
            validate_mounts(container, volumes, &path, causes);
            validate_resize_policy(container, list == "initContainers", &path, causes);
            validate_user_namespace(spec, container, &path, causes);
            if list == "containers" || container["restartPolicy"] == "Always" {
                apply(container, &path, RUNNING, causes);
                validate_lifecycle(spec, container, &path, causes);
            } else {
                for (field, _) in RUNNING.iter().filter(|(field, _)| !container[field].is_null()) {
                    let why = "may not be set for init containers without restartPolicy=Always";
                    causes.forbidden(&format!("{path}.{field}"), why);
                }
            }
        }
    }
}

/// Validates what a container of any kind has.
pub fn validate_common(container: &Value, path: &str, causes: &mut Causes) {
    apply(container, path, COMMON, causes);
}

fn validate_user_namespace(spec: &Value, container: &Value, path: &str, causes: &mut Causes) {
    let mount = &container["securityContext"]["procMount"];
    if mount == "Unmasked" && spec["hostUsers"] != false {
        let field = format!("{path}.securityContext.procMount");
        causes.invalid(&field, mount, "`hostUsers` must be false to use `Unmasked`");
    }
}

fn validate_lifecycle(spec: &Value, container: &Value, path: &str, causes: &mut Causes) {
    let (lifecycle, grace) = (&container["lifecycle"], spec["terminationGracePeriodSeconds"].as_i64());
    for hook in ["postStart", "preStop"] {
        let sleep = &lifecycle[hook]["sleep"]["seconds"];
        if let Some(grace) = grace.filter(|grace| sleep.as_i64().is_some_and(|s| s < 0 || s > *grace)) {
            let why = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            causes.invalid(&format!("{path}.lifecycle.{hook}.sleep"), sleep, &why);
        }
    }
    if !lifecycle["stopSignal"].is_null() && spec["os"].is_null() {
        let why = "may not be set for containers with empty `spec.os.name`";
        causes.forbidden(&format!("{path}.lifecycle.stopSignal"), why);
    }
}

fn validate_mounts(container: &Value, volumes: &HashMap<&str, &Value>, path: &str, causes: &mut Causes) {
    let (mounts, devices) = (items(container, "volumeMounts"), items(container, "volumeDevices"));
    let not_found = |field: &str, name: &Value, causes: &mut Causes| {
        causes.push(CauseType::FieldValueNotFound, field, format!("Not found: {name}"));
    };
    // kube-apiserver names the list, not the mount, in what it says of some fields.
    let list = format!("{path}.volumeMounts");
    let mut taken = HashSet::new();
    for (i, mount) in mounts.iter().enumerate() {
        let (path, own) = (text(mount, "/mountPath"), format!("{list}[{i}]"));
        apply(mount, &own, &[("name", &[REQUIRED])], causes);
        if !volumes.contains_key(text(mount, "/name")) {
            not_found(&format!("{own}.name"), &text(mount, "/name").into(), causes);
        }
        apply(mount, &own, &[("mountPath", &[REQUIRED])], causes);
        if !taken.insert(path) {
            causes.invalid(&format!("{own}.mountPath"), &path.into(), "must be unique");
        }
        for (field, key, what) in [
            ("name", "name", "must not already exist in volumeDevices"),
            ("mountPath", "devicePath", "must not already exist as a path in volumeDevices"),
        ] {
            if devices.iter().any(|device| device[key] == mount[field]) {
                causes.invalid(&format!("{own}.{field}"), &mount[field], what);
            }
        }
        apply(mount, &list, &[("subPath", &[Text(relative_path)])], causes);
        if !is_empty(&mount["subPath"]) && !is_empty(&mount["subPathExpr"]) {
            let why = "subPathExpr and subPath are mutually exclusive";
            causes.invalid(&format!("{own}.subPathExpr"), &mount["subPathExpr"], why);
        }
        let rules: Fields = &[
            ("subPathExpr", &[Text(relative_path)]),
            ("mountPropagation", &[OneOf(&["Bidirectional", "HostToContainer", "None"])]),
            ("recursiveReadOnly", &[OneOf(&["Disabled", "Enabled", "IfPossible"])]),
        ];
        apply(mount, &list, rules, causes);
        if mount["mountPropagation"] == "Bidirectional" && container["securityContext"]["privileged"] != true
        {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            causes.forbidden(&format!("{list}.mountPropagation"), why);
        }
        if matches!(text(mount, "/recursiveReadOnly"), "Enabled" | "IfPossible") {
            let field = format!("{list}.recursiveReadOnly");
            if mount["readOnly"] != true {
                causes.forbidden(&field, "may only be specified when readOnly is true");
            }
            if !matches!(text(mount, "/mountPropagation"), "" | "None") {
                let why = "may only be specified when mountPropagation is None or not specified";
                causes.forbidden(&field, why);
            }
        }
    }
    let (mut names, mut paths) = (HashSet::new(), HashSet::new());
    for (i, device) in devices.iter().enumerate() {
        let own = format!("{path}.volumeDevices[{i}]");
        let (name, at) = (text(device, "/name"), text(device, "/devicePath"));
        apply(device, &own, &[("name", &[REQUIRED])], causes);
        if !names.insert(name) && !name.is_empty() {
            causes.invalid(&format!("{own}.name"), &name.into(), "must be unique");
        }
        let volume = volumes.get(name);
        if volume.is_some_and(|v| v["persistentVolumeClaim"].is_null() && v["ephemeral"].is_null()) {
            let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
            causes.invalid(&format!("{own}.name"), &name.into(), why);
        } else if volume.is_none() {
            not_found(&format!("{own}.name"), &name.into(), causes);
        }
        apply(device, &own, &[("devicePath", &[REQUIRED])], causes);
        if !paths.insert(at) {
            causes.invalid(&format!("{own}.devicePath"), &at.into(), "must be unique");
        }
        if !no_backsteps(at).is_empty() {
            causes.invalid(&format!("{own}.devicePath"), &at.into(), "can not contain backsteps ('..')");
        }
        for (field, key, what) in [
            ("name", "name", "must not already exist in volumeMounts"),
            ("devicePath", "mountPath", "must not already exist as a path in volumeMounts"),
        ] {
            if mounts.iter().any(|mount| mount[key] == device[field]) {
                causes.invalid(&format!("{own}.{field}"), &device[field], what);
            }
        }
    }
}

/// Whether containers restart when their resources are changed.
fn validate_resize_policy(container: &Value, is_init: bool, path: &str, causes: &mut Causes) {
    let path = format!("{path}.resizePolicy");
    let policies = items(container, "resizePolicy");
    for i in repeated(policies.iter().map(|policy| &policy["resourceName"])) {
        causes.duplicate(&format!("{path}[{i}]"), &policies[i]["resourceName"]);
    }
    for (i, policy) in policies.iter().enumerate() {
        let restarts = &policy["restartPolicy"];
        let values: [(&Value, &[&str]); 2] =
            [(&policy["resourceName"], &["cpu", "memory"]), (restarts, &["NotRequired", "RestartContainer"])];
        match values.into_iter().find(|(value, all)| !all.contains(&text(value, ""))) {
            Some((value, _)) if is_empty(value) => causes.required(&path, ""),
            Some((value, all)) => causes.one_of(&path, value, all),
            None => {}
        }
        if is_init && restarts == "RestartContainer" && container["restartPolicy"] != "Always" {
            let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
            causes.invalid(&format!("{path}[{i}].restartPolicy"), restarts, why);
        }
    }
}
