//! What a PostgreSQL server will listen on, where its data is and who owns it, found before it
//! starts.
//!
//! The server prints its own settings, option files included: `postgres -C NAME ARGUMENTS…` prints
//! one and exits. With `-C` as the first argument this works for root too.

use super::ServerSettings;
use super::server::output_of;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings with which `program args...` would run. If the server reports no value, it is left
/// open: the server then reports the error itself.
pub fn postgres_settings(program: &Path, args: &[OsString]) -> ServerSettings {
    let ask = |name: &str| {
        let mut command = Command::new(program);
        command.args(["-C", name]).args(args);
        output_of(command).map(|value| value.trim_end_matches('\n').to_owned())
    };
    let datadir = ask("data_directory").map(PathBuf::from);
    let port = ask("port").and_then(|port| port.parse::<u16>().ok());
    let listen = ask("listen_addresses");
    let directories = ask("unix_socket_directories").unwrap_or_default();
    let socket = directories.split(',').map(str::trim).find(|directory| !directory.is_empty());
    ServerSettings {
        socket: socket.zip(port).map(|(directory, port)| {
            let relative = datadir.clone().unwrap_or_default();
            relative.join(directory).join(format!(".s.PGSQL.{port}"))
        }),
        port: port.filter(|_| listen.as_deref().is_some_and(|listen| !listen.trim().is_empty())),
        extra_port: None,
        bind_address: listen,
        thread_handling: None,
        user: None,
        datadir,
    }
}

/// User and group that own a server's data. The server has to run as these.
pub fn owner_of_data(datadir: &Path) -> std::io::Result<(u32, u32)> {
    let data = std::fs::metadata(datadir)?;
    Ok((data.uid(), data.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_real_server_tells_what_is_in_its_option_file() {
        let Ok(program) = super::super::resolve(Path::new("postgres")) else {
            eprintln!("skipped: no postgres on this machine");
            return;
        };
        let data = std::env::temp_dir().join(format!("headworks-pgconf-{}", std::process::id()));
        std::fs::create_dir(&data).unwrap();
        let text = "port = 5499\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = '/tmp/x, /tmp/y'\n";
        std::fs::write(data.join("postgresql.conf"), text).unwrap();
        let args = |more: &[&str]| -> Vec<OsString> {
            let mut args = vec![OsString::from("-D"), data.clone().into()];
            args.extend(more.iter().map(OsString::from));
            args
        };
        let settings = postgres_settings(&program, &args(&[]));
        assert_eq!(settings.port, Some(5499));
        assert_eq!(settings.bind_address.as_deref(), Some("127.0.0.1"));
        assert_eq!(settings.socket, Some(PathBuf::from("/tmp/x/.s.PGSQL.5499")));
        assert_eq!(settings.datadir.as_deref(), Some(&*data));
        let settings = postgres_settings(&program, &args(&["-p", "5498", "-h", ""]));
        assert_eq!((settings.port, settings.bind_address.as_deref()), (None, Some("")));
        assert_eq!(settings.socket, Some(PathBuf::from("/tmp/x/.s.PGSQL.5498")));
        std::fs::remove_dir_all(&data).unwrap();
        assert_eq!(postgres_settings(&program, &args(&[])).datadir, None, "no such directory");
    }
}
