//! Calls of cargo, and what it says about the workspace.

use std::path::PathBuf;
use std::process::Command;

/// Runs cargo, which prints its own results.
pub fn run_cargo(arguments: &[&str], failure: &str) -> Result<String, String> {
    let status =
        Command::new(cargo()).args(arguments).status().map_err(|e| format!("cannot run cargo: {e}"))?;
    if status.success() { Ok(String::new()) } else { Err(failure.to_owned()) }
}

pub fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub fn root() -> Result<PathBuf, String> {
    root_of(&metadata(&["--no-deps"])?)
}

pub fn target_directory() -> Result<PathBuf, String> {
    let metadata = metadata(&["--no-deps"])?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target directory")?;
    Ok(PathBuf::from(target))
}

pub fn root_of(metadata: &serde_json::Value) -> Result<PathBuf, String> {
    let root = metadata["workspace_root"].as_str().ok_or("cargo metadata names no workspace root")?;
    Ok(PathBuf::from(root))
}

pub fn metadata(args: &[&str]) -> Result<serde_json::Value, String> {
    let output = Command::new(cargo())
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(args)
        .output()
        .map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata printed no JSON: {e}"))
}

/// What a program prints on standard output; its errors are shown as it writes them.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot run {name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name} failed: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|e| format!("{name} printed no text: {e}"))
}
