//! Inputs as objects of an inventory.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Read;

use berth_api::read::document::Object;
use berth_api::read::yaml::MAX_ALIASED_BYTES;
use berth_api::read::{FieldLines, Kind, Manifest, ReadError, SourceLocation, read_manifests, read_objects};
use berth_api::syntax::format::{abbreviated, counted};
use berth_apiserver::refusals;
use berth_input::inventory::{InputError, Inventory, NOT_AN_OBJECT};
use berth_rules::RuleOptions;
use berth_schema::{UnknownField, unknown_fields};
use berth_simulate::InvalidObject;
use berth_terminal::input::{Input, find_inputs, kustomization_warnings};
use berth_terminal::output;
use berth_terminal::progress;
use indicatif::ProgressBar;
use serde_json::Value;

use crate::error::CliError;

/// Number of files named in a warning.
const MAX_NAMED: usize = 5;
/// Lines of fields are not searched in larger inputs.
const MAX_SEARCHED_BYTES: u64 = 16 << 20;

/// The lines of the fields in these files, where a file is not too large and can be read again.
pub fn field_lines(files: &[Input], wanted: &BTreeSet<String>) -> BTreeMap<String, FieldLines> {
    let mut lines = BTreeMap::new();
    for file in files.iter().filter(|file| wanted.contains(&file.name())) {
        if let Some(text) = read_again(file) {
            lines.insert(file.name(), FieldLines::of(&text));
        }
    }
    lines
}

/// Fields that the types of their kinds do not have, with their objects.
#[derive(Default)]
pub struct UnknownFields(Vec<(SourceLocation, String, UnknownField)>);

impl UnknownFields {
    /// Adds those of an object.
    pub fn find(&mut self, manifest: &Manifest) {
        let found = unknown_fields(&manifest.value).into_iter();
        self.0.extend(found.map(|field| (manifest.source.clone(), manifest.to_string(), field)));
    }

    /// One message for each, with its line in the inputs that the objects are from.
    pub fn messages(self, inputs: &[Input]) -> Vec<String> {
        let wanted = self.0.iter().map(|(place, ..)| place.file.to_string()).collect();
        let lines = field_lines(inputs, &wanted);
        let message = |(place, object, field): (SourceLocation, String, UnknownField)| {
            let line = lines.get(place.file.as_ref()).and_then(|lines| lines.line(&place, &field.path));
            let place = SourceLocation { line: line.or(place.line), ..place };
            format!("{place}: {object}: {field}")
        };
        self.0.into_iter().map(message).collect()
    }
}

/// Why an API server would refuse an object that a user wrote, of a kind that decides where pods go. Pods and nodes are validated where
/// they are added to a cluster; what a server has stored is valid.
pub fn refusal(manifest: &Manifest, rules: RuleOptions) -> Option<InvalidObject> {
    let metadata = &manifest.value["metadata"];
    let is_written = ["uid", "resourceVersion", "creationTimestamp", "ownerReferences"]
        .iter()
        .all(|field| metadata[*field].is_null());
    let decides = |kind: &Kind| !matches!(kind, Kind::Pod | Kind::Node | Kind::Service | Kind::NetworkPolicy);
    Kind::of(&manifest.api_version, &manifest.kind).filter(|kind| is_written && decides(kind))?;
    let errors = refusals(&manifest.value, rules);
    (!errors.is_empty()).then(|| InvalidObject {
        object: manifest.to_string(),
        source: Some(manifest.source.clone()),
        errors,
    })
}

/// The text of a file that is not too large and can be read again.
fn read_again(file: &Input) -> Option<String> {
    let mut text = String::new();
    let reader = (file.n_bytes() > 0).then(|| file.open(|_| ()).ok()).flatten()?;
    let n = reader.take(MAX_SEARCHED_BYTES).read_to_string(&mut text).ok()?;
    ((n as u64) < MAX_SEARCHED_BYTES).then_some(text)
}

/// Whether an input without objects has a document: an empty list is what a cluster without such objects answers.
fn has_document(input: &Input) -> bool {
    let is_empty = |line: &str| line.is_empty() || line == "---" || line.starts_with('#');
    read_again(input).is_some_and(|text| !text.lines().all(|line| is_empty(line.trim())))
}

/// Reads inputs into the inventory and shows progress; `each` gets the objects, which takes longer.
pub fn read(
    inventory: &mut Inventory,
    inputs: &[Input],
    mut each: Option<&mut dyn FnMut(&Manifest)>,
) -> Result<(), CliError> {
    let mut texts = Texts::new(inputs, false);
    for input in inputs {
        inventory.next_input();
        texts.read(input, &mut |name, text| {
            let each = each.as_mut().map(|each| &mut **each as &mut dyn FnMut(&Manifest));
            read_more(inventory, name, text, each)
        })?;
    }
    texts.finish();
    Ok(())
}

/// Reads a dump. Files of directories and archives that cannot be read are named in a warning, and left out; those of other programs
/// count as ignored. The files of a directory are one input: they replace no objects of each other.
pub fn read_dump(inventory: &mut Inventory, inputs: &[Input]) -> Result<(), CliError> {
    let mut texts = Texts::new(inputs, true);
    for input in inputs {
        if !input.is_found() {
            inventory.next_input();
        }
        texts.read(input, &mut |name, text| read_more(inventory, name, text, None))?;
    }
    if let n @ 1.. = texts.finish() {
        *inventory.skipped.entry(NOT_AN_OBJECT.to_owned()).or_default() += n;
    }
    Ok(())
}

fn read_more(
    inventory: &mut Inventory,
    name: &str,
    text: &mut dyn Read,
    each: Option<&mut dyn FnMut(&Manifest)>,
) -> Result<usize, InputError> {
    let n_before = inventory.n_objects();
    inventory.read_more(text, name, each)?;
    Ok(inventory.n_objects() - n_before)
}

/// Reads the objects of a dump as [`read_dump`] does, without those that a watch saw deleted.
pub fn read_dump_objects(arguments: &[String]) -> Result<Vec<Value>, CliError> {
    let inputs = find_inputs(arguments)?;
    let (mut objects, mut deleted) = (Vec::<Manifest>::new(), HashMap::new());
    let key = |of: &Manifest| [&of.api_version, &of.kind, of.namespace(), of.name()].map(str::to_owned);
    let mut texts = Texts::new(&inputs, true);
    for input in &inputs {
        texts.read(input, &mut |name, text| {
            let n_before = objects.len();
            read_objects::<ReadError>(text, name, MAX_ALIASED_BYTES, false, &mut |object| {
                match object {
                    Object::Manifest(manifest) => objects.push(manifest),
                    Object::Deleted(manifest) => _ = deleted.insert(key(&manifest), objects.len()),
                    Object::Pod(..) => {}
                }
                Ok(())
            })?;
            Ok(objects.len() - n_before)
        })?;
    }
    if let n @ 1.. = texts.finish() {
        output::note(&format!("left out: {} without objects of Kubernetes", counted(n, "file")));
    }
    let exists =
        |(place, object): &(usize, Manifest)| deleted.get(&key(object)).is_none_or(|end| place >= end);
    Ok(objects.into_iter().enumerate().filter(exists).map(|(_, object)| object.value).collect())
}

/// Reads the objects of files, directories or standard input, and shows progress.
pub fn read_each(arguments: &[String], mut each: impl FnMut(Manifest)) -> Result<(), CliError> {
    let inputs = find_inputs(arguments)?;
    kustomization_warnings(arguments).iter().for_each(output::warning);
    let mut texts = Texts::new(&inputs, false);
    for input in &inputs {
        texts.read(input, &mut |name, text| {
            let mut n_objects = 0;
            read_manifests::<ReadError>(text, name, &mut |manifest| {
                n_objects += 1;
                each(manifest);
                Ok(())
            })?;
            Ok(n_objects)
        })?;
    }
    texts.finish();
    Ok(())
}

/// The texts of inputs, with progress.
struct Texts {
    progress: ProgressBar,
    is_dump: bool,
    /// Inputs without objects.
    empty: Vec<String>,
    /// Of texts of a dump in directories and archives.
    errors: Vec<InputError>,
}

impl Texts {
    fn new(inputs: &[Input], is_dump: bool) -> Self {
        Texts { progress: progress::of_bytes(inputs), is_dump, empty: Vec::new(), errors: Vec::new() }
    }

    /// Reads an input; `read` answers how many objects a text has.
    fn read(
        &mut self,
        input: &Input,
        read: &mut dyn FnMut(&str, &mut dyn Read) -> Result<usize, InputError>,
    ) -> Result<(), CliError> {
        let (mut n_objects, n_errors) = (0, self.errors.len());
        let each = &mut |name: &str, text: &mut dyn Read| {
            match read(name, text) {
                Ok(n) => n_objects += n,
                Err(error) if self.is_dump && (input.is_found() || name != input.name()) => {
                    self.errors.push(error)
                }
                Err(error) => return Err(error.into()),
            }
            Ok(())
        };
        input.each_text::<CliError>(|n_bytes| self.progress.inc(n_bytes), each)?;
        if n_objects == 0 && n_errors == self.errors.len() && !has_document(input) {
            self.empty.push(input.name());
        }
        Ok(())
    }

    /// Warns about what could not be read; the number of texts of other programs.
    fn finish(self) -> usize {
        self.progress.finish_and_clear();
        if !self.empty.is_empty() {
            output::warning(&format!("{}: no objects", abbreviated(&self.empty, MAX_NAMED)));
        }
        let is_other = |error: &InputError| {
            matches!(error, InputError::Read(ReadError::NotAnObject { .. } | ReadError::MissingField { .. }))
        };
        let (others, broken): (Vec<_>, Vec<_>) = self.errors.into_iter().partition(is_other);
        for error in broken.iter().take(MAX_NAMED) {
            output::warning(&format!("{error}; the rest of this file is left out"));
        }
        if let more @ 1.. = broken.len().saturating_sub(MAX_NAMED) {
            output::warning(&format!("{more} more files could not be read to their end"));
        }
        others.len()
    }
}
