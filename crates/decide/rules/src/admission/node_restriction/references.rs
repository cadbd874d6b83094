//! The API objects to which a pod refers.

use std::borrow::Cow;

use serde_json::Value;

use super::{items, text};

berth_api::named! {
    /// A kind of object to which pods refer, in the order in which NodeRestriction reports them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Referent(as_str) {
        ServiceAccount = "a service account",
        Secret = "secrets",
        ConfigMap = "configmaps",
        /// A bundle of trusted certificates.
        ClusterTrustBundle = "clustertrustbundles",
        PersistentVolumeClaim = "persistentvolumeclaims",
        ResourceClaim = "resourceclaims",
    }
}

/// All references of a pod; a name is empty where the pod does not give it.
pub fn references(pod: &Value) -> Vec<(Referent, Cow<'_, str>)> {
    let mut all = Vec::new();
    let mut add = |referent, name| all.push((referent, Cow::Borrowed(name)));
    let spec = &pod["spec"];
    let account = text(spec, "/serviceAccountName");
    if !account.is_empty() {
        add(Referent::ServiceAccount, account);
    }
    for secret in items(&spec["imagePullSecrets"]) {
        add(Referent::Secret, text(secret, "/name"));
    }
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    for container in lists.iter().flat_map(|list| items(&spec[*list])) {
        let variables = items(&container["env"]).iter().map(|variable| &variable["valueFrom"]);
        for source in items(&container["envFrom"]).iter().chain(variables) {
            for field in ["secretRef", "secretKeyRef"] {
                named(&source[field], Referent::Secret, &mut add);
            }
            for field in ["configMapRef", "configMapKeyRef"] {
                named(&source[field], Referent::ConfigMap, &mut add);
            }
        }
    }
    for volume in items(&spec["volumes"]) {
        for source in items(&volume["projected"]["sources"]) {
            named(&source["secret"], Referent::Secret, &mut add);
            named(&source["configMap"], Referent::ConfigMap, &mut add);
            named(&source["clusterTrustBundle"], Referent::ClusterTrustBundle, &mut add);
        }
        named(&volume["configMap"], Referent::ConfigMap, &mut add);
        if volume["secret"].is_object() {
            add(Referent::Secret, text(volume, "/secret/secretName"));
        }
        // Volumes of many kinds name a secret of theirs in one of these.
        for (kind, source) in volume.as_object().into_iter().flatten() {
            if kind != "secret" && !source["secretName"].is_null() {
                add(Referent::Secret, text(source, "/secretName"));
            }
            for field in ["secretRef", "nodePublishSecretRef"] {
                named(&source[field], Referent::Secret, &mut add);
            }
        }
        if volume["persistentVolumeClaim"].is_object() {
            add(Referent::PersistentVolumeClaim, text(volume, "/persistentVolumeClaim/claimName"));
        }
    }
    let statuses = items(&pod["status"]["resourceClaimStatuses"]);
    for claim in items(&spec["resourceClaims"]) {
        let generated =
            statuses.iter().find(|status| status["name"] == claim["name"]).unwrap_or(&Value::Null);
        let given = text(claim, "/resourceClaimName");
        add(
            Referent::ResourceClaim,
            if given.is_empty() { text(generated, "/resourceClaimName") } else { given },
        );
    }
    named_by(
        &pod["status"]["extendedResourceClaimStatus"],
        "/resourceClaimName",
        Referent::ResourceClaim,
        &mut add,
    );
    let ephemeral = items(&spec["volumes"]).iter().filter(|volume| volume["ephemeral"].is_object());
    all.extend(ephemeral.map(|volume| {
        let claim = format!("{}-{}", text(pod, "/metadata/name"), text(volume, "/name"));
        (Referent::PersistentVolumeClaim, Cow::Owned(claim))
    }));
    all
}

fn named<'p>(source: &'p Value, referent: Referent, add: &mut impl FnMut(Referent, &'p str)) {
    named_by(source, "/name", referent, add);
}

fn named_by<'p>(
    source: &'p Value,
    pointer: &str,
    referent: Referent,
    add: &mut impl FnMut(Referent, &'p str),
) {
    if source.is_object() {
        add(referent, text(source, pointer));
    }
}

/// The audiences of the service account tokens that a pod mounts; empty for the default one.
pub fn token_audiences(pod: &Value) -> impl Iterator<Item = &str> {
    items(&pod["spec"]["volumes"])
        .iter()
        .flat_map(|volume| items(&volume["projected"]["sources"]))
        .filter(|source| source["serviceAccountToken"].is_object())
        .map(|source| text(source, "/serviceAccountToken/audience"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_that_names_an_object_is_a_reference() {
        let pod = json!({
            "metadata": {"name": "p"},
            "spec": {
                "serviceAccountName": "sa",
                "imagePullSecrets": [{"name": "s1"}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "s2"}}, {"configMapRef": {"name": "c1"}}]}],
                "ephemeralContainers": [{"env": [{"name": "a", "valueFrom": {"secretKeyRef": {"name": "s3"}}},
                    {"name": "b", "valueFrom": {"configMapKeyRef": {"name": "c2"}}}, {"name": "c", "value": "x"}]}],
                "volumes": [
                    {"name": "a", "secret": {"secretName": "s4"}}, {"name": "b", "configMap": {"name": "c3"}},
                    {"name": "c", "projected": {"sources": [{"secret": {"name": "s5"}}, {"configMap": {"name": "c4"}},
                        {"clusterTrustBundle": {"name": "t"}},
                        {"serviceAccountToken": {"audience": "vault", "path": "x"}}]}},
                    {"name": "d", "azureFile": {"secretName": "s6"}}, {"name": "e", "rbd": {"secretRef": {"name": "s7"}}},
                    {"name": "f", "csi": {"nodePublishSecretRef": {"name": "s8"}}},
                    {"name": "g", "persistentVolumeClaim": {"claimName": "v"}}, {"name": "h", "ephemeral": {}},
                ],
                "resourceClaims": [{"name": "x", "resourceClaimName": "r1"}, {"name": "y", "resourceClaimTemplateName": "t"}],
            },
            "status": {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "r2"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "r3"}},
        });
        let mut found = references(&pod);
        found.sort();
        let names = |referent| {
            found
                .iter()
                .filter(|(of, _)| *of == referent)
                .map(|(_, name)| &**name)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(names(Referent::ServiceAccount), "sa");
        assert_eq!(names(Referent::Secret), "s1 s2 s3 s4 s5 s6 s7 s8");
        assert_eq!(names(Referent::ConfigMap), "c1 c2 c3 c4");
        assert_eq!(names(Referent::ClusterTrustBundle), "t");
        assert_eq!(names(Referent::PersistentVolumeClaim), "p-h v");
        assert_eq!(names(Referent::ResourceClaim), "r1 r2 r3");
        assert_eq!(token_audiences(&pod).collect::<Vec<_>>(), ["vault"]);
        assert_eq!(references(&json!({})), []);
    }
}
