//! `berth webhook` against the embedded API server over TLS: what it admits, and what becomes of requests when it
//! changes its certificate or dies.

mod answers;
mod bindings;
mod certificates;
mod in_process;
mod world;
