//! The image, as deploy/Dockerfile builds it, as an archive of an OCI image layout: `skopeo copy oci-archive:FILE docker://...`, `podman load`.

use serde_json::{Value, json};

use super::files::{File, gzip, tar};
use super::{LICENSE, Release, SUMMARY, sha256};

/// The certificates of the machine that builds, for API servers whose certificates are public.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

pub fn layout(release: &Release) -> Result<File, String> {
    let architecture = release.architecture.name;
    let binary = release.files.iter().find(|file| file.path == "usr/bin/berth").ok_or("no binary")?;
    let authorities = super::build::read(AUTHORITIES.as_ref())?;
    let root = [
        File { path: "berth".to_owned(), mode: 0o555, content: binary.content.clone() },
        File { mode: 0o444, ..File::new(AUTHORITIES.trim_start_matches('/'), authorities) },
    ];
    let unpacked = tar(&root, release.time)?;
    let mut blobs = Vec::new();
    let mut blob = |kind: &str, content: Vec<u8>| {
        let digest = sha256(&content);
        let described = json!({"mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{digest}"), "size": content.len()});
        blobs.push(File::new(format!("blobs/sha256/{digest}"), content));
        described
    };
    let layer = blob("layer.v1.tar+gzip", gzip(&unpacked)?);
    let config = blob(
        "config.v1+json",
        text(&json!({
            "architecture": architecture,
            "os": "linux",
            "config": {"User": "65532:65532", "Entrypoint": ["/berth"], "Labels": {
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": LICENSE,
                "org.opencontainers.image.description": SUMMARY,
            }},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&unpacked))]},
        })),
    );
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer]});
    let mut manifest = blob("manifest.v1+json", text(&manifest));
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": release.version});
    manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
    let index = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]});
    let mut files = vec![
        File::new("oci-layout", text(&json!({"imageLayoutVersion": "1.0.0"}))),
        File::new("index.json", text(&index)),
    ];
    files.extend(blobs);
    Ok(File::new(
        format!("berth-{}-linux-{architecture}.oci.tar", release.version),
        tar(&files, release.time)?,
    ))
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
