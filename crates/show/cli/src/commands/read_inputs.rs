//! Inputs as objects of an inventory.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use berth_api::read::{FieldLines, Manifest, ReadError, SourceLocation, read_manifests};
use berth_api::syntax::format::abbreviated;
use berth_input::inventory::{InputError, Inventory, NOT_AN_OBJECT};
use berth_schema::{UnknownField, unknown_fields};
use berth_terminal::input::{Input, find_inputs, kustomization_warnings};
use berth_terminal::output;
use berth_terminal::progress;

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
    each: Option<&mut dyn FnMut(&Manifest)>,
) -> Result<(), CliError> {
    read_files(inventory, inputs, each, None)
}

/// Reads a dump. Files of directories and archives that cannot be read are named in a warning, and left out; those of other programs
/// count as ignored.
pub fn read_dump(inventory: &mut Inventory, inputs: &[Input]) -> Result<(), CliError> {
    let mut errors = Vec::new();
    read_files(inventory, inputs, None, Some(&mut errors))?;
    let is_other = |error: &InputError| {
        matches!(error, InputError::Read(ReadError::NotAnObject { .. } | ReadError::MissingField { .. }))
    };
    let (others, broken): (Vec<_>, Vec<_>) = errors.into_iter().partition(is_other);
    if !others.is_empty() {
        *inventory.skipped.entry(NOT_AN_OBJECT.to_owned()).or_default() += others.len();
    }
    for error in broken.iter().take(MAX_NAMED) {
        output::warning(&format!("{error}; the rest of this file is left out"));
    }
    if let more @ 1.. = broken.len().saturating_sub(MAX_NAMED) {
        output::warning(&format!("{more} more files could not be read to their end"));
    }
    Ok(())
}

/// Reads inputs. With `broken`, which gets the errors of files in directories and archives, the files of a directory are one input: they
/// replace no objects of each other.
fn read_files(
    inventory: &mut Inventory,
    inputs: &[Input],
    mut each: Option<&mut dyn FnMut(&Manifest)>,
    mut broken: Option<&mut Vec<InputError>>,
) -> Result<(), CliError> {
    let progress = progress::of_bytes(inputs);
    let mut empty = Vec::new();
    for input in inputs {
        let n_before = inventory.n_objects();
        if broken.is_none() || !input.is_found() {
            inventory.next_input();
        }
        let read = &mut |name: &str, text: &mut dyn Read| {
            let each = each.as_mut().map(|each| &mut **each as &mut dyn FnMut(&Manifest));
            let is_one_of_many = input.is_found() || name != input.name();
            match (inventory.read_more(text, name, each), &mut broken) {
                (Err(error), Some(broken)) if is_one_of_many => broken.push(error),
                (result, _) => result?,
            }
            Ok(())
        };
        input.each_text::<CliError>(|n_bytes| progress.inc(n_bytes), read)?;
        if inventory.n_objects() == n_before && !has_document(input) {
            empty.push(input.name());
        }
    }
    progress.finish_and_clear();
    warn_about_empty(&empty);
    Ok(())
}

fn warn_about_empty(names: &[String]) {
    if !names.is_empty() {
        output::warning(&format!("{}: no objects", abbreviated(names, MAX_NAMED)));
    }
}

/// Reads the objects of files, directories or standard input, and shows progress.
pub fn read_each(arguments: &[String], mut each: impl FnMut(Manifest)) -> Result<(), CliError> {
    let inputs = find_inputs(arguments)?;
    kustomization_warnings(arguments).iter().for_each(output::warning);
    let progress = progress::of_bytes(&inputs);
    let mut empty = Vec::new();
    for input in &inputs {
        let mut n_objects = 0;
        let take = &mut |manifest| {
            n_objects += 1;
            each(manifest);
            Ok::<(), ReadError>(())
        };
        let read = &mut |name: &str, text: &mut dyn Read| {
            Ok(read_manifests(text, name, take).map_err(InputError::from)?)
        };
        input.each_text::<CliError>(|n_bytes| progress.inc(n_bytes), read)?;
        if n_objects == 0 && !has_document(input) {
            empty.push(input.name());
        }
    }
    progress.finish_and_clear();
    warn_about_empty(&empty);
    Ok(())
}
