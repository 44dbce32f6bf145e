//! Stores of one name, by a real etcd.

use crate::rig::{Rig, has, own_address, run, until};
use std::process::{Child, Command, Stdio};

struct Etcd {
    child: Child,
    address: String,
    dir: std::path::PathBuf,
}

impl Etcd {
    fn start() -> Etcd {
        let (client, peer) = (own_address(), own_address());
        let name = format!("hw-etcd-{}-{}", std::process::id(), client.port());
        let dir = std::env::temp_dir().join(name);
        let url = |address| format!("http://{address}");
        let child = Command::new("etcd")
            .args(["--data-dir", dir.to_str().unwrap(), "--listen-client-urls", &url(client)])
            .args(["--advertise-client-urls", &url(client), "--listen-peer-urls", &url(peer)])
            .args(["--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let etcd = Etcd { child, address: client.to_string(), dir };
        until("etcd answers", || etcd.ctl(&["endpoint", "health"]).status.success());
        etcd
    }

    fn ctl(&self, words: &[&str]) -> std::process::Output {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", &self.address]).args(words);
        command.output().unwrap()
    }

    fn config(&self) -> String {
        format!(
            "[etcd]\nservers = [\"127.0.0.1:1\", \"{}\"]\nname = \"one\"\n\
             [[volume]]\nname = \"db\"\npath = \"memory\"\nsize = \"256MiB\"\n\
             [[application]]\nname = \"orders\"\nvolume = \"db\"\ntarget = 100\n",
            self.address
        )
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn standing(rig: &Rig) -> String {
    rig.status()["membership"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_second_store_takes_over_what_the_first_learned() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let etcd = Etcd::start();
    let mut first = Rig::start(&etcd.config());
    until("the first holds the lease", || standing(&first).contains("it holds"));
    let second = Rig::start(&etcd.config());
    until("the second waits", || standing(&second).contains("another store"));
    let load = crate::ours::client(&first, "db", 4);
    for _ in 0..6 {
        first.ok(&["post", "orders", "--achieved", "50"]);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    drop(load);
    let need = first.app("orders")["need"].as_f64().unwrap();
    assert!(need > 0.0);
    let written =
        || String::from_utf8(etcd.ctl(&["get", "/headworks/one/learned"]).stdout).unwrap();
    until("it is written", || written().contains("orders"));
    assert_eq!(second.app("orders")["need"], 0.0);
    // A target for all stores of the name.
    run("etcdctl", &["--endpoints", &etcd.address, "put", "/headworks/one/targets/orders", "200"]);
    until("the target is known", || second.app("orders")["goal"] == "200/s");
    first.kill();
    until("the second has its place", || standing(&second).contains("it holds"));
    let found = second.app("orders")["need"].as_f64().unwrap();
    assert!(found > 0.0, "{found}");
    // Without etcd it goes on.
    drop(etcd);
    until("it is said", || standing(&second).contains("cannot be reached"));
    crate::raw::Raw::open(&second.socket(), "db").write(0, 1);
}

#[test]
fn what_etcd_has_is_checked_and_what_is_ignored_is_said() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let etcd = Etcd::start();
    let more = "[[volume]]\nname = \"b\"\npath = \"memory\"\nsize = \"256MiB\"\n";
    let rig = Rig::start(&(etcd.config() + more));
    let put = |name: &str, number: &str| {
        assert!(
            etcd.ctl(&["put", "--", &format!("/headworks/one/targets/{name}"), number])
                .status
                .success()
        );
    };
    let said = |words: &str| rig.status()["said"].to_string().contains(words);
    for number in ["inf", "nan", "1e308", "-3", "many"] {
        put("orders", number);
        let words = if number == "many" { "is no number" } else { "cannot be" };
        until("it is refused in words", || said(words));
        assert_eq!(rig.app("orders")["goal"], "100/s", "{number}");
        rig.ok(&["explain"]);
    }
    put("stranger", "5");
    put("b", "5");
    until("the stranger is not there", || said("`stranger`, which is no application"));
    until("b has no target here", || said("for `b`, which has none here"));
    put("orders", "200");
    until("the target is known", || rig.app("orders")["goal"] == "200/s");
    let output = rig.ask(&["set", "orders", "target", "700"]);
    let words = crate::rig::text(&output);
    assert!(
        !output.status.success() && words.contains("etcdctl put /headworks/one/targets/orders"),
        "{words}"
    );
    rig.ok(&["set", "orders", "weight", "2"]);
    assert!(etcd.ctl(&["del", "/headworks/one/targets/orders"]).status.success());
    until("it may be set again", || rig.ask(&["set", "orders", "target", "700"]).status.success());
}
