//! The console as WebAssembly: a browser runs the pages on objects that it never sends anywhere.
//!
//! The interface is a buffer in each direction and five functions: [`playground_input`] makes room for bytes that the page
//! writes, and [`playground_output`] with [`playground_output_length`] is what it reads after a call. This needs no bindings
//! and no dereferenced pointer. `assets/playground.js` is the other side; [`Playground`] is the same without exports.
//!
//! A call that panics ends the instance: the page takes a new one, and reads why from the output of the old one.

mod exports;
mod playground;

pub use exports::{
    playground_add, playground_input, playground_open, playground_output, playground_output_length,
    playground_respond,
};
pub use playground::Playground;
