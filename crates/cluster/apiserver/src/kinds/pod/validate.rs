//! Validation of pods and pod templates that is irrelevant for placement.

use std::collections::HashMap;

use berth_api::simulated_nodes::{CPU_USAGE, MEMORY_USAGE, POD_METRIC_PREFIX};
use berth_api::syntax;
use berth_api::syntax::quantity::Quantity;

use super::containers::{self, app_armor, seccomp};
use super::volumes;
use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{Check, Each, Fields as Object, Name, Number, OneOf, Text};
use crate::strategy::field_rules::*;

const MAX_RESPONDERS: usize = 10;
/// The lowest priority of a responder that is none of Kubernetes.
const RESERVED_PRIORITIES: i64 = 1000;
const MAX_PRIORITY: i64 = 100_000;

/// Validates the annotations that metrics are read from.
pub fn validate_usage(pod: &Value, causes: &mut Causes) {
    let is_usage = |key: &str| [CPU_USAGE, MEMORY_USAGE].contains(&key) || key.starts_with(POD_METRIC_PREFIX);
    let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    for (key, usage) in annotations.filter(|(key, _)| is_usage(key)) {
        let Some(text) = usage.as_str() else { continue };
        let field = format!("metadata.annotations[{key}]");
        match Quantity::parse(text) {
            Err(error) => causes.invalid(&field, usage, &error.to_string()),
            Ok(amount) if amount.is_negative() => {
                causes.invalid(&field, usage, "must be greater than or equal to 0");
            }
            Ok(_) => {}
        }
    }
}

/// Validates the components that are asked before an eviction of the pod.
pub fn validate_responders(spec: &Value, causes: &mut Causes) {
    let path = "spec.evictionResponders";
    let responders = limited(&spec["evictionResponders"], path, MAX_RESPONDERS, causes);
    for i in repeated(responders.iter().map(|responder| &responder["name"])) {
        causes.duplicate(&format!("{path}[{i}]"), &responders[i]);
    }
    for (i, responder) in responders.iter().enumerate() {
        validate_prefixed(&format!("{path}[{i}].name"), &responder["name"], causes);
        let (field, priority) = (format!("{path}[{i}].priority"), &responder["priority"]);
        match priority.as_i64() {
            None => causes.required(&field, ""),
            Some(0..RESERVED_PRIORITIES) => {
                let why = "priorities 0-999 are reserved for responders with *.k8s.io suffix";
                causes.invalid(&field, priority, why);
            }
            Some(number) if number > MAX_PRIORITY => {
                causes.invalid(&field, priority, &format!("must be less than or equal to {MAX_PRIORITY}"));
            }
            Some(_) => causes.not_negative(&field, priority),
        }
    }
    if !responders.is_empty() && !spec["schedulingGroup"].is_null() {
        causes.forbidden("spec.schedulingGroup", "may not be set when evictionResponders is set");
    }
}

/// A name with a domain, which is not one of Kubernetes.
pub fn validate_prefixed(path: &str, name: &Value, causes: &mut Causes) {
    let text = name.as_str().unwrap_or_default();
    let domain = text.split('/').next().unwrap_or_default().trim().trim_end_matches('.').to_lowercase();
    if text.is_empty() {
        return causes.required(path, "");
    }
    let is_reserved =
        |owner: &&str| domain.strip_suffix(owner).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if ["k8s.io", "kubernetes.io"].iter().any(is_reserved) {
        causes.invalid(path, name, "domain names *.k8s.io, *.kubernetes.io are reserved");
    }
    match text.contains('/') {
        true => causes.problems(path, name, syntax::label_key(text)),
        false => causes.invalid(path, name, "must include a prefix (e.g. 'example.com/key')"),
    }
}

/// The group of a pod has a name that a group can have.
fn validate_group(spec: &Value, path: &str, causes: &mut Causes) {
    let (group, field) = (&spec["schedulingGroup"], format!("{path}.schedulingGroup.podGroupName"));
    match &group["podGroupName"] {
        _ if group.is_null() => {}
        Value::Null => causes.invalid(&field, &Value::Null, "must specify one of: `podGroupName`"),
        name => causes.problems(&field, name, syntax::dns_subdomain(name.as_str().unwrap_or_default())),
    }
}

/// The fields of a pod spec in the order in which kube-apiserver validates them, and those of containers.
const ORDER: &[&str] = &[
    "volumes",
    "resourceClaims",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "resources",
    "restartPolicy",
    "dnsPolicy",
    "nodeSelector",
    "securityContext",
    "shareProcessNamespace",
    "affinity",
    "dnsConfig",
    "readinessGates",
    "schedulingGates",
    "topologySpreadConstraints",
    "hostUsers",
    "hostnameOverride",
    "serviceAccountName",
    "nodeName",
    "activeDeadlineSeconds",
    "hostname",
    "subdomain",
    "tolerations",
    "hostAliases",
    "priorityClassName",
    "runtimeClassName",
    "preemptionPolicy",
    "overhead",
    "os",
    "schedulingGroup",
];
const CONTAINER_ORDER: &[&str] = &[
    "name",
    "image",
    "terminationMessagePolicy",
    "ports",
    "env",
    "envFrom",
    "volumeMounts",
    "volumeDevices",
    "imagePullPolicy",
    "resources",
    "resizePolicy",
    "securityContext",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
];

/// Sorts the causes from one index on as kube-apiserver does; those outside of the spec come first.
pub fn sort_causes(from: usize, path: &str, causes: &mut Causes) {
    let rank =
        |order: &[&str], field: &str| order.iter().position(|f| *f == field).map_or(order.len(), |at| at + 1);
    let from = from.min(causes.0.len());
    causes.0[from..].sort_by_key(|cause| {
        let Some(rest) = cause.field.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) else {
            return (0, 0, 0);
        };
        let mut parts = rest.split(['.', '[']);
        let first = parts.next().unwrap_or_default();
        let index = parts.next().and_then(|index| index.strip_suffix(']')?.parse::<usize>().ok());
        match first.ends_with("ontainers") {
            true => (
                rank(ORDER, first),
                index.unwrap_or(0),
                rank(CONTAINER_ORDER, parts.next().unwrap_or_default()),
            ),
            // The name of a volume comes after its source.
            false => (rank(ORDER, first), index.unwrap_or(0), usize::from(parts.next() == Some("name"))),
        }
    });
}

/// What has no influence on placement, outside of containers and volumes.
const SPEC: Fields = &[
    ("restartPolicy", &[OneOf(&["Always", "OnFailure", "Never"])]),
    ("dnsPolicy", &[OneOf(&["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"])]),
    (
        "securityContext",
        &[Object(&[
            ("fsGroup", &[ID]),
            ("runAsUser", &[ID]),
            ("runAsGroup", &[ID]),
            ("supplementalGroups", &[Each(&[ID])]),
            ("", &[Check(sysctls)]),
            ("fsGroupChangePolicy", &[OneOf(&["Always", "OnRootMismatch"])]),
            ("seccompProfile", &[Check(seccomp)]),
            ("appArmorProfile", &[Check(app_armor)]),
            ("supplementalGroupsPolicy", &[OneOf(&["Merge", "Strict"])]),
            ("seLinuxChangePolicy", &[OneOf(&["MountOption", "Recursive"])]),
        ])],
    ),
    ("", &[Check(shared_namespaces), Check(dns_config)]),
    ("readinessGates", &[Each(&[Object(&[("conditionType", &[Text(syntax::label_key)])])])]),
    ("hostnameOverride", &[Name(syntax::dns_subdomain)]),
    ("serviceAccountName", &[Name(syntax::dns_subdomain)]),
    ("terminationGracePeriodSeconds", &[NOT_NEGATIVE]),
    ("activeDeadlineSeconds", &[Number(1, i32::MAX as i64, "must be between 1 and 2147483647, inclusive")]),
    ("hostname", &[Name(syntax::dns_label)]),
    ("subdomain", &[Name(syntax::dns_label)]),
    (
        "hostAliases",
        &[Each(&[Object(&[
            ("ip", &[Text(ip_address)]),
            ("hostnames", &[Each(&[Text(syntax::dns_subdomain)])]),
        ])])],
    ),
    ("os", &[Check(operating_system)]),
];

/// Validates the fields of a pod spec that are irrelevant for placement.
pub fn validate_spec(spec: &Value, path: &str, causes: &mut Causes) {
    let volumes = volumes::validate(spec, path, causes);
    containers::validate(spec, path, &volumes, causes);
    apply(spec, path, SPEC, causes);
    validate_group(spec, path, causes);
}

/// Warnings beyond this many are left out.
const MAX_WARNINGS: usize = 100;
/// Volumes that are out of use.
const OLD_VOLUMES: &[(&str, &str)] = &[
    ("photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
];

/// kube-apiserver's warnings about what has no influence on placement.
pub fn spec_warnings(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let old = OLD_VOLUMES.iter().filter(|(source, _)| !volume[source].is_null());
        warnings.extend(old.map(|(source, why)| {
            let source = if *source == "storageos" { "storageOS" } else { source };
            format!("spec.volumes[{i}].{source}: {why}")
        }));
        overlap_warnings(volume, &mut warnings);
    }
    for (list, field, what) in [("hostAliases", "ip", "ip"), ("imagePullSecrets", "name", "name")] {
        for i in repeated(items(spec, list).iter().map(|item| &item[field])) {
            let value = &items(spec, list)[i][field];
            warnings.push(format!("spec.{list}[{i}].{field}: duplicate {what} {value}"));
        }
    }
    for (i, secret) in items(spec, "imagePullSecrets").iter().enumerate() {
        if is_empty(&secret["name"]) {
            warnings.push(format!("spec.imagePullSecrets[{i}].name: invalid empty name \"\""));
        }
    }
    for list in ["initContainers", "containers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            let env = items(container, "env");
            for j in repeated(env.iter().map(|variable| &variable["name"])) {
                let (name, value) = (text(&env[j], "/name"), text(&env[j], "/value"));
                let earlier = format!("$({name})");
                if !env[j]["valueFrom"].is_null() || value == earlier || !value.contains(&earlier) {
                    let what = format!(
                        "hides previous definition of {name:?}, which may be dropped when using apply"
                    );
                    warnings.push(format!("spec.{list}[{i}].env[{j}]: {what}"));
                }
            }
        }
    }
    let mut named: HashMap<&str, String> = HashMap::new();
    for list in ["initContainers", "containers"] {
        for (i, container) in items(spec, list).iter().enumerate() {
            for (j, port) in items(container, "ports").iter().enumerate() {
                let (name, path) = (text(port, "/name"), format!("spec.{list}[{i}].ports[{j}]"));
                match named.get(name) {
                    _ if name.is_empty() => {}
                    None => drop(named.insert(name, path)),
                    Some(first) => warnings.push(format!(
                        "{path}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"
                    )),
                }
            }
        }
    }
    warnings.truncate(MAX_WARNINGS);
    warnings
}

/// Warns of files of a volume that have the same path, or one within the other.
fn overlap_warnings(volume: &Value, warnings: &mut Vec<String>) {
    let named = |kind: &str, name: &Value| format!("{kind} {:?}", text(name, ""));
    let files = |of: &Value| items(of, "items").iter().map(|file| file["path"].clone()).collect::<Vec<_>>();
    let mut warn = |what: &str, paths: &[(Value, String)]| {
        let shown = |(path, source): &(Value, String)| {
            let path = text(path, "").trim_end_matches('/');
            if source.is_empty() { format!("{path:?}") } else { format!("{path:?} ({source})") }
        };
        for (path, earlier) in overlaps(paths.iter().map(|(path, _)| text(path, ""))) {
            let (path, earlier) = (shown(&paths[path]), shown(&paths[earlier]));
            let name = &volume["name"];
            warnings.push(format!("volume {name} ({what}): overlapping paths: {path} with {earlier}"));
        }
    };
    for (source, what) in [
        ("configMap", named("ConfigMap", &volume["configMap"]["name"])),
        ("secret", named("Secret", &volume["secret"]["secretName"])),
        ("downwardAPI", "DownwardAPI".to_owned()),
    ] {
        let paths: Vec<_> = files(&volume[source]).into_iter().map(|path| (path, String::new())).collect();
        warn(&what, &paths);
    }
    let mut paths = Vec::new();
    let mut n_empty = 0;
    for source in items(&volume["projected"], "sources") {
        let bundle = &source["clusterTrustBundle"];
        let signer = if bundle["name"].is_null() { &bundle["signerName"] } else { &bundle["name"] };
        let certificate = &source["podCertificate"];
        let of = [
            (files(&source["configMap"]), named("ConfigMap", &source["configMap"]["name"])),
            (files(&source["secret"]), named("Secret", &source["secret"]["name"])),
            (files(&source["downwardAPI"]), "DownwardAPI".to_owned()),
            (vec![source["serviceAccountToken"]["path"].clone()], "ServiceAccountToken".to_owned()),
            (vec![bundle["path"].clone()], named("ClusterTrustBundle", signer)),
            (vec![certificate["certificateChainPath"].clone()], "PodCertificate chain".to_owned()),
            (vec![certificate["keyPath"].clone()], "PodCertificate key".to_owned()),
            (
                vec![certificate["credentialBundlePath"].clone()],
                "PodCertificate credential bundle".to_owned(),
            ),
        ];
        for (files, what) in of {
            paths.extend(files.into_iter().map(|path| (path, what.clone())));
        }
        n_empty += usize::from(is_empty(source));
    }
    warn("Projected", &paths);
    for _ in 0..n_empty {
        warnings.push(format!("volume {} (Projected) has no sources provided", volume["name"]));
    }
}

/// Paths that are the same as an earlier one, within it or around it: the indexes of both. Longer paths than those of files, and
/// more pairs than warnings, are left out.
fn overlaps<'p>(paths: impl Iterator<Item = &'p str>) -> Vec<(usize, usize)> {
    const MAX_PATH: usize = 4096;
    // The earlier paths, and those around them, with the indexes of the former.
    let (mut known, mut around) = (HashMap::<&str, Vec<usize>>::new(), HashMap::<&str, Vec<usize>>::new());
    let mut found = Vec::new();
    for (i, path) in paths.map(|path| path.trim_end_matches('/')).enumerate() {
        if path.is_empty() || path.len() > MAX_PATH {
            continue;
        }
        let parents: Vec<&str> = path.match_indices('/').map(|(end, _)| &path[..end]).collect();
        let same = known.get(path).into_iter().chain(around.get(path)).flatten();
        let within = parents.iter().filter_map(|parent| known.get(parent)).flatten();
        let mut earlier: Vec<usize> = same.chain(within).copied().take(MAX_WARNINGS).collect();
        earlier.sort_unstable();
        found.extend(earlier.into_iter().map(|earlier| (i, earlier)));
        if found.len() >= MAX_WARNINGS {
            break;
        }
        known.entry(path).or_default().push(i);
        parents.into_iter().for_each(|parent| around.entry(parent).or_default().push(i));
    }
    found
}

fn sysctls(context: &Value, path: &str, causes: &mut Causes) {
    let (list, path) = (items(context, "sysctls"), format!("{path}.sysctls"));
    let part = |part: &str| {
        let is_end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        part.bytes().all(|b| is_end(b) || b"-_".contains(&b))
            && part.bytes().next().is_some_and(is_end)
            && part.bytes().last().is_some_and(is_end)
    };
    let twice = repeated(list.iter().map(|sysctl| &sysctl["name"]));
    for (i, sysctl) in list.iter().enumerate() {
        let (name, field) = (text(sysctl, "/name"), format!("{path}[{i}].name"));
        if name.is_empty() {
            causes.required(&field, "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(part) {
            let why = "must have at most 253 characters and match regex \
                       ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            causes.invalid(&field, &name.into(), why);
        } else if twice.contains(&i) {
            causes.duplicate(&field, &name.into());
        }
    }
}

fn shared_namespaces(spec: &Value, path: &str, causes: &mut Causes) {
    let is_shared = &spec["shareProcessNamespace"];
    if is_shared == true && spec["hostPID"] == true {
        let why = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.invalid(&format!("{path}.shareProcessNamespace"), is_shared, why);
    }
    for (field, name) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec["hostUsers"] == false && spec[field] == true {
            causes.forbidden(&format!("{path}.{name}"), "when `hostUsers` is false");
        }
    }
}

fn dns_config(spec: &Value, path: &str, causes: &mut Causes) {
    let (config, path) = (&spec["dnsConfig"], format!("{path}.dnsConfig"));
    let (servers, searches) = (items(config, "nameservers"), items(config, "searches"));
    if spec["dnsPolicy"] == "None" {
        if config.is_null() {
            return causes.required(&path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return causes.required(&format!("{path}.nameservers"), why);
        }
    }
    if servers.len() > 3 {
        let why = "must not have more than 3 nameservers";
        causes.invalid(&format!("{path}.nameservers"), &config["nameservers"], why);
    }
    apply(config, &path, &[("nameservers", &[Each(&[Text(ip_address)])])], causes);
    let field = format!("{path}.searches");
    if searches.len() > 32 {
        causes.invalid(&field, &config["searches"], "must not have more than 32 search paths");
    }
    let length: usize = searches.iter().map(|search| text(search, "").len() + 1).sum();
    if length > 2049 {
        let why = "must not have more than 2048 characters (including spaces) in the search list";
        causes.invalid(&field, &config["searches"], why);
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = text(search, "");
        let search = search.strip_suffix('.').unwrap_or(search);
        // A label may begin with `_` and have it inside.
        let label = |label: &str| label.strip_prefix('_').unwrap_or(label).replace('_', "-");
        let plain = search.split('.').map(label).collect::<Vec<_>>().join(".");
        if !syntax::dns_subdomain(&plain).is_empty() {
            let why = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
                       must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                       '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
            causes.invalid(&format!("{field}[{i}]"), &search.into(), why);
        }
    }
    for (i, option) in items(config, "options").iter().enumerate() {
        if is_empty(&option["name"]) {
            causes.required(&format!("{path}.options[{i}]"), "must not be empty");
        }
    }
}

fn operating_system(os: &Value, path: &str, causes: &mut Causes) {
    match text(os, "/name") {
        "" => causes.required(&format!("{path}.name"), ""),
        _ => causes.one_of(path, &os["name"], &["linux", "windows"]),
    }
}
