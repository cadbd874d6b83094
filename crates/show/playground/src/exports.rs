//! What the page calls. Texts are UTF-8; the parts of an input are lines, so that no part has a line end.
#![allow(unsafe_code, reason = "exported names need an unsafe attribute; there is no unsafe block")]

use std::cell::RefCell;
use std::panic;

use berth_console::Request;

use crate::Playground;

#[derive(Default)]
struct Instance {
    playground: Playground,
    input: Vec<u8>,
}

thread_local! {
    static INSTANCE: RefCell<Instance> = RefCell::default();
    /// Apart, so that a panic can be written while the instance is in use.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for an input of this many bytes, and returns its address. The next call takes the input; the last output ends.
#[unsafe(no_mangle)]
pub extern "C" fn playground_input(length: usize) -> *mut u8 {
    write(String::new());
    INSTANCE.with_borrow_mut(|instance| {
        instance.input = vec![0; length];
        instance.input.as_mut_ptr()
    })
}

/// The address of the output of the last call.
#[unsafe(no_mangle)]
pub extern "C" fn playground_output() -> *const u8 {
    OUTPUT.with_borrow(Vec::as_ptr)
}

/// The length of the output of the last call.
#[unsafe(no_mangle)]
pub extern "C" fn playground_output_length() -> usize {
    OUTPUT.with_borrow(Vec::len)
}

/// Adds a file: a line with its name, then its content. Returns whether it could be read; else the output is the message.
#[unsafe(no_mangle)]
pub extern "C" fn playground_add() -> bool {
    called(|playground, input| {
        let (name, content) = line(input);
        outcome(playground.add(&name, content))
    })
}

/// Opens the cluster of the added files; the input is its name. Returns whether it could; else the output is the message.
#[unsafe(no_mangle)]
pub extern "C" fn playground_open() -> bool {
    called(|playground, input| outcome(playground.open(&line(input).0)))
}

/// Answers a request: lines with the path and the query, and for a form one with its fields. Returns the HTTP status; the output is
/// the media type in a line, then the content. 0: no cluster is open.
#[unsafe(no_mangle)]
pub extern "C" fn playground_respond() -> u16 {
    called(|playground, input| {
        let text = String::from_utf8_lossy(input);
        let mut lines = text.split('\n');
        let (path, query) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        match playground.respond(&Request { path, query, form: lines.next() }) {
            Some(response) => (response.status, format!("{}\n{}", response.content_type, response.body)),
            None => (0, String::new()),
        }
    })
}

/// A call with the present input. A panic leaves its message in the output.
fn called<T>(call: impl FnOnce(&mut Playground, &[u8]) -> (T, String)) -> T {
    panic::set_hook(Box::new(|panic| write(panic.to_string())));
    let (result, output) = INSTANCE.with_borrow_mut(|instance| {
        let input = std::mem::take(&mut instance.input);
        call(&mut instance.playground, &input)
    });
    write(output);
    result
}

fn write(text: String) {
    OUTPUT.set(text.into_bytes());
}

fn outcome(result: Result<(), String>) -> (bool, String) {
    (result.is_ok(), result.err().unwrap_or_default())
}

/// The first line, and what follows.
fn line(input: &[u8]) -> (String, &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (String::from_utf8_lossy(&input[..end]).into_owned(), input.get(end + 1..).unwrap_or_default())
}
