//! Volumes of pods and of templates of pods.

use std::collections::{HashMap, HashSet};

use berth_api::syntax;

use crate::kinds::prelude::*;
use crate::strategy::field_rules::Rule::{
    Check, Each, Fields as Object, Name, Number, OneOf, Required, Text,
};
use crate::strategy::field_rules::*;
use crate::strategy::volume_claim::validate_claim;

const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];
const PARTITION: Rule = Number(0, 255, "must be between 1 and 255, inclusive");
const SECRET: &[Rule] = &[Object(&[("name", &[REQUIRED])])];
const LUN: Rule = Number(0, 255, "must be between 0 and 255, inclusive");
const KEY_TO_PATH: Fields =
    &[("key", &[REQUIRED]), ("path", &[REQUIRED, Text(file_path)]), ("mode", &[MODE]), ("user", &[ID])];
const FILES: Fields = &[
    ("name", &[REQUIRED]),
    ("defaultMode", &[MODE]),
    ("defaultUser", &[ID]),
    ("items", &[Each(&[Object(KEY_TO_PATH)])]),
];
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// The sources of a volume, in the order in which kube-apiserver looks at them.
const SOURCES: &[Member] = &[
    (
        "emptyDir",
        "emptyDir",
        &[
            ("sizeLimit", &[Check(size_limit)]),
            ("mode", &[Number(0, 0o1777, "must be a number between 0 and 01777 (octal), both inclusive")]),
        ],
    ),
    (
        "hostPath",
        "hostPath",
        &[("path", &[REQUIRED, Text(no_backsteps)]), ("type", &[OneOf(HOST_PATH_TYPES)])],
    ),
    ("gitRepo", "gitRepo", &[("repository", &[REQUIRED]), ("directory", &[Text(relative_path)])]),
    ("gcePersistentDisk", "persistentDisk", &[("pdName", &[REQUIRED]), ("partition", &[PARTITION])]),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        &[("volumeID", &[REQUIRED]), ("partition", &[PARTITION])],
    ),
    (
        "secret",
        "secret",
        &[
            ("secretName", &[REQUIRED]),
            ("defaultMode", &[MODE]),
            ("defaultUser", &[ID]),
            ("items", &[Each(&[Object(KEY_TO_PATH)])]),
        ],
    ),
    ("nfs", "nfs", &[("server", &[REQUIRED]), ("path", &[REQUIRED, Text(absolute_path)])]),
    (
        "iscsi",
        "iscsi",
        &[
            ("targetPortal", &[REQUIRED]),
            ("iqn", &[REQUIRED, Name(initiator)]),
            ("lun", &[LUN]),
            ("", &[Check(chap_secret)]),
            ("initiatorName", &[Name(initiator)]),
        ],
    ),
    ("glusterfs", "glusterfs", &[("endpoints", &[REQUIRED]), ("path", &[REQUIRED])]),
    ("flocker", "flocker", &[("", &[Check(flocker)])]),
    // Its only rule is one of `berth_rules`.
    ("persistentVolumeClaim", "persistentVolumeClaim", &[]),
    ("rbd", "rbd", &[("monitors", &[REQUIRED]), ("image", &[REQUIRED])]),
    ("cinder", "cinder", &[("volumeID", &[REQUIRED]), ("secretRef", SECRET)]),
    ("cephfs", "cephfs", &[("monitors", &[REQUIRED])]),
    (
        "quobyte",
        "quobyte",
        &[
            ("registry", &[Required("must be a host:port pair or multiple pairs separated by commas")]),
            ("volume", &[REQUIRED]),
        ],
    ),
    (
        "downwardAPI",
        "downwardAPI",
        &[("defaultMode", &[MODE]), ("defaultUser", &[ID]), ("", &[Check(downward_files)])],
    ),
    ("fc", "fc", &[("", &[Check(fibre_channel)])]),
    ("flexVolume", "flexVolume", &[("driver", &[REQUIRED]), ("options", &[Check(flex_options)])]),
    ("configMap", "configMap", FILES),
    ("azureFile", "azureFile", &[("secretName", &[REQUIRED]), ("shareName", &[REQUIRED])]),
    ("vsphereVolume", "vsphereVolume", &[("volumePath", &[REQUIRED])]),
    ("photonPersistentDisk", "photonPersistentDisk", &[("pdID", &[REQUIRED])]),
    ("portworxVolume", "portworxVolume", &[("volumeID", &[REQUIRED])]),
    (
        "azureDisk",
        "azureDisk",
        &[
            ("diskName", &[REQUIRED]),
            ("diskURI", &[REQUIRED]),
            ("cachingMode", &[OneOf(&["None", "ReadOnly", "ReadWrite"])]),
            ("kind", &[OneOf(&["Dedicated", "Managed", "Shared"])]),
            ("", &[Check(disk_uri)]),
        ],
    ),
    (
        "storageos",
        "storageos",
        &[
            ("volumeName", &[REQUIRED, Name(syntax::dns_label)]),
            ("volumeNamespace", &[Name(syntax::dns_label)]),
            ("secretRef", SECRET),
        ],
    ),
    (
        "projected",
        "projected",
        &[("defaultMode", &[MODE]), ("defaultUser", &[ID]), ("", &[Check(projections)])],
    ),
    ("scaleIO", "scaleIO", &[("gateway", &[REQUIRED]), ("system", &[REQUIRED]), ("volumeName", &[REQUIRED])]),
    ("csi", "csi", &[("driver", &[REQUIRED, Name(csi_driver)]), ("nodePublishSecretRef", SECRET)]),
    (
        "ephemeral",
        "ephemeral",
        &[("volumeClaimTemplate", &[Check(claim_template)]), ("", &[Check(template_is_set)])],
    ),
    ("image", "image", &[("reference", &[REQUIRED]), ("pullPolicy", &[OneOf(PULL_POLICIES)])]),
];

/// Validates the volumes of a pod spec. Returns those that are valid, by name.
pub fn validate<'v>(spec: &'v Value, path: &str, causes: &mut Causes) -> HashMap<&'v str, &'v Value> {
    let mut valid = HashMap::new();
    for (i, volume) in items(spec, "volumes").iter().enumerate() {
        let (before, path) = (causes.0.len(), format!("{path}.volumes[{i}]"));
        one_member(volume, &path, SOURCES, "volume type", causes);
        apply(volume, &path, &[("name", &[REQUIRED, Name(syntax::dns_label)])], causes);
        let name = text(volume, "/name");
        if valid.contains_key(name) {
            causes.duplicate(&format!("{path}.name"), &volume["name"]);
        }
        if causes.0.len() == before {
            valid.insert(name, volume);
        }
    }
    valid
}

/// Names of options in the namespaces of Kubernetes are its own.
fn flex_options(options: &Value, path: &str, causes: &mut Causes) {
    let mut names: Vec<&String> = options.as_object().into_iter().flatten().map(|(name, _)| name).collect();
    names.sort_unstable();
    for name in names {
        let namespace =
            format!(".{}", name.split_once('/').map_or(name.as_str(), |(of, _)| of).to_lowercase());
        if [".kubernetes.io", ".k8s.io"].iter().any(|reserved| namespace.ends_with(reserved)) {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            causes.invalid(&format!("{path}[{name}]"), &name.as_str().into(), why);
        }
    }
}

fn size_limit(limit: &Value, path: &str, causes: &mut Causes) {
    if quantity(limit).is_some_and(|limit| limit.is_negative()) {
        causes.forbidden(path, "SizeLimit field must be a valid resource quantity");
    }
}

fn initiator(name: &str) -> Vec<String> {
    let is_known = ["iqn", "eui", "naa"].iter().any(|form| name.starts_with(form));
    let why = || "must be valid format starting with iqn, eui, or naa".to_owned();
    (!is_known).then(why).into_iter().collect()
}

fn chap_secret(iscsi: &Value, path: &str, causes: &mut Causes) {
    let has_secret = !iscsi["secretRef"].is_null();
    if ["chapAuthDiscovery", "chapAuthSession"].iter().any(|field| iscsi[field] == true) && !has_secret {
        causes.required(&format!("{path}.secretRef"), "");
    }
}

fn flocker(source: &Value, path: &str, causes: &mut Causes) {
    let set = ["datasetName", "datasetUUID"].iter().filter(|field| !is_empty(&source[field])).count();
    match set {
        0 => causes.required(path, "one of datasetName and datasetUUID is required"),
        1 => {}
        _ => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            causes.invalid(path, &"resource".into(), why);
        }
    }
}

fn fibre_channel(source: &Value, path: &str, causes: &mut Causes) {
    let (names, has_ids) = (&source["targetWWNs"], !is_empty(&source["wwids"]));
    let field = format!("{path}.targetWWNs");
    match (!is_empty(names), has_ids) {
        (false, false) => causes.required(&field, "must specify either targetWWNs or wwids, but not both"),
        (true, true) => {
            causes.invalid(&field, names, "targetWWNs and wwids can not be specified simultaneously");
        }
        _ => {}
    }
    if !is_empty(names) {
        let lun: Fields = &[("lun", &[Required("lun is required if targetWWNs is specified"), LUN])];
        apply(source, path, lun, causes);
    }
}

fn disk_uri(disk: &Value, path: &str, causes: &mut Causes) {
    let (begin, form) = match text(disk, "/kind") {
        "" => return,
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    let uri = text(disk, "/diskURI");
    if !uri.starts_with(begin) {
        causes.not_supported(&format!("{path}.diskURI"), &uri.into(), &[form]);
    }
}

fn csi_driver(name: &str) -> Vec<String> {
    let long = (name.len() > 63).then(|| "must have at most 63 bytes".to_owned());
    long.into_iter().chain(syntax::dns_subdomain(&name.to_lowercase())).collect()
}

fn template_is_set(source: &Value, path: &str, causes: &mut Causes) {
    if source["volumeClaimTemplate"].is_null() {
        causes.required(&format!("{path}.volumeClaimTemplate"), "");
    }
}

fn claim_template(template: &Value, path: &str, causes: &mut Causes) {
    validate_claim(&template["spec"], &format!("{path}.spec"), causes);
}

fn downward_files(source: &Value, path: &str, causes: &mut Causes) {
    items(source, "items").iter().for_each(|file| downward_file(file, path, causes));
}

fn downward_file(file: &Value, path: &str, causes: &mut Causes) {
    apply(file, path, &[("path", &[REQUIRED, Text(file_path)])], causes);
    let (field, resource) = (&file["fieldRef"], &file["resourceFieldRef"]);
    match (field.is_null(), resource.is_null()) {
        (true, true) => causes.required(path, "one of fieldRef and resourceFieldRef is required"),
        (true, false) => resource_field(resource, &format!("{path}.resourceFieldRef"), true, causes),
        (false, other) => {
            field_reference(field, &format!("{path}.fieldRef"), OF_FILES, causes);
            if !other {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                causes.invalid(path, &"resource".into(), why);
            }
        }
    }
    apply(file, path, &[("mode", &[MODE]), ("user", &[ID])], causes);
}

/// The fields of a pod that a file may have.
const OF_FILES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
/// Other fields that a reference may name.
const OTHERS: &[&str] = &[
    "spec.host",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

/// A reference to a field of the pod that is one of some.
pub fn field_reference(reference: &Value, path: &str, allowed: &[&str], causes: &mut Causes) {
    let (given, field) = (text(reference, "/fieldPath"), format!("{path}.fieldPath"));
    if given.is_empty() {
        return causes.required(&field, "");
    }
    let version = text(reference, "/apiVersion");
    let refuse = |why: String, causes: &mut Causes| {
        causes.invalid(&field, &given.into(), &format!("error converting fieldPath: {why}"));
    };
    if !matches!(version, "" | "v1") {
        refuse(format!("unsupported pod version: {version}"), causes);
    } else if let Some((map, key)) = given.strip_suffix("']").and_then(|given| given.split_once("['")) {
        match map {
            "metadata.annotations" => {
                causes.problems(path, &key.into(), syntax::label_key(&key.to_lowercase()));
            }
            "metadata.labels" => causes.problems(path, &key.into(), syntax::label_key(key)),
            _ => refuse(format!("field label does not support subscript: {given}"), causes),
        }
    } else if !OF_FILES.contains(&given) && !OTHERS.contains(&given) {
        refuse(format!("field label not supported: {given}"), causes);
    } else if !allowed.contains(&given) && given != "spec.host" {
        causes.one_of(&field, &given.into(), allowed);
    }
}

pub fn resource_field(reference: &Value, path: &str, names_container: bool, causes: &mut Causes) {
    const RESOURCES: &[&str] = &[
        "limits.cpu",
        "limits.ephemeral-storage",
        "limits.memory",
        "requests.cpu",
        "requests.ephemeral-storage",
        "requests.memory",
    ];
    let resource = text(reference, "/resource");
    let is_huge = ["limits.hugepages-", "requests.hugepages-"].iter().any(|of| resource.starts_with(of));
    if names_container && is_empty(&reference["containerName"]) {
        causes.required(&format!("{path}.containerName"), "");
    } else if resource.is_empty() {
        causes.required(&format!("{path}.resource"), "");
    } else if !is_huge {
        causes.one_of(&format!("{path}.resource"), &reference["resource"], RESOURCES);
    }
    let divisor = reference["divisor"].as_str().unwrap_or("0");
    let (amounts, what): (&[&str], _) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => (&["1m", "1"], "cpu"),
        "memory" => (BYTES, "memory"),
        "ephemeral-storage" => (BYTES, "local ephemeral storage"),
        name if name.starts_with("hugepages-") => (BYTES, "hugepages"),
        _ => return,
    };
    if divisor != "0" && !amounts.contains(&divisor) {
        let all = if what == "cpu" { "1m and 1".to_owned() } else { BYTES.join(", ") };
        let why = format!("only divisor's values {all} are supported with the {what} resource");
        causes.invalid(&format!("{path}.divisor"), &resource.into(), &why);
    }
}

const BYTES: &[&str] = &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// The sources of a projected volume.
const PROJECTED: Fields = &[
    ("secret", &[Object(FILES)]),
    ("configMap", &[Object(FILES)]),
    ("downwardAPI", &[Check(downward_files)]),
    ("serviceAccountToken", &[Check(account_token)]),
    ("clusterTrustBundle", &[Check(trust_bundle)]),
    ("podCertificate", &[Object(POD_CERTIFICATE)]),
];
const POD_CERTIFICATE: Fields = &[
    ("signerName", &[REQUIRED]),
    ("user", &[ID]),
    (
        "keyType",
        &[REQUIRED, OneOf(&["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"])],
    ),
    ("maxExpirationSeconds", &[Number(3600, i64::MAX, "if provided, maxExpirationSeconds must be >= 3600")]),
    ("credentialBundlePath", &[Text(file_path)]),
    ("keyPath", &[Text(file_path)]),
    ("certificateChainPath", &[Text(file_path)]),
];

fn projections(projected: &Value, path: &str, causes: &mut Causes) {
    let mut taken = HashSet::new();
    for (i, source) in items(projected, "sources").iter().enumerate() {
        let own = format!("{path}.sources[{i}]");
        apply(source, &own, PROJECTED, causes);
        let listed =
            ["secret", "configMap", "downwardAPI"].iter().flat_map(|field| items(&source[field], "items"));
        let single = [
            "/clusterTrustBundle/path",
            "/podCertificate/credentialBundlePath",
            "/podCertificate/keyPath",
            "/podCertificate/certificateChainPath",
        ];
        let files = listed.map(|file| text(file, "/path")).chain(single.map(|file| text(source, file)));
        for file in files.filter(|file| !file.is_empty()) {
            if !taken.insert(file) {
                causes.invalid(path, &file.into(), "conflicting duplicate paths");
            }
        }
        if PROJECTED.iter().filter(|(field, _)| !source[field].is_null()).count() > 1 {
            causes.forbidden(&own, "may not specify more than 1 volume type per source");
        }
    }
}

/// kube-apiserver names the volume in what it says of the path.
fn account_token(token: &Value, path: &str, causes: &mut Causes) {
    let rules: Fields = &[(
        "expirationSeconds",
        &[
            REQUIRED,
            Number(600, i64::MAX, "may not specify a duration less than 10 minutes"),
            Number(i64::MIN, 1 << 32, "may not specify a duration larger than 2^32 seconds"),
        ],
    )];
    apply(token, path, rules, causes);
    let volume = path.split(".sources[").next().unwrap_or(path);
    apply(token, volume, &[("path", &[REQUIRED, Text(file_path)])], causes);
    apply(token, path, &[("user", &[ID])], causes);
}

fn trust_bundle(bundle: &Value, path: &str, causes: &mut Causes) {
    let field = |name: &str| format!("{path}.{name}");
    match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
        (Some(_), Some(_)) => causes.invalid(path, bundle, "only one of name and signerName may be used"),
        (None, None) => causes.required(path, "either name or signerName must be specified"),
        (Some(""), None) => causes.required(&field("name"), "must be a valid object name"),
        (None, Some("")) => causes.required(&field("signerName"), "must be a valid signer name"),
        (Some(_), None) if !bundle["labelSelector"].is_null() => {
            let why = "labelSelector must be unset if name is specified";
            causes.invalid(&field("labelSelector"), &bundle["labelSelector"], why);
        }
        _ => {}
    }
    validate_label_selector(&field("labelSelector"), &bundle["labelSelector"], causes);
    apply(bundle, path, &[("path", &[REQUIRED, Text(file_path)]), ("user", &[ID])], causes);
}
