//! The npm package of one architecture: `npm install` of the file gives the command `berth`.

use serde_json::json;

use super::files::{File, on_top, tar_gz};
use super::{LICENSE, Release, SUMMARY};

pub fn package(release: &Release) -> Result<File, String> {
    let node = release.architecture.node;
    let description = json!({
        "name": format!("berth-linux-{node}"),
        "version": release.version,
        "description": SUMMARY,
        "license": LICENSE,
        "os": ["linux"],
        "cpu": [node],
        "bin": {"berth": "berth"},
        "files": ["berth", "LICENSE"],
    });
    let in_package = |file: File| File { path: format!("package/{}", file.path), ..file };
    let wanted =
        on_top(&release.files).into_iter().filter(|file| ["berth", "LICENSE"].contains(&&*file.path));
    let files: Vec<File> = [File::new("package.json", format!("{description:#}\n"))]
        .into_iter()
        .chain(wanted)
        .map(in_package)
        .collect();
    let name = format!("berth-linux-{node}-{}.tgz", release.version);
    Ok(File::new(name, tar_gz(&files, release.time)?))
}
