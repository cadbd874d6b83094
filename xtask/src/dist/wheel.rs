//! The Python wheel: `pip install` puts the binary where the scripts of the environment are (PEP 427).

use std::io::{Cursor, Write};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use zip::write::SimpleFileOptions;

use super::files::{File, on_top};
use super::{LICENSE, Release, SUMMARY};

pub fn package(release: &Release) -> Result<File, String> {
    let version = &release.version;
    // A static binary runs with any C library.
    let platform = format!("manylinux2014_{0}.musllinux_1_1_{0}", release.architecture.rust);
    let tags = platform.split('.').map(|tag| format!("Tag: py3-none-{tag}\n")).collect::<String>();
    let info = format!("berth-{version}.dist-info");
    let file = |name: &str| on_top(&release.files).into_iter().find(|file| file.path == name);
    let binary = file("berth").ok_or("no binary")?;
    let license = file("LICENSE").ok_or("no licence")?;
    let metadata = format!(
        "Metadata-Version: 2.4\nName: berth\nVersion: {version}\nSummary: {SUMMARY}\nLicense-Expression: {LICENSE}\nLicense-File: LICENSE\n"
    );
    let mut files = vec![
        File { path: format!("berth-{version}.data/scripts/berth"), ..binary },
        File { path: format!("{info}/licenses/LICENSE"), ..license },
        File::new(format!("{info}/METADATA"), metadata),
        File::new(
            format!("{info}/WHEEL"),
            format!("Wheel-Version: 1.0\nGenerator: berth\nRoot-Is-Purelib: false\n{tags}"),
        ),
    ];
    let recorded = |file: &File| {
        let sum = BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &file.content));
        format!("{},sha256={sum},{}\n", file.path, file.content.len())
    };
    let record = format!("{info}/RECORD");
    let lines = files.iter().map(recorded).chain([format!("{record},,\n")]).collect::<String>();
    files.push(File::new(record, lines));
    Ok(File::new(format!("berth-{version}-py3-none-{platform}.whl"), zip(&files)?))
}

/// Without times: each file has the first one that the format can write.
fn zip(files: &[File]) -> Result<Vec<u8>, String> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for file in files {
        let error = |e: String| format!("{}: {e}", file.path);
        archive
            .start_file(&file.path, SimpleFileOptions::default().unix_permissions(file.mode))
            .map_err(|e| error(e.to_string()))?;
        archive.write_all(&file.content).map_err(|e| error(e.to_string()))?;
    }
    archive.finish().map(Cursor::into_inner).map_err(|e| e.to_string())
}
