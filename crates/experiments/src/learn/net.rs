//! Hosts in network namespaces: each reaches its store over TCP with TLS, by a tunnel.

use super::process::steady;
use crate::running::{self, Running};
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Most networks of a process: of each its own part of 10.201.0.0/16.
static NEXT: AtomicU8 = AtomicU8::new(1);

/// The port of stores, in their own part each.
const PORT: u16 = 10_809;

/// An authority, the store's certificate for its addresses, and the hosts'.
const CERTIFICATES: &str = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem 2>/dev/null
for name in store host; do
  openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name.key -out $name.csr 2>/dev/null
  printf 'subjectAltName=%s' \"$1\" > $name.ext
  openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem 2>/dev/null
done";

/// The networks of one store and its hosts. They go when this is dropped.
pub(super) struct Net {
    dir: PathBuf,
    number: u8,
    namespaces: Vec<String>,
    tunnels: Vec<Running>,
}

impl Net {
    /// Makes a namespace for each host, with one cable to this machine.
    pub(super) fn new(dir: &Path, hosts: usize) -> Result<Net> {
        std::fs::create_dir_all(dir)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let (namespaces, tunnels) = (Vec::new(), Vec::new());
        let mut net = Net { dir: dir.to_owned(), number, namespaces, tunnels };
        let addresses: Vec<String> =
            (0..hosts).map(|host| format!("IP:{}", net.address(host, 1))).collect();
        let mut openssl = Command::new("sh");
        openssl.args(["-c", CERTIFICATES, "sh", &addresses.join(",")]).current_dir(dir);
        let made = running::output(&mut openssl)?;
        ensure!(made.status.success(), "openssl cannot make certificates");
        for host in 0..hosts {
            let name = format!("hwl{}-{number}-{host}", std::process::id());
            // Names of cables have 15 letters at most.
            let cable = format!("hwl{number}x{host}");
            ip(&["netns", "add", &name])?;
            net.namespaces.push(name.clone());
            ip(&["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &name])?;
            ip(&["address", "add", &format!("{}/30", net.address(host, 1)), "dev", &cable])?;
            ip(&["link", "set", &cable, "up"])?;
            let there = format!("{}/30", net.address(host, 2));
            ip(&["-n", &name, "address", "add", &there, "dev", "eth0"])?;
            ip(&["-n", &name, "link", "set", "eth0", "up"])?;
        }
        Ok(net)
    }

    /// Of a cable's end: 1 is the store's.
    fn address(&self, host: usize, end: u8) -> String {
        format!("10.201.{}.{}", self.number, 4 * host + usize::from(end))
    }

    /// What the store's configuration says of it: where it listens, and its certificates.
    pub(super) fn listens(&self) -> (String, String) {
        let hosts = 0..self.namespaces.len();
        let places = hosts.map(|host| format!(", \"tcp:{}:{PORT}\"", self.address(host, 1)));
        let file = |name: &str| self.dir.join(name).display().to_string();
        let tls = format!(
            "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclients = \"{}\"\n",
            file("store.pem"),
            file("store.key"),
            file("ca.pem")
        );
        (places.collect(), tls)
    }

    /// The socket in a host's hands, which leads to the store.
    pub(super) fn tunnel(&mut self, program: &Path, host: usize) -> Result<PathBuf> {
        let socket = self.dir.join(format!("tunnel{host}"));
        let file = |name: &str| self.dir.join(name);
        let mut command = steady(Path::new("/usr/sbin/ip"));
        command.args(["netns", "exec", &self.namespaces[host]]).arg(program);
        command.args(["store", "tunnel", &format!("{}:{PORT}", self.address(host, 1))]);
        command.arg("--socket").arg(&socket).arg("--certificate").arg(file("host.pem"));
        command.arg("--key").arg(file("host.key")).arg("--servers").arg(file("ca.pem"));
        let log = self.dir.join(format!("tunnel{host}.log"));
        self.tunnels.push(Running::spawn("headworks store tunnel", command, &log)?);
        let begun = Instant::now();
        while !socket.exists() {
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            ensure!(begun.elapsed() < Duration::from_secs(20), "no tunnel:\n{}", said());
            running::pause(Duration::from_millis(20))?;
        }
        Ok(socket)
    }
}

fn ip(words: &[&str]) -> Result<()> {
    let output = Command::new("/usr/sbin/ip").args(words).output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}` fails: {}", words.join(" "), said.trim());
    Ok(())
}

impl Drop for Net {
    fn drop(&mut self) {
        self.tunnels.clear();
        for name in &self.namespaces {
            // The cable goes with its end there.
            let _ = ip(&["netns", "del", name]);
        }
    }
}
