//! What the tools that install packages check, on packages of a small release.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::files::File;
use super::*;

fn release() -> Release {
    let files = vec![
        File::executable("usr/bin/berth", *b"the binary"),
        File::new("usr/share/doc/berth/copyright", *b"the licence"),
        File::new("usr/share/man/man1/berth.1.gz", *b"a page"),
    ];
    Release { version: "1.2.3".to_owned(), architecture: &ARCHITECTURES[0], time: 1_700_000_000, files }
}

fn untar(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut archive = tar::Archive::new(archive);
    let read = |entry: std::io::Result<tar::Entry<&[u8]>>| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        (path, entry.header().mode().unwrap(), content)
    };
    archive.entries().unwrap().map(read).collect()
}

fn gunzip(content: &[u8]) -> Vec<u8> {
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(content).read_to_end(&mut unpacked).unwrap();
    unpacked
}

fn names(entries: &[(String, u32, Vec<u8>)]) -> Vec<&str> {
    entries.iter().map(|(path, ..)| &**path).collect()
}

#[test]
fn the_members_of_a_debian_package_begin_at_even_positions() {
    let package = debian::package(&release()).unwrap();
    assert_eq!(package.path, "berth_1.2.3_amd64.deb");
    let mut rest = package.content.strip_prefix(b"!<arch>\n").unwrap();
    let mut members = BTreeMap::new();
    while !rest.is_empty() {
        let (header, after) = rest.split_at(60);
        let header = std::str::from_utf8(header).unwrap();
        assert!(header.ends_with("`\n"), "{header:?}");
        let size: usize = header[48..58].trim().parse().unwrap();
        members.insert(header[..16].trim(), &after[..size]);
        rest = &after[size + size % 2..];
    }
    assert_eq!(members["debian-binary"], b"2.0\n");
    let [(_, _, control)] = &untar(&gunzip(members["control.tar.gz"]))[..] else { panic!("one file") };
    assert!(String::from_utf8_lossy(control).contains("Version: 1.2.3\nArchitecture: amd64\n"));
    let data = untar(&gunzip(members["data.tar.gz"]));
    assert_eq!(names(&data)[..3], ["usr/", "usr/bin/", "usr/bin/berth"]);
    assert_eq!((data[2].1, &*data[2].2), (0o755, &b"the binary"[..]));
}

#[test]
fn the_record_of_a_wheel_has_the_sum_of_every_file() {
    let package = wheel::package(&release()).unwrap();
    assert_eq!(package.path, "berth-1.2.3-py3-none-manylinux2014_x86_64.musllinux_1_1_x86_64.whl");
    let mut archive = zip::ZipArchive::new(Cursor::new(package.content)).unwrap();
    let mut read = |name: &str| {
        let mut file = archive.by_name(name).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        (content, file.unix_mode())
    };
    assert_eq!(read("berth-1.2.3.data/scripts/berth").1.unwrap() & 0o777, 0o755);
    let record = String::from_utf8(read("berth-1.2.3.dist-info/RECORD").0).unwrap();
    let mut n_sums = 0;
    for line in record.lines() {
        let [name, sum, size] = line.split(',').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let content = read(name).0;
        if let Some(sum) = sum.strip_prefix("sha256=") {
            assert_eq!(sum, BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, &content)), "{name}");
            assert_eq!(size, content.len().to_string(), "{name}");
            n_sums += 1;
        }
    }
    assert_eq!((n_sums, archive.len()), (4, 5));
}

#[test]
fn the_blobs_of_an_image_have_the_digests_that_name_them() {
    let files = untar(&image::layout(&release()).unwrap().content);
    let file = |path: &str| &files.iter().find(|(name, ..)| name == path).unwrap().2;
    let json = |content: &[u8]| serde_json::from_slice::<Value>(content).unwrap();
    let blob = |described: &Value| {
        let digest = described["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let content = file(&format!("blobs/sha256/{digest}"));
        assert_eq!(
            (sha256(content), described["size"].as_u64()),
            (digest.to_owned(), Some(content.len() as u64))
        );
        content
    };
    let manifest = json(blob(&json(file("index.json"))["manifests"][0]));
    let config = json(blob(&manifest["config"]));
    let layer = gunzip(blob(&manifest["layers"][0]));
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", sha256(&layer)));
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(untar(&layer)[0], ("berth".to_owned(), 0o555, b"the binary".to_vec()));
}

#[test]
fn the_archive_and_the_npm_package_have_the_binary_on_top() {
    let archive = untar(&gunzip(&archive(&release()).unwrap().content));
    assert_eq!(
        names(&archive),
        ["berth", "LICENSE", "share/", "share/man/", "share/man/man1/", "share/man/man1/berth.1.gz"]
    );
    let package = npm::package(&release()).unwrap();
    assert_eq!(package.path, "berth-linux-x64-1.2.3.tgz");
    let files = untar(&gunzip(&package.content));
    assert_eq!(names(&files), ["package/", "package/package.json", "package/berth", "package/LICENSE"]);
    assert_eq!(serde_json::from_slice::<Value>(&files[1].2).unwrap()["bin"]["berth"], "berth");
}

#[test]
fn the_krew_manifest_has_the_sums_of_the_archives() {
    let folder = std::env::temp_dir().join(format!("berth-krew-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    for architecture in ["amd64", "arm64"] {
        fs::write(folder.join(archive_name(architecture)), architecture).unwrap();
    }
    krew::write(&crate::root().unwrap(), &folder, "https://releases.example/v1.2.3/").unwrap();
    let manifest = fs::read_to_string(folder.join("berth.yaml")).unwrap();
    let manifest: Value = serde_saphyr::from_str(&manifest).unwrap();
    for (i, architecture) in ["amd64", "arm64"].into_iter().enumerate() {
        let platform = &manifest["spec"]["platforms"][i];
        assert_eq!(
            platform["uri"],
            format!("https://releases.example/v1.2.3/berth-linux-{architecture}.tar.gz")
        );
        assert_eq!(platform["sha256"], sha256(architecture.as_bytes()));
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_bill_names_what_is_linked_and_nothing_of_tests() {
    let bill = bill::of_materials(&release()).unwrap().content;
    let bill: Value = serde_json::from_slice(&bill).unwrap();
    let names: Vec<&str> =
        bill["components"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    for name in ["berth-cli", "berth-engine", "serde_json", "ring"] {
        assert!(names.contains(&name), "{name}");
    }
    for name in ["proptest", "cc", "berth-testkit"] {
        assert!(!names.contains(&name), "{name}");
    }
    assert!(bill["components"].as_array().unwrap().iter().all(|c| c["licenses"].is_array()), "{bill:#}");
}
