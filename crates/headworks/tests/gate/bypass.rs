//! Who and what passes at any load.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::time::Duration;

use headworks_rig::{ACCOUNT, Address, ConnectOptions, DATABASE};

use crate::common::{Gate, Setup, User};
use crate::owner::leave;
use crate::relay::Relay;

/// COM_CHANGE_USER.
const CHANGE_USER: u8 = 0x11;

/// COM_STATISTICS.
const STATISTICS: u8 = 0x09;

const CROWD: usize = 50;

/// A gate whose only place is taken, with many users that are held.
struct Full {
    gate: Gate,
    occupant: User,
    held: Vec<User>,
}

impl Full {
    fn new(setup: Setup) -> Option<Full> {
        let gate = setup.start()?;
        gate.sql("CREATE USER admin");
        let occupant = gate.occupy();
        let held = (0..CROWD).map(|_| gate.user("held")).map(|mut user| {
            user.send_query("SELECT 7").unwrap();
            user
        });
        let held = held.collect();
        gate.wait("all are held", |status| status.number("waiting") == CROWD as u64);
        Some(Full { gate, occupant, held })
    }

    /// The user is answered although all others are still held.
    fn passes(&self, what: &str, mut user: User) {
        user.send_query("SELECT 9").unwrap();
        assert_eq!(user.value(), "9", "{what}");
        self.still_full(what);
        user.quit();
    }

    fn still_full(&self, what: &str) {
        let waiting = self.gate.status().number("waiting");
        assert_eq!(waiting, CROWD as u64, "{what}: all others are held");
    }

    fn end(self) {
        self.gate.release(self.occupant);
        for mut user in self.held {
            assert_eq!(user.value(), "7");
            user.quit();
        }
        self.gate.wait_empty();
    }
}

#[test]
fn administrators_pass_by_account_by_address_and_by_the_extra_port() {
    let extra_port = headworks_rig::free_port().unwrap();
    let rules = "[[rule]]\naccount = \"adm*\"\nbypass = true\n\
                 [[rule]]\naddress = \"127.0.0.2\"\nbypass = true\n\
                 [[rule]]\naddress = \"127.0.3.0/24\"\nbypass = true\n\
                 [[rule]]\naddress = \"local\"\naccount = \"app\"\nbypass = true\n";
    let setup = Setup::places(1)
        .sections(rules)
        .option(format!("--extra-port={extra_port}"))
        .option("--extra-max-connections=5");
    let Some(full) = Full::new(setup) else {
        return;
    };
    let gate = &full.gate;
    let before = gate.status().counter("administrator");

    let admin = ConnectOptions::new(gate.server.tcp(), "admin");
    full.passes("account", gate.user_with("account", admin));
    for source in [Ipv4Addr::new(127, 0, 0, 2), Ipv4Addr::new(127, 0, 3, 77)] {
        let relay = Relay::new(&gate.server, source);
        full.passes("address", gate.user_with("address", relay.options()));
    }
    let local = ConnectOptions::new(gate.server.unix(), ACCOUNT);
    full.passes("Unix socket", gate.user_with("local", local));
    let address = Address::Tcp((Ipv4Addr::LOCALHOST, extra_port).into());
    let extra = ConnectOptions::new(address, ACCOUNT).database(DATABASE);
    full.passes("extra port", gate.user_with("extra", extra));
    assert_eq!(gate.status().counter("administrator"), before + 5);

    let relay = Relay::new(&gate.server, Ipv4Addr::new(127, 0, 0, 3));
    let mut stranger = gate.user_with("stranger", relay.options());
    stranger.send_query("SELECT 9").unwrap();
    assert!(gate.is_held(&stranger), "another address is not exempt");
    full.end();
    leave([stranger]);
}

#[test]
fn behind_a_load_balancer_sessions_are_held_and_known_by_their_clients_address() {
    let rules = "[[rule]]\naddress = \"198.51.100.7\"\nbypass = true\n";
    let setup = Setup::places(1).sections(rules).option("--proxy-protocol-networks=127.0.0.2");
    let Some(full) = Full::new(setup) else {
        return;
    };
    let gate = &full.gate;
    let version1 =
        |client: &str| format!("PROXY TCP4 {client} 127.0.0.1 4711 3306\r\n").into_bytes();
    let version2 = |client: [u8; 4]| {
        let ends = [&client[..], &[127, 0, 0, 1, 0x12, 0x67, 0x0c, 0xea]].concat();
        [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &ends].concat()
    };
    let through = |role: &str, header: &[u8]| {
        let relay = Relay::with_header(&gate.server, Ipv4Addr::new(127, 0, 0, 2), header);
        gate.user_with(role, relay.options())
    };
    // Two proxies in a row: the server takes the last header.
    let both = [version1("198.51.100.8"), version2([198, 51, 100, 7])].concat();
    for header in [version1("198.51.100.7"), version2([198, 51, 100, 7]), both] {
        full.passes("the client's address", through("known", &header));
    }
    let both = [version1("198.51.100.7"), version1("198.51.100.8")].concat();
    let headers = [version1("198.51.100.8"), version2([198, 51, 100, 8]), both];
    let mut strangers: Vec<User> =
        headers.iter().map(|header| through("stranger", header)).collect();
    for stranger in &mut strangers {
        stranger.send_query("SELECT 9").unwrap();
        assert!(gate.is_held(stranger));
        let status = gate.status();
        let mut connections = status.0["connections"].as_array().unwrap().iter();
        let found = connections.find(|each| each["application"] == stranger.name.as_str());
        assert_eq!(found.unwrap()["address"], "198.51.100.8");
    }
    assert_eq!(gate.status().counter("opaque_unknown"), 0);
    full.end();
    for stranger in &mut strangers {
        assert_eq!(stranger.value(), "9");
    }
    leave(strangers);
}

/// A server that listens on all addresses sees those of IPv4 as parts of IPv6.
#[test]
fn rules_know_addresses_of_ipv6() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        println!("skipped: no IPv6 on this machine");
        return;
    }
    let rules = "[[rule]]\naddress = \"::1/128\"\nbypass = true\n";
    let setup = Setup::places(1).sections(rules).option("--bind-address=*");
    let Some(full) = Full::new(setup) else {
        return;
    };
    let gate = &full.gate;
    let address = Address::Tcp((Ipv6Addr::LOCALHOST, gate.server.port()).into());
    let six = ConnectOptions::new(address, ACCOUNT).database(DATABASE);
    full.passes("IPv6", gate.user_with("six", six));
    let mut four = gate.user("four");
    four.send_query("SELECT 9").unwrap();
    assert!(gate.is_held(&four), "IPv4 is not exempt");
    full.end();
    leave([four]);
}

#[test]
fn kill_ping_and_statistics_pass_for_everybody() {
    let Some(full) = Full::new(Setup::places(1)) else {
        return;
    };
    let mut user = full.gate.user("user");
    user.ping().unwrap();
    full.still_full("ping");
    user.send_command(STATISTICS, &[]).unwrap();
    let statistics = String::from_utf8(user.read_packet().unwrap()).unwrap();
    assert!(statistics.starts_with("Uptime: "), "{statistics}");
    full.still_full("statistics");
    let absent = format!("KILL {}", u32::MAX);
    assert_eq!(user.query(&absent).unwrap_err().code(), Some(1094));
    full.still_full("KILL of no session");

    let victim = full.gate.user("victim");
    user.run(&format!("KILL CONNECTION {}", victim.connection_id()));
    full.still_full("KILL");
    full.gate.wait("the victim is gone", |status| status.state(&victim.name).is_empty());

    let text = "SELECT 1; KILL 1";
    user.send_query(text).unwrap();
    assert!(full.gate.is_held(&user), "`{text}` is more than a KILL");
    // It would run in vain: who sent it says goodbye before its turn has come.
    drop(user);
    full.end();
}

#[test]
fn who_becomes_an_administrator_passes_and_who_ceases_to_be_one_is_held() {
    let Some(full) =
        Full::new(Setup::places(1).sections("[[rule]]\naccount = \"adm*\"\nbypass = true\n"))
    else {
        return;
    };
    let become_account = |user: &mut User, account: &str| {
        // Account, an empty answer to the scramble, no database, character set, plugin, no
        // attributes.
        let body = format!("{account}\0\0\0\x2d\0mysql_native_password\0\0");
        user.send_command(CHANGE_USER, body.as_bytes()).unwrap();
        let mut answer = user.read_packet().unwrap();
        if answer[0] == 0xfe {
            // Another scramble: an empty password stays empty.
            user.write_packet(&[]).unwrap();
            answer = user.read_packet().unwrap();
        }
        assert_eq!(answer[0], 0, "{answer:?}");
    };
    let gate = &full.gate;
    let mut user = gate.user("user");
    become_account(&mut user, "admin");
    user.send_query("SELECT 9").unwrap();
    assert_eq!(user.value(), "9");
    full.still_full("administrator");
    become_account(&mut user, ACCOUNT);
    user.send_query("SELECT 9").unwrap();
    assert!(!user.readable_within(Duration::from_millis(300)).unwrap());
    full.end();
    assert_eq!(user.value(), "9");
    user.quit();
}
