//! Manifests of well-known projects, applied with kubectl.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use berth_testkit::programs::{TempDir, difference};

use super::examples::objects;
use crate::client::text;
use crate::kubectl::has_kubectl;
use crate::process::Berth;

/// Runs kubectl; returns the number of lines it prints, and its errors without warnings and advice.
fn kubectl(home: &TempDir, kubeconfig: &str, folder: &Path, args: &[&str]) -> (usize, String) {
    let output = Command::new("kubectl")
        .args(args)
        .current_dir(folder)
        .env("KUBECONFIG", kubeconfig)
        .env("HOME", &home.0)
        .output()
        .unwrap();
    let advice = ["Warning: ", "ensure CRDs are installed first"];
    let errors = String::from_utf8(output.stderr).unwrap();
    let errors = errors.lines().filter(|line| !advice.iter().any(|start| line.starts_with(start)));
    (
        output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(),
        errors.map(|e| format!("  {e}\n")).collect(),
    )
}

#[test]
fn manifests_of_known_projects_are_accepted() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifests = crate_folder.join("../../../../shared/manifests");
    if !manifests.is_dir() {
        eprintln!("{}: the manifests were not found; nothing was applied", manifests.display());
        return;
    }
    if !has_kubectl("manifests") {
        return;
    }
    let directory = TempDir::new("manifests");
    let berth = Berth::start(&directory, "apiserver", &["apiserver", "--controllers=false"]);
    let kubeconfig = berth.line_after("export KUBECONFIG=");
    let mut folders: Vec<_> =
        std::fs::read_dir(&manifests).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    let mut got = String::new();
    for folder in folders {
        // The namespaces that the projects ask their users to create.
        let without_webhooks = || {
            let kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
            kubectl(&directory, &kubeconfig, &folder, &["delete", kinds, "--all"])
        };
        let objects = objects(&folder);
        let namespaces: BTreeSet<&str> =
            objects.iter().map(|object| text(object, "/metadata/namespace")).collect();
        for namespace in namespaces.into_iter().filter(|namespace| !namespace.is_empty()) {
            kubectl(&directory, &kubeconfig, &folder, &["create", "namespace", namespace]);
        }
        // The second time, the definitions of the first are served. No server answers at the webhooks' addresses.
        kubectl(&directory, &kubeconfig, &folder, &["apply", "-f", "."]);
        without_webhooks();
        let (n_applied, errors) = kubectl(&directory, &kubeconfig, &folder, &["apply", "-f", "."]);
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        writeln!(got, "{name}: {n_applied} objects").unwrap();
        got.push_str(&errors);
        without_webhooks();
    }
    let golden = crate_folder.join("tests/golden/manifests-applied.txt");
    assert_eq!(difference(&golden, &got), None);
}
