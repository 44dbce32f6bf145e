//! Users that keep every place of a server busy, so that whoever else comes is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use headworks_rig::{Address, Client, ConnectOptions, DATABASE};
use postgres::NoTls;

use crate::database::Database;

/// One connection that can be asked again and again.
pub enum Asker {
    /// To a MariaDB.
    MariaDb(Box<Client>),
    /// To a PostgreSQL.
    PostgreSql(Box<postgres::Client>),
}

impl Asker {
    /// Connects, named `name` where the protocol has names.
    pub fn connect(database: Database, port: u16, name: &str) -> Result<Asker> {
        let patience = Duration::from_secs(60);
        Ok(match database {
            Database::MariaDb => {
                let address = Address::Tcp(([127, 0, 0, 1], port).into());
                let options = ConnectOptions::new(address, headworks_rig::ACCOUNT);
                let options = options.database(DATABASE).attribute("program_name", name);
                Asker::MariaDb(Box::new(options.read_timeout(patience).connect()?))
            }
            Database::PostgreSql => {
                let mut config = postgres::Config::new();
                config.host("127.0.0.1").port(port).user(headworks_rig::SUPERUSER);
                config.dbname("postgres").application_name(name);
                config.tcp_user_timeout(patience);
                Asker::PostgreSql(Box::new(config.connect(NoTls)?))
            }
        })
    }

    /// First value of the first row of the answer.
    pub fn ask(&mut self, sql: &str) -> Result<String> {
        match self {
            Asker::MariaDb(client) => {
                let answer = client.query(sql)?;
                Ok(answer.value().unwrap_or_default().to_owned())
            }
            Asker::PostgreSql(client) => {
                for message in client.simple_query(sql)? {
                    if let postgres::SimpleQueryMessage::Row(row) = message {
                        return Ok(row.get(0).unwrap_or_default().to_owned());
                    }
                }
                Ok(String::new())
            }
        }
    }
}

/// A statement that is at work for some milliseconds.
pub fn slow_statement(database: Database) -> &'static str {
    match database {
        Database::MariaDb => "SELECT SLEEP(0.003)",
        Database::PostgreSql => "SELECT pg_sleep(0.003)",
    }
}

/// See the module. Leaves when dropped.
pub struct Crowd {
    ended: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    users: Vec<JoinHandle<Result<()>>>,
}

impl Crowd {
    /// Gathers `users` users.
    pub fn gather(database: Database, port: u16, users: usize) -> Result<Crowd> {
        let (ended, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut crowd = Crowd { ended, requests, users: Vec::new() };
        for number in 0..users {
            let mut asker = Asker::connect(database, port, &format!("crowd-{number}"))
                .context("the crowd cannot connect")?;
            let (ended, requests) = (Arc::clone(&crowd.ended), Arc::clone(&crowd.requests));
            crowd.users.push(spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    asker.ask(slow_statement(database))?;
                    requests.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }));
        }
        Ok(crowd)
    }

    /// Requests answered so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Leaves; an error that a user got.
    pub fn leave(mut self) -> Result<()> {
        self.ended.store(true, Ordering::Relaxed);
        for user in self.users.drain(..) {
            match user.join() {
                Ok(done) => done.context("a user of the crowd")?,
                Err(_) => bail!("a user of the crowd panicked"),
            }
        }
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for user in self.users.drain(..) {
            let _ = user.join();
        }
    }
}
