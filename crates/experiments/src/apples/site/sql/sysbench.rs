//! sysbench's tables and users.

use anyhow::Result;
use headworks_workload::db::{Database, DbError, Session};
use headworks_workload::driver::{self, Progress as Told, Report};
use headworks_workload::sysbench::{
    LoadOptions, Oltp, Popularity, Tables, User, UserOptions, check, load,
};

use super::{Content, Drive, Place, consistent};
use crate::apples::figure::Workload;

/// Tables and rows of each, of a full (0.5 GB, which fit into memory) and of a quick run.
const SIZES: [(usize, i64); 2] = [(10, 200_000), (4, 5_000)];

/// The seed of what is loaded.
const SEED: u64 = 1;

/// sysbench's OLTP.
pub(in super::super) struct Sysbench {
    tables: Tables,
    /// Unless a load has another.
    workload: Oltp,
}

impl Sysbench {
    pub(in super::super) fn new(workload: Oltp, place: Place<'_>) -> Result<Self, DbError> {
        let (count, rows) = SIZES[usize::from(place.quick)];
        Ok(Self { tables: Tables::new(count, rows, SEED)?, workload })
    }
}

impl Content for Sysbench {
    fn database(&self) -> &'static str {
        "sbtest"
    }

    fn fill(&self, database: &Database, tick: &mut dyn FnMut() -> bool) -> Result<(), DbError> {
        let options = LoadOptions { threads: 4, ..LoadOptions::default() };
        load(database, &self.tables, &options, &mut |_, _| tick())
    }

    fn reads(&self) -> Vec<String> {
        let rows = |table| format!("SELECT SUM(LENGTH(c)), SUM(k) FROM sbtest{table}");
        // By the index on k, which has all that is asked for.
        let index = |table| format!("SELECT COUNT(*) FROM sbtest{table} WHERE k >= 0");
        self.tables.numbers().flat_map(|table| [rows(table), index(table)]).collect()
    }

    fn drive(&self, accounts: &[Database; 2], drive: Drive<'_>) -> Result<Report, DbError> {
        let load = drive.load;
        let users = UserOptions {
            workload: match load.workload {
                Some(Workload::Sysbench(workload)) => workload,
                _ => self.workload,
            },
            popularity: Popularity::default(),
            tables: self.tables,
            seed: drive.seed,
        };
        let connect = |number: usize| -> Result<User, DbError> {
            User::connect(&accounts[usize::from(number >= load.sensitive)], &users, number)
        };
        let observe = &mut |told: &Told| (drive.tick)(told.elapsed);
        driver::run(drive.how, User::KINDS, &connect, drive.stop, observe)
    }

    fn check(&self, session: &mut dyn Session) -> Result<()> {
        consistent(&check(session, &self.tables)?)
    }
}
