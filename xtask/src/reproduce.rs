//! Checks that a release build does not depend on where it is built: the committed sources are built in two directories,
//! and the executables must be equal.
//!
//! Compilers write paths into executables. `--remap-path-prefix` and `-ffile-prefix-map` replace them with the paths of
//! `deploy/Dockerfile`; cargo leaves them out of the hashes of symbols.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::output;

/// Builds a package twice, and returns a summary with the digest.
///
/// # Errors
/// A build fails, or the executables differ.
pub fn check(root: &Path, package: &str) -> Result<String, String> {
    let work = std::env::temp_dir().join(format!("berth-reproduce-{}", std::process::id()));
    let result = compare(root, package, &work);
    // The operating system cleans up what cannot be removed.
    let _ = fs::remove_dir_all(&work);
    result
}

fn compare(root: &Path, package: &str, work: &Path) -> Result<String, String> {
    let first = build(root, package, &work.join("a"))?;
    let second = build(root, package, &work.join("another-directory/b"))?;
    let mut digests = Vec::new();
    for (one, other) in first.iter().zip(&second) {
        let name = one.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (digest, again) = (digest(one)?, digest(other)?);
        if digest != again {
            return Err(format!("reproduce: {name} differs between two directories: {digest} and {again}"));
        }
        digests.push(format!("{digest}  {name}"));
    }
    if digests.is_empty() || first.len() != second.len() {
        return Err(format!("reproduce: {package} has no executable; name a package with one"));
    }
    Ok(format!("reproduce: equal in two directories\n{}", digests.join("\n")))
}

/// Builds the committed sources in a new directory; returns the executables.
fn build(root: &Path, package: &str, dir: &Path) -> Result<Vec<PathBuf>, String> {
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let (from, to) = (root.display(), dir.display());
    output(Command::new("sh").arg("-c").arg("git -C \"$1\" archive HEAD | tar -x -C \"$2\"").args([
        "sh",
        &from.to_string(),
        &to.to_string(),
    ]))?;
    let commit = output(Command::new("git").arg("-C").arg(root).args(["rev-parse", "HEAD"]))?;
    let cargo_home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))
        .map_err(|_| "neither CARGO_HOME nor HOME is set".to_owned())?;
    let remaps = [(to.to_string(), "/berth"), (cargo_home, "/usr/local/cargo")];
    let flags = |flag: &str| {
        let each = remaps.iter().map(|(from, to)| format!("{flag}={from}={to}"));
        each.collect::<Vec<_>>().join(" ")
    };
    let cargo = crate::cargo::cargo();
    let messages = output(
        Command::new(cargo)
            .args([
                "build",
                "--profile",
                "dist",
                "--locked",
                "--message-format",
                "json",
                "--package",
                package,
            ])
            .current_dir(dir)
            .env("CARGO_TARGET_DIR", dir.join("target"))
            .env("RUSTFLAGS", flags("--remap-path-prefix"))
            .env("CFLAGS", flags("-ffile-prefix-map"))
            .env("BERTH_GIT_COMMIT", commit.trim()),
    )?;
    let message = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let built =
        messages.lines().filter_map(message).filter_map(|m| Some(PathBuf::from(m["executable"].as_str()?)));
    let mut built: Vec<PathBuf> = built.collect();
    built.sort();
    Ok(built)
}

fn digest(file: &Path) -> Result<String, String> {
    let line = output(Command::new("sha256sum").arg(file))?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}
