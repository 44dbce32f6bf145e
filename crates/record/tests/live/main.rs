//! The recorder on real programs. It takes the right to load eBPF: without, the tests skip.

mod leaves;
mod object;
mod random;
mod server;
