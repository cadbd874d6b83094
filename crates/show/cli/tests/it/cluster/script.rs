//! Scripts: commands with their expected output.
//!
//! - `# ...` is a comment.
//! - `@ ARGS` starts `berth up ARGS` for the rest of the script; its KUBECONFIG is set for all commands.
//! - `== name` starts a file, which ends before the next block.
//! - `$ COMMAND` is run by a shell; its expected output follows, standard output before standard error, with `[exit N]` at the
//!   end if the exit code is not 0.
//! - `~ COMMAND` is repeated until it prints the expected output.
//! - `& NAME COMMAND` runs in the background until the end of the script; `% NAME` is followed by lines that it must print in
//!   this order.
//!
//! In expected output, `*` matches any text within a line, a line `...` matches any number of lines, and several spaces equal
//! one.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use berth_testkit::documents::repository;
use berth_testkit::programs::TempDir;

use crate::kubectl::has_kubectl;
use crate::process::{Berth, eventually};

#[test]
fn kubectl_works_against_berth_up() {
    run("kubectl");
}

#[test]
fn the_examples_of_the_documentation_work_with_the_api_server() {
    run("documentation");
}

#[test]
fn anti_affinity_blocks_rolling_updates_without_match_label_keys() {
    run("rolling-update");
}

#[test]
fn a_stateful_set_gets_its_zonal_volumes_back() {
    run("volumes");
}

#[test]
fn replicas_follow_the_usage_that_annotations_set_and_services_have_endpoints() {
    run("autoscaling");
}

#[test]
fn pods_are_charged_for_what_they_exclude() {
    run("placement-quota");
}

#[test]
fn a_pod_bound_against_a_rule_is_evicted_at_once() {
    run("bound-against-rule");
}

#[test]
fn a_runtime_class_is_merged_into_the_pod_at_admission_and_a_missing_one_is_refused() {
    run("runtime-class");
}

#[test]
fn pods_that_their_node_rejects_or_that_wait_for_a_node_that_does_not_exist_are_not_placed() {
    run("node-name");
}

#[test]
fn a_node_cannot_give_itself_a_label_that_attracts_pods() {
    run("node-restriction");
}

#[test]
fn a_required_rule_becomes_a_preference_while_a_pod_is_pending() {
    run("relax-after");
}

#[test]
fn toleration_seconds_count_from_when_the_taint_was_added_or_is_seen() {
    run("taints");
}

#[test]
fn pods_without_a_feasible_node_are_held_as_flags_and_annotations_say_and_then_evicted() {
    run("held");
}

#[test]
fn numbers_without_quotes_are_refused_in_the_spec_and_accepted_in_the_annotation() {
    run("annotation");
}

#[test]
fn a_client_that_does_not_know_a_field_leaves_it_in_pods_and_is_warned_about_templates() {
    run("old-clients");
}

fn run(name: &str) {
    if !has_kubectl(name) {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/it/cluster/scripts/{name}.txt"));
    let text = fs::read_to_string(&path).unwrap();
    let mut stage = Stage::new(name);
    for block in blocks(&text) {
        stage.play(&block);
    }
}

/// The first line of a block, and its other lines.
struct Block<'a> {
    line: usize,
    mark: &'a str,
    head: &'a str,
    body: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block> = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let mark = ["#", "@", "==", "$", "~", "&", "%"].into_iter().find(|mark| {
            line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        match (mark, blocks.last_mut()) {
            (Some(mark), _) => {
                blocks.push(Block { line: i + 1, mark, head: line[mark.len()..].trim(), body: Vec::new() });
            }
            (None, Some(block)) => block.body.push(line),
            (None, None) => assert!(line.trim().is_empty(), "line {}: belongs to nothing", i + 1),
        }
    }
    blocks
}

struct Stage {
    // Drop order: commands, cluster, files.
    background: Vec<Background>,
    berth: Option<Berth>,
    directory: TempDir,
    kubeconfig: PathBuf,
}

struct Background {
    name: String,
    child: Child,
    output: PathBuf,
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stage {
    fn new(name: &str) -> Stage {
        let directory = TempDir::new(name);
        for folder in ["examples", "deploy"] {
            std::os::unix::fs::symlink(repository().join(folder), directory.file(folder)).unwrap();
        }
        Stage { background: Vec::new(), berth: None, kubeconfig: directory.file("kubeconfig"), directory }
    }

    fn play(&mut self, block: &Block) {
        match block.mark {
            "@" => {
                let mut args = vec!["up".to_owned(), "--no-summary".to_owned()];
                args.extend(["--kubeconfig-out".to_owned(), self.kubeconfig.display().to_string()]);
                args.extend(block.head.split_whitespace().map(str::to_owned));
                let berth = Berth::start(&self.directory, "up", &args);
                assert_eq!(berth.line_after("export KUBECONFIG="), self.kubeconfig.display().to_string());
                self.berth = Some(berth);
            }
            "==" => {
                let mut content = block.body.join("\n");
                content.push('\n');
                fs::write(self.directory.file(block.head), content).unwrap();
            }
            "$" => {
                let output = self.shell(block.head);
                if let Err(why) = matches(&block.body, &output) {
                    self.fail(block, &why);
                }
            }
            "~" => eventually(&format!("line {}: {}", block.line, block.head), || {
                matches(&block.body, &self.shell(block.head))
            }),
            "&" => {
                let (name, command) = block.head.split_once(' ').unwrap();
                let output = self.directory.file(&format!("{name}.output"));
                let file = File::create(&output).unwrap();
                let child = self.command(&format!("exec {command}")).stdout(file).spawn().unwrap();
                self.background.push(Background { name: name.to_owned(), child, output });
            }
            "%" => {
                let background = self.background.iter().find(|b| b.name == block.head).unwrap();
                let expected: Vec<_> = block
                    .body
                    .iter()
                    .filter(|l| !l.is_empty())
                    .flat_map(|l| ["...", l])
                    .chain(["..."])
                    .collect();
                eventually(&format!("line {}: {}", block.line, block.head), || {
                    matches(&expected, &fs::read_to_string(&background.output).unwrap())
                });
            }
            _ => {}
        }
    }

    fn fail(&self, block: &Block, why: &str) {
        let stderr = self.berth.as_ref().map(Berth::stderr).unwrap_or_default();
        panic!("line {}: {}\n{why}\noutput of berth up:\n{stderr}", block.line, block.head);
    }

    fn command(&self, line: &str) -> Command {
        let berth = Path::new(env!("CARGO_BIN_EXE_berth")).parent().unwrap();
        let path = format!("{}:{}", berth.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(&self.directory.0)
            .env("PATH", path)
            .env("HOME", &self.directory.0)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.directory.file("cache"))
            .env("COLUMNS", "100")
            .stdin(Stdio::null());
        command
    }

    /// Runs the command and returns its output in the form of scripts.
    fn shell(&self, line: &str) -> String {
        let output = self.command(line).output().unwrap();
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        match output.status.code() {
            Some(0) => {}
            code => write!(text, "\n[exit {}]", code.unwrap_or(-1)).unwrap(),
        }
        text
    }
}

/// Checks the output; shows both outputs if they differ.
fn matches(expected: &[&str], output: &str) -> Result<(), String> {
    let normal = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected: Vec<_> = expected.iter().map(|l| normal(l)).filter(|l| !l.is_empty()).collect();
    let lines: Vec<_> = output.lines().map(normal).filter(|l| !l.is_empty()).collect();
    if lines_match(&expected, &lines) {
        return Ok(());
    }
    Err(format!("expected:\n  {}\ngot:\n  {}", expected.join("\n  "), lines.join("\n  ")))
}

fn lines_match(expected: &[String], lines: &[String]) -> bool {
    match (expected.split_first(), lines.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "..." => {
            (0..=lines.len()).any(|n_skipped| lines_match(rest, &lines[n_skipped..]))
        }
        (Some((pattern, expected)), Some((line, lines))) => {
            text_matches(pattern, line) && lines_match(expected, lines)
        }
        _ => false,
    }
}

/// `*` matches any text.
fn text_matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<_> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn expected_output_is_compared_line_by_line() {
    let check = |expected: &str, output: &str| matches(&expected.lines().collect::<Vec<_>>(), output).is_ok();
    assert!(check("a b\nc*e", "a   b\n\ncde\n"));
    assert!(check("...\nz", "x\ny\nz"));
    assert!(check("a\n...", "a"));
    assert!(!check("a", "a\nb"));
    assert!(!check("a*c", "abd"));
    assert!(!check("...\nx", "x\ny"));
    assert!(text_matches("*a*b", "xaab") && !text_matches("a*a", "a"));
}
