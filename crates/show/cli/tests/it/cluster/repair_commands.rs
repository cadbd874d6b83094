//! The commands that repairs print: each of the golden files is run against the embedded API server, which has the objects of its input.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;

use crate::kubectl::has_kubectl;
use crate::process::Berth;

/// A command of a golden file, and what it prints of one repair.
struct Case {
    golden: PathBuf,
    /// The files of the script before the command: names and contents.
    files: Vec<(String, String)>,
    line: String,
    commands: Vec<String>,
}

/// The cases of a golden file: one for each repair.
fn cases(golden: &Path) -> Vec<Case> {
    let text = fs::read_to_string(golden).unwrap();
    let (mut files, mut cases, mut line) = (Vec::<(String, String)>::new(), Vec::<Case>::new(), None);
    let mut is_in_file = false;
    let mut is_next = false;
    for row in text.lines() {
        if let Some(name) = row.strip_prefix("== ") {
            files.retain(|(other, _)| other != name);
            files.push((name.to_owned(), String::new()));
            (is_in_file, is_next) = (true, false);
        } else if let Some(command) = row.strip_prefix("$ ") {
            line = Some(command.to_owned());
            (is_in_file, is_next) = (false, false);
        } else if is_in_file {
            let (_, content) = files.last_mut().expect("a file has begun");
            content.push_str(row);
            content.push('\n');
        } else if let (Some(command), Some(line)) = (row.trim_start().strip_prefix("$ "), &line) {
            if !is_next {
                let (golden, files) = (golden.to_owned(), files.clone());
                cases.push(Case { golden, files, line: line.clone(), commands: Vec::new() });
            }
            cases.last_mut().expect("a case has begun").commands.push(command.to_owned());
            is_next = true;
        } else {
            is_next = false;
        }
    }
    cases
}

/// The options that name the input of a command, with files that exist.
fn inputs(case: &Case, directory: &Path) -> Vec<String> {
    let mut inputs = Vec::new();
    for word in case.line.split_whitespace() {
        for base in [directory.to_owned(), repository()] {
            let path = base.join(word);
            if !word.starts_with('-') && path.exists() {
                inputs.extend(["-f".to_owned(), path.display().to_string()]);
                break;
            }
        }
    }
    inputs
}

fn run(directory: &TempDir, kubeconfig: &str, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.args(["-o", "pipefail", "-c", line]).current_dir(&directory.0);
    command.env("KUBECONFIG", kubeconfig).env("HOME", &directory.0);
    command.output().unwrap()
}

#[test]
fn every_printed_command_works_on_the_object_that_it_names() {
    if !has_kubectl("every_printed_command_works_on_the_object_that_it_names") {
        return;
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut paths = Vec::new();
    for directory in [golden.clone(), golden.join("examples")] {
        let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        paths.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "txt")));
    }
    paths.sort();
    let (mut done, mut wrong) = (BTreeSet::new(), Vec::new());
    for case in paths.iter().flat_map(|path| cases(path)) {
        let is_of_kubectl =
            |command: &String| command.starts_with("kubectl") || command.starts_with("printf");
        if !case.commands.iter().all(is_of_kubectl) || !done.insert(case.commands.clone()) {
            continue;
        }
        let directory = TempDir::new("repairs");
        for (name, content) in &case.files {
            let path = directory.file(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            // kubectl takes what begins with a brace for JSON.
            fs::write(path, format!("---\n{content}")).unwrap();
        }
        let server = Berth::start(&directory, "apiserver", &["apiserver"]);
        let kubeconfig = server.line_after("export KUBECONFIG=");
        let berth = env!("CARGO_BIN_EXE_berth");
        let given = inputs(&case, &directory.0).join(" ");
        let pods = run(&directory, &kubeconfig, &format!("{berth} simulate {given} -o yaml"));
        let pods =
            directory.write("pods-of-the-simulation", without_owners(&String::from_utf8_lossy(&pods.stdout)));
        // Pods that workloads create are those of the simulation. Workloads and nodes that the input lacks exist in a real cluster.
        let crds = repository().join("deploy/kustomize/components/placement-policies/crds.yaml");
        let set_up = format!(
            "for n in {}; do kubectl create namespace $n; done; kubectl create -f {}; \
             kubectl wait --for=condition=established crd --all; kubectl create --validate=false {}; \
             kubectl create --validate=false -f {}; \
             for d in {}; do kubectl create deployment $d --image=i; done; \
             for n in {}; do kubectl create -f - <<< \"{{\\\"kind\\\": \\\"Node\\\", \\\"apiVersion\\\": \\\"v1\\\", \\\"metadata\\\": {{\\\"name\\\": \\\"$n\\\"}}}}\"; done",
            after(&case, "-n").join(" "),
            crds.display(),
            given.replace("-f ", "-R -f "),
            pods.display(),
            named(&case, "deployment/").join(" "),
            after(&case, "node").join(" "),
        );
        let set_up = run(&directory, &kubeconfig, &set_up);
        for command in &case.commands {
            let ran = run(&directory, &kubeconfig, command);
            if !ran.status.success() {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                wrong.push(format!(
                    "{}: {}\n{command}\n{}\nset up: {}",
                    case.golden.display(),
                    case.line,
                    text(&ran.stderr),
                    text(&set_up.stderr)
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(done.len() > 10, "{done:?}");
}

/// Manifests without owners and nodes, which do not exist: garbage collection would delete the pods.
fn without_owners(manifests: &str) -> String {
    let mut is_in_owners = false;
    let mut kept = String::new();
    for line in manifests.lines() {
        let is_key = line.starts_with("  ") && !line.starts_with("   ") && !line.starts_with("  -");
        is_in_owners = line == "  ownerReferences:" || is_in_owners && line.starts_with(' ') && !is_key;
        if !is_in_owners && !line.starts_with("  nodeName:") {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

/// The words of the commands that follow a word.
fn after<'c>(case: &'c Case, word: &str) -> Vec<&'c str> {
    let words: Vec<&str> = case.commands.iter().flat_map(|command| command.split_whitespace()).collect();
    words.windows(2).filter(|pair| pair[0] == word).map(|pair| pair[1]).collect()
}

/// The names in the commands that follow a kind.
fn named<'c>(case: &'c Case, kind: &str) -> Vec<&'c str> {
    let words = case.commands.iter().flat_map(|command| command.split_whitespace());
    words.filter_map(|word| word.strip_prefix(kind)).collect()
}
