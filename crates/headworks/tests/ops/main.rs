//! What an operator does with the gate: profiles, servers that no profile knows, services, metrics,
//! explanations.

mod attend;
#[path = "../victims/compile.rs"]
#[allow(dead_code)] // each test program uses a part of it
mod compile;
mod debian;
mod echo;
mod explain;
mod files;
mod generic;
mod metrics;
mod profiles;
mod reach;
#[path = "../failopen/support.rs"]
#[allow(dead_code)] // each test program uses a part of it
mod support;
mod wrapped;
