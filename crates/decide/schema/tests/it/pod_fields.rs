//! Every field of a pod is decided, or irrelevant to placement for a reason.

use std::collections::BTreeMap;

use berth_api::object::placement::SPEC_FIELDS;
use berth_schema::{Struct, Type, type_of};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Support {
    /// The engine, the queue or admission evaluates it.
    Decided,
    /// The fields inside are listed one by one.
    Inside,
    /// Placement does not depend on it, because ...
    Irrelevant(&'static str),
}
use Support::{Decided, Inside, Irrelevant};

const NETWORK: &str = "the network identity of the pod, the same on every node";
const KUBELET: &str = "what the kubelet does with the pod once it is there";
const IDENTITY: &str = "credentials, valid on every node";
const SECURITY: &str = "privileges, checked by admission; no scheduler rule reads them";
const CONTENT: &str = "content that the kubelet fetches or creates on any node";
const UNRESTRICTED: &str = "kube-scheduler has no rule about this kind of volume";

const POD: &[(&str, Support)] = &[
    ("activeDeadlineSeconds", Irrelevant(KUBELET)),
    ("affinity", Decided),
    ("automountServiceAccountToken", Irrelevant(IDENTITY)),
    ("containers", Inside),
    ("dnsConfig", Irrelevant(NETWORK)),
    ("dnsPolicy", Irrelevant(NETWORK)),
    ("enableServiceLinks", Irrelevant(KUBELET)),
    ("evictionResponders", Irrelevant("who is asked before an eviction")),
    ("ephemeralContainers", Irrelevant("added to running pods; they request no resources")),
    ("hostAliases", Irrelevant(NETWORK)),
    ("hostIPC", Irrelevant(SECURITY)),
    ("hostNetwork", Decided),
    ("hostPID", Irrelevant(SECURITY)),
    ("hostUsers", Decided),
    ("hostname", Irrelevant(NETWORK)),
    ("hostnameOverride", Irrelevant(NETWORK)),
    ("imagePullSecrets", Irrelevant(IDENTITY)),
    ("initContainers", Inside),
    ("nodeName", Decided),
    ("nodeSelector", Decided),
    ("os", Irrelevant("no scheduler rule reads it; the kubelet rejects pods of another system")),
    ("overhead", Decided),
    ("preemptionPolicy", Decided),
    ("priority", Decided),
    ("priorityClassName", Decided),
    ("readinessGates", Irrelevant(KUBELET)),
    ("resourceClaims", Decided),
    ("resources", Inside),
    ("restartPolicy", Irrelevant(KUBELET)),
    (
        "runtimeClassName",
        Irrelevant("admission merges the class into nodeSelector, tolerations and overhead"),
    ),
    ("schedulerName", Decided),
    ("schedulingGates", Decided),
    ("schedulingGroup", Decided),
    ("securityContext", Irrelevant(SECURITY)),
    ("serviceAccount", Irrelevant(IDENTITY)),
    ("serviceAccountName", Irrelevant(IDENTITY)),
    ("setHostnameAsFQDN", Irrelevant(NETWORK)),
    ("shareProcessNamespace", Irrelevant(KUBELET)),
    ("subdomain", Irrelevant(NETWORK)),
    ("terminationGracePeriodSeconds", Irrelevant(KUBELET)),
    ("tolerations", Inside),
    ("topologySpreadConstraints", Inside),
    ("volumes", Inside),
];

const CONTAINER: &[(&str, Support)] = &[
    ("args", Irrelevant(KUBELET)),
    ("command", Irrelevant(KUBELET)),
    ("env", Irrelevant(KUBELET)),
    ("envFrom", Irrelevant(KUBELET)),
    ("image", Decided),
    ("imagePullPolicy", Irrelevant(KUBELET)),
    ("lifecycle", Irrelevant(KUBELET)),
    ("livenessProbe", Irrelevant(KUBELET)),
    ("name", Decided),
    ("ports", Inside),
    ("readinessProbe", Irrelevant(KUBELET)),
    ("resizePolicy", Irrelevant(KUBELET)),
    ("resources", Inside),
    ("restartPolicy", Decided),
    ("restartPolicyRules", Inside),
    ("securityContext", Irrelevant(SECURITY)),
    ("startupProbe", Irrelevant(KUBELET)),
    ("stdin", Irrelevant(KUBELET)),
    ("stdinOnce", Irrelevant(KUBELET)),
    ("terminationMessagePath", Irrelevant(KUBELET)),
    ("terminationMessagePolicy", Irrelevant(KUBELET)),
    ("tty", Irrelevant(KUBELET)),
    ("volumeDevices", Irrelevant("names a volume of the pod, which is decided for the pod")),
    ("volumeMounts", Irrelevant("names a volume of the pod, which is decided for the pod")),
    ("workingDir", Irrelevant(KUBELET)),
];

const CONTAINER_PORT: &[(&str, Support)] = &[
    ("containerPort", Decided),
    ("hostIP", Decided),
    ("hostPort", Decided),
    ("name", Irrelevant(KUBELET)),
    ("protocol", Decided),
];

const RESOURCES: &[(&str, Support)] = &[
    ("claims", Irrelevant("names a claim of spec.resourceClaims, which is decided for the pod")),
    ("limits", Decided),
    ("requests", Decided),
];

const RESTART_RULE: &[(&str, Support)] = &[("action", Decided), ("exitCodes", Irrelevant(KUBELET))];

const TOLERATION: &[(&str, Support)] = &[
    ("effect", Decided),
    ("key", Decided),
    ("operator", Decided),
    ("tolerationSeconds", Irrelevant("how long a running pod stays; scheduling ignores it")),
    ("value", Decided),
];

const SPREAD: &[(&str, Support)] = &[
    ("labelSelector", Decided),
    ("matchLabelKeys", Decided),
    ("maxSkew", Decided),
    ("minDomains", Decided),
    ("nodeAffinityPolicy", Decided),
    ("nodeTaintsPolicy", Decided),
    ("topologyKey", Decided),
    ("whenUnsatisfiable", Decided),
];

const VOLUME: &[(&str, Support)] = &[
    ("awsElasticBlockStore", Decided),
    ("azureDisk", Decided),
    ("azureFile", Decided),
    ("cephfs", Irrelevant(UNRESTRICTED)),
    ("cinder", Decided),
    ("configMap", Irrelevant(CONTENT)),
    ("csi", Decided),
    ("downwardAPI", Irrelevant(CONTENT)),
    ("emptyDir", Irrelevant(CONTENT)),
    ("ephemeral", Decided),
    ("fc", Irrelevant(UNRESTRICTED)),
    ("flexVolume", Irrelevant(UNRESTRICTED)),
    ("flocker", Irrelevant(UNRESTRICTED)),
    ("gcePersistentDisk", Decided),
    ("gitRepo", Irrelevant(CONTENT)),
    ("glusterfs", Irrelevant(UNRESTRICTED)),
    ("hostPath", Irrelevant("a path that every node may have; no scheduler rule reads it")),
    ("image", Decided),
    ("iscsi", Decided),
    ("name", Decided),
    ("nfs", Irrelevant(UNRESTRICTED)),
    ("persistentVolumeClaim", Decided),
    ("photonPersistentDisk", Irrelevant(UNRESTRICTED)),
    ("portworxVolume", Decided),
    ("projected", Irrelevant(CONTENT)),
    ("quobyte", Irrelevant(UNRESTRICTED)),
    ("rbd", Decided),
    ("scaleIO", Irrelevant(UNRESTRICTED)),
    ("secret", Irrelevant(CONTENT)),
    ("storageos", Irrelevant(UNRESTRICTED)),
    ("vsphereVolume", Decided),
];

fn table_of(definition: &str) -> &'static [(&'static str, Support)] {
    match definition {
        "PodSpec" => POD,
        "Container" => CONTAINER,
        "ContainerPort" => CONTAINER_PORT,
        "ResourceRequirements" => RESOURCES,
        "ContainerRestartRule" => RESTART_RULE,
        "Toleration" => TOLERATION,
        "TopologySpreadConstraint" => SPREAD,
        "Volume" => VOLUME,
        other => panic!("{other} has no table"),
    }
}

fn struct_of(ty: &'static Type) -> &'static Struct {
    match ty {
        Type::Struct(of) => of,
        Type::List { items, .. } => struct_of(items.get()),
        other => panic!("{other:?} has no fields"),
    }
}

/// Adds what is wrong with the fields of `of` to `problems`.
fn check(of: &'static Struct, path: &str, problems: &mut Vec<String>) {
    let name = of.name.rsplit('.').next().unwrap_or_default();
    let mut table: BTreeMap<_, _> = table_of(name).iter().copied().collect();
    for (field, ty) in of.fields() {
        let path = format!("{path}.{field}");
        match table.remove(field) {
            Some(Inside) => check(struct_of(ty.ty()), &path, problems),
            Some(Decided | Irrelevant(_)) => {}
            None => problems.push(format!("{path} is not decided and not irrelevant")),
        }
    }
    problems.extend(table.keys().map(|field| format!("{path}.{field} does not exist")));
}

#[test]
fn every_field_of_a_pod_is_decided_or_irrelevant() {
    let pod = type_of("", "v1", "Pod").and_then(|pod| pod.child("spec")).expect("pods have a spec");
    let mut problems = Vec::new();
    check(struct_of(pod), "spec", &mut problems);
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn the_scheduler_sees_changes_of_exactly_the_fields_that_matter() {
    let matters =
        POD.iter().filter(|(_, support)| !matches!(support, Irrelevant(_))).map(|(field, _)| *field);
    let mut expected: Vec<_> = matters.filter(|field| *field != "nodeName").collect();
    expected.sort_unstable();
    let mut seen = SPEC_FIELDS.to_vec();
    seen.sort_unstable();
    assert_eq!(seen, expected);
}
