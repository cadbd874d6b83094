//! The programs of Kubernetes in `reference/`: builds them, records their answers, and compares Berth with them.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::cargo::{cargo, root, run_cargo, target_directory};

pub const USAGE: &str = "cargo xtask reference build VERSION [PROGRAM...]    (builds programs of Kubernetes 1.36, 1.37 or 1.38, or karpenter, with Go)\n       \
                         cargo xtask reference record VERSION    (records the scenarios of conformance/VERSION again)\n       \
                         cargo xtask reference compare VERSION [COUNT [SEED]]    (records new scenarios and replays them: prints those that differ)\n       \
                         cargo xtask reference requests VERSION [COUNT SEED]    (records the requests to the API server again and compares; or generates COUNT)\n       \
                         cargo xtask reference sequences VERSION COUNT SEED    (plays changes of small clusters with Kubernetes' controllers and scheduler)";

/// The suites of `scenarios.py`, and how many scenarios of each the project keeps.
const SUITES: [(&str, u32); 13] = [
    ("nodeaffinity", 20),
    ("interpod", 30),
    ("spread", 30),
    ("resources", 20),
    ("profiles", 30),
    ("admission", 40),
    ("mixed", 30),
    ("preemption", 30),
    ("volumes", 30),
    ("dra", 40),
    ("recent-resources", 30),
    ("recent-devices", 40),
    ("groups", 60),
];

/// Whether a scenario has a selector of namespaces that a missing label satisfies.
fn selects_by_absence(scenario: &str) -> bool {
    let selectors = scenario.split(r#""namespaceSelector":{"matchExpressions":["#).skip(1);
    let mut expressions = selectors.filter_map(|rest| rest.split("]}").next());
    expressions.any(|list| list.contains(r#""NotIn""#) || list.contains(r#""DoesNotExist""#))
}

/// The suites of a version. DeviceTaintRules of v1 and PodGroups of v1beta1 are there since 1.37; docs/differences.md says what groups of 1.38
/// do otherwise.
fn suites_of(version: &str) -> impl Iterator<Item = (&'static str, u32)> {
    SUITES.into_iter().filter(move |(suite, _)| match *suite {
        "recent-devices" => version != "1.36",
        "groups" => version == "1.37",
        _ => true,
    })
}

pub fn run(arguments: &[&str]) -> Result<String, String> {
    let root = root()?;
    match *arguments {
        ["build", version, ref programs @ ..] => {
            let out = folder(version)?;
            let built =
                Command::new(root.join("reference/build")).arg(version).arg(&out).args(programs).status();
            match built.map_err(|e| format!("reference/build: {e}"))? {
                status if status.success() => Ok(format!("built in {}", out.display())),
                _ => Err("reference/build failed; it needs bash, Go and its module proxy".to_owned()),
            }
        }
        ["record", version] => record_all(&root, version),
        ["compare", version] => compare(&root, version, 500, 1),
        ["compare", version, count] => compare(&root, version, number(count)?, 1),
        ["compare", version, count, seed] => compare(&root, version, number(count)?, number(seed)?),
        ["sequences", version, count, seed] => sequences(&root, version, number(count)?, number(seed)?),
        ["requests", version] => requests(&root, version),
        ["requests", version, count, seed] => generated_requests(&root, version, count, seed),
        _ => Err(format!("usage: {USAGE}")),
    }
}

/// The servers of recorded requests: name, file, gates, and APIs that are on.
const SERVERS: [(&str, &str, &str, &str); 8] = [
    (
        "gates",
        "1.37.jsonl.gz",
        include_str!("../../crates/cluster/apiserver/tests/recorded/feature-gates.txt"),
        "api/all=true",
    ),
    ("default", "1.37.jsonl.gz", "", ""),
    ("genericworkload", "1.37.jsonl.gz", GENERIC_WORKLOAD, GENERIC_WORKLOAD_API),
    ("general", "1.37-general.jsonl.gz", "", ""),
    ("held", "1.37-held.jsonl.gz", "", ""),
    ("policies", "1.37-policies.jsonl.gz", "", ""),
    ("mutations", "1.37-mutations.jsonl.gz", GENERIC_WORKLOAD, GENERIC_WORKLOAD_API),
    ("updates", "1.37-updates.jsonl.gz", GENERIC_WORKLOAD, GENERIC_WORKLOAD_API),
];
const GENERIC_WORKLOAD: &str = "GenericWorkload=true";
const GENERIC_WORKLOAD_API: &str = "scheduling.k8s.io/v1beta1=true";

/// Sends recorded requests to kube-apiserver once more. What it answers otherwise than it did is printed.
fn requests(root: &Path, version: &str) -> Result<String, String> {
    let (kept, new) =
        (root.join("crates/cluster/apiserver/tests/recorded"), folder(version)?.join("requests"));
    let mut different = Vec::new();
    for (server, file, ..) in SERVERS {
        if !send(root, version, server, &kept.join(file), &new.join(format!("{server}.jsonl.gz")))? {
            different.push(server);
        }
    }
    match different.is_empty() {
        true => Ok(format!("all answers are the recorded ones; they are in {}", new.display())),
        false => Err(format!(
            "answers of {} differ from the recorded ones; they are in {}",
            different.join(", "),
            new.display()
        )),
    }
}

/// Generates requests, records their answers, and lets Berth answer them.
fn generated_requests(root: &Path, version: &str, count: &str, seed: &str) -> Result<String, String> {
    let new = folder(version)?.join("requests");
    std::fs::create_dir_all(&new).map_err(|e| format!("{}: {e}", new.display()))?;
    for (server, test) in [("mutations", "objects_with_one_value"), ("updates", "updates_with_one_value")] {
        let [generated, recorded] =
            ["generated", "recorded"].map(|what| new.join(format!("{what}-{server}-{seed}.jsonl.gz")));
        let generator = root.join("reference/mutations.py");
        let made =
            Command::new("python3").arg(&generator).args([server, count, seed]).arg(&generated).status();
        if !made.is_ok_and(|status| status.success()) {
            return Err(format!("{} {server} {count} {seed} failed", generator.display()));
        }
        send(root, version, server, &generated, &recorded)?;
        let replay = [
            "test",
            "--quiet",
            "--locked",
            "--package",
            "berth-apiserver",
            "--test",
            "it",
            "--",
            test,
            "--nocapture",
        ];
        let replayed = Command::new(cargo()).args(replay).env("BERTH_RECORDED", &recorded).status();
        if !replayed.is_ok_and(|status| status.success()) {
            return Err(format!(
                "Berth answers requests in {} otherwise, without a row in docs/differences.md",
                recorded.display()
            ));
        }
    }
    Ok(format!(
        "{count} creations and {count} updates of the seed {seed}: what differs is in docs/differences.md"
    ))
}

/// Plays scenes of `berth-faultsim` by seed, each on a control plane of its own, and compares the pods with those of `what-if`.
fn sequences(root: &Path, version: &str, count: u32, first: u32) -> Result<String, String> {
    run_cargo(&["build", "--quiet", "--locked", "--package", "berth-faultsim"], "berth-faultsim")?;
    let program = target_directory()?.join("debug/berth-faultsim");
    let mut different = Vec::new();
    for seed in first..first.saturating_add(count) {
        let (mut command, state) = control_plane(root, version, GENERIC_WORKLOAD, GENERIC_WORKLOAD_API)?;
        command.args(["--controllers", "--scheduler", "--"]).arg(&program);
        let status = command.args(["--reference", &seed.to_string()]).status();
        std::fs::remove_dir_all(&state).map_err(|e| format!("{}: {e}", state.display()))?;
        if !status.is_ok_and(|status| status.success()) {
            different.push(seed.to_string());
        }
    }
    match different.as_slice() {
        [] => Ok(format!("{count} sequences end as those of Kubernetes {version}")),
        seeds => Err(format!("{} of {count} sequences differ: {}", seeds.len(), seeds.join(", "))),
    }
}

/// The command that starts a new control plane, and where its state is.
fn control_plane(root: &Path, version: &str, gates: &str, apis: &str) -> Result<(Command, PathBuf), String> {
    let (bin, state) = (folder(version)?, folder(version)?.join("control-plane"));
    // What an interrupted run left.
    std::fs::remove_dir_all(&state).ok();
    let mut command = Command::new("python3");
    command.arg(root.join("reference/control-plane")).arg(&bin).arg(&state);
    for (flag, value) in [("--gates", gates), ("--apis", apis)] {
        if !value.is_empty() {
            command.args([flag, value]);
        }
    }
    Ok((command, state))
}

/// Sends requests to a new kube-apiserver and writes its answers. Whether they are those that the requests have.
fn send(root: &Path, version: &str, server: &str, file: &Path, out: &Path) -> Result<bool, String> {
    let failed = |what: &Path, e: std::io::Error| format!("{}: {e}", what.display());
    out.parent().map_or(Ok(()), |folder| std::fs::create_dir_all(folder).map_err(|e| failed(folder, e)))?;
    let (.., gates, apis) = SERVERS.into_iter().find(|row| row.0 == server).ok_or(server)?;
    let (mut command, state) = control_plane(root, version, gates.trim(), apis)?;
    command
        .args(["--", "python3"])
        .arg(root.join("reference/requests.py"))
        .arg(file)
        .arg(state.join("kubeconfig"));
    let status =
        command.arg(server).arg("--record").arg(out).status().map_err(|e| failed(Path::new("python3"), e))?;
    std::fs::remove_dir_all(&state).map_err(|e| failed(&state, e))?;
    match out.metadata().is_ok_and(|made| made.len() > 0) {
        true => Ok(status.success()),
        false => Err(format!("{server} was not recorded: cargo xtask reference build {version} first")),
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|e| format!("{text:?} is not a number: {e}"))
}

/// Where the programs of a version are: outside of what is checked in.
fn folder(version: &str) -> Result<PathBuf, String> {
    Ok(match std::env::var_os("BERTH_REFERENCE") {
        Some(folder) => PathBuf::from(folder),
        None => target_directory()?.join("reference"),
    }
    .join(version))
}

/// The recordings of a version, made again with the seed of the project.
fn record_all(root: &Path, version: &str) -> Result<String, String> {
    let kept = root.join("conformance").join(version);
    std::fs::create_dir_all(&kept).map_err(|e| format!("{}: {e}", kept.display()))?;
    for (suite, count) in suites_of(version) {
        let path = kept.join(format!("{suite}.jsonl.gz"));
        // With itself as the second opinion: a scenario with a random answer is no recording.
        let (first, second) =
            (record(root, version, suite, count, 1)?, record(root, version, suite, count, 1)?);
        let same = first.iter().zip(&second).filter(|(a, b)| a == b).map(|(a, _)| format!("{a}\n"));
        let write = || {
            let mut file = GzEncoder::new(std::fs::File::create(&path)?, Compression::best());
            same.clone().try_for_each(|line| file.write_all(line.as_bytes()))?;
            file.finish()
        };
        write().map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(format!("recorded in {}", kept.display()))
}

/// Generated scenarios with the answers of this version, one a line.
fn record(root: &Path, version: &str, suite: &str, count: u32, seed: u32) -> Result<Vec<String>, String> {
    let oracle = folder(version)?.join("oracle");
    let failed = |what: &Path, e: String| format!("{}: {e}", what.display());
    if !oracle.is_file() {
        return Err(failed(&oracle, format!("not built: cargo xtask reference build {version} oracle")));
    }
    let generator = root.join("reference/scenarios.py");
    let mut scenarios = Command::new("python3")
        .arg(&generator)
        .args([suite, &count.to_string(), &seed.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed(&generator, format!("cannot run python3: {e}")))?;
    let input = scenarios.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let answers = Command::new(&oracle).stdin(input).stderr(Stdio::null()).output();
    let answers = answers.map_err(|e| failed(&oracle, e.to_string()))?;
    if !scenarios.wait().is_ok_and(|status| status.success()) {
        return Err(failed(&generator, format!("{suite} {count} {seed} failed")));
    }
    let text = String::from_utf8(answers.stdout).map_err(|e| failed(&oracle, e.to_string()))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // Scenarios whose configuration the reference refuses have no answer.
    match !lines.is_empty() {
        // 1.36.3 matches selectors of namespaces with missing labels as well (kubernetes/kubernetes#141526), and compares distinct attributes
        // with one device of each request only.
        true if version == "1.36" => {
            let is_exact = |line: &String| !selects_by_absence(line) && !line.contains("distinctAttribute");
            Ok(lines.into_iter().filter(is_exact).collect())
        }
        true => Ok(lines),
        false => Err(failed(&oracle, format!("none of {count} scenarios of {suite} was answered"))),
    }
}

/// Records new scenarios of each suite, and lets Berth decide them.
fn compare(root: &Path, version: &str, count: u32, seed: u32) -> Result<String, String> {
    let total: u32 = SUITES.iter().map(|(_, n)| n).sum();
    let kept = folder(version)?.join(format!("different-{seed}.jsonl"));
    let (mut n_scenarios, mut different) = (0, Vec::new());
    for (suite, share) in suites_of(version) {
        let recordings = record(root, version, suite, (count * share).div_ceil(total), seed)?;
        n_scenarios += recordings.len();
        let report = replay(version, &recordings)?;
        let names = report["differences"].as_array().into_iter().flatten().map(|d| &d["scenario"]);
        let names: std::collections::HashSet<&Value> = names.collect();
        if names.is_empty() {
            continue;
        }
        // A random answer is not one to agree with.
        let name = |line: &str| {
            serde_json::from_str::<Value>(line).map(|r| r["scenario"]["name"].clone()).unwrap_or_default()
        };
        let again = record(root, version, suite, (count * share).div_ceil(total), seed)?;
        let twice = recordings.into_iter().zip(again).filter(|(first, second)| first == second);
        different.extend(twice.map(|(line, _)| line).filter(|line| names.contains(&name(line))));
    }
    let lines: String = different.iter().map(|line| format!("{line}\n")).collect();
    std::fs::write(&kept, lines).map_err(|e| format!("{}: {e}", kept.display()))?;
    match different.len() {
        0 => Ok(format!("{n_scenarios} scenarios of Kubernetes {version}, seed {seed}: 0 differ")),
        n => Err(format!(
            "{n} of {n_scenarios} scenarios of Kubernetes {version}, seed {seed}, differ; they are in {}: berth replay \
             --kubernetes {version} shows where",
            kept.display()
        )),
    }
}

/// What `berth replay -o json` says about recordings.
fn replay(version: &str, recordings: &[String]) -> Result<Value, String> {
    let failed = |e: String| format!("berth replay: {e}");
    let mut berth = Command::new(cargo())
        .args([
            "run",
            "--quiet",
            "--locked",
            "--package",
            "berth-cli",
            "--",
            "replay",
            "--kubernetes",
            version,
        ])
        .args(["--limit", "1000000", "-o", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| failed(e.to_string()))?;
    let input = recordings.join("\n");
    let mut stdin = berth.stdin.take().ok_or_else(|| failed("no standard input".to_owned()))?;
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = berth.wait_with_output().map_err(|e| failed(e.to_string()))?;
    writer.join().map_err(|_| failed("the writer failed".to_owned()))?.map_err(|e| failed(e.to_string()))?;
    serde_json::from_slice(&output.stdout).map_err(|e| failed(format!("printed no JSON: {e}")))
}
