//! Workloads for databases: the experiments' clients, and their measurements.
//!
//! * [`db`]: a workload's interface to a database, for MariaDB/MySQL and PostgreSQL.
//! * [`driver`]: any number of users in a closed or an open loop, with latencies, throughput and
//!   fairness.
//! * [`files`]: threads that write, flush and read files.
//! * [`priority`]: clients that do not wait for a processor.
//! * [`redis`]: many connections to a Redis, counted one by one.
//! * [`sysbench`]: the OLTP workloads of sysbench: tables, users, consistency.
//! * [`tpcc`]: the TPC-C workload: population, terminals, consistency.
//! * [`ycsb`]: the six standard workloads of YCSB.
//!
//! A workload knows nothing of the gate, so it measures a database with and without it alike.
#![forbid(unsafe_code)]

mod bulk;
mod condition;
pub mod db;
pub mod driver;
pub mod files;
pub mod priority;
pub mod random;
pub mod redis;
pub mod sysbench;
pub mod tpcc;
pub mod ycsb;
