//! The krew manifest with the addresses and sums of the archives.

use std::path::Path;

use super::{archive_name, build::read, sha256};

const MANIFEST: &str = "deploy/krew/berth.yaml";

/// Writes `berth.yaml` beside the archives: the manifest of the project with an address below `address` and the sum of each archive.
pub fn write(root: &Path, folder: &Path, address: &str) -> Result<String, String> {
    let template = String::from_utf8(read(&root.join(MANIFEST))?).map_err(|e| format!("{MANIFEST}: {e}"))?;
    let mut manifest = String::new();
    let mut sum = None;
    for line in template.lines().filter(|line| !line.starts_with('#')) {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        match (key.trim(), &sum) {
            ("uri", _) => {
                let name = value.rsplit('/').next().unwrap_or_default();
                sum = Some(sha256(&read(&folder.join(name))?));
                manifest.push_str(&format!("{key}: {}/{name}\n", address.trim_end_matches('/')));
            }
            ("sha256", Some(sum)) => manifest.push_str(&format!("{key}: {sum}\n")),
            _ => manifest.push_str(&format!("{line}\n")),
        }
    }
    let path = folder.join("berth.yaml");
    std::fs::write(&path, manifest).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(format!("krew: {} of {}", path.display(), archive_name("*")))
}
