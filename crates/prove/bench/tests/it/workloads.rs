//! Benchmark files: every one is read, and the small workloads are run.

use std::path::{Path, PathBuf};

use berth_bench::workload::{Status, WorkloadFile, WorkloadReport};
use berth_testkit::programs::TempDir;

/// The file of this crate, and those of Kubernetes in the shared folder next to the clone, if it exists.
fn files() -> Vec<WorkloadFile> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shared = root.join("../../../../shared/workloads");
    let mut folders = vec![root.join("workloads")];
    if shared.exists() {
        folders.extend(KUBERNETES_FILES.map(|(name, _)| shared.join(name)));
    } else {
        eprintln!("{} not found: only the workloads of this crate are run", shared.display());
    }
    let read = |folder: &PathBuf| WorkloadFile::read(&folder.join("performance-config.yaml")).unwrap();
    folders.iter().map(read).collect()
}

/// Kubernetes' files, with their numbers of test cases.
const KUBERNETES_FILES: [(&str, usize); 4] =
    [("affinity", 12), ("misc", 9), ("topology_spreading", 4), ("volumes", 5)];

fn run(file: &WorkloadFile, case: &str, workload: &str) -> WorkloadReport {
    let case = file.cases.iter().find(|c| c.name == case).unwrap();
    let workload = case.workloads.iter().find(|w| w.name == workload).unwrap();
    file.run(case, workload, 1, &mut |_, _| ())
}

#[test]
fn every_file_is_read() {
    let files = files();
    let n_cases: Vec<_> = files.iter().map(|file| file.cases.len()).collect();
    assert_eq!(n_cases[0], 7);
    if n_cases.len() > 1 {
        assert_eq!(n_cases[1..], KUBERNETES_FILES.map(|(_, n)| n));
        assert!(files[1..].iter().flat_map(|file| &file.cases).all(|case| case.workloads.len() >= 3));
    }
}

#[test]
fn small_workloads_run_to_their_end_and_decide_the_same_again() {
    for file in files() {
        for case in &file.cases {
            for workload in case.workloads.iter().filter(|w| w.labels.iter().any(|l| l == "integration-test"))
            {
                let label = format!("{} {}", case.name, workload.name);
                let first = file.run(case, workload, 2, &mut |_, _| ());
                match case.name.as_str() {
                    // Its templates are not among the shared files.
                    "SchedulingWithExtendedResource" => assert_ne!(first.status, Status::Ok, "{label}"),
                    name => {
                        assert_eq!(
                            (first.status, first.runs),
                            (Status::Ok, 2),
                            "{label}: {:?}",
                            first.reason
                        );
                        let result = first.result.as_ref().unwrap();
                        let expected = workload.params["measurePods"].as_u64().unwrap();
                        assert_eq!(result.figures.decisions as u64, expected, "{label}");
                        let victims = match name {
                            // A pod of high priority takes the room of three.
                            "PreemptionBasic" | "PreemptionPVs" => 3 * expected,
                            _ => 0,
                        };
                        assert_eq!((result.unplaced, result.victims as u64), (0, victims), "{label}");
                    }
                }
            }
        }
    }
}

#[test]
fn queueing_does_not_change_decisions() {
    for file in files().iter().filter(|f| f.cases.iter().any(|c| c.name == "SchedulingPodAffinity")) {
        let checksum = |workload| run(file, "SchedulingPodAffinity", workload).result.unwrap().checksum;
        assert_eq!(checksum("5Nodes"), checksum("5Nodes_QueueingHintsEnabled"));
        assert_ne!(checksum("5Nodes"), checksum("500Nodes"));
    }
}

/// The reports of a file `config.yaml` with these templates.
fn reports(name: &str, files: &[(&str, &str)]) -> Vec<WorkloadReport> {
    let scratch = TempDir::new(name);
    for (file, text) in files {
        scratch.write(file, text);
    }
    let file = WorkloadFile::read(&scratch.0.join("config.yaml")).unwrap();
    let workloads = file.cases.iter().flat_map(|case| case.workloads.iter().map(move |w| (case, w)));
    workloads.map(|(case, workload)| file.run(case, workload, 1, &mut |_, _| ())).collect()
}

/// The decisions of one workload that measures two pods, after these operations.
fn measured(name: &str, operations: &str, files: &[(&str, &str)]) -> WorkloadReport {
    let config = format!(
        "- name: case\n  workloadTemplate:\n{operations}\n  - {{opcode: createPods, count: 2, collectMetrics: true, podTemplatePath: pod.yaml}}\n  workloads:\n  - {{name: w, params: {{n: 3}}}}\n"
    );
    let mut all = vec![("config.yaml", config.as_str())];
    all.extend_from_slice(files);
    reports(name, &all).remove(0)
}

const POD: &str = "apiVersion: v1
kind: Pod
metadata: {generateName: p-, labels: {a: b}}
spec:
  nodeSelector: {slot: one}
  containers: [{name: main, image: x, resources: {requests: {cpu: 3}}}]
";

#[test]
fn strategies_label_and_size_nodes() {
    let result = |name, operation: &str| {
        let report = measured(name, operation, &[("pod.yaml", POD)]);
        assert_eq!(report.status, Status::Ok, "{:?}", report.reason);
        let result = report.result.unwrap();
        (result.nodes, result.unplaced)
    };
    let labels = |values: &str| {
        format!(
            "  - {{opcode: createNodes, countParam: $n, labelNodePrepareStrategy: {{labelKey: slot, labelValues: [{values}]}}}}"
        )
    };
    // A node has 4 CPUs, a pod wants 3: each needs its own node.
    assert_eq!(result("all", &labels("one")), (3, 0));
    assert_eq!(result("in-turn", &labels("one, two")), (3, 0));
    assert_eq!(result("one-in-three", &labels("one, two, three")), (3, 1));
    let unique = "  - {opcode: createNodes, count: 3, uniqueNodeLabelStrategy: {labelKey: slot}}";
    assert_eq!(result("unique", unique), (3, 2));
    let node = (
        "node.yaml",
        "{apiVersion: v1, kind: Node, metadata: {generateName: n-, labels: {slot: one}}, status: {capacity: {cpu: 4, memory: 1Gi, pods: 9}}}",
    );
    let operation = "  - {opcode: createNodes, count: 1, nodeTemplatePath: node.yaml, nodeAllocatableStrategy: {nodeAllocatable: {cpu: \"6\"}}}";
    let report = measured("allocatable", operation, &[("pod.yaml", POD), node]);
    assert_eq!(report.result.unwrap().unplaced, 0);
}

#[test]
fn each_pod_gets_a_claim_and_nodes_attach_as_many_volumes_as_they_can() {
    let unplaced = |name, operation: &str| {
        let pod = POD.replace("nodeSelector: {slot: one}", "").replace("cpu: 3", "cpu: 1m");
        let node = "{apiVersion: v1, kind: Node, metadata: {generateName: n-}, status: {capacity: {cpu: 4, memory: 1Gi, pods: 9}}}";
        let volume =
            "{apiVersion: v1, kind: PersistentVolume, spec: {capacity: {storage: 1Gi}, csi: {driver: d}}}";
        let claim = "{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: [ReadWriteOnce]}}";
        let files =
            [("pod.yaml", pod.as_str()), ("node.yaml", node), ("pv.yaml", volume), ("pvc.yaml", claim)];
        let report = measured(name, operation, &files);
        assert_eq!(report.status, Status::Ok, "{:?}", report.reason);
        report.result.unwrap().setup_unplaced
    };
    let pods =
        "  - {opcode: createPods, count: 5, podTemplatePath: pod.yaml, persistentVolumeTemplatePath: pv.yaml,
     persistentVolumeClaimTemplatePath: pvc.yaml}";
    let nodes = |strategy: &str| {
        format!("  - {{opcode: createNodes, count: 2, nodeTemplatePath: node.yaml{strategy}}}\n{pods}")
    };
    let limit = ", nodeAllocatableStrategy: {csiNodeAllocatable: {d: {count: 2}}}";
    assert_eq!(unplaced("no-limit", &nodes("")), 0);
    assert_eq!(unplaced("limit", &nodes(limit)), 1);
    assert_eq!(unplaced("another-driver", &nodes(&limit.replace("d:", "e:"))), 0);
}

#[test]
fn time_passes_for_churn_deletions_and_sleep() {
    // Pods of the measured operation take 3 of the 4 CPUs of the only node; others take 1.
    let unplaced = |name, operations: &str| {
        let node = "  - {opcode: createNodes, count: 1, labelNodePrepareStrategy: {labelKey: slot, labelValues: [one]}}";
        let small = POD.replace("cpu: 3", "cpu: 1");
        let name = format!("time-{name}");
        let report =
            measured(&name, &format!("{node}\n{operations}"), &[("pod.yaml", POD), ("small.yaml", &small)]);
        assert_eq!(report.status, Status::Ok, "{:?}", report.reason);
        report.result.unwrap().unplaced
    };
    let churn = |mode: &str| {
        format!(
            "  - {{opcode: churn, mode: {mode}, templatePaths: [small.yaml], intervalMilliseconds: 1000}}\n"
        )
    };
    let sleep = |time: &str| format!("  - {{opcode: sleep, duration: {time}}}\n");
    assert_eq!(unplaced("none", &churn("create")), 1);
    assert_eq!(unplaced("one", &(churn("create") + &sleep("1s"))), 1);
    assert_eq!(unplaced("two", &(churn("create") + &sleep("2s"))), 2);
    assert_eq!(unplaced("at-most-one", &(churn("create, number: 1") + &sleep("1m30s"))), 1);
    assert_eq!(unplaced("two-are", &(churn("recreate, number: 2") + &sleep("2s"))), 2);
    assert_eq!(unplaced("one-is-left", &(churn("recreate, number: 2") + &sleep("3s"))), 1);
    let delete = |more: &str| {
        let pods = "  - {opcode: createPods, count: 4, podTemplatePath: small.yaml, namespace: small}\n";
        format!("{pods}  - {{opcode: deletePods, namespace: small, {more}}}\n")
    };
    assert_eq!(unplaced("all", &delete("deletePodsPerSecond: 0")), 1);
    assert_eq!(unplaced("waits", &delete("deletePodsPerSecond: 1")), 1);
    let meanwhile = delete("deletePodsPerSecond: 1, skipWaitToCompletion: true");
    assert_eq!(unplaced("meanwhile", &meanwhile), 2);
    assert_eq!(unplaced("later", &(meanwhile + &sleep("3s"))), 1);
    assert_eq!(unplaced("others", &delete("labelSelector: {a: c}")), 2);
}

/// Of three measured pods of a case with devices, how many are decided and how many find no node.
fn with_devices(name: &str, operations: &str, pod: &str, params: &str) -> (usize, usize) {
    let config = format!(
        "- name: case
  featureGates: {{DynamicResourceAllocation: true, DRAExtendedResource: true}}
  workloadTemplate:
  - {{opcode: createNodes, count: 1}}
  - {{opcode: createNodes, count: 2, nodeTemplatePath: node.yaml}}
  - {{opcode: createResourceDriver, driverName: d, nodes: gpu-*, maxClaimsPerNodeParam: $devices}}
  - {{opcode: createAny, templatePath: class.yaml, count: 2}}
{operations}
  - {{opcode: createPods, namespace: ns, count: 3, podTemplatePath: pod.yaml, collectMetrics: true{params}}}
  workloads:
  - {{name: w, params: {{devices: 2, allocated: 2, time: 40ms}}}}
"
    );
    let claim = "{devices: {requests: [{name: r, exactly: {deviceClassName: c-0}}]}}";
    let files = [
        ("config.yaml", config.as_str()),
        (
            "node.yaml",
            "{apiVersion: v1, kind: Node, metadata: {name: \"gpu-{{ .Index }}\"}, status: {capacity: {cpu: 4, memory: 1Gi, pods: 9}}}",
        ),
        (
            "class.yaml",
            "{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: \"c-{{.Index}}\"}, spec: {extendedResourceName: \"example.com/gpu-{{.Index}}\", selectors: [{cel: {expression: 'device.attributes[\"d\"].model == \"A100\"'}}]}}",
        ),
        (
            "claim.yaml",
            &format!(
                "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {{name: \"claim-{{{{.Index}}}}\"}}, spec: {claim}}}"
            ),
        ),
        (
            "template.yaml",
            &format!(
                "{{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {{name: t}}, spec: {{spec: {claim}}}}}"
            ),
        ),
        (
            "pod.yaml",
            &format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: \"p-{{{{.Index}}}}\"}}, spec: {{containers: [{{name: c, image: i{pod}"
            ),
        ),
    ];
    let report = reports(name, &files).remove(0);
    assert_eq!(report.status, Status::Ok, "{:?}", report.reason);
    let result = report.result.unwrap();
    (result.figures.decisions, result.unplaced)
}

#[test]
fn pods_get_devices_of_a_driver() {
    let template = "  - {opcode: createAny, templatePath: template.yaml, namespace: ns}";
    let made = "}], resourceClaims: [{name: r, resourceClaimTemplateName: t}]}}";
    assert_eq!(with_devices("dra-room", template, made, ""), (3, 0), "two nodes with two devices");
    let claims = "  - {opcode: createAny, templatePath: claim.yaml, namespace: ns, countParam: $allocated}";
    let allocated = format!("{claims}\n  - {{opcode: allocResourceClaims, namespace: ns}}\n{template}");
    assert_eq!(with_devices("dra-allocated", &allocated, made, ""), (3, 1), "two devices are in use");
    let steady = ", steadyState: true, durationParam: $time";
    assert_eq!(with_devices("dra-steady", template, made, steady), (9, 0), "three times three in 40 ms");
    assert_eq!(with_devices("dra-full", &allocated, made, steady), (9, 3));
    let shared = "}], resourceClaims: [{name: r, resourceClaimName: \"claim-{{DivideInt .Index 2}}\"}]}}";
    assert_eq!(with_devices("dra-shared", claims, shared, ""), (3, 0));
    let resource = ", resources: {requests: {\"example.com/gpu-{{Mod .Index 2}}\": 1}, limits: {\"example.com/gpu-{{Mod .Index 2}}\": 1}}}]}}";
    assert_eq!(with_devices("dra-extended", "", resource, ""), (3, 0));
    assert_eq!(with_devices("dra-extended-steady", "", resource, steady), (9, 0));
}

#[test]
fn gangs_are_decided_together() {
    let config = "- name: case
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createAny, countParam: $gangs, namespace: g, templatePath: group.yaml}
  - {opcode: waitForPodGroups, namespace: g, countParam: $gangs}
  - {opcode: createPods, countParam: $gangs, countMultiplierParam: $each, namespace: g, podTemplatePath: pod.yaml, collectMetrics: true, templateParams: {each: $each}}
  workloads:
  - {name: enough, params: {nodes: 6, gangs: 2, each: 3}}
  - {name: one-node-too-few, params: {nodes: 5, gangs: 2, each: 3}}
  - {name: one-pod-too-few, params: {nodes: 6, gangs: 2, each: 2}}
";
    let group = "{apiVersion: scheduling.k8s.io/v1alpha2, kind: PodGroup, metadata: {name: \"gang-{{.Index}}\"}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}";
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: \"p-{{.Index}}\"}, spec: {schedulingGroup: {podGroupName: \"gang-{{DivideInt .Index .each}}\"}, containers: [{name: c, image: x, resources: {requests: {cpu: 3}}}]}}";
    let reports = reports("gangs", &[("config.yaml", config), ("group.yaml", group), ("pod.yaml", pod)]);
    let result = |report: &WorkloadReport| {
        assert_eq!(report.status, Status::Ok, "{:?}", report.reason);
        let result = report.result.clone().unwrap();
        (result.figures.decisions, result.unplaced)
    };
    // Decisions, and pods without a node: all three of a gang that does not fit; all pods where no gang is complete.
    assert_eq!(reports.iter().map(result).collect::<Vec<_>>(), [(2, 0), (2, 3), (0, 4)]);
}

#[test]
fn what_is_not_supported_is_named() {
    let reason = |name, operation: &str, pod: &str| {
        let report = measured(name, operation, &[("pod.yaml", pod)]);
        assert_eq!(report.result, None);
        (report.status, report.reason.unwrap())
    };
    let not_supported = |reason: &str| (Status::NotSupported, reason.to_owned());
    let operation = "  - {opcode: createDragons, namespace: d}";
    assert_eq!(reason("op", operation, POD), not_supported("operation createDragons"));
    let churn = "  - {opcode: churn, mode: create, templatePaths: [config-map.yaml]}";
    let config_map = ("config-map.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: c-}}");
    let report = measured("churn", churn, &[("pod.yaml", POD), config_map]);
    assert_eq!((report.status, report.reason.unwrap()), not_supported("churn of ConfigMap"));
    let (status, text) = reason("sleep", "  - {opcode: sleep, duration: long}", POD);
    let expected = "sleep: \"long\" is not a duration such as 500ms or 1m30s, of at most 24 hours";
    assert_eq!((status, text.as_str()), (Status::Failed, expected));
    let field = "  - {opcode: createPods, count: 1, dragons: true}";
    assert_eq!(reason("field", field, POD), not_supported("dragons of createPods"));
    let driver = "  - {opcode: createResourceDriver, driverName: d, nodes: \"[ab]\", maxClaimsPerNode: 1}";
    assert_eq!(reason("glob", driver, POD), not_supported("nodes \"[ab]\" of createResourceDriver"));
    let pod = POD.replace("p-", "\"{{Sqrt .Index}}-\"");
    assert_eq!(
        reason("placeholder", "  - {opcode: barrier}", &pod),
        not_supported("pod.yaml: the placeholder {{Sqrt .Index}} in a template")
    );
    let volumes = "  - {opcode: createPods, count: 1, persistentVolumeClaimTemplatePath: none/pvc.yaml, persistentVolumeTemplatePath: pv.yaml}";
    let (status, text) = reason("pvc", volumes, POD);
    assert_eq!((status, text.split_once(": ").unwrap().0), (Status::Failed, "none/pvc.yaml"));
    let (status, text) = reason("count", "  - {opcode: createNodes, countParam: $m}", POD);
    assert_eq!((status, text.as_str()), (Status::Failed, "createNodes: there is no parameter \"m\""));
}
