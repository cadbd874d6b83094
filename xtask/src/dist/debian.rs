//! The Debian package: an `ar` archive of its format's version, its description and its files (deb(5)).

use super::files::{File, tar_gz};
use super::{Release, SUMMARY};

pub fn package(release: &Release) -> Result<File, String> {
    let architecture = release.architecture.name;
    let n_kib: usize = release.files.iter().map(|file| file.content.len().div_ceil(1024)).sum();
    let control = format!(
        "Package: berth\nVersion: {}\nArchitecture: {architecture}\nMaintainer: Berth <berth@berth.example>\nInstalled-Size: {n_kib}\n\
         Section: admin\nPriority: optional\nDescription: {SUMMARY}\n \
         Answers why a pod is pending, where pods would land and which changes are safe,\n \
         for a dump or a running cluster; runs a complete cluster with simulated nodes.\n",
        release.version
    );
    let members = [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", tar_gz(&[File::new("control", control)], release.time)?),
        ("data.tar.gz", tar_gz(&release.files, release.time)?),
    ];
    let mut package = b"!<arch>\n".to_vec();
    for (name, content) in members {
        let header =
            format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", release.time, 0, 0, 100_644, content.len());
        package.extend(header.into_bytes());
        package.extend(&content);
        // Members begin at even positions.
        package.extend(b"\n".iter().take(content.len() % 2));
    }
    Ok(File::new(format!("berth_{}_{architecture}.deb", release.version), package))
}
