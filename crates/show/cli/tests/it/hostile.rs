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
/// Moves lines and the cursor when a terminal gets it. Names with control characters are refused when they are read.
const CONTROL: &str = "\n::error::owned\r\u{9b}2J\u{202e}\u{2028}";

/// A pending pod that repairs of each kind help: its owner, namespace, container, the node and its taint have hostile names.
fn objects(text: &str) -> String {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{text}"), "labels": {"disk": text}},
        "spec": {"unschedulable": true, "taints": [{"key": format!("k{text}"), "value": text, "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": format!("s{text}"), "labels": {"app": text}, "ownerReferences": [
            {"apiVersion": "example.com/v1", "kind": format!("Kind{text}"), "name": format!("o{text}"), "uid": "u", "controller": true}]},
        "spec": {"nodeSelector": {"disk": format!("{text}2")}, "containers": [
            {"name": format!("c{text}"), "image": "i", "resources": {"requests": {"cpu": "5"}}}]},
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
        let namespace = format!("s{text}");
        let commands: [&[&str]; 8] = [
            &["simulate"],
            &["explain", "p", "-n", &namespace],
            &["explain", "p", "-n", &namespace, "--all"],
            &["audit"],
            &["lint"],
            &["sets"],
            &["capacity", "p", "-n", &namespace],
            &["what-if", "--remove-node", &format!("n{text}"), "--repairs"],
        ];
        for command in commands {
            let ran = berth(&folder.0, &[command, &["-f", "objects.json"]].concat(), b"");
            for line in ran.stdout.lines().chain(ran.stderr.lines()) {
                assert!(!line.contains(is_obeyed), "{command:?}: {line:?}");
                assert!(!line.trim_start().starts_with("::error"), "{command:?}: {line:?}");
            }
        }
        let json =
            berth(&folder.0, &["explain", "p", "-n", &namespace, "-o", "json", "-f", "objects.json"], b"");
        let explained: Value = serde_json::from_str(&json.stdout).unwrap();
        let commands = explained["repairs"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|repair| repair["commands"].as_array());
        let commands: Vec<&str> = commands.flatten().filter_map(Value::as_str).collect();
        assert!(!commands.is_empty(), "{}", json.stdout);
        for command in &commands {
            let called = words(command, &folder.0);
            assert!(
                called.iter().any(|word| word.contains(text)
                    || serde_json::to_string(text).is_ok_and(|json| word.contains(json.trim_matches('"')))),
                "{command}: {called:?}"
            );
            assert!(!folder.0.join("ran").exists(), "{command}");
        }
    }
    let ran = berth(&folder.0, &["simulate", &format!("--{COMMAND}{CONTROL}")], b"");
    assert!(
        ran.code == 2 && !ran.stderr.lines().any(|line| line.contains(is_obeyed) || line.starts_with("::")),
        "{}",
        ran.stderr
    );
}
