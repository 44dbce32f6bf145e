//! What is known of each database: one profile for each, as data.

use headworks_region::Protocol;
use std::ffi::OsStr;
use std::path::Path;

/// One kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Names of its program; what follows them after a `-` or `_` does not matter.
    pub programs: &'static [&'static str],
    /// Programs that only start the server and end, with which it cannot be put behind the gate.
    pub starters: &'static [&'static str],
    /// What its clients speak, and with it whether threads or processes serve them.
    pub protocol: Protocol,
    /// Whether its threads serve many connections each, where the protocol leaves that open.
    pub loops: bool,
    /// Debian's package.
    pub package: &'static str,
}

/// All profiles. The first is that of every program that no other knows.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "mariadb",
        programs: &["mariadbd", "mysqld"],
        starters: &[],
        protocol: Protocol::MySql,
        loops: false,
        package: "mariadb-server",
    },
    Profile {
        name: "postgresql",
        programs: &["postgres", "postmaster"],
        starters: &["pg_ctl", "pg_ctlcluster"],
        protocol: Protocol::PostgreSql,
        loops: false,
        package: "postgresql",
    },
    Profile {
        name: "redis",
        programs: &["redis-server", "valkey-server"],
        starters: &[],
        protocol: Protocol::Redis,
        loops: false,
        package: "redis-server",
    },
    Profile {
        name: "memcached",
        programs: &["memcached"],
        starters: &[],
        protocol: Protocol::Memcached,
        loops: false,
        package: "memcached",
    },
    // mongod and mongos receive by recvmsg in a thread for each connection. Written after their sources: none was at
    // hand to try it on.
    Profile {
        name: "mongodb",
        programs: &["mongod", "mongos"],
        starters: &[],
        protocol: Protocol::MongoDb,
        loops: false,
        package: "mongodb-org-server",
    },
    // Servers of MongoDB's protocol on event loops, as those in Java. No program's name says so: `--profile` does.
    Profile {
        name: "mongodb-loops",
        programs: &[],
        starters: &[],
        protocol: Protocol::MongoDb,
        loops: true,
        package: "default-jre-headless",
    },
];

/// Name of a program's file without its directory.
fn file_name(program: &Path) -> &str {
    program.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

impl Profile {
    /// Whether this is the server's program.
    pub fn knows(&self, program: &Path) -> bool {
        self.programs.iter().any(|known| {
            let rest = file_name(program).strip_prefix(known);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
        })
    }
}

/// The profile that knows a program, if one does.
pub fn known(program: &Path) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.knows(program))
}

/// The profile for a program.
pub fn of(program: &Path) -> &'static Profile {
    known(program).unwrap_or(&PROFILES[0])
}

/// The profile of a name, or else for a program.
pub fn chosen(name: Option<&str>, program: &Path) -> Result<&'static Profile, UnknownProfile> {
    let Some(name) = name else { return Ok(of(program)) };
    PROFILES
        .iter()
        .find(|profile| profile.name == name)
        .ok_or_else(|| UnknownProfile { name: name.to_owned() })
}

/// No profile has this name.
#[derive(Debug, thiserror::Error)]
#[error(
    "there is no profile `{name}`\n  choose one of: {}",
    PROFILES.iter().map(|profile| profile.name).collect::<Vec<_>>().join(", ")
)]
pub struct UnknownProfile {
    /// As given.
    pub name: String,
}

/// The profile of the server that a program would start and leave.
pub fn started_by(program: &Path) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.starters.contains(&file_name(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_name() {
        for (program, name) in [
            ("/usr/sbin/mariadbd", "mariadb"),
            ("mysqld_safe", "mariadb"),
            ("mariadbd-safe", "mariadb"),
            ("/usr/lib/postgresql/15/bin/postgres", "postgresql"),
            ("postmaster", "postgresql"),
            ("/usr/bin/redis-server", "redis"),
            ("memcached", "memcached"),
            ("/usr/bin/mongod", "mongodb"),
            ("mongos", "mongodb"),
            ("something-else", "mariadb"),
        ] {
            assert_eq!(of(Path::new(program)).name, name, "{program}");
        }
        let java = Path::new("/usr/bin/java");
        assert!(chosen(Some("mongodb-loops"), java).unwrap().loops);
        assert_eq!(chosen(None, java).unwrap().name, "mariadb");
        assert!(chosen(Some("mongo"), java).unwrap_err().to_string().contains("mongodb-loops"));
        assert_eq!(known(Path::new("mongodump")), None);
        assert_eq!(known(Path::new("postgrest")), None);
        assert_eq!(started_by(Path::new("/usr/bin/pg_ctl")).map(|p| p.name), Some("postgresql"));
        assert_eq!(started_by(Path::new("postgres")), None);
    }
}
