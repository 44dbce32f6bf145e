//! One connection to any database that can be asked again and again: a user of the crowd, a worker,
//! a checker.

use std::net::{Ipv4Addr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use headworks_rig::{Address, Client, ConnectOptions, DATABASE};
use postgres::NoTls;
use rustix::net::{AddressFamily, SocketAddrV4, SocketType, bind, connect, socket};

use crate::database::Database;

mod memcached;
mod mongo;
mod redis;

/// No answer takes longer on any machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a request of the crowd keeps its place.
const WORK: Duration = Duration::from_millis(3);

/// The address that the crowd's users have where the protocol has no names.
pub const CROWD_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// See the module.
pub enum Asker {
    /// To a MariaDB.
    MariaDb(Box<Client>),
    /// To a PostgreSQL.
    PostgreSql(Box<postgres::Client>),
    /// To a Redis.
    Redis(redis::Client),
    /// To a memcached.
    Memcached(memcached::Client),
    /// To a server of MongoDB's protocol.
    MongoDb(mongo::Client),
}

impl Asker {
    /// Connects, named `name` where the protocol has names. Where it has none, names that begin
    /// with `crowd-` come from [`CROWD_ADDRESS`].
    pub fn connect(database: Database, port: u16, name: &str) -> Result<Asker> {
        Ok(match database {
            Database::MariaDb | Database::MariaDbPool => {
                let address = Address::Tcp(([127, 0, 0, 1], port).into());
                let options = ConnectOptions::new(address, headworks_rig::ACCOUNT);
                let options = options.database(DATABASE).attribute("program_name", name);
                Asker::MariaDb(Box::new(options.read_timeout(ANSWER_TIMEOUT).connect()?))
            }
            Database::PostgreSql => {
                let mut config = postgres::Config::new();
                config.host("127.0.0.1").port(port).user(headworks_rig::SUPERUSER);
                config.dbname("postgres").application_name(name);
                config.tcp_user_timeout(ANSWER_TIMEOUT);
                Asker::PostgreSql(Box::new(config.connect(NoTls)?))
            }
            Database::Redis => Asker::Redis(redis::Client::new(stream(port, None)?, name)?),
            Database::Memcached => {
                let from = name.starts_with("crowd-").then_some(CROWD_ADDRESS);
                Asker::Memcached(memcached::Client::new(stream(port, from)?)?)
            }
            Database::MongoDb => Asker::MongoDb(mongo::Client::new(stream(port, None)?, name)?),
        })
    }

    /// Asks in the database's own language. Returns the first value of the first row of the answer.
    pub fn ask(&mut self, text: &str) -> Result<String> {
        match self {
            Asker::MariaDb(client) => {
                let answer = client.query(text)?;
                Ok(answer.value().unwrap_or_default().to_owned())
            }
            Asker::PostgreSql(client) => {
                for message in client.simple_query(text)? {
                    if let postgres::SimpleQueryMessage::Row(row) = message {
                        return Ok(row.get(0).unwrap_or_default().to_owned());
                    }
                }
                Ok(String::new())
            }
            Asker::Redis(client) => client.ask(text),
            Asker::Memcached(client) => client.ask(text),
            Asker::MongoDb(client) => client.ask(text),
        }
    }

    /// Asks for something of which the right answer is known.
    pub fn check(&mut self) -> Result<()> {
        let (question, right) = match self {
            Asker::MariaDb(_) | Asker::PostgreSql(_) => ("SELECT 42", "42"),
            Asker::Redis(_) => ("ECHO 42", "42"),
            Asker::Memcached(_) => ("get no-such-key", "END"),
            Asker::MongoDb(_) => ("count", "1"),
        };
        let answer = self.ask(question)?;
        ensure!(answer == right, "{question}: {answer}, not {right}");
        Ok(())
    }

    /// Writes a number under a name of this client's own and asks for it: whether the right answer
    /// comes back. Of the stores that have no language for that.
    pub fn stamp(&mut self, client: u32, stamp: u64) -> Result<bool> {
        match self {
            Asker::Memcached(asker) => {
                let text = stamp.to_string();
                let set = format!("set own-{client} 0 0 {}\r\n{text}", text.len());
                let next = (stamp + 1).to_string();
                Ok(asker.ask(&set)? == "STORED"
                    && asker.ask(&format!("incr own-{client} 1"))? == next)
            }
            Asker::MongoDb(asker) => asker.stamp(client, stamp),
            _ => bail!("its language has no such request"),
        }
    }

    /// A request of the crowd: it has a place for some milliseconds.
    pub fn work(&mut self) -> Result<()> {
        self.stay(WORK)
    }

    /// Has a place for this long: by a statement that sleeps, or by a transaction. memcached has
    /// neither: much work there.
    pub fn stay(&mut self, time: Duration) -> Result<()> {
        let seconds = time.as_secs_f64();
        match self {
            Asker::MariaDb(_) => self.ask(&format!("SELECT SLEEP({seconds})")).map(drop),
            Asker::PostgreSql(_) => self.ask(&format!("SELECT pg_sleep({seconds})")).map(drop),
            Asker::Redis(client) => {
                client.converse("MULTI")?;
                sleep(time);
                client.converse("EXEC").map(drop)
            }
            Asker::Memcached(client) => client.work(),
            Asker::MongoDb(client) => {
                client.begin()?;
                sleep(time);
                client.commit()
            }
        }
    }
}

/// A connection to a server's port, from an address of this machine.
fn stream(port: u16, from: Option<Ipv4Addr>) -> Result<TcpStream> {
    let own = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    if let Some(from) = from {
        bind(&own, &SocketAddrV4::new(from, 0))?;
    }
    connect(&own, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).context("cannot connect")?;
    let stream = TcpStream::from(own);
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    Ok(stream)
}
