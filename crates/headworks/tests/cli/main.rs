//! The command line: what it refuses and how it says so, what it leaves behind (nothing), and
//! who may look at what it makes.

mod apart;
mod control;
mod files;
mod io;
mod refusals;
mod server;
#[path = "../failopen/support.rs"]
#[allow(dead_code)] // each test program uses a part of it
mod support;
mod versions;
mod words;
