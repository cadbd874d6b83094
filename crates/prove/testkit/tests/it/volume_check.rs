//! Each violation is planted beside the same state without it.

use berth_input::inventory::Inventory;
use berth_testkit::check::volumes::check;
use berth_testkit::naive::World;

/// What the findings say.
const CLAIM_BOUND_TWICE: &str = "is bound to several volumes";
const VOLUME_BOUND_TWICE: &str = "is bound to several claims";
const HALF_BOUND: &str = "is bound, but";
const UNSUITABLE_VOLUME: &str = "volume v of claim";
const UNBOUND_CLAIM: &str = "is not bound";
const FOREIGN_CLAIM: &str = "was not created for pod";
const NODE_AFFINITY: &str = "match PersistentVolume's node affinity";
const ZONE: &str = "no available volume zone";
const ATTACH_LIMIT: &str = "exceed max volume count";
const READ_WRITE_ONCE_POD: &str = "ReadWriteOncePod access mode already in-use";
const DISK_CONFLICT: &str = "no available disk";
const NO_REASON: &str = "waits without a condition";
const ALL: [&str; 12] = [
    CLAIM_BOUND_TWICE,
    VOLUME_BOUND_TWICE,
    HALF_BOUND,
    UNSUITABLE_VOLUME,
    UNBOUND_CLAIM,
    FOREIGN_CLAIM,
    NODE_AFFINITY,
    ZONE,
    ATTACH_LIMIT,
    READ_WRITE_ONCE_POD,
    DISK_CONFLICT,
    NO_REASON,
];

const NODES: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {topology.kubernetes.io/zone: z1}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: z2}}}
---
{apiVersion: v1, kind: Node, metadata: {name: c}}
"#;

/// What is wrong with a state, besides the nodes a, b and c: each kind once.
fn violated(objects: &[String]) -> Vec<&'static str> {
    let text = format!("{NODES}---\n{}", objects.join("\n---\n"));
    let inventory = Inventory::from_text(&text).expect("objects");
    let mut world = World {
        nodes: inventory.nodes.into_iter().map(|e| e.object).collect(),
        pods: inventory.pods.into_iter().map(|e| e.object).filter(|pod| !pod.is_terminal()).collect(),
        ..World::default()
    };
    inventory.volume_objects.into_iter().for_each(|e| world.storage.set(e.object));
    let findings = check(&world);
    let kind = |finding: &String| *ALL.iter().find(|kind| finding.contains(**kind)).expect(finding);
    let mut kinds: Vec<_> = findings.iter().map(kind).collect();
    kinds.dedup();
    kinds
}

const NONE: [&str; 0] = [];

/// A pod on a node, with these volumes.
fn pod(name: &str, node: &str, volumes: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, uid: {name}}}, spec: {{nodeName: {node}, volumes: [{volumes}]}}}}"
    )
}

/// A pod with its own claim name.
fn user(name: &str, node: &str) -> String {
    pod(name, node, &claimed(name))
}

fn claimed(claim: &str) -> String {
    format!("{{name: v, persistentVolumeClaim: {{claimName: {claim}}}}}")
}

/// A claim that a controller has bound to a volume.
fn claim(name: &str, volume: &str, access_mode: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: {name}, uid: {name},
         annotations: {{pv.kubernetes.io/bound-by-controller: 'yes', pv.kubernetes.io/bind-completed: 'yes'}}}},
         spec: {{volumeName: {volume}, accessModes: [{access_mode}], resources: {{requests: {{storage: 2Gi}}}}}},
         status: {{phase: Bound}}}}"
    )
}

/// A volume that is bound to a claim.
fn volume(name: &str, claim: &str, spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: PersistentVolume, metadata: {{name: {name}}},
         spec: {{capacity: {{storage: 2Gi}}, accessModes: [ReadWriteOnce, ReadWriteOncePod],
                claimRef: {{namespace: default, name: {claim}}}{spec}}}, status: {{phase: Bound}}}}"
    )
}

#[test]
fn claims_and_volumes_belong_together_in_pairs() {
    let (rwo, plain) = ("ReadWriteOnce", "");
    let pair = [claim("x", "v", rwo), volume("v", "x", plain)];
    assert_eq!(violated(&pair), NONE);
    assert_eq!(violated(&[&pair[..], &[volume("w", "x", plain)]].concat()), [CLAIM_BOUND_TWICE]);
    assert_eq!(violated(&[&pair[..], &[claim("z", "v", rwo)]].concat()), [HALF_BOUND, VOLUME_BOUND_TWICE]);
    assert_eq!(violated(&pair[..1]), [HALF_BOUND]);
    // A claim of that name was there before: the volume is not bound to this one.
    let former = volume("w", "x", plain).replace("name: x", "name: x, uid: former");
    assert_eq!(violated(&[&pair[..], &[former]].concat()), NONE);
}

#[test]
fn volumes_have_what_their_claims_ask_for() {
    let bound = |spec: &str, claim: &dyn Fn(String) -> String| {
        violated(&[claim(self::claim("x", "v", "ReadWriteOnce")), volume("v", "x", spec)])
    };
    let same = |text: String| text;
    assert_eq!(bound("", &same), NONE);
    assert_eq!(bound("", &|text| text.replace("2Gi", "3Gi")), [UNSUITABLE_VOLUME]);
    assert_eq!(bound("", &|text| text.replace("ReadWriteOnce", "ReadWriteMany")), [UNSUITABLE_VOLUME]);
    assert_eq!(bound(", volumeMode: Block", &same), [UNSUITABLE_VOLUME]);
    assert_eq!(bound(", storageClassName: fast", &same), [UNSUITABLE_VOLUME]);
    // What a user has bound is the user's affair.
    assert_eq!(bound("", &|text| text.replace("2Gi", "3Gi").replace("bound-by-controller", "x")), NONE);
}

#[test]
fn pods_are_where_their_volumes_are() {
    let affinity = ", nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions:
        [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}]}}";
    let on =
        |node: &str, volume: String| violated(&[user("x", node), claim("x", "v", "ReadWriteOnce"), volume]);
    assert_eq!(on("a", volume("v", "x", affinity)), NONE);
    assert_eq!(on("b", volume("v", "x", affinity)), [NODE_AFFINITY]);
    assert_eq!(on("c", volume("v", "x", affinity)), [NODE_AFFINITY]);
    let labelled = |key: &str, zones: &str| {
        volume("v", "x", "").replace("name: v}", &format!("name: v, labels: {{{key}: {zones}}}}}"))
    };
    assert_eq!(on("a", labelled("topology.kubernetes.io/zone", "z1__z3")), NONE);
    assert_eq!(on("b", labelled("topology.kubernetes.io/zone", "z1__z3")), [ZONE]);
    assert_eq!(on("b", labelled("failure-domain.beta.kubernetes.io/zone", "z1")), [ZONE]);
    assert_eq!(on("b", labelled("topology.kubernetes.io/region", "r")), [ZONE]);
    // A node without zone and region.
    assert_eq!(on("c", labelled("topology.kubernetes.io/zone", "z1")), NONE);
}

#[test]
fn pods_with_nodes_have_bound_claims_of_their_own() {
    let unbound = claim("x", "''", "ReadWriteOnce").replace("phase: Bound", "phase: Pending");
    assert_eq!(violated(&[user("x", "a")]), [UNBOUND_CLAIM]);
    assert_eq!(violated(&[user("x", "a"), unbound.clone()]), [UNBOUND_CLAIM]);
    assert_eq!(violated(&[user("x", "a"), unbound.replace("Pending", "Lost")]), NONE);
    let ephemeral = |owner: &str| {
        let own = format!(
            "name: x-v, ownerReferences: [{{apiVersion: v1, kind: Pod, name: x, uid: {owner}, controller: true}}],"
        );
        violated(&[
            pod("x", "a", "{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}"),
            claim("x-v", "v", "ReadWriteOnce").replace("name: x-v,", &own),
            volume("v", "x-v", ""),
        ])
    };
    assert_eq!(ephemeral("x"), NONE);
    assert_eq!(ephemeral("z"), [FOREIGN_CLAIM]);
}

#[test]
fn nodes_attach_no_more_than_they_can() {
    let csi_node = |count: usize| {
        format!(
            "{{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {{name: a, annotations:
             {{storage.alpha.kubernetes.io/migrated-plugins: 'kubernetes.io/gce-pd,kubernetes.io/aws-ebs'}}}},
             spec: {{drivers: [{{name: ebs.csi.aws.com, nodeID: a, allocatable: {{count: {count}}}}}]}}}}"
        )
    };
    let attached = |count: usize, second: &str| {
        let first = ", csi: {driver: ebs.csi.aws.com, volumeHandle: d1}";
        let bound = ["x", "z"].map(|name| claim(name, name, "ReadWriteOnce"));
        let volumes = [volume("x", "x", first), volume("z", "z", second)];
        violated(&[&[csi_node(count), user("x", "a"), user("z", "a")], &bound[..], &volumes[..]].concat())
    };
    assert_eq!(attached(2, ", csi: {driver: ebs.csi.aws.com, volumeHandle: d2}"), NONE);
    assert_eq!(attached(1, ", csi: {driver: ebs.csi.aws.com, volumeHandle: d2}"), [ATTACH_LIMIT]);
    assert_eq!(attached(1, ", csi: {driver: ebs.csi.aws.com, volumeHandle: d1}"), NONE);
    assert_eq!(attached(1, ", csi: {driver: other, volumeHandle: d2}"), NONE);
    assert_eq!(attached(1, ", awsElasticBlockStore: {volumeID: d2}"), [ATTACH_LIMIT]);
    assert_eq!(attached(1, ", cinder: {volumeID: d2}"), NONE);
}

#[test]
fn what_only_one_pod_can_use() {
    let shared = |access_mode: &str, node: &str| {
        let second = pod("z", node, &claimed("x"));
        violated(&[user("x", "a"), second, claim("x", "v", access_mode), volume("v", "x", "")])
    };
    assert_eq!(shared("ReadWriteOnce", "a"), NONE);
    assert_eq!(shared("ReadWriteOncePod", "a"), [READ_WRITE_ONCE_POD]);
    let disks = |disk: &str, node: &str| {
        let disk = format!("{{name: d, {disk}}}");
        violated(&[pod("x", "a", &disk), pod("z", node, &disk)])
    };
    assert_eq!(disks("gcePersistentDisk: {pdName: d}", "a"), [DISK_CONFLICT]);
    assert_eq!(disks("gcePersistentDisk: {pdName: d}", "b"), NONE);
    assert_eq!(disks("gcePersistentDisk: {pdName: d, readOnly: true}", "a"), NONE);
    assert_eq!(disks("awsElasticBlockStore: {volumeID: d, readOnly: true}", "a"), [DISK_CONFLICT]);
    assert_eq!(disks("iscsi: {iqn: d}", "a"), [DISK_CONFLICT]);
    assert_eq!(disks("rbd: {monitors: [m, k], image: i, pool: p}", "a"), [DISK_CONFLICT]);
}

#[test]
fn pods_wait_for_a_reason() {
    let waiting = |status: &str| {
        violated(&[format!("{{apiVersion: v1, kind: Pod, metadata: {{name: x}}, status: {{{status}}}}}")])
    };
    let condition = "type: PodScheduled, status: 'False', reason: Unschedulable";
    assert_eq!(waiting(&format!("conditions: [{{{condition}, message: m}}]")), NONE);
    assert_eq!(waiting("phase: Succeeded"), NONE);
    assert_eq!(waiting(""), [NO_REASON]);
    assert_eq!(waiting(&format!("conditions: [{{{condition}}}]")), [NO_REASON]);
}
