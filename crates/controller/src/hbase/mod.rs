//! A stock HBase: our settings go into its configuration, and come out again.
//!
//! HBase's own files are edited by blocks between two marks, at their ends. What stands before is
//! not touched: of two values of one name HBase takes the later one. So taking our blocks out gives
//! the files back byte by byte.

pub mod doctor;
pub mod edit;
pub mod enforced;
pub mod figures;
pub mod jmx;
pub mod metrics;
pub mod queues;
pub mod settings;
pub mod shell;
pub mod show;
pub mod site;
