//! Packages for machines without Rust: one static binary as an archive, a Debian package, a Python wheel, an npm package and an image,
//! with their sums and a bill of materials. Equal sources make equal packages: all times are that of the commit.

mod bill;
mod build;
mod debian;
mod files;
mod image;
mod krew;
mod npm;
#[cfg(test)]
mod tests;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use ring::digest::{SHA256, digest};

use files::File;

pub const USAGE: &str = "cargo xtask dist [FOLDER [--binary FILE]]    (packages of a static binary for this machine's architecture, or of a binary)\n       \
                  cargo xtask dist krew FOLDER URL    (the krew manifest of the archives in a folder, which are served below an address)";

/// What all packages have in common.
struct Release {
    version: String,
    architecture: &'static Architecture,
    /// Seconds since 1970 of the commit.
    time: u64,
    /// Paths below the root of a file system: `usr/bin/berth`, its man pages, completions and licence.
    files: Vec<File>,
}

type Package = fn(&Release) -> Result<File, String>;

/// The names that an architecture has.
struct Architecture {
    rust: &'static str,
    /// In Debian, Go and images.
    name: &'static str,
    node: &'static str,
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture { rust: "x86_64", name: "amd64", node: "x64" },
    Architecture { rust: "aarch64", name: "arm64", node: "arm64" },
];

const SUMMARY: &str = "Decides, explains and enforces where the pods of a Kubernetes cluster run";
const LICENSE: &str = "Apache-2.0";

pub fn run(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let default = || crate::cargo::target_directory().map(|target| target.join("packages"));
    match *arguments {
        ["krew", folder, address] => krew::write(root, Path::new(folder), address),
        [] => packages(root, &default()?, None),
        [folder] => packages(root, Path::new(folder), None),
        [folder, "--binary", binary] => packages(root, Path::new(folder), Some(binary.as_ref())),
        _ => Err(format!("usage: {USAGE}")),
    }
}

fn packages(root: &Path, folder: &Path, binary: Option<&Path>) -> Result<String, String> {
    let release = build::release(root, binary)?;
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let write: [Package; 6] =
        [archive, debian::package, wheel::package, npm::package, image::layout, bill::of_materials];
    // Most of the time goes into compression.
    let written: Vec<Result<File, String>> = std::thread::scope(|scope| {
        let tasks: Vec<_> = write.iter().map(|write| scope.spawn(|| write(&release))).collect();
        tasks.into_iter().map(|task| task.join().map_err(|_| "a package failed".to_owned())?).collect()
    });
    let mut lines = Vec::new();
    for file in written {
        let file = file?;
        let path = folder.join(&file.path);
        fs::write(&path, &file.content).map_err(|e| format!("{}: {e}", path.display()))?;
        lines.push(format!("{:>11} bytes  {}", file.content.len(), path.display()));
    }
    lines.push(sums(folder)?);
    Ok(lines.join("\n"))
}

/// The archive that the krew manifest and the Action take: binary and licence on top, for people who unpack it by hand.
fn archive(release: &Release) -> Result<File, String> {
    let content = files::tar_gz(&files::on_top(&release.files), release.time)?;
    Ok(File::new(archive_name(release.architecture.name), content))
}

fn archive_name(architecture: &str) -> String {
    format!("berth-linux-{architecture}.tar.gz")
}

/// Writes `SHA256SUMS` of all packages in a folder, in the form of `sha256sum`; packages of other architectures can be added before.
fn sums(folder: &Path) -> Result<String, String> {
    let error = |e: std::io::Error| format!("{}: {e}", folder.display());
    let entries = fs::read_dir(folder).map_err(error)?;
    let mut paths =
        entries.map(|entry| Ok(entry.map_err(error)?.path())).collect::<Result<Vec<PathBuf>, String>>()?;
    paths.retain(|path| path.file_name().is_some_and(|name| name != "SHA256SUMS"));
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let content = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        text.push_str(&format!("{}  {name}\n", sha256(&content)));
    }
    let path = folder.join("SHA256SUMS");
    fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(format!("sums: {}", path.display()))
}

fn sha256(content: &[u8]) -> String {
    digest(&SHA256, content).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
