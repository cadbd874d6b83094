//! Repository chores: `cargo xtask arrows` checks dependencies, `cargo xtask deploy` generates the Helm chart and the dashboard, `cargo xtask
//! sbom` prints the bill of materials, `cargo xtask reproduce` builds a release twice and compares, `cargo xtask simulate` runs
//! the fault simulation, `cargo xtask playground` builds the playground, `cargo xtask screenshots` makes the
//! screenshots of the documents.

mod arrows;
mod dashboard;
mod deploy;
#[cfg(test)]
mod image;
mod modules;
mod playground;
mod purity;
mod reproduce;
mod sbom;
mod sources;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["arrows"] => check_arrows(),
        ["deploy"] => root().and_then(|root| Ok(format!("{}, {}", deploy::generate(&root)?, dashboard::generate(&root)?))),
        ["sbom"] => bill_of_materials(),
        ["reproduce"] => root().and_then(|root| reproduce::check(&root, "berth-cli")),
        ["reproduce", package] => root().and_then(|root| reproduce::check(&root, package)),
        ["simulate", ref options @ ..] => simulate(options),
        ["playground"] => {
            target_directory().and_then(|target| playground::build(&root()?, &target.join("playground-site")))
        }
        ["screenshots"] => screenshots(),
        ["playground", folder] => root().and_then(|root| playground::build(&root, folder.as_ref())),
        _ => Err(
            "usage: cargo xtask arrows    (checks dependencies between crates and between modules)\n       \
                  cargo xtask deploy    (generates the templates of the Helm chart from deploy/kustomize, and the dashboard)\n       \
                  cargo xtask sbom      (prints the bill of materials of the binary, CycloneDX)\n       \
                  cargo xtask reproduce [PACKAGE]    (builds a release in two directories and compares)\n       \
                  cargo xtask simulate --seed N | --runs N [--first N] [--jobs N]    (simulates faults, in a release build)\n       \
                  cargo xtask playground [FOLDER]    (builds the playground as a folder of static files)\n       \
                  cargo xtask screenshots    (makes the screenshots in docs/images, with chromedriver)"
                .to_owned(),
        ),
    };
    match result {
        Ok(summary) => {
            if !summary.is_empty() {
                println!("{summary}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Checks the dependencies between crates and between the engine's modules, and that pure crates have no side effects.
fn check_arrows() -> Result<String, String> {
    let workspace = cargo_metadata(&["--no-deps"])?;
    let root = root_of(&workspace)?;
    let edges = arrows::edges(&workspace);
    let mut findings = arrows::forbidden(&edges);
    findings.extend(arrows::banned_dependencies(&workspace));
    findings.extend(modules::forbidden_imports(&root)?);
    findings.extend(purity::impure_sources(&root)?);
    if findings.is_empty() {
        return Ok(format!(
            "arrows: {} edges between crates, all allowed; no import cycles in the engine",
            edges.len()
        ));
    }
    Err(format!("arrows: {} forbidden dependencies\n  {}", findings.len(), findings.join("\n  ")))
}

/// Runs the fault simulation, which prints its own results.
fn simulate(options: &[&str]) -> Result<String, String> {
    let run = ["run", "--quiet", "--release", "--locked", "--package", "berth-faultsim", "--"];
    run_cargo(&[&run, options].concat(), "simulate: a run failed")
}

fn screenshots() -> Result<String, String> {
    let test =
        ["test", "--locked", "--package", "berth-cli", "--test", "browser", "--", "--ignored", "screenshots"];
    run_cargo(&test, "screenshots: failed")
}

/// Runs cargo, which prints its own results.
fn run_cargo(arguments: &[&str], failure: &str) -> Result<String, String> {
    let status =
        Command::new(cargo()).args(arguments).status().map_err(|e| format!("cannot run cargo: {e}"))?;
    if status.success() { Ok(String::new()) } else { Err(failure.to_owned()) }
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The bill of materials of the binary for Linux.
fn bill_of_materials() -> Result<String, String> {
    let metadata = cargo_metadata(&["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    let lock = root_of(&metadata)?.join("Cargo.lock");
    let text = std::fs::read_to_string(&lock).map_err(|e| format!("{}: {e}", lock.display()))?;
    serde_json::to_string_pretty(&sbom::document(&metadata, &text)?).map_err(|e| format!("sbom: {e}"))
}

fn root() -> Result<PathBuf, String> {
    root_of(&cargo_metadata(&["--no-deps"])?)
}

fn target_directory() -> Result<PathBuf, String> {
    let metadata = cargo_metadata(&["--no-deps"])?;
    let target = metadata["target_directory"].as_str().ok_or("cargo metadata names no target directory")?;
    Ok(PathBuf::from(target))
}

fn root_of(metadata: &serde_json::Value) -> Result<PathBuf, String> {
    let root = metadata["workspace_root"].as_str().ok_or("cargo metadata names no workspace root")?;
    Ok(PathBuf::from(root))
}

fn cargo_metadata(args: &[&str]) -> Result<serde_json::Value, String> {
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
