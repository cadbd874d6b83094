//! Objects whose names and messages are commands of a shell, of a terminal or of the log of a CI system.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use berth_api::syntax::obeyed::is_obeyed;
use berth_testkit::programs::TempDir;
use serde_json::{Value, json};

use crate::program::berth;

/// Runs when a shell does not take it as one word.
const COMMAND: &str = "x'; touch ran; '$(touch ran)`touch ran`;touch ran;::error::owned";
/// Moves lines and the cursor when a terminal gets it, colors what follows, and is a command in logs. Names of objects with control
/// characters are refused when they are read, and so are labels, taints, namespaces and containers with other characters than these
/// may have; owners and messages are not.
const CONTROL: &str = "\n::error::owned\r\u{9b}2J\u{202e}\u{2028}\u{1b}[31mred ##[error]owned ##vso[owned]";
/// The styles that reports are written with.
const STYLES: [&str; 6] = ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"];

/// A pending pod that repairs of each kind help: its owner and the node have hostile names, its condition a hostile message.
fn objects(text: &str) -> String {
    let owner = format!("{text}{CONTROL}");
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{text}"), "labels": {"disk": "ssd"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "s", "labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("o{owner}"), "uid": "u", "controller": true}]},
        "spec": {"nodeSelector": {"disk": "hdd"}, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": CONTROL, "message": format!("{text}{CONTROL}")}]},
    });
    json!({"apiVersion": "v1", "kind": "List", "items": [node, pod]}).to_string()
}

fn words(command: &str, folder: &Path) -> Vec<String> {
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.current_dir(folder).env("PATH", path).args(["-c", command]);
    let ran = shell.output().unwrap();
    assert!(ran.status.success(), "{command}: {}", String::from_utf8_lossy(&ran.stderr));
    let called = fs::read_to_string(folder.join("called")).unwrap();
    fs::remove_file(folder.join("called")).unwrap();
    called.split_terminator('\0').map(str::to_owned).collect()
}

/// What a terminal or a log would obey in lines that a command wrote, its own styles aside.
fn obeyed(output: &str) -> Option<&str> {
    output.lines().find(|line| {
        let mut text = (*line).to_owned();
        STYLES.iter().for_each(|style| text = text.replace(style, ""));
        let is_command =
            text.trim_start().starts_with("::") || text.contains("##[") || text.contains("##vso[");
        text.contains(is_obeyed) || is_command || line.contains("\u{1b}[31mred")
    })
}

#[test]
fn names_of_objects_were_commands_of_the_shell_the_terminal_and_the_log() {
    let folder = TempDir::new("hostile");
    for program in ["kubectl", "berth"] {
        let stub =
            folder.write(program, "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\" >> called\nprintf x\n");
        fs::set_permissions(stub, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for text in [COMMAND, "::error::owned"] {
        let file = "::error::file";
        folder.write(file, objects(text));
        let node = format!("n{text}");
        let commands: [&[&str]; 8] = [
            &["simulate"],
            &["explain", "p", "-n", "s"],
            &["explain", "p", "-n", "s", "--all"],
            &["audit"],
            &["lint"],
            &["sets"],
            &["rebalance"],
            &["what-if", "--remove-node", &node, "--repairs"],
        ];
        for (command, color) in commands.into_iter().flat_map(|c| [(c, "always"), (c, "never")]) {
            let ran = berth(&folder.0, &[command, &["-f", file, "--color", color]].concat(), b"");
            assert!(ran.code < 2 && !ran.stdout.is_empty(), "{command:?}: {} {}", ran.code, ran.stderr);
            assert_eq!(obeyed(&ran.stdout).or_else(|| obeyed(&ran.stderr)), None, "{command:?}");
        }
        let yaml = berth(&folder.0, &["explain", "p", "-n", "s", "-o", "yaml", "-f", file], b"").stdout;
        assert!(!yaml.lines().any(|line| line.trim_start().starts_with("::")), "{yaml}");
        let json = berth(&folder.0, &["explain", "p", "-n", "s", "-o", "json", "-f", file], b"");
        let explained: Value = serde_json::from_str(&json.stdout).unwrap();
        let repairs = explained["repairs"].as_array().unwrap().iter();
        let commands: Vec<&str> = repairs
            .filter_map(|repair| repair["commands"].as_array())
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let called: Vec<Vec<String>> = commands.iter().map(|command| words(command, &folder.0)).collect();
        assert!(!folder.0.join("ran").exists(), "{commands:?}");
        let owner = format!("replicaset/o{text}{CONTROL}");
        for expected in [
            vec!["kubectl", "uncordon", &node],
            vec!["kubectl", "set", "resources", "-n", "s", &owner, "-c", "c", "--requests=cpu=4"],
        ] {
            assert!(called.iter().any(|words| *words == expected), "{called:#?}");
        }
    }
    let ran = berth(&folder.0, &["simulate", &format!("--{COMMAND}{CONTROL}")], b"");
    assert_eq!((ran.code, obeyed(&ran.stderr)), (2, None));
}
