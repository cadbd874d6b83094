//! The program `berth-bench`: its messages, its JSON, and benchmarks that run components as processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use berth_testkit::documents::blocks::{blocks, commands};
use berth_testkit::documents::json::Check;
use berth_testkit::documents::repository;
use berth_testkit::programs::{Program, TempDir};
use serde_json::Value;

const BENCH: Program<'static> = Program { name: "berth-bench", path: env!("CARGO_BIN_EXE_berth-bench") };
/// How long a test waits for a process, also on slow machines.
const DEADLINE: Duration = Duration::from_secs(120);

/// The program of the components beside the tested one. A test run of the workspace builds it; that of this package alone
/// does not.
static BERTH: LazyLock<PathBuf> = LazyLock::new(|| {
    let berth = Path::new(BENCH.path).with_file_name("berth");
    if !berth.exists() {
        let build = ["build", "--quiet", "--locked", "--package", "berth-cli"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    assert!(berth.exists(), "{}: no such file: set no --target for tests", berth.display());
    berth
});

/// Runs the program from the root of the repository.
fn succeeds(args: &[&str]) -> String {
    LazyLock::force(&BERTH);
    let ran = BENCH.run(&repository(), args, b"");
    assert_eq!(ran.code, 0, "{args:?}: {}{}", ran.stdout, ran.stderr);
    ran.stdout
}

#[test]
fn scripts_print_the_expected_output() {
    BENCH.assert_scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"));
}

#[test]
fn all_commands_in_the_documents_are_valid() {
    const PREFIXES: [&[&str]; 4] = [
        &["berth-bench"],
        &["cargo", "run", "--release", "-p", "berth-bench", "--"],
        &["valgrind"],
        &["perf", "record"],
    ];
    let mut n_commands = 0;
    for block in blocks().into_iter().filter(|block| block.language == "sh") {
        for mut words in commands(&block.text, &PREFIXES) {
            // Arguments of the tool that runs the program precede it.
            if let Some(at) = words.iter().position(|word| word.ends_with("berth-bench")) {
                words.drain(..=at);
            }
            n_commands += 1;
            words.push("--help".to_owned());
            let ran = BENCH.run(&repository(), &words, b"");
            assert_eq!(ran.code, 0, "{}: {words:?}: {}", block.place(), ran.stderr);
        }
    }
    assert!(n_commands > 10, "only {n_commands} commands were found");
}

#[test]
fn a_missing_program_of_the_components_is_named_with_the_remedy() {
    let run = Command::new(BENCH.path).args(["bind", "--nodes", "5"]).env("BERTH_BIN", "/no/berth").output();
    let run = run.unwrap();
    let expected = "error: /no/berth: no such file: build it with `cargo build --release`, or set BERTH_BIN to the path of berth\n";
    assert_eq!((run.status.code(), String::from_utf8(run.stderr).unwrap().as_str()), (Some(2), expected));
}

const WORKLOAD: &str = "
- name: Basic
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads: [{name: small, params: {nodes: 5, pods: 10}}]
";

const BENCHMARKS: &[&str] = &[
    "scale --nodes 20 --pods 50",
    "load examples/outage/cluster.yaml",
    "bind --nodes 10 --pods 80 --restart",
    "list --pods 50 --page 25",
];

#[test]
fn the_json_of_every_benchmark_is_as_documented() {
    let scratch = TempDir::new("benchmark");
    let file = scratch.0.join("workload.yaml");
    fs::write(&file, WORKLOAD).unwrap();
    let mut check = Check::of_document();
    let file = format!("{}", file.display());
    let report = |args: &str| -> Value {
        let args: Vec<_> = args.split(' ').collect();
        let stdout = succeeds(&[&args[..], &["-o", "json"]].concat());
        serde_json::from_str(&stdout).unwrap()
    };
    check.value("array of berth-bench -o json", &report(&file), "bench");
    for benchmark in BENCHMARKS {
        let name = benchmark.split(' ').next().unwrap();
        check.value(&format!("berth-bench {name} -o json"), &report(benchmark), name);
    }
    check.assert_no_problems();
}

#[test]
fn keys_in_temporary_directories_are_removed_after_any_signal() {
    LazyLock::force(&BERTH);
    let scratch = TempDir::new("temporary");
    let keys = || {
        let entries = fs::read_dir(&scratch.0).unwrap().map(|entry| entry.unwrap().path());
        entries.collect::<Vec<_>>()
    };
    let eventually = |what: &str, is_so: &mut dyn FnMut() -> bool| {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < DEADLINE, "not so in time: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    // Under `nohup` the processes inherit that SIGHUP is ignored.
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    let ends_by = |signal: &&str| *signal != "HUP" || ignored.is_none_or(|signals| signals & 1 == 0);
    for signal in ["HUP", "TERM"].iter().filter(|signal| ends_by(signal)) {
        let mut bench = Command::new(BENCH.path)
            .args(["bind", "--nodes", "200", "--pods", "5000"])
            .env("TMPDIR", &scratch.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the kubeconfig exists", &mut || keys().iter().any(|dir| dir.join("kubeconfig").exists()));
        let sent = Command::new("kill").args([format!("-{signal}"), bench.id().to_string()]).status();
        assert!(sent.unwrap().success());
        eventually("the program ends", &mut || bench.try_wait().unwrap().is_some());
        assert_eq!(keys(), [] as [PathBuf; 0], "after SIG{signal}");
    }
}
