//! Builds the static binary, and has it write what it says of itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::output;

use super::files::File;
use super::{ARCHITECTURES, Release};

/// With a binary for tests, or the one that is built.
pub fn release(root: &Path, binary: Option<&Path>) -> Result<Release, String> {
    let rust = std::env::consts::ARCH;
    let architecture = ARCHITECTURES
        .iter()
        .find(|architecture| architecture.rust == rust && cfg!(target_os = "linux"))
        .ok_or_else(|| {
            format!("packages are made on Linux, x86_64 or aarch64, not on {} {rust}", std::env::consts::OS)
        })?;
    let binary = binary.map_or_else(static_binary, |binary| Ok(binary.to_owned()))?;
    let content = read(&binary)?;
    let license = read(&root.join("LICENSE"))?;
    let mut files = vec![
        File::executable("usr/bin/berth", content),
        File::new("usr/share/doc/berth/copyright", license),
        File::new("usr/share/bash-completion/completions/berth", completions(&binary, "bash")?),
        File::new("usr/share/zsh/vendor-completions/_berth", completions(&binary, "zsh")?),
        File::new("usr/share/fish/vendor_completions.d/berth.fish", completions(&binary, "fish")?),
    ];
    files.extend(man_pages(&binary)?);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Release {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        architecture,
        time: commit_time(root)?,
        files,
    })
}

/// Links statically with the C library of the machine: from version 2.34, that of GNU needs no other file for names of hosts either.
fn static_binary() -> Result<PathBuf, String> {
    let package = ["rustc", "--locked", "--package", "berth-cli", "--bin", "berth", "--profile", "dist"];
    let flags = ["--", "-C", "target-feature=+crt-static", "-C", "strip=symbols"];
    let arguments = [&package[..], &["--message-format", "json-render-diagnostics"], &flags].concat();
    let messages = output(Command::new(crate::cargo::cargo()).args(arguments))?;
    let message = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok();
    let mut built =
        messages.lines().filter_map(message).filter_map(|m| Some(m["executable"].as_str()?.to_owned()));
    let built = built.next().map(PathBuf::from).ok_or("cargo named no executable")?;
    if names_a_loader(&read(&built)?)? {
        return Err(format!("{}: not static: it names a program that loads it", built.display()));
    }
    Ok(built)
}

/// Whether an ELF file has a program header for a loader (`PT_INTERP`).
fn names_a_loader(elf: &[u8]) -> Result<bool, String> {
    let number = |at: usize, n_bytes: usize| {
        let bytes = elf.get(at..at + n_bytes).ok_or("the executable is cut short")?;
        Ok::<_, String>(bytes.iter().rev().fold(0usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let (first, size, n_headers) = (number(32, 8)?, number(54, 2)?, number(56, 2)?);
    for i in 0..n_headers {
        if number(first + i * size, 4)? == 3 {
            return Ok(true);
        }
    }
    Ok(false)
}

fn completions(binary: &Path, shell: &str) -> Result<String, String> {
    output(Command::new(binary).args(["completions", shell]))
}

fn man_pages(binary: &Path) -> Result<Vec<File>, String> {
    let folder = std::env::temp_dir().join(format!("berth-man-{}", std::process::id()));
    let pages = output(Command::new(binary).arg("man").arg(&folder)).and_then(|_| {
        let error = |e: std::io::Error| format!("{}: {e}", folder.display());
        let page = |entry: std::io::Result<fs::DirEntry>| {
            let path = entry.map_err(error)?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let content = super::files::gzip(&read(&path)?)?;
            Ok(File::new(format!("usr/share/man/man1/{name}.gz"), content))
        };
        fs::read_dir(&folder).map_err(error)?.map(page).collect()
    });
    // The operating system cleans up what cannot be removed.
    let _ = fs::remove_dir_all(&folder);
    pages
}

fn commit_time(root: &Path) -> Result<u64, String> {
    let time = output(Command::new("git").arg("-C").arg(root).args(["log", "-1", "--format=%ct"]))?;
    time.trim().parse().map_err(|e| format!("git printed no time: {e}"))
}

pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}
