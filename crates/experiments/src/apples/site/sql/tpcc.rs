//! TPC-C's tables and terminals.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use headworks_workload::db::{Database, DbError, Session};
use headworks_workload::driver::{self, Progress as Told, Report};
use headworks_workload::tpcc::{
    Home, LoadOptions, MixHandle, Pace, Population, Terminal, TerminalOptions, check, load,
};

use super::{Content, Drive, Place, consistent};

/// Warehouses of a full and of a quick run. At 32 the tables (3.2 GB) fit into memory.
const WAREHOUSES: (i64, i64) = (32, 2);

/// What a quick run divides the tables by.
const QUICK_SCALE: i64 = 30;

/// The seed of what is loaded.
const SEED: u64 = 1;

/// TPC-C.
pub(in super::super) struct TpcC(Population);

impl TpcC {
    pub(in super::super) fn new(place: Place<'_>) -> Result<Self, DbError> {
        let (warehouses, scale) =
            if place.quick { (WAREHOUSES.1, QUICK_SCALE) } else { (WAREHOUSES.0, 1) };
        Population::new(warehouses, scale, SEED).map(Self)
    }
}

impl Content for TpcC {
    fn database(&self) -> &'static str {
        "tpcc"
    }

    fn fill(&self, database: &Database, tick: &mut dyn FnMut() -> bool) -> Result<(), DbError> {
        let options = LoadOptions { threads: 4, ..LoadOptions::default() };
        load(database, &self.0, &options, &mut |_, _| tick())
    }

    fn reads(&self) -> Vec<String> {
        ["SELECT SUM(LENGTH(s_data)) FROM stock", "SELECT SUM(LENGTH(c_data)) FROM customer"]
            .map(str::to_owned)
            .into()
    }

    fn drive(&self, accounts: &[Database; 2], drive: Drive<'_>) -> Result<Report, DbError> {
        let load = drive.load;
        let terminals = TerminalOptions {
            population: self.0,
            seed: drive.seed,
            mix: MixHandle::new(load.mix),
            home: Home::Fixed,
            pace: Pace::default(),
        };
        let connect = |number: usize| -> Result<Terminal, DbError> {
            Terminal::connect(&accounts[usize::from(number >= load.sensitive)], &terminals, number)
        };
        let flipped = AtomicBool::new(false);
        let observe = &mut |told: &Told| {
            (drive.tick)(told.elapsed);
            if let Some(then) = load.then
                && told.elapsed >= drive.how.warm_up
                && !flipped.swap(true, Ordering::Relaxed)
            {
                terminals.mix.set(then);
            }
        };
        driver::run(drive.how, Terminal::KINDS, &connect, drive.stop, observe)
    }

    fn check(&self, session: &mut dyn Session) -> Result<()> {
        consistent(&check(session)?)
    }
}
