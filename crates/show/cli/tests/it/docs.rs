//! Tests the code blocks of README.md and docs/: parses objects and runs commands. CONTRIBUTING.md describes the words after
//! a fence. A unit test of the binary checks that all commands are valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use berth_api::read::{ReadError, read_manifests};
use berth_testkit::documents::blocks::{Block, blocks};
use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;
use serde_json::Value;

use crate::kubectl::has_kubectl;
use crate::process::{self, Berth};
use crate::program::berth;
use crate::schema;

/// All metrics that components register, with their prefix and without the suffix `_total` of counters.
fn registered_metrics() -> BTreeSet<String> {
    let quoted = |text: &str| text.split('"').nth(1).unwrap_or_default().to_owned();
    let parts = fs::read_to_string(repository().join("crates/operate/serve/src/parts.rs")).unwrap();
    let mut names = BTreeSet::from([quoted(parts.split_once("METRIC: &str =").unwrap().1)]);
    for file in [
        "operate/admission/src/server",
        "operate/admission/src/quota",
        "operate/enforcer/src",
        "cluster/apiserver/src/server",
        "operate/scheduler/src",
    ] {
        let path = repository().join("crates").join(file).join("metrics.rs");
        // The parts of a component have one metric, which is in one place.
        let source = fs::read_to_string(&path).unwrap().replace("parts::register(", "");
        let prefix = source.split_once("with_prefix(").map(|(_, rest)| format!("{}_", quoted(rest)));
        let prefix = prefix.unwrap_or_default();
        let calls = source.split("register").filter(|rest| rest.starts_with('(') || rest.starts_with("ed("));
        let called = calls.filter_map(|rest| rest.split(')').next()).map(quoted);
        // The rows of `metrics!`, such as `leads: Gauge = "leader";`.
        let rows = source.lines().filter_map(|line| line.split_once(" = \""));
        let rows =
            rows.filter(|(field, _)| field.contains(": ")).filter_map(|(_, name)| name.split('"').next());
        let all = called.chain(rows.map(str::to_owned)).filter(|name| !name.is_empty());
        names.extend(all.map(|name| format!("{prefix}{name}")));
    }
    names
}

/// The metrics in the document, in the same form.
fn written_metrics() -> BTreeSet<String> {
    let text = fs::read_to_string(repository().join("docs/metrics.md")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let name = |(metric, _): (&str, &str)| {
        let name = metric.split('{').next().unwrap_or_default();
        name.strip_suffix("_total").unwrap_or(name).to_owned()
    };
    rows.map(name).collect()
}

#[test]
fn the_list_of_metrics_is_complete() {
    let registered = registered_metrics();
    assert!(registered.len() > 20, "{registered:?}");
    assert_eq!(written_metrics(), registered);
}

/// The address in the first note of a component.
fn metrics_address(part: &Berth) -> String {
    let beginning = "serving /healthz, /readyz and /metrics at http://";
    process::eventually("the address of the metrics is printed", || {
        let stderr = part.stderr();
        let found = stderr.lines().find_map(|line| line.split_once(beginning)).map(|(_, a)| a.to_owned());
        found.ok_or(stderr)
    })
}

#[test]
fn all_served_metrics_are_in_the_list() {
    let directory = TempDir::new("metrics");
    let kubeconfig = directory.file("kubeconfig").display().to_string();
    let server = Berth::start(&directory, "apiserver", &["apiserver", "--kubeconfig-out", &kubeconfig]);
    server.line_after("export KUBECONFIG=");
    let written = written_metrics();
    for (part, listen, others) in [
        ("scheduler", "--listen", &[][..]),
        ("enforcer", "--listen", &[]),
        ("webhook", "--health-listen", &["--listen", "127.0.0.1:0"]),
    ] {
        let args = [&[part, "--kubeconfig", &kubeconfig, listen, "127.0.0.1:0"], others].concat();
        let running = Berth::start(&directory, part, &args);
        let mut connection = TcpStream::connect(metrics_address(&running)).unwrap();
        connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: berth\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let names: BTreeSet<_> = names.map(str::to_owned).collect();
        assert!(!names.is_empty(), "{part}: {text}");
        let missing: Vec<_> = names.difference(&written).collect();
        assert!(missing.is_empty(), "docs/metrics.md does not have {missing:?}");
    }
}

#[test]
fn the_rows_of_the_sources_name_code_and_tests_that_exist() {
    /// How the code cell of a row begins whose statement has no test.
    const UNTESTED: [&str; 5] = ["not done", "as 000", "links only", "not for Berth", "a statement"];
    let root = repository();
    let text = fs::read_to_string(root.join("docs/sources.md")).unwrap();
    let (names, documents) = text.split_once("\n## 000").unwrap();
    let cells = |row| str::split(str::trim_matches(row, '|'), " | ").map(str::trim).collect::<Vec<_>>();
    let quoted = |cell| str::split(cell, '`').skip(1).step_by(2).collect::<Vec<&str>>();
    let rows = names.lines().filter(|line| line.starts_with("| `")).map(cells);
    let files: BTreeMap<_, _> =
        rows.flat_map(|row| quoted(row[0]).into_iter().zip(quoted(row[1])).collect::<Vec<_>>()).collect();
    let exists = |place: &str| {
        let (file, test) = place.split_once("::").unwrap_or((place, ""));
        let file = files.get(file).copied().unwrap_or(file);
        let file = if let Some(example) = file.strip_prefix("examples/") {
            format!("crates/show/cli/tests/golden/examples/{example}.txt")
        } else if file.starts_with("docs/") || file.starts_with("deploy/") {
            file.to_owned()
        } else {
            format!("crates/{file}")
        };
        let has_test = || fs::read_to_string(root.join(&file)).unwrap().contains(&format!("fn {test}("));
        root.join(&file).exists() && (test.is_empty() || has_test())
    };
    let (mut n_rows, mut wrong) = (0, String::new());
    for row in documents.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| **")) {
        let cells = cells(row);
        let [statement, code, test] = cells[..] else { panic!("three cells: {row}") };
        if statement == "statement" {
            continue;
        }
        n_rows += 1;
        let is_path = |word: &&str| {
            word.ends_with(".rs")
                || word.split_once('/').is_some_and(|(group, _)| root.join("crates").join(group).is_dir())
        };
        let named: Vec<_> = quoted(code).into_iter().filter(is_path).chain(quoted(test)).collect();
        let is_tested = !quoted(test).is_empty() || UNTESTED.iter().any(|word| code.starts_with(word));
        let missing: Vec<_> = named.into_iter().filter(|place| !exists(place)).collect();
        if !is_tested || !missing.is_empty() {
            writeln!(wrong, "{statement}: {missing:?}").unwrap();
        }
    }
    assert!(n_rows > 200, "{n_rows}");
    assert!(wrong.is_empty(), "these rows name no test, or one that does not exist:\n{wrong}");
}

#[test]
fn links_are_valid() {
    let mut wrong = String::new();
    let root = repository();
    let entries = |folder: &str| fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let docs = entries("docs").chain(entries("docs/lint")).filter(|path| path.is_file());
    for path in
        docs.chain([root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("ARCHITECTURE.md")])
    {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if !file.is_empty() && !target.contains("://") && !path.parent().unwrap().join(file).exists() {
                writeln!(wrong, "{}: {target}", path.display()).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn every_block_has_a_known_language() {
    let mut wrong = String::new();
    for block in blocks() {
        let known: &[&str] = match block.language.as_str() {
            "sh" => &["cluster", "findings", "unrun"],
            "yaml" => &["values"],
            // Doctests of berth-engine.
            "rust" if block.file == "docs/embedding.md" => &[],
            "text" => &["output"],
            "json" => &[],
            _ => {
                writeln!(wrong, "{}: {:?} is no language here", block.place(), block.language).unwrap();
                continue;
            }
        };
        for word in block.words.iter().filter(|word| !known.contains(&word.as_str())) {
            writeln!(wrong, "{}: {word:?} means nothing here", block.place()).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn objects(text: &str, place: &str) -> Result<Vec<Value>, String> {
    let mut objects = Vec::new();
    let read = read_manifests::<ReadError>(text.as_bytes(), place, &mut |manifest| {
        objects.push(manifest.value);
        Ok(())
    });
    read.map(|()| objects).map_err(|error| error.to_string())
}

#[test]
fn objects_in_the_documents_are_valid() {
    let directory = TempDir::new("documents");
    let mut wrong = String::new();
    let (mut n_objects, mut n_values) = (0, 0);
    for block in blocks().iter().filter(|b| ["yaml", "json"].contains(&b.language.as_str())) {
        let read = match objects(&block.text, &block.place()) {
            Ok(read) => read,
            Err(why) => {
                writeln!(wrong, "{why}").unwrap();
                continue;
            }
        };
        for object in read {
            let complaint = if block.has("values") {
                n_values += 1;
                not_of_the_chart("", &object, &chart_values())
            } else {
                n_objects += 1;
                complaint(&directory, &object)
            };
            wrong.extend(complaint.map(|why| format!("{}: {why}\n", block.place())));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(
        n_objects > 5 && n_values > 0,
        "{n_objects} objects and {n_values} values of the chart were found"
    );
}

fn chart_values() -> Value {
    let text = fs::read_to_string(repository().join("deploy/helm/berth/values.yaml")).unwrap();
    objects(&text, "values.yaml").unwrap().remove(0)
}

/// The first value that the chart does not have; any value is allowed below an empty object or list.
fn not_of_the_chart(path: &str, value: &Value, known: &Value) -> Option<String> {
    match (value, known) {
        (Value::Object(_), Value::Object(known)) if known.is_empty() => None,
        // The chart does not check the policy; `berth install --policy` does.
        (Value::Object(_), _) if path == ".webhook.policy" => None,
        (Value::Object(value), Value::Object(known)) => value.iter().find_map(|(key, value)| {
            let path = format!("{path}.{key}");
            match known.get(key) {
                Some(known) => not_of_the_chart(&path, value, known),
                None => Some(format!("{path} is no value of the chart")),
            }
        }),
        (Value::Array(_), Value::Array(_))
        | (Value::String(_), Value::String(_))
        | (Value::Bool(_), Value::Bool(_))
        | (Value::Number(_), Value::Number(_)) => None,
        _ => Some(format!("{path} is {value}, and {known} in the chart")),
    }
}

fn complaint(directory: &TempDir, object: &Value) -> Option<String> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let file = directory.file("object.json");
    fs::write(&file, object.to_string()).unwrap();
    let file = file.to_str().unwrap();
    let example = |path: &str| repository().join("examples").join(path).display().to_string();
    let (some_pods, a_cluster) = (example("redis-web"), example("rebalance/cluster.yaml"));
    let args: &[&str] = match kind {
        "KubeSchedulerConfiguration" => &["simulate", "--nodes", "1", "--config", file, "-f", &some_pods],
        "AdmissionPolicy" => &["install", "--policy", file],
        "DeschedulerPolicy" => &["rebalance", "--dump", &a_cluster, "--descheduler-policy", file],
        "PodGroup" | "CompositePodGroup" | "Workload" => {
            let gates = "CompositePodGroup=true,PodGroupPreemptionPolicy=true";
            let gates = ["--kubernetes", "1.37", "--feature-gates", gates];
            &[&["simulate", "--strict", "--nodes", "1"][..], &gates, &["-f", file, &some_pods]].concat()
        }
        "Kustomization" => return not_built(directory, object),
        "Pod" | "Deployment" | "StatefulSet" | "DaemonSet" | "Job" | "CronJob" | "ReplicaSet" => {
            if let Some(why) = schema::complaint(object) {
                return Some(why);
            }
            &["simulate", "--nodes", "1", "-f", file]
        }
        _ => return schema::complaint(object),
    };
    let ran = berth(&directory.0, args, b"");
    // 1 is a valid result: the pod is unschedulable.
    (ran.code > 1).then_some(ran.stderr)
}

/// Kustomizations are in a directory next to `deploy`.
fn not_built(directory: &TempDir, object: &Value) -> Option<String> {
    if !has_kubectl("a kustomization") {
        return None;
    }
    let folder = directory.file("overlay");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("kustomization.yaml"), object.to_string()).unwrap();
    if !directory.file("deploy").exists() {
        copy(&repository().join("deploy"), &directory.0);
    }
    let built = Command::new("kubectl").arg("kustomize").arg(&folder).output().unwrap();
    (!built.status.success()).then(|| String::from_utf8_lossy(&built.stderr).into_owned())
}

fn copy(what: &Path, folder: &Path) {
    assert!(Command::new("cp").arg("-r").arg(what).arg(folder).status().unwrap().success());
}

/// Runs all blocks of a document in one directory; blocks with a cluster share it.
#[test]
fn commands_in_the_documents_run() {
    let mut by_file: Vec<(String, Vec<Block>)> = Vec::new();
    let is_run = |b: &Block| b.language == "sh" && !b.has("unrun") || b.has("output");
    for block in blocks().into_iter().filter(is_run) {
        match by_file.last_mut().filter(|(file, _)| *file == block.file) {
            Some((_, blocks)) => blocks.push(block),
            None => by_file.push((block.file.clone(), vec![block])),
        }
    }
    let mut n_run = 0;
    for (file, blocks) in by_file {
        let mut stage = Stage::new(&file.replace(['/', '.'], "-"));
        let mut printed = String::new();
        let mut updates = Vec::new();
        for block in blocks {
            if block.has("output") {
                let shown = shortened_like(&printed, &block.text);
                if std::env::var_os("BERTH_UPDATE_GOLDEN").is_some() {
                    updates.push((block, shown));
                } else {
                    assert_eq!(block.text, shown, "{}: BERTH_UPDATE_GOLDEN=1 updates it", block.place());
                }
                continue;
            }
            if block.has("cluster") && !has_kubectl(&block.place()) {
                continue;
            }
            printed = stage.run(&block);
            n_run += 1;
        }
        update(&file, &updates);
    }
    assert!(n_run > 3, "only {n_run} blocks were run");
}

/// An output with as many lines before and after `...` as the text of a document.
fn shortened_like(output: &str, text: &str) -> String {
    const LEFT_OUT: &str = "...";
    let (lines, shown): (Vec<_>, Vec<_>) = (output.trim_end().lines().collect(), text.lines().collect());
    let Some(n_before) = shown.iter().position(|line| *line == LEFT_OUT) else {
        return format!("{}\n", lines.join("\n"));
    };
    let n_after = shown.len() - n_before - 1;
    let before = lines.iter().take(n_before);
    let after = lines.iter().skip(lines.len().saturating_sub(n_after));
    before.chain([&LEFT_OUT]).chain(after).map(|line| format!("{line}\n")).collect()
}

#[test]
fn an_output_is_shortened_like_the_text_of_its_document() {
    for (text, shown) in [("x\n", "a\nb\nc\n"), ("x\n...\n", "a\n...\n"), ("...\nx\ny\n", "...\nb\nc\n")] {
        assert_eq!(shortened_like("a\nb\nc\n", text), shown, "{text}");
    }
}

/// Writes new texts into the blocks of a document.
fn update(file: &str, updates: &[(Block, String)]) {
    let path = repository().join(file);
    for (block, text) in updates.iter().rev().filter(|(block, text)| block.text != *text) {
        let document = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = document.lines().collect();
        let (from, n) = (block.line, block.text.lines().count());
        lines.splice(from..from + n, text.lines());
        fs::write(&path, format!("{}\n", lines.join("\n"))).unwrap();
    }
}

struct Stage {
    // Drop order: the cluster, its directory.
    berth: Option<Berth>,
    directory: TempDir,
}

impl Stage {
    fn new(name: &str) -> Stage {
        let directory = TempDir::new(name);
        std::os::unix::fs::symlink(repository().join("examples"), directory.file("examples")).unwrap();
        copy(&repository().join("deploy"), &directory.0);
        Stage { berth: None, directory }
    }

    /// Runs a block; returns what it prints.
    fn run(&mut self, block: &Block) -> String {
        let kubeconfig = self.directory.file("kubeconfig");
        if block.has("cluster") && self.berth.is_none() {
            let out = kubeconfig.display().to_string();
            let args = ["up", "--nodes", "6", "--zones", "3", "--no-summary", "--kubeconfig-out", &out];
            let berth = Berth::start(&self.directory, "up", &args);
            berth.line_after("export KUBECONFIG=");
            self.berth = Some(berth);
        }
        let built = Path::new(env!("CARGO_BIN_EXE_berth"));
        let path = format!("{}:{}", built.parent().unwrap().display(), std::env::var("PATH").unwrap());
        // In the repository, cargo runs Berth.
        let mut script = block.text.replace("cargo run --release --", "berth");
        if block.has("findings") {
            script.insert_str(0, "berth() { command berth \"$@\" || test $? = 1; }\n");
        }
        let output = Command::new("sh")
            .args(["-e", "-c", &script])
            .current_dir(&self.directory.0)
            .env("PATH", path)
            .env("HOME", &self.directory.0)
            .env("KUBECONFIG", if block.has("cluster") { kubeconfig } else { self.directory.file("none") })
            .env("KUBECACHEDIR", self.directory.file("cache"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}\n{}{}",
            block.place(),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// The texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_table_of_sources_names_files_and_tests_that_exist() {
    let text = fs::read_to_string(repository().join("docs/sources.md")).unwrap();
    let find = |path: &str| {
        [repository().join(path), repository().join("crates").join(path)]
            .into_iter()
            .find(|path| path.exists())
    };
    let has_function = |file: &str, function: &str| {
        let source = find(file).and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        source.contains(&format!("fn {function}("))
    };
    // Tests are named by their module: `name` in the first column stands for the file in the second.
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let modules: std::collections::BTreeMap<&str, &str> = rows
        .filter(|(_, rest)| {
            rest.starts_with('`') && rest.split(" |").next().is_some_and(|f| f.ends_with(".rs`"))
        })
        .flat_map(|(names, rest)| {
            let names = names.split(['`', ',', ' ']).filter(|name| !name.is_empty());
            names.zip(quoted(rest)).collect::<Vec<_>>()
        })
        .collect();
    assert!(modules.len() > 10, "{modules:?}");
    let is_path = |token: &str| {
        token.contains('/')
            && !token.contains(' ')
            && ["scheduling.", "failure-", "node-restriction"].iter().all(|start| !token.starts_with(start))
    };
    let exists = |token: &str| match token.split_once("::") {
        Some((file, function)) if file.ends_with(".rs") => has_function(file, function),
        Some((module, function)) if modules.contains_key(module) => has_function(modules[module], function),
        Some(_) => true,
        None => !is_path(token) || find(token).is_some(),
    };
    let missing: Vec<&str> = text.lines().flat_map(quoted).filter(|token| !exists(token)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn add_a_rule_and_add_a_kind_name_files_that_exist() {
    for page in ["add-a-rule", "add-a-kind"] {
        let text = fs::read_to_string(repository().join(format!("docs/{page}.md"))).unwrap();
        let is_placeholder = |token: &str| ["RULE", "KIND", "FOLDER"].iter().any(|word| token.contains(word));
        let files = quoted(&text).into_iter().filter(|token| token.starts_with("crates/"));
        let files: Vec<&str> = files.filter(|token| !is_placeholder(token)).collect();
        assert!(files.len() > 5, "{page}: {files:?}");
        let missing: Vec<_> = files.into_iter().filter(|file| !repository().join(file).exists()).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{page}");
    }
}
