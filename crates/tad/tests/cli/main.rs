//! The program `headworks-tad`: what it prints, what it refuses, and its exit codes.

mod commands;
mod fix;
mod support;
