//! Defaults of a pod spec, in a pod or in a workload's template.

use serde_json::{Map, Value, json};

use super::fields::{default, default_text, items_mut, object};

/// Permissions of files from config maps, secrets and the like: 0644.
const FILE_MODE: i32 = 420;

/// The source of a volume, a field of it, and its default.
const SOURCE_DEFAULTS: &[(&str, &str, &str)] = &[
    ("hostPath", "type", ""),
    ("iscsi", "iscsiInterface", "default"),
    ("rbd", "pool", "rbd"),
    ("rbd", "user", "admin"),
    ("rbd", "keyring", "/etc/ceph/keyring"),
    ("azureDisk", "cachingMode", "ReadWrite"),
    ("azureDisk", "fsType", "ext4"),
    ("azureDisk", "kind", "Shared"),
    ("scaleIO", "storageMode", "ThinProvisioned"),
    ("scaleIO", "fsType", "xfs"),
];

pub fn default_spec(spec: &mut Value) {
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        items_mut(spec, list).iter_mut().for_each(default_container);
    }
    items_mut(spec, "volumes").iter_mut().for_each(default_volume);
    let Some(fields) = spec.as_object_mut() else { return };
    default_text(fields, "restartPolicy", "Always");
    default(fields, "terminationGracePeriodSeconds", 30);
    default_text(fields, "dnsPolicy", "ClusterFirst");
    default(fields, "securityContext", json!({}));
    default_text(fields, "schedulerName", "default-scheduler");
    // The deprecated field has the same meaning.
    let account = fields.get("serviceAccountName").or(fields.get("serviceAccount")).cloned();
    if let Some(account) = account.filter(|account| !super::fields::is_empty(account)) {
        fields.insert("serviceAccountName".to_owned(), account.clone());
        fields.insert("serviceAccount".to_owned(), account);
    }
}

fn default_container(container: &mut Value) {
    for port in items_mut(container, "ports") {
        if let Some(port) = port.as_object_mut() {
            default_text(port, "protocol", "TCP");
        }
    }
    for variable in items_mut(container, "env") {
        if let Some(field) = variable.pointer_mut("/valueFrom/fieldRef").and_then(Value::as_object_mut) {
            default_text(field, "apiVersion", "v1");
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe).and_then(Value::as_object_mut) {
            default_probe(probe);
        }
    }
    for hook in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        if let Some(request) = container.pointer_mut(hook).and_then(Value::as_object_mut) {
            default_http_get(request);
        }
    }
    let Some(fields) = container.as_object_mut() else { return };
    let image = fields.get("image").and_then(Value::as_str).unwrap_or_default();
    let pull = if is_latest(image) { "Always" } else { "IfNotPresent" };
    default(fields, "resources", json!({}));
    default_text(fields, "terminationMessagePath", "/dev/termination-log");
    default_text(fields, "terminationMessagePolicy", "File");
    default_text(fields, "imagePullPolicy", pull);
}

/// Whether an image's tag is `latest`, explicitly or by default. A digest is never `latest`.
fn is_latest(image: &str) -> bool {
    // kube-apiserver reads no tag out of an image that it cannot read.
    if image.contains('@') || !is_reference(image) {
        return false;
    }
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

/// Whether an image has the form of a reference: after a registry, names in lower case, with single separators.
fn is_reference(image: &str) -> bool {
    let is_registry =
        |part: &str| part == "localhost" || part.contains(['.', ':']) || part != part.to_lowercase();
    let path = image.split_once('/').filter(|(first, _)| is_registry(first)).map_or(image, |(_, rest)| rest);
    let path = path.rsplit_once(':').map_or(path, |(path, _)| path);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_name = |name: &str| {
        name.starts_with(is_plain)
            && name.ends_with(is_plain)
            && name.split(is_plain).all(|between| {
                matches!(between, "" | "." | "_" | "__") || between.bytes().all(|byte| byte == b'-')
            })
    };
    path.len() <= 255 && path.split('/').all(is_name)
}

fn default_probe(probe: &mut Map<String, Value>) {
    for (field, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        // Zero means unset here.
        if probe.get(field).is_none_or(|v| v.is_null() || *v == 0) {
            probe.insert(field.to_owned(), Value::from(value));
        }
    }
    if let Some(request) = probe.get_mut("httpGet").and_then(Value::as_object_mut) {
        default_http_get(request);
    }
    if let Some(request) = probe.get_mut("grpc").and_then(Value::as_object_mut) {
        default(request, "service", "");
    }
}

fn default_http_get(request: &mut Map<String, Value>) {
    default_text(request, "path", "/");
    default_text(request, "scheme", "HTTP");
}

fn default_volume(volume: &mut Value) {
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            default(source, "defaultMode", FILE_MODE);
        }
    }
    for (source, field, value) in SOURCE_DEFAULTS {
        if let Some(source) = volume.get_mut(source).and_then(Value::as_object_mut) {
            default(source, field, *value);
        }
    }
    if let Some(source) = volume.get_mut("azureDisk").and_then(Value::as_object_mut) {
        default(source, "readOnly", false);
    }
    if let Some(source) = volume.get_mut("image").and_then(Value::as_object_mut) {
        let reference = source.get("reference").and_then(Value::as_str).unwrap_or_default();
        let pull = if is_latest(reference) { "Always" } else { "IfNotPresent" };
        default_text(source, "pullPolicy", pull);
    }
    if let Some(spec) =
        volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec").and_then(Value::as_object_mut)
    {
        default_text(spec, "volumeMode", "Filesystem");
    }
    default_downward_api(volume);
    for source in volume.get_mut("projected").map_or(&mut [][..], |source| items_mut(source, "sources")) {
        default_downward_api(source);
        if let Some(token) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
            default(token, "expirationSeconds", 3600);
        }
    }
    // A volume without a source is an empty directory.
    if volume.as_object().is_some_and(|fields| fields.keys().all(|field| field == "name")) {
        let _ = object(volume, "emptyDir");
    }
}

fn default_downward_api(volume: &mut Value) {
    for item in volume.get_mut("downwardAPI").map_or(&mut [][..], |source| items_mut(source, "items")) {
        if let Some(field) = item.get_mut("fieldRef").and_then(Value::as_object_mut) {
            default_text(field, "apiVersion", "v1");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pull_policy_follows_the_image_tag() {
        for (image, latest) in [
            ("nginx", true),
            ("nginx:latest", true),
            ("nginx:1.25", false),
            ("registry:5000/nginx", true),
            ("registry:5000/nginx:2", false),
            ("nginx@sha256:0", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }

    #[test]
    fn specs_get_defaults_and_keep_set_fields() {
        let mut spec = json!({
            "containers": [{"name": "c", "image": "i:1", "custom": 1, "ports": [{"containerPort": 1}],
                "livenessProbe": {"httpGet": {"port": 1}, "periodSeconds": 5}}],
            "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
            "dnsPolicy": "None"
        });
        default_spec(&mut spec);
        let container = &spec["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!((&container["custom"], &container["ports"][0]["protocol"]), (&json!(1), &json!("TCP")));
        let probe = &container["livenessProbe"];
        assert_eq!((&probe["periodSeconds"], &probe["httpGet"]["path"]), (&json!(5), &json!("/")));
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 420);
        assert_eq!((&spec["dnsPolicy"], &spec["restartPolicy"]), (&json!("None"), &json!("Always")));
        let once = spec.clone();
        default_spec(&mut spec);
        assert_eq!(spec, once);
    }
}
