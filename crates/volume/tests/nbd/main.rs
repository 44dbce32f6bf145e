//! The NBD server from outside: a client that says exactly what a test wants, and Debian's clients.

mod backing;
mod clients;
mod commands;
mod ends;
mod hostile;
mod isolation;
mod listening;
mod raw;
mod served;
