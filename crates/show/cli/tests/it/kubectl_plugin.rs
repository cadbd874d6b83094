//! The binary as a plugin of kubectl: under its names, through symbolic links.

use std::path::Path;
use std::process::Command;

use berth_api::read::collect_manifests;
use berth_testkit::programs::TempDir;

fn run(scratch: &TempDir, name: &str, args: &[&str]) -> (String, Option<i32>) {
    let link = scratch.0.join(name);
    if !link.exists() {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth"), &link).unwrap();
    }
    let output = Command::new(link).args(args).env_remove("COLUMNS").output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

#[test]
fn the_plugin_explains_pods_and_completes_its_arguments() {
    let scratch = TempDir::new("plugin");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/zone-affinity");
    let example = example.to_str().unwrap();
    let (text, code) = run(&scratch, "kubectl-berth", &["explain", "-f", example, "pod/ledger"]);
    assert_eq!(code, Some(0), "{text}");
    let (help, code) = run(&scratch, "kubectl-berth", &["explain", "--help"]);
    assert!(help.contains("Usage: kubectl berth explain") && code == Some(0), "{help}");
    assert!(help.contains("\n  kubectl berth explain --live team-a/web-0"), "{help}");
    // Without input, it reads the cluster of kubectl.
    let link = scratch.0.join("kubectl-berth");
    let without =
        Command::new(link).args(["explain", "web-0"]).env("KUBECONFIG", "/missing/config").output().unwrap();
    let stderr = String::from_utf8(without.stderr).unwrap();
    assert!(stderr.starts_with("error: /missing/config: No such file or directory"), "{stderr}");
    let (words, code) = run(&scratch, "kubectl_complete-berth", &["simu"]);
    assert_eq!(
        (words.lines().next().unwrap().split('\t').next(), code),
        (Some("simulate"), Some(0)),
        "{words}"
    );
    assert_eq!(words.lines().last(), Some(":4"), "{words}");
}

#[test]
fn the_krew_manifest_is_of_this_version() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy/krew/berth.yaml");
    let manifests = collect_manifests(&std::fs::read_to_string(path).unwrap(), "berth.yaml").unwrap();
    let plugin = &manifests[0].value;
    assert_eq!(
        (manifests.len(), &plugin["kind"], &plugin["metadata"]["name"]),
        (1, &"Plugin".into(), &"berth".into())
    );
    let version = format!("v{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(plugin["spec"]["version"], version.as_str());
    for platform in plugin["spec"]["platforms"].as_array().unwrap() {
        assert!(platform["uri"].as_str().unwrap().contains(&version), "{platform}");
        assert_eq!(platform["sha256"].as_str().unwrap().len(), 64, "{platform}");
    }
}
