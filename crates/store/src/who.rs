//! Which client of the configuration a connection is of, and that all of them can come.

use crate::config::{Client, Config};
use crate::tls;
use headworks_volume::nbd::{Origin, Peer};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

/// Its name. The empty name is any, where no clients are named. None is a stranger.
pub fn who(config: &Config, peer: &Peer) -> Option<String> {
    if config.clients.is_empty() {
        return Some(String::new());
    }
    let is = |client: &&Client| match (&peer.certificate, peer.origin) {
        (Some(shown), _) => {
            client.certificate.as_ref().is_some_and(|name| tls::is_for(shown, name))
        }
        (None, Origin::Unix { uid }) => client.uid == Some(uid),
        (None, Origin::Tcp(address)) => client.address == Some(address.ip()),
    };
    config.clients.iter().find(is).map(|client| client.name.clone())
}

/// Users that the configuration names can come to the Unix sockets: who it is, is looked at then.
/// Where none is named, the sockets stay as the umask has them, or are ours alone again if they
/// were `open` before.
pub fn open_sockets(config: &Config, open: bool) {
    let mode = match config.names_users() {
        true => 0o666,
        false if open => 0o600,
        false => return,
    };
    for path in config.listen.iter().filter_map(|place| place.strip_prefix("unix:")) {
        if let Err(error) = std::fs::set_permissions(path, Permissions::from_mode(mode)) {
            eprintln!("headworks-store: clients by uid may not reach {path}: {error}");
        }
    }
}
