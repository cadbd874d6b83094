//! The lines of the fields of a text. Reading objects keeps the line of each object only; this finds that of a field, for
//! messages.

use serde_saphyr::granit_parser::{Event, Options, Parser, StrInput};

use super::yaml::split_documents;
use super::{MAX_DEPTH, SourceLocation};

/// The lines of all fields of a YAML text, or of a JSON text with one object.
#[derive(Clone, Debug, Default)]
pub struct FieldLines {
    /// By number, from 1; none for a document that cannot be parsed.
    documents: Vec<Option<Field>>,
}

#[derive(Clone, Debug)]
struct Field {
    line: usize,
    children: Children,
}

#[derive(Clone, Debug)]
enum Children {
    None,
    Items(Vec<Field>),
    Fields(Vec<(String, Field)>),
}

impl FieldLines {
    /// Finds the lines of a text that [`read_manifests`](super::read_manifests) accepts.
    pub fn of(text: &str) -> FieldLines {
        let mut lines = FieldLines::default();
        let mut lines_before = 0;
        for part in split_documents(text) {
            let mut options = Options::default();
            options.set_emit_comments(false);
            let mut reader =
                Reader { parser: Parser::new_from_str_with_options(part, options), lines_before };
            while let Some((event, _)) = reader.next() {
                if let Event::DocumentStart(..) = event {
                    let document = reader.next().and_then(|(event, line)| reader.field(&event, line, 0));
                    lines.documents.push(document);
                }
            }
            lines_before += part.bytes().filter(|byte| *byte == b'\n').count();
        }
        lines
    }

    /// The line of a field of an object, from 1: `path` is written as `spec.containers[0].name` or
    /// `metadata.annotations[example.com/key]`. For a field that the text does not have, the line of the nearest field
    /// around it; none if the object is not found.
    pub fn line(&self, place: &SourceLocation, path: &str) -> Option<usize> {
        let mut field = self.documents.get(place.document.checked_sub(1)?)?.as_ref()?;
        if let Some(item) = place.item {
            field = field.child("items").and_then(|items| items.child(&item.to_string()))?;
        }
        for name in names(path) {
            match field.child(name) {
                Some(child) => field = child,
                None => break,
            }
        }
        Some(field.line)
    }
}

impl Field {
    fn child(&self, name: &str) -> Option<&Field> {
        match &self.children {
            Children::None => None,
            Children::Items(items) => items.get(name.parse::<usize>().ok()?),
            Children::Fields(fields) => fields.iter().find(|(key, _)| key == name).map(|(_, field)| field),
        }
    }
}

/// The names of fields and the indexes in a path: what is in brackets is one name, dots included.
fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches('.');
        let (name, after) = match rest.strip_prefix('[') {
            Some(bracket) => bracket.split_once(']').unwrap_or((bracket, "")),
            None => rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len())),
        };
        rest = after;
        (!name.is_empty()).then_some(name)
    })
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
    /// Lines of the text before this part.
    lines_before: usize,
}

impl<'t> Reader<'t> {
    /// The next event and its line; none at the end, and after an error.
    fn next(&mut self) -> Option<(Event<'t>, usize)> {
        let (event, span) = self.parser.next_event()?.ok()?;
        Some((event, self.lines_before + span.start.line()))
    }

    /// The field whose value begins with this event.
    fn field(&mut self, event: &Event<'t>, line: usize, depth: usize) -> Option<Field> {
        if depth >= MAX_DEPTH {
            return None;
        }
        let children = match event {
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break Children::Items(items),
                        (event, line) => items.push(self.field(&event, line, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut fields = Vec::new();
                loop {
                    let (event, key_line) = self.next()?;
                    let key = match event {
                        Event::MappingEnd => break Children::Fields(fields),
                        Event::Scalar(text, ..) => text.into_owned(),
                        _ => String::new(),
                    };
                    let (event, line) = self.next()?;
                    let value = self.field(&event, line, depth + 1)?;
                    fields.push((key, Field { line: key_line, ..value }));
                }
            }
            _ => Children::None,
        };
        Some(Field { line, children })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_documents_lists_and_json() {
        let text = "# a comment
---
kind: Pod
metadata: {name: a,
  annotations: {example.com/a.b: x}}
---
kind: List
items:
- kind: Pod
- kind: Pod
  spec:
    containers:
    - name: c
      ports:
        - containerPort: 80
---
broken: [
---
kind: Pod
spec: &spec
  nodeSelector:
    a: b
";
        let lines = FieldLines::of(text);
        let place = |document, item| SourceLocation { document, item, ..SourceLocation::file("f") };
        for (document, item, path, line) in [
            (1, None, "metadata.annotations[example.com/a.b]", Some(5)),
            (1, None, "metadata.annotations[example.com/a.b].podAffinity", Some(5)),
            (1, None, "", Some(3)),
            (1, None, "spec.containers", Some(3)),
            (2, Some(1), "spec.containers[0].ports[0].containerPort", Some(15)),
            (2, Some(1), "spec.containers[0]", Some(13)),
            (2, Some(1), "spec.containers[0].ports", Some(14)),
            (2, Some(2), "spec", None),
            (3, None, "broken", None),
            (4, None, "spec.nodeSelector.a", Some(22)),
            (5, None, "spec", None),
        ] {
            assert_eq!(lines.line(&place(document, item), path), line, "{document} {item:?} {path}");
        }
        let lines = FieldLines::of("{\"kind\": \"Pod\",\n \"spec\":\n {\"nodeName\": \"n\"}}");
        assert_eq!(lines.line(&place(1, None), "spec.nodeName"), Some(3));
    }
}
