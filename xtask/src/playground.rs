//! Builds the playground: one folder that any web server can serve, and that a browser can open from a disk.

use std::fs;
use std::io::Write;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

const TARGET: &str = "wasm32-unknown-unknown";
/// The files that are copied: those of the playground, and what pages of the console do at hand.
const ASSETS: [&str; 4] = [
    "playground/assets/index.html",
    "playground/assets/playground.js",
    "playground/assets/playground.css",
    "console/assets/page.js",
];
const EXAMPLE: &str = "examples/console/cluster.yaml";
/// Limit of the compressed module.
const MAX_BYTES: usize = 4 << 20;

/// Compiles the module and writes the folder. The module is in a script, compressed: a browser does not fetch it, which it would
/// refuse for files of a disk.
pub fn build(root: &Path, folder: &Path) -> Result<String, String> {
    let failure =
        format!("the playground cannot be compiled; `rustup target add {TARGET}` installs its target");
    let package = ["--package", "berth-playground", "--lib", "--target", TARGET, "--profile", "playground"];
    crate::cargo::run_cargo(&[&["build", "--locked"][..], &package].concat(), &failure)?;
    let built = crate::cargo::target_directory()?.join(TARGET).join("playground/berth_playground.wasm");
    let module = read(&built)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let compressed = encoder.write_all(&module).and_then(|()| encoder.finish()).map_err(|e| e.to_string())?;
    let size = format!("{} bytes, {} compressed", module.len(), compressed.len());
    if compressed.len() > MAX_BYTES {
        return Err(format!("playground: the module has {size}: more than {MAX_BYTES}"));
    }
    let example = String::from_utf8(read(&root.join(EXAMPLE))?).map_err(|e| format!("{EXAMPLE}: {e}"))?;
    let script = format!(
        "const BERTH_MODULE = \"{}\";\nconst BERTH_EXAMPLE = {};\n",
        BASE64_STANDARD.encode(compressed),
        serde_json::Value::String(example)
    );
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for name in ASSETS {
        let file = root.join("crates/show").join(name);
        write(&folder.join(file.file_name().unwrap_or_default()), &read(&file)?)?;
    }
    write(&folder.join("playground-module.js"), script.as_bytes())?;
    Ok(format!("playground: {size}; open {}", folder.join("index.html").display()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    fs::write(path, content).map_err(|e| format!("{}: {e}", path.display()))
}
