//! The recorder on real programs. It takes the right to load eBPF: without, the tests skip.

mod agent;
mod cgroup;
mod conserve;
mod copied;
mod hosts;
mod inputs;
mod jfr;
mod leaves;
mod limits;
mod object;
mod parts;
mod random;
mod refused;
mod server;
mod simulated;
mod watch;
