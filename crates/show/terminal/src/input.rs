//! Opens the inputs that `-f` arguments name: files, directories and standard input.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use berth_api::syntax::quantity::Quantity;
use berth_api::syntax::shell::Command;
use flate2::bufread::MultiGzDecoder;

use crate::archive::{Files, Format};
use crate::kustomization;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{path}: no such file or directory")]
    NotFound { path: String },
    #[error("{path}: {error}")]
    Io {
        /// The path as given, or as found in a directory.
        path: String,
        error: io::Error,
    },
    #[error("{path}: no .yaml, .yml or .json file (or one of them with .gz) in this directory")]
    EmptyDirectory { path: String },
    #[error("{MAX_BYTES_VARIABLE}={value}: not a size: give bytes, such as 4Gi")]
    Limit { value: String },
    #[error("- is given more than once: standard input can be read only once")]
    StdinTwice,
    #[error("{name}: {format}, which is not read in order: save it to a file of its own, uncompressed")]
    Piped { name: String, format: Format },
    #[error("{path}: no .yaml, .yml or .json file (or one of them with .gz) in this archive")]
    EmptyArchive { path: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Stdin,
    File {
        path: PathBuf,
        /// Its size in bytes, compressed if the file is compressed; 0 for pipes.
        n_bytes: u64,
        /// Whether it was found in a directory.
        is_found: bool,
    },
}

impl Input {
    pub fn name(&self) -> String {
        match self {
            Input::Stdin => "standard input".to_owned(),
            Input::File { path, .. } => path.display().to_string(),
        }
    }

    /// Whether it was found in a directory.
    pub fn is_found(&self) -> bool {
        matches!(self, Input::File { is_found: true, .. })
    }

    /// Size in bytes; 0 if unknown.
    pub fn n_bytes(&self) -> u64 {
        match self {
            Input::Stdin => 0,
            Input::File { n_bytes, .. } => *n_bytes,
        }
    }

    /// Opens the input and decompresses gzip, which it recognizes by its first bytes.
    ///
    /// Each read calls `progress` with the number of bytes read from the file.
    pub fn open<'p>(&self, progress: impl FnMut(u64) + 'p) -> Result<Box<dyn Read + 'p>, OpenError> {
        Ok(Box::new(Bounded {
            source: self.open_unbounded(progress)?,
            left: Rc::new(Cell::new(max_bytes()?)),
        }))
    }

    /// As [`Input::open`] for input of any size, which is not kept in memory.
    pub fn open_unbounded<'p>(
        &self,
        progress: impl FnMut(u64) + 'p,
    ) -> Result<Box<dyn Read + 'p>, OpenError> {
        let io_error = |error| open_error(&self.name(), error);
        let source: Box<dyn Read> = match self {
            Input::Stdin => Box::new(io::stdin().lock()),
            Input::File { path, .. } => Box::new(open_in_time(path).map_err(io_error)?),
        };
        decompressed(CountingReader { source, progress }).map_err(io_error)
    }

    /// The path of a file that can be read in any order, as it is.
    fn seekable(&self) -> Option<&Path> {
        let Input::File { path, n_bytes: 1.., .. } = self else { return None };
        let mut head = [0; GZIP.len()];
        File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
        (head != GZIP).then_some(path)
    }

    /// Passes on the name and the text of the input, or of each manifest of an archive, such as `bundle.tar.gz/pods.json`. The limit
    /// of an input is one for all texts.
    ///
    /// # Errors
    /// The input cannot be opened or is a damaged archive, or `each` returned an error.
    pub fn each_text<E: From<OpenError>>(
        &self,
        progress: impl FnMut(u64),
        each: &mut dyn FnMut(&str, &mut dyn Read) -> Result<(), E>,
    ) -> Result<(), E> {
        let max_bytes = max_bytes()?;
        let archive = self.name();
        let damaged = |error| E::from(open_error(&archive, error));
        let left = Rc::new(Cell::new(max_bytes));
        let (format, source) = Format::find(self.open_unbounded(progress)?).map_err(damaged)?;
        let Some(format) = format else {
            return each(&archive, &mut Bounded { source, left });
        };
        let mut is_empty = true;
        let mut each_file = |path: &str, file: &mut dyn Read| {
            is_empty = false;
            let name = format!("{archive}/{}", path.trim_start_matches("./").trim_start_matches('/'));
            let text = decompressed(file).map_err(|error| open_error(&name, error))?;
            each(&name, &mut Bounded { source: text, left: left.clone() })
        };
        let files = Files { wants: is_manifest_path, each: &mut each_file, damaged: &damaged };
        match (format, self.seekable()) {
            (Format::Tar, _) => {
                let left = Rc::new(Cell::new(max_bytes.saturating_mul(MAX_SKIPPED)));
                files.of_tar(Bounded { source, left })?;
            }
            (Format::Zip, Some(path)) => files.of_zip(path)?,
            (Format::Etcd, Some(path)) => files.of_etcd(path)?,
            (format, None) => return Err(OpenError::Piped { name: archive, format }.into()),
        }
        match is_empty {
            true => Err(OpenError::EmptyArchive { path: archive }.into()),
            false => Ok(()),
        }
    }
}

/// How long a pipe waits for the process that writes to it.
const WRITER_TIMEOUT: Duration = Duration::from_secs(5);

/// The default limit of an input, after decompression.
const MAX_BYTES: u64 = 1 << 30;
/// Archives may be this many times larger: with files, such as logs, that are passed over.
const MAX_SKIPPED: u64 = 16;
/// The environment variable with another limit.
const MAX_BYTES_VARIABLE: &str = "BERTH_MAX_INPUT";

fn max_bytes() -> Result<u64, OpenError> {
    let Ok(text) = std::env::var(MAX_BYTES_VARIABLE) else { return Ok(MAX_BYTES) };
    let quantity = Quantity::parse(&text).ok().filter(|quantity| !quantity.is_negative());
    let bytes = quantity.and_then(|quantity| u64::try_from(quantity.units()).ok());
    bytes.ok_or(OpenError::Limit { value: text })
}

/// Reads a small text file, such as a configuration: at most 16 MiB.
///
/// # Errors
/// The file cannot be opened or read, is not UTF-8, or is larger.
pub fn small_text(path: &Path) -> io::Result<String> {
    const SMALL: u64 = 16 << 20;
    let mut text = String::new();
    match open_in_time(path)?.take(SMALL + 1).read_to_string(&mut text)? as u64 {
        0..=SMALL => Ok(text),
        _ => Err(io::Error::other("more than 16 MiB: not a file of this kind")),
    }
}

/// Opens a file. A pipe that no process opens for writing is an error after some seconds.
fn open_in_time(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    let (sender, opened) = mpsc::channel();
    let path = path.to_owned();
    thread::spawn(move || sender.send(File::open(path)));
    opened.recv_timeout(WRITER_TIMEOUT).unwrap_or_else(|_| {
        let seconds = WRITER_TIMEOUT.as_secs();
        Err(io::Error::other(format!("no process has opened this pipe for writing in {seconds} seconds")))
    })
}

/// Reads at most this many bytes; more are an error.
struct Bounded<R> {
    source: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.source.read(buffer)?;
        let left = self.left.get().checked_sub(n_bytes as u64).ok_or_else(|| {
            io::Error::other(format!(
                "more data than the limit: split the file, or set another limit with the environment variable \
                 {MAX_BYTES_VARIABLE} (default 1Gi, after decompression)"
            ))
        })?;
        self.left.set(left);
        Ok(n_bytes)
    }
}

/// The inputs that `-f` arguments name, in order; directories are searched recursively and sorted by path. Kustomizations in them, and
/// the files that these name besides their resources, such as patches, are left out: they are no objects.
///
/// # Errors
/// A path does not exist or cannot be read, or a directory has no manifests.
pub fn find_inputs(arguments: &[String]) -> Result<Vec<Input>, OpenError> {
    let (mut inputs, mut kustomizations) = (Vec::new(), Vec::new());
    for argument in arguments {
        if argument == "-" {
            if inputs.contains(&Input::Stdin) {
                return Err(OpenError::StdinTwice);
            }
            inputs.push(Input::Stdin);
            continue;
        }
        let path = Path::new(argument);
        let metadata = fs::metadata(path).map_err(|error| open_error(argument, error))?;
        if metadata.is_dir() {
            let n_before = inputs.len();
            add_directory(path, &mut inputs, &mut kustomizations)?;
            if inputs.len() == n_before {
                return Err(OpenError::EmptyDirectory { path: argument.clone() });
            }
        } else {
            inputs.push(Input::File { path: path.to_owned(), n_bytes: metadata.len(), is_found: false });
        }
    }
    if !kustomizations.is_empty() {
        let parts = |file: &PathBuf| kustomization::parts(file, &small_text(file).unwrap_or_default());
        let parts: HashSet<_> = kustomizations.iter().flat_map(parts).collect();
        inputs.retain(|input| match input {
            Input::File { path, is_found: true, .. } => {
                !kustomizations.contains(path)
                    && !fs::canonicalize(path).is_ok_and(|path| parts.contains(&path))
            }
            _ => true,
        });
    }
    Ok(inputs)
}

/// What to do about kustomizations that `-f` arguments name, themselves or by their directories: they are not rendered.
pub fn kustomization_warnings(arguments: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for path in arguments.iter().map(Path::new) {
        if path.is_dir() {
            // What cannot be read is reported where the inputs are.
            _ = add_directory(path, &mut Vec::new(), &mut found);
        } else if path.file_name().and_then(|name| name.to_str()).is_some_and(kustomization::is_name) {
            found.push(path.to_owned());
        }
    }
    let directories = found.iter().filter_map(|file| match file.parent()?.to_str()? {
        "" => Some(".".to_owned()),
        directory => Some(directory.to_owned()),
    });
    let warning = |directory: String| {
        let render = Command::new(["kubectl", "kustomize"]).operands([&directory]);
        format!(
            "{directory}: a kustomization: render it first with `{render}`; here, its patches and generators are left out"
        )
    };
    directories.map(warning).collect()
}

fn add_directory(
    directory: &Path,
    inputs: &mut Vec<Input>,
    kustomizations: &mut Vec<PathBuf>,
) -> Result<(), OpenError> {
    let io_error = |error| open_error(&directory.display().to_string(), error);
    let mut entries =
        fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(io_error)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        // Follows links to files, but not links to directories, which can form cycles.
        if entry.file_type().map_err(io_error)?.is_dir() {
            add_directory(&path, inputs, kustomizations)?;
            continue;
        }
        if kustomization::is_name(&name) {
            kustomizations.push(path.clone());
        }
        if is_manifest_name(&name)
            && let Ok(metadata) = fs::metadata(&path)
            && metadata.is_file()
        {
            inputs.push(Input::File { path, n_bytes: metadata.len(), is_found: true });
        }
    }
    Ok(())
}

/// Whether a file of an archive is read. Those whose names begin with a dot have the attributes of another file.
fn is_manifest_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    !name.starts_with('.') && is_manifest_name(name)
}

fn is_manifest_name(name: &str) -> bool {
    let name = name.strip_suffix(".gz").unwrap_or(name);
    [".yaml", ".yml", ".json"].iter().any(|extension| name.ends_with(extension))
}

pub fn open_error(path: &str, error: io::Error) -> OpenError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound => OpenError::NotFound { path },
        _ => OpenError::Io { path, error },
    }
}

/// The first bytes of a file that is compressed with gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Decompresses gzip, recognized by its first bytes.
fn decompressed<'p>(source: impl Read + 'p) -> io::Result<Box<dyn Read + 'p>> {
    let mut head = Vec::with_capacity(GZIP.len());
    let mut source = BufReader::with_capacity(1 << 16, source);
    source.by_ref().take(GZIP.len() as u64).read_to_end(&mut head)?;
    let is_gzip = head == GZIP;
    let whole = io::Cursor::new(head).chain(source);
    Ok(if is_gzip { gunzip(whole) } else { Box::new(whole) })
}

fn gunzip<'p>(source: impl BufRead + 'p) -> Box<dyn Read + 'p> {
    Box::new(MultiGzDecoder::new(source))
}

struct CountingReader<R, F> {
    source: R,
    progress: F,
}

impl<R: Read, F: FnMut(u64)> Read for CountingReader<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.source.read(buffer)?;
        (self.progress)(n_bytes as u64);
        Ok(n_bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use berth_control::expand::expand;
    use berth_input::inventory::Inventory;
    use berth_testkit::programs::TempDir;

    use super::*;

    fn arguments(paths: &[&Path]) -> Vec<String> {
        paths.iter().map(|path| path.display().to_string()).collect()
    }

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn directories_are_searched_in_order_and_hidden_or_other_files_left_out() {
        let scratch = TempDir::new("directories");
        for name in ["b.yaml", "a/z.json.gz", "a/y.yml", "c.txt", ".hidden.yaml", ".git/x.yaml", "d.json"] {
            scratch.write(name, b"x");
        }
        let inputs = find_inputs(&arguments(&[&scratch.0])).unwrap();
        let names: Vec<String> = inputs
            .iter()
            .map(|input| input.name().replace(&format!("{}/", scratch.0.display()), ""))
            .collect();
        assert_eq!(names, ["a/y.yml", "a/z.json.gz", "b.yaml", "d.json"]);
        assert_eq!(inputs[0].n_bytes(), 1);
    }

    #[test]
    fn the_patches_of_a_kustomization_replaced_the_objects_that_they_patch() {
        let scratch = TempDir::new("kustomizations");
        let kustomization = b"resources: [../base.yaml, own.yaml]
patches: [{path: patch.yaml}, {patch: '{kind: Deployment}'}]
patchesStrategicMerge: [merge.yaml]
components: [../component]
configMapGenerator: [{name: settings, files: [settings=settings.yaml]}]
";
        let component = b"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: ../shared/patch.yaml}]\nresources: [shared.yaml]\nreplacements: [{path: shared.yaml}]\n";
        scratch.write("overlays/kustomization.yaml", kustomization);
        scratch.write("component/kustomization.yml", component);
        let objects = ["base.yaml", "overlays/own.yaml", "overlays/plain.yaml", "component/shared.yaml"];
        let parts =
            ["overlays/patch.yaml", "overlays/merge.yaml", "overlays/settings.yaml", "shared/patch.yaml"];
        for name in objects.iter().chain(&parts) {
            scratch.write(name, b"x");
        }
        let names = |arguments: &[String]| {
            let inputs = find_inputs(arguments).unwrap();
            let names =
                inputs.iter().map(|input| input.name().replace(&format!("{}/", scratch.0.display()), ""));
            names.collect::<Vec<_>>()
        };
        let mut all = arguments(&[&scratch.0]);
        assert_eq!(
            names(&all),
            ["base.yaml", "component/shared.yaml", "overlays/own.yaml", "overlays/plain.yaml"]
        );
        all.push(scratch.0.join("overlays/patch.yaml").display().to_string());
        assert_eq!(names(&all).last().unwrap(), "overlays/patch.yaml", "a file that is named itself");
        let warnings = kustomization_warnings(&all);
        assert_eq!(warnings.len(), 2);
        let rendered = format!("`kubectl kustomize {}/overlays`", scratch.0.display());
        assert!(
            warnings[1].contains(&format!(": a kustomization: render it first with {rendered}")),
            "{warnings:?}"
        );
        let file = scratch.0.join("overlays/kustomization.yaml");
        assert_eq!(
            kustomization_warnings(&arguments(&[&file])),
            warnings[1..],
            "a kustomization that is named itself"
        );
        let warnings = kustomization_warnings(&["kustomization.yml".to_owned()]);
        assert!(warnings[0].contains("`kubectl kustomize .`"), "{warnings:?}");
    }

    #[test]
    fn open_errors_name_the_input() {
        let scratch = TempDir::new("errors");
        let message = |arguments: &[String]| find_inputs(arguments).unwrap_err().to_string();
        assert_eq!(message(&["no/such.yaml".to_owned()]), "no/such.yaml: no such file or directory");
        assert_eq!(
            message(&["-".to_owned(), "-".to_owned()]),
            "- is given more than once: standard input can be read only once"
        );
        let empty = arguments(&[&scratch.0]);
        assert_eq!(
            message(&empty),
            format!("{}: no .yaml, .yml or .json file (or one of them with .gz) in this directory", empty[0])
        );
    }

    #[test]
    fn gzip_is_known_by_its_first_bytes_and_progress_counts_file_bytes() {
        let scratch = TempDir::new("gzip");
        let text = "kind: Pod\n".repeat(1000);
        for (name, content) in [("a.yaml", text.as_bytes().to_vec()), ("b.yaml", gzip(&text))] {
            let path = scratch.write(name, &content);
            let mut n_read = 0;
            let mut read = String::new();
            let inputs = find_inputs(&arguments(&[&path])).unwrap();
            inputs[0].open(|n_bytes| n_read += n_bytes).unwrap().read_to_string(&mut read).unwrap();
            assert_eq!(read, text, "{name}");
            assert_eq!(n_read, inputs[0].n_bytes());
        }
        let path = scratch.write("c.yaml", &gzip(&text)[..20]);
        let mut inventory = Inventory::default();
        let input = &find_inputs(&arguments(&[&path])).unwrap()[0];
        let message = inventory.read(input.open(|_| ()).unwrap(), "c.yaml").unwrap_err().to_string();
        assert!(message.starts_with("c.yaml: "), "{message}");
    }

    /// An archive with two manifests and what is passed over.
    fn tar() -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        let mut add = |kind: tar::EntryType, path: &str, text: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(text.len() as u64);
            if kind.is_symlink() {
                header.set_link_name("/etc/passwd").unwrap();
            }
            archive.append_data(&mut header, path, text).unwrap();
        };
        add(tar::EntryType::Regular, "./a/pods.json", b"pods");
        add(tar::EntryType::Regular, "a/._pods.json", b"attributes");
        add(tar::EntryType::Regular, "a/log.txt", b"log");
        add(tar::EntryType::Symlink, "a/link.yaml", b"");
        add(tar::EntryType::Directory, "a/b.yaml", b"");
        add(tar::EntryType::Regular, "b.yaml.gz", &gzip("nodes"));
        archive.into_inner().unwrap()
    }

    fn texts(path: &Path) -> Result<Vec<(String, String)>, Box<dyn std::error::Error>> {
        let mut texts = Vec::new();
        for input in find_inputs(&arguments(&[path]))? {
            input.each_text::<Box<dyn std::error::Error>>(|_| (), &mut |name, source| {
                let mut text = String::new();
                source.read_to_string(&mut text)?;
                texts.push((name.to_owned(), text));
                Ok(())
            })?;
        }
        Ok(texts)
    }

    #[test]
    fn archives_have_the_texts_of_their_manifests_and_links_and_other_files_are_passed_over() {
        let scratch = TempDir::new("archives");
        let tar = tar();
        let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        let deflated = zip::write::SimpleFileOptions::default();
        for (path, text) in [("a/pods.json", "pods"), ("a/._pods.json", "attributes"), ("a/log.txt", "log")] {
            zip.start_file(path, deflated).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.add_symlink("a/link.yaml", "/etc/passwd", deflated).unwrap();
        zip.start_file("b.yaml.gz", deflated).unwrap();
        zip.write_all(&gzip("nodes")).unwrap();
        let zip = zip.finish().unwrap().into_inner();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&tar).unwrap();
        let gz = gz.finish().unwrap();
        for (name, content) in [("a.tar", &tar), ("a.tgz", &gz), ("bundle", &gz), ("a.zip", &zip)] {
            let path = scratch.write(name, content);
            let name = path.display();
            let expected = [(format!("{name}/a/pods.json"), "pods"), (format!("{name}/b.yaml.gz"), "nodes")];
            let found = texts(&path).unwrap();
            assert_eq!(found, expected.map(|(name, text)| (name, text.to_owned())));
        }
        let message = |name: &str, content: &[u8]| {
            let error = texts(&scratch.write(name, content)).unwrap_err().to_string();
            error.replace(&format!("{}/", scratch.0.display()), "")
        };
        assert!(message("cut.tar", &tar[..600]).starts_with("cut.tar"));
        assert!(message("cut.tgz", &gz[..gz.len() / 2]).starts_with("cut.tgz"));
        assert!(message("cut.zip", &zip[..zip.len() / 2]).starts_with("cut.zip: "));
        let mut other = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        other.append_data(&mut header, "log.txt", &b"x"[..]).unwrap();
        let none = "none.tar: no .yaml, .yml or .json file (or one of them with .gz) in this archive";
        assert_eq!(message("none.tar", &other.into_inner().unwrap()), none);
    }

    /// Saved from etcd 3.6: a node, two pods, one that was deleted, earlier versions, encrypted and foreign values.
    #[test]
    fn a_snapshot_of_etcd_has_the_last_version_of_each_object() {
        let scratch = TempDir::new("etcd");
        let compressed = include_bytes!("../tests/data/snapshot.db.gz");
        let mut snapshot = Vec::new();
        MultiGzDecoder::new(&compressed[..]).read_to_end(&mut snapshot).unwrap();
        let path = scratch.write("snapshot.db", &snapshot);
        let mut found = texts(&path).unwrap();
        found.retain(|(name, _)| !name.contains("/secrets/"));
        let names = found.iter().map(|(name, _)| name.rsplit_once("snapshot.db/").unwrap().1);
        let pods = ["registry/pods/default/web-1", "registry/pods/default/web-3"];
        let others = ["registry/example.com/widgets/default/w", "registry/nodes.metrics.example/x"];
        let all = [others[0], "registry/minions/n1", others[1], pods[0], pods[1]];
        assert_eq!(names.collect::<Vec<_>>(), all);
        let mut inventory = Inventory::default();
        for (name, text) in texts(&path).unwrap() {
            inventory.read(text.as_bytes(), &name).unwrap();
        }
        assert_eq!((inventory.nodes.len(), inventory.pods.len()), (1, 2));
        assert_eq!(inventory.skipped["encrypted object"], 60);

        let message = |name: &str, content: &[u8]| {
            let error = texts(&scratch.write(name, content)).unwrap_err().to_string();
            error.replace(&format!("{}/", scratch.0.display()), "")
        };
        let compressed_again = "snapshot.db.gz: a snapshot of etcd, which is not read in order: save it to a file of its own, uncompressed";
        assert_eq!(message("snapshot.db.gz", compressed), compressed_again);
        assert_eq!(message("cut.db", &snapshot[..9000]), "cut.db: a damaged database of etcd");
        // Each byte of the pages that say where others are.
        for at in (0..snapshot.len()).filter(|at| at % 4096 < 48) {
            let mut damaged = snapshot.clone();
            damaged[at] ^= 0xff;
            _ = texts(&scratch.write("damaged.db", &damaged));
        }
    }

    #[test]
    fn more_data_than_the_limit_is_an_error_that_names_the_remedy() {
        let read = |n_bytes: u64, left: u64| {
            let mut text = String::new();
            Bounded { source: io::repeat(b' ').take(n_bytes), left: Rc::new(Cell::new(left)) }
                .read_to_string(&mut text)
        };
        assert_eq!(read(100, 100).unwrap(), 100);
        let message = read(101, 100).unwrap_err().to_string();
        assert!(
            message.contains(
                "split the file, or set another limit with the environment variable BERTH_MAX_INPUT"
            ),
            "{message}"
        );
        let message = small_text(Path::new("/dev/zero")).unwrap_err().to_string();
        assert_eq!(message, "more than 16 MiB: not a file of this kind");
    }

    #[test]
    fn a_real_cluster_is_read_and_expanded() {
        let openb = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/openb");
        if !openb.exists() {
            eprintln!("{} not found: nothing is read from it", openb.display());
            return;
        }
        let mut inventory = Inventory::keeping_raw();
        for input in find_inputs(&arguments(&[&openb])).unwrap() {
            inventory.read(input.open(|_| ()).unwrap(), &input.name()).unwrap();
        }
        assert_eq!((inventory.nodes.len(), inventory.pods.len()), (1523, 8152));
        assert_eq!(expand(&inventory).unwrap().pods, []);
    }
}
