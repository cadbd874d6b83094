//! The manifests of `deploy/`: `berth install`, kustomize and the Helm chart are equal and valid for Kubernetes.

mod chart;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use berth_api::read::{ReadError, read_manifests};
use berth_testkit::programs::TempDir;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use serde_json::{Value, json};

use crate::kubectl::has_kubectl;
use crate::process::Berth;
use crate::program::berth;
use crate::schema;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../deploy")
}

/// All objects of a text.
fn objects(text: &str) -> Vec<Value> {
    let mut objects = Vec::new();
    read_manifests::<ReadError>(text.as_bytes(), "text", &mut |manifest| {
        objects.push(manifest.value);
        Ok(())
    })
    .unwrap();
    objects
}

/// The output of `berth install`.
fn install(args: &[&str]) -> Vec<Value> {
    let ran = berth(&deploy(), &[&["install"], args].concat(), b"");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    objects(&ran.stdout)
}

/// The error message of `berth install`.
fn refusal(args: &[&str]) -> String {
    let ran = berth(&deploy(), &[&["install"], args].concat(), b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.stderr);
    ran.stderr
}

fn name(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{} {}", text("/kind"), text("/metadata/name"))
}

/// Compares objects in any order.
fn assert_same(what: &str, mut left: Vec<Value>, mut right: Vec<Value>) {
    left.sort_by_key(name);
    right.sort_by_key(name);
    let names = |objects: &[Value]| objects.iter().map(name).collect::<Vec<_>>();
    assert_eq!(names(&left), names(&right), "{what}");
    for (left, right) in left.iter().zip(&right) {
        assert_eq!(left, right, "{what}: {}", name(left));
    }
}

/// The kustomize base with these components, built by kubectl; none without kubectl.
fn kustomized(test: &str, components: &[&str]) -> Option<Vec<Value>> {
    if !has_kubectl(test) {
        return None;
    }
    let directory = std::env::temp_dir().join(format!("berth-kustomize-{}-{test}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    // kustomize accepts only relative paths below its root.
    let copied =
        Command::new("cp").arg("-r").arg(deploy().join("kustomize")).arg(&directory).status().unwrap();
    assert!(copied.success());
    let components: Vec<_> = components.iter().map(|name| format!("kustomize/components/{name}")).collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["kustomize/base"],
        "components": components,
    });
    fs::write(directory.join("kustomization.yaml"), kustomization.to_string()).unwrap();
    let built = Command::new("kubectl").arg("kustomize").arg(&directory).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    fs::remove_dir_all(&directory).unwrap();
    Some(objects(&String::from_utf8(built.stdout).unwrap()))
}

const GUARDED: &str =
    "apiVersion: admission.berth.dev/v1alpha1\nbindingGuard:\n  enabled: true\nkind: AdmissionPolicy\n";

#[test]
fn defaults_are_the_kustomize_base() {
    if let Some(built) = kustomized("defaults", &[]) {
        assert_same("kustomize", install(&["--certificate", "secret"]), built);
    }
}

#[test]
fn components_of_kustomize_are_options_of_install() {
    let components =
        ["service-monitor", "node-restriction", "match-label-keys", "placement-policies", "cert-manager"];
    let args = [
        "--service-monitor",
        "--certificate",
        "cert-manager",
        "--webhooks",
        "pods,nodes,match-label-keys,policies",
    ];
    if let Some(built) = kustomized("components", &components) {
        assert_same("kustomize", install(&args), built);
    }
    let policy = policy_file("components");
    let args = ["--certificate", "secret", "--policy", policy.to_str().unwrap()];
    if let Some(mut built) = kustomized("guard", &["binding-guard"]) {
        let policy = built.iter_mut().find(|o| o["kind"] == "ConfigMap").unwrap();
        policy["data"]["policy.yaml"] = GUARDED.into();
        assert_same("kustomize", install(&args), built);
    }
    fs::remove_file(policy).unwrap();
}

fn policy_file(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("berth-install-{}-{test}.yaml", std::process::id()));
    fs::write(&path, GUARDED).unwrap();
    path
}

#[test]
fn the_chart_equals_the_output_of_install() {
    let policy = policy_file("chart");
    let ca = std::env::temp_dir().join(format!("berth-install-{}-ca.crt", std::process::id()));
    let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    fs::write(&ca, pem).unwrap();
    let ca_bundle = base64::engine::general_purpose::STANDARD.encode(pem);
    let (policy, ca) = (policy.to_str().unwrap(), ca.to_str().unwrap());
    let all_replicas = json!({"replicas": 3});
    let cases: [(&str, &[&str], Value); 7] = [
        ("berth-system", &["--certificate", "secret"], json!({})),
        (
            "elsewhere",
            &["--certificate", "secret", "--image", "registry.example/berth:1", "--replicas", "3"],
            json!({"image": "registry.example/berth:1", "scheduler": all_replicas, "enforcer": all_replicas,
                   "webhook": all_replicas}),
        ),
        (
            "elsewhere",
            &["--certificate", "cert-manager", "--service-monitor", "--failure-policy", "fail"],
            json!({"serviceMonitor": true, "webhook": {"certManager": true, "failurePolicy": "Fail"}}),
        ),
        (
            "berth-system",
            &[
                "--components",
                "scheduler",
                "--arg",
                "scheduler=--scheduler-name=default-scheduler",
                "--arg",
                "scheduler=-v",
            ],
            json!({"scheduler": {"extraArgs": ["--scheduler-name=default-scheduler", "-v"]},
                   "enforcer": {"enabled": false}, "webhook": {"enabled": false}}),
        ),
        (
            "berth-system",
            &["--certificate", "secret", "--ca-file", ca, "--policy", policy, "--components", "webhook"],
            json!({"scheduler": {"enabled": false}, "enforcer": {"enabled": false}, "webhook": {"bindings": true, "replicas": 1,
                   "caBundle": ca_bundle, "policy": {"bindingGuard": {"enabled": true}}}}),
        ),
        (
            "elsewhere",
            &["--components", "console", "--arg", "console=--host=console.example"],
            json!({"console": {"enabled": true, "extraArgs": ["--host=console.example"]},
                   "scheduler": {"enabled": false}, "enforcer": {"enabled": false}, "webhook": {"enabled": false}}),
        ),
        (
            "berth-system",
            &["--certificate", "secret", "--webhooks", "pods,nodes,match-label-keys,policies"],
            json!({"webhook": {"nodes": true, "matchLabelKeys": true, "policies": true}}),
        ),
    ];
    for (namespace, args, values) in cases {
        let args = [args, &["--namespace", namespace]].concat();
        let mut installed = install(&args);
        // A chart does not create its namespace.
        assert_eq!(name(&installed.remove(0)), format!("Namespace {namespace}"));
        let mut rendered = chart::render(&deploy().join("helm/berth"), namespace, &values);
        // The order of the policy's fields is not relevant.
        for object in installed.iter_mut().chain(&mut rendered).filter(|o| o["kind"] == "ConfigMap") {
            object["data"]["policy.yaml"] =
                objects(object["data"]["policy.yaml"].as_str().unwrap()).remove(0);
        }
        assert_same(&args.join(" "), rendered, installed);
    }
    fs::remove_file(policy).unwrap();
    fs::remove_file(ca).unwrap();
}

#[test]
fn the_chart_has_berths_version() {
    let chart = fs::read_to_string(deploy().join("helm/berth/Chart.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    for line in [format!("version: {version}"), format!("appVersion: {version}")] {
        assert!(chart.lines().any(|l| l == line), "Chart.yaml has no {line}");
    }
    let image = Value::from(format!("berth:{version}"));
    for object in install(&[]).iter().filter(|o| o["kind"] == "Deployment") {
        assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["image"], image);
    }
}

#[test]
fn the_image_matches_the_manifests_and_the_workspace() {
    let image = fs::read_to_string(deploy().join("Dockerfile")).unwrap();
    let rust = format!("FROM docker.io/library/rust:{}-alpine AS build", env!("CARGO_PKG_RUST_VERSION"));
    assert!(image.lines().any(|line| line == rust), "no {rust:?} in deploy/Dockerfile");
    for object in install(&["--certificate", "secret"]).iter().filter(|o| o["kind"] == "Deployment") {
        let context = &object["spec"]["template"]["spec"]["securityContext"];
        let user = format!("USER {}:{}", context["runAsUser"], context["runAsGroup"]);
        assert!(image.lines().any(|line| line == user), "no {user:?} in deploy/Dockerfile");
    }
}

#[test]
fn yaml_and_json_are_the_same() {
    let yaml = install(&["--certificate", "secret"]);
    let json = install(&["--certificate", "secret", "-o", "json"]);
    assert_eq!(yaml, json);
}

#[test]
fn all_objects_match_the_types_of_kubernetes() {
    let policy = policy_file("schema");
    let everything = [
        "--service-monitor",
        "--policy",
        policy.to_str().unwrap(),
        "--webhooks",
        "pods,bindings,nodes,match-label-keys,policies",
    ];
    let mut wrong = String::new();
    for object in install(&everything).iter().chain(&install(&["--certificate", "cert-manager"])) {
        wrong.extend(schema::complaint(object).map(|why| format!("{}: {why}\n", name(object))));
    }
    assert!(wrong.is_empty(), "{wrong}");
    fs::remove_file(policy).unwrap();
}

/// The requirements of the pod security standard "restricted", and a read-only file system.
#[test]
fn containers_have_only_the_privileges_they_need() {
    for deployment in install(&["--certificate", "secret"]).iter().filter(|o| o["kind"] == "Deployment") {
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(deployment["spec"]["replicas"], 2);
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_ne!(pod["securityContext"]["runAsUser"], 0);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let containers = pod["containers"].as_array().unwrap();
        assert_eq!(containers.len(), 1, "{}", name(deployment));
        let container = &containers[0];
        let expected = json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}});
        assert_eq!(container["securityContext"], expected, "{}", name(deployment));
        for probe in ["livenessProbe", "readinessProbe"] {
            assert!(container[probe].is_object(), "{}: no {probe}", name(deployment));
        }
        assert!(container["resources"]["requests"]["memory"].is_string(), "{}", name(deployment));
        let volumes = pod["volumes"].as_array().map_or(0, Vec::len);
        let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
        assert_eq!(volumes, mounts.len());
        assert!(mounts.iter().all(|mount| mount["readOnly"] == true), "{}", name(deployment));
    }
}

/// With `--help` at the end, a command only parses its arguments.
#[test]
fn arguments_of_containers_are_valid() {
    for deployment in install(&["--certificate", "secret"]).iter().filter(|o| o["kind"] == "Deployment") {
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().unwrap().iter().filter_map(Value::as_str);
        let args: Vec<_> = args.chain(["--help"]).collect();
        let ran = berth(&deploy(), &args, b"");
        assert_eq!(ran.code, 0, "berth {}: {}", args.join(" "), ran.stderr);
    }
}

#[test]
fn the_generated_certificate_is_trusted_with_its_ca_bundle() {
    let objects = install(&["--namespace", "elsewhere"]);
    let pem =
        |value: &Value| base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap()).unwrap();
    let secret = objects.iter().find(|o| o["kind"] == "Secret").unwrap();
    assert_eq!(secret["metadata"]["namespace"], "elsewhere");
    let hooks: Vec<_> = objects.iter().filter_map(|o| o["webhooks"].as_array()).flatten().collect();
    assert!(!hooks.is_empty());
    for hook in hooks {
        assert_eq!(hook["clientConfig"]["caBundle"], secret["data"]["ca.crt"]);
        assert_eq!(hook["clientConfig"]["service"]["namespace"], "elsewhere");
    }
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let authority = CertificateDer::from_pem_slice(&pem(&secret["data"]["ca.crt"])).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority).unwrap();
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build().unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem(&secret["data"]["tls.crt"])).unwrap();
    let trusts = |host: &str| {
        let host = ServerName::try_from(host.to_owned()).unwrap();
        verifier.verify_server_cert(&certificate, &[], &host, &[], UnixTime::now())
    };
    trusts("berth-webhook.elsewhere.svc").unwrap();
    assert!(trusts("berth-webhook.berth-system.svc").is_err());
    let key = PrivateKeyDer::from_pem_slice(&pem(&secret["data"]["tls.key"])).unwrap();
    rustls::sign::CertifiedKey::from_der(vec![certificate], key, &provider).unwrap().keys_match().unwrap();
}

#[test]
fn invalid_options_are_rejected_immediately() {
    for (args, message) in [
        (
            &["--arg", "scheduler=--no-such"][..],
            "--arg for the scheduler: unexpected argument '--no-such' found",
        ),
        (&["--arg", "no-such=-v"], "invalid value 'no-such=-v' for '--arg <COMPONENT=ARG>'"),
        (&["--components", "webhook", "--arg", "scheduler=-v"], "--components does not include scheduler"),
        (&["--namespace", "kube-system"], "choose a namespace that only Berth uses"),
        (&["--namespace", "Upper"], "lowercase letters, digits and '-'"),
        (&["--image", ""], "must be an image name"),
        (&["--ca-file", "Dockerfile"], "--ca-file requires --certificate secret"),
        (&["--certificate", "secret", "--ca-file", "Dockerfile"], "no PEM certificate found"),
        (&["--webhooks", "bindings"], "needs a --policy with bindingGuard: {enabled: true}"),
        (&["--policy", "no-such.yaml"], "no-such.yaml: "),
        (&["--policy", "kustomize/base/scheduler.yaml"], "must contain only one AdmissionPolicy"),
        (&["--policy", "kustomize/base/namespace.yaml"], "must be \"AdmissionPolicy\""),
    ] {
        let said = refusal(args);
        assert!(said.contains(message), "{args:?}: {said}");
    }
}

/// Runs `kubectl` with this standard input, and returns its output.
fn kubectl(directory: &TempDir, args: &[&str], stdin: &str) -> String {
    let input = directory.file("stdin");
    fs::write(&input, stdin).unwrap();
    let output = Command::new("kubectl")
        .args(args)
        .env("KUBECONFIG", directory.file("kubeconfig"))
        .env("KUBECACHEDIR", directory.file("cache"))
        .env("HOME", &directory.0)
        .stdin(Stdio::from(fs::File::open(&input).unwrap()))
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn kubectl_applies_all_manifests_to_the_embedded_cluster() {
    if !has_kubectl("kubectl_applies_all_manifests_to_the_embedded_cluster") {
        return;
    }
    let directory = TempDir::new("install");
    let kubeconfig = directory.file("kubeconfig").display().to_string();
    let up = ["up", "--nodes", "3", "--zones", "3", "--no-summary", "--kubeconfig-out", &kubeconfig];
    let cluster = Berth::start(&directory, "up", &up);
    cluster.line_after("export KUBECONFIG=");
    let printed = berth(&deploy(), &["install"], b"").stdout;
    // Unknown fields are errors.
    for mode in [&["--server-side"][..], &[]] {
        let strict = ["apply", "--validate=strict", "--dry-run=server", "-f", "-"];
        // A dry run creates nothing: the namespace must exist for the other objects.
        kubectl(
            &directory,
            &["apply", "-f", &deploy().join("kustomize/base/namespace.yaml").display().to_string()],
            "",
        );
        kubectl(&directory, &[&strict, mode].concat(), &printed);
    }
    kubectl(&directory, &["apply", "--validate=strict", "-f", "-"], &printed);
    let base = deploy().join("kustomize/base").display().to_string();
    kubectl(&directory, &["apply", "--validate=strict", "-k", &base], "");
    for part in ["scheduler", "enforcer", "webhook"] {
        let deployment = format!("deployment/berth-{part}");
        kubectl(&directory, &["-n", "berth-system", "rollout", "status", "--timeout=120s", &deployment], "");
    }
    let account = "--as=system:serviceaccount:berth-system:berth-scheduler";
    assert_eq!(
        kubectl(&directory, &["auth", "can-i", "create", "pods", "--subresource=binding", account], ""),
        "yes\n"
    );
}

#[test]
fn berth_up_applies_the_manifests_and_runs_their_pods() {
    let printed = berth(&deploy(), &["install"], b"").stdout;
    let args = ["up", "--nodes", "3", "--zones", "3", "--no-summary", "--exit-when-settled", "-f", "-"];
    let ran = berth(&deploy(), &args, printed.as_bytes());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let n_pods = ran.stdout.lines().filter(|line| line.starts_with("berth-system/berth-")).count();
    assert_eq!(n_pods, 6, "{}", ran.stdout);
}
