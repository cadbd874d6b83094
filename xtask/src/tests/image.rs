//! Checks the image and the manifests: a user without privileges, no capabilities, a read-only root file system.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

const USER: u64 = 65532;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

/// What is wrong with a pod template.
fn findings(pod: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            findings.push(what.to_owned());
        }
    };
    let context = &pod["securityContext"];
    expect(context["runAsNonRoot"] == true, "runAsNonRoot");
    expect(context["runAsUser"] == USER, "runAsUser");
    expect(context["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile");
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        expect(pod[field].is_null() || pod[field] == false, field);
    }
    let volumes = pod["volumes"].as_array().map_or(&[][..], Vec::as_slice);
    expect(volumes.iter().all(|volume| volume["hostPath"].is_null()), "hostPath");
    for list in ["containers", "initContainers"] {
        for container in pod[list].as_array().into_iter().flatten() {
            let context = &container["securityContext"];
            expect(context["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
            expect(context["readOnlyRootFilesystem"] == true, "readOnlyRootFilesystem");
            expect(context["capabilities"]["drop"] == serde_json::json!(["ALL"]), "capabilities.drop");
            expect(context["capabilities"]["add"].is_null(), "capabilities.add");
            expect(context["privileged"].is_null() || context["privileged"] == false, "privileged");
            expect(context["runAsUser"].is_null(), "runAsUser of a container");
        }
    }
    findings
}

#[test]
fn every_pod_of_the_manifests_runs_without_privileges() {
    let mut files = Vec::new();
    yaml_files(&root().join("deploy/kustomize"), &mut files);
    let mut n_pods = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let pod = &object["spec"]["template"]["spec"];
            if pod.is_object() {
                n_pods += 1;
                assert_eq!(findings(pod), [""; 0], "{} {}", file.display(), object["metadata"]["name"]);
            }
        }
    }
    assert!(n_pods >= 3, "the manifests have only {n_pods} pod templates");
    assert!(!findings(&Value::Null).is_empty());
}

#[test]
fn the_image_has_one_static_binary_and_a_user_without_privileges() {
    let text = fs::read_to_string(root().join("deploy/Dockerfile")).unwrap();
    let joined = text.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<&str> = lines.collect();
    let last_stage = lines.iter().rposition(|line| line.starts_with("FROM ")).unwrap();
    let [from, rest @ ..] = &lines[last_stage..] else { panic!("no stage") };
    assert_eq!(*from, "FROM scratch");
    let user = format!("USER {USER}:{USER}");
    assert_eq!(rest, ["COPY --from=build /rootfs/ /", user.as_str(), "ENTRYPOINT [\"/berth\"]"]);
    // No user may write the binary, and an image tag names its version.
    assert!(joined.contains("install -D -m 0555 target/dist/berth /rootfs/berth"));
    assert!(joined.contains("--locked"));
    for image in lines.iter().filter_map(|line| line.strip_prefix("FROM ")) {
        assert!(image == "scratch" || (image.contains(':') && !image.contains(":latest")), "{image}");
    }
}
