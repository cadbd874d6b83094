//! The files of a package, and archives of them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

#[derive(Clone)]
pub struct File {
    pub path: String,
    pub mode: u32,
    pub content: Vec<u8>,
}

impl File {
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, content: content.into() }
    }

    pub fn executable(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::new(path, content) }
    }

    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The binary and the licence without their folders, and the others in `share`.
pub fn on_top(files: &[File]) -> Vec<File> {
    let moved = |file: &File| {
        let path = match file.name() {
            "berth" if file.path == "usr/bin/berth" => "berth",
            "copyright" => "LICENSE",
            _ => file.path.strip_prefix("usr/").unwrap_or(&file.path),
        };
        File { path: path.to_owned(), ..file.clone() }
    };
    files.iter().map(moved).collect()
}

/// A tar archive in which all files belong to root and have one time. Folders come before their files, as dpkg wants them.
pub fn tar(files: &[File], time: u64) -> Result<Vec<u8>, String> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut folders = std::collections::BTreeSet::new();
    let mut add = |path: &str, kind, mode, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_mtime(time);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, path, content).map_err(|e| format!("{path}: {e}"))
    };
    for file in files {
        for (end, _) in file.path.match_indices('/') {
            if folders.insert(file.path[..end].to_owned()) {
                add(&file.path[..=end], tar::EntryType::Directory, 0o755, &[])?;
            }
        }
        add(&file.path, tar::EntryType::Regular, file.mode, &file.content)?;
    }
    builder.into_inner().map_err(|e| e.to_string())
}

pub fn tar_gz(files: &[File], time: u64) -> Result<Vec<u8>, String> {
    gzip(&tar(files, time)?)
}

pub fn gzip(content: &[u8]) -> Result<Vec<u8>, String> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).and_then(|()| encoder.finish()).map_err(|e| e.to_string())
}
