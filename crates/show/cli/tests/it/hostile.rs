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
/// Moves lines and the cursor when a terminal gets it. Names with control characters are refused when they are read, and so are labels,
/// taints, namespaces and containers with other characters than these may have.
const CONTROL: &str = "\n::error::owned\r\u{9b}2J\u{202e}\u{2028}";

/// A pending pod that repairs of each kind help: its owner and the node have hostile names, its condition a hostile message.
fn objects(text: &str) -> String {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{text}"), "labels": {"disk": "ssd"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "s", "labels": {"app": "web"}, "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": format!("Kind{text}"), "name": format!("o{text}"), "uid": "u", "controller": true}]},
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

#[test]
fn names_of_objects_were_commands_of_the_shell_the_terminal_and_the_log() {
    let folder = TempDir::new("hostile");
    for program in ["kubectl", "berth"] {
        let stub =
            folder.write(program, "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\" >> called\nprintf x\n");
        fs::set_permissions(stub, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for text in [COMMAND, "::error::owned"] {
        folder.write("objects.json", objects(text));
        let commands: [&[&str]; 8] = [
            &["simulate"],
            &["explain", "p", "-n", "s"],
            &["explain", "p", "-n", "s", "--all"],
            &["audit"],
            &["lint"],
            &["sets"],
            &["capacity", "p", "-n", "s"],
            &["what-if", "--remove-node", &format!("n{text}"), "--repairs"],
        ];
        for command in commands {
            let ran = berth(&folder.0, &[command, &["-f", "objects.json"]].concat(), b"");
            for line in ran.stdout.lines().chain(ran.stderr.lines()) {
                assert!(!line.contains(is_obeyed), "{command:?}: {line:?}");
                assert!(!line.trim_start().starts_with("::error"), "{command:?}: {line:?}");
            }
        }
        let json = berth(&folder.0, &["explain", "p", "-n", "s", "-o", "json", "-f", "objects.json"], b"");
        let explained: Value = serde_json::from_str(&json.stdout).unwrap();
        let commands = explained["repairs"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|repair| repair["commands"].as_array());
        let commands: Vec<&str> = commands.flatten().filter_map(Value::as_str).collect();
        assert!(!commands.is_empty(), "{}", json.stdout);
        let mut n_hostile = 0;
        for command in &commands {
            let called = words(command, &folder.0);
            n_hostile += usize::from(called.iter().any(|word| word.contains(text)));
            assert!(!folder.0.join("ran").exists(), "{command}");
        }
        assert!(n_hostile > 2, "{commands:?}");
    }
    let ran = berth(&folder.0, &["simulate", &format!("--{COMMAND}{CONTROL}")], b"");
    assert!(
        ran.code == 2 && !ran.stderr.lines().any(|line| line.contains(is_obeyed) || line.starts_with("::")),
        "{}",
        ran.stderr
    );
}
