//! The program, nodes and operators, by real sockets; with an etcd where one is installed.

mod common;

use common::{Dir, Node, Store, ask, own_address, serve, text, until};
use headworks_controller::config::Tls;
use headworks_controller::server::Reach;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

#[test]
fn what_is_set_reaches_nodes_and_outlives_the_controller() {
    let dir = Dir::new("life");
    let at = own_address(0);
    let token = dir.0.join("token");
    std::fs::write(&token, "word\n").unwrap();
    let config = format!(
        "listen = \"{at}\"\nstate = \"{}\"\ntoken_file = \"{}\"\nperiod_ms = 200\n",
        dir.0.join("state").display(),
        token.display()
    );
    let first = serve(&dir, "config", &config);
    until("it listens", || TcpStream::connect(at).is_ok());
    let token = token.to_str().unwrap();
    let mut node = Node::come(at, "word");
    let fence = node.hears("fence ");
    node.say("use 0.500 w alice smith\nuse 0.500 w bob\nreport\n");
    node.hears("weight 1.000 alice smith");
    let set = ask(
        &[at],
        &["set", "alice smith", "--weight", "4", "--limit", "50", "--token-file", token],
    );
    assert!(set.status.success(), "{}", text(&set));
    node.hears("weight 4.000 alice smith");
    node.hears("limit 50.0 alice smith");
    let status = text(&ask(&[at], &["status", "--token-file", token]));
    for words in ["rs 1", "regionserver", "alice smith", "50"] {
        assert!(status.contains(words), "{words}: {status}");
    }
    // Strangers and mistakes are refused.
    assert!(Node::come(at, "-").line().starts_with("error"));
    assert!(text(&ask(&[at], &["status"])).contains("token"));
    let wrong = ask(&[at], &["set", "bob", "--weight", "-1", "--token-file", token]);
    assert!(!wrong.status.success(), "{}", text(&wrong));
    // A second controller in the same place is refused.
    let other = serve(&dir, "other", &config.replace(&at.to_string(), &own_address(1).to_string()));
    let mut other = other;
    until("the second ends", || {
        other.0.try_wait().unwrap().is_some_and(|status| !status.success())
    });
    drop(first);
    let _second = serve(&dir, "config", &config);
    until("it listens again", || TcpStream::connect(at).is_ok());
    let mut node = Node::come(at, "word");
    let number = |line: &str| line["fence ".len()..].parse::<u64>().unwrap();
    assert!(number(&node.hears("fence ")) > number(&fence));
    node.say("use 0.500 w alice smith\nreport\n");
    node.hears("weight 4.000 alice smith");
}

#[test]
fn a_second_controller_takes_over_by_etcd_and_stores_hear_targets() {
    let dir = Dir::new("etcd");
    let client = own_address(2);
    let Some(etcd) = Store::start(&dir, client, own_address(3)) else { return };
    let at = [own_address(4), own_address(5)];
    let config = |at: SocketAddr| {
        format!(
            "listen = \"{at}\"\nperiod_ms = 200\n[etcd]\nservers = [\"{client}\"]\nname = \"main\"\nstores = [\"one\"]\n"
        )
    };
    let first = serve(&dir, "first", &config(at[0]));
    until("the first is in office", || {
        text(&ask(&at[..1], &["status"])).contains("in office, fence")
    });
    let _second = serve(&dir, "second", &config(at[1]));
    until("the second waits", || text(&ask(&at[1..], &["status"])).contains("not in office"));
    assert!(Node::come(at[1], "-").line().starts_with("error"));
    let set = ask(&[at[1], at[0]], &["set", "orders", "--weight", "3", "--target", "200"]);
    assert!(set.status.success(), "the one in office is found: {}", text(&set));
    let target = || etcd.ctl(&["get", "/headworks/one/targets/orders"]);
    assert!(target().contains("200"), "{}", target());
    // Whatever order addresses have, the one in office is shown.
    let status = text(&ask(&[at[1], at[0]], &["status"]));
    assert!(status.contains("in office, fence") && status.contains("orders"), "{status}");
    let gone = ask(&[at[0]], &["set", "orders", "--no-target"]);
    assert!(gone.status.success() && !target().contains("200"), "{}", text(&gone));
    let mut node = Node::come(at[0], "-");
    let fence = node.hears("fence ");
    drop(first);
    until("the second is in office", || {
        text(&ask(&at[1..], &["status"])).contains("in office, fence")
    });
    let mut node = Node::come(at[1], "-");
    let number = |line: &str| line["fence ".len()..].parse::<u64>().unwrap();
    assert!(number(&node.hears("fence ")) > number(&fence));
    node.say("use 0.500 w orders\nreport\n");
    node.hears("weight 3.000 orders");
}

/// With a store that runs: what is forgotten here is no longer in force there.
#[test]
fn a_store_has_the_target_of_its_file_once_the_controllers_is_forgotten() {
    let dir = Dir::new("forget");
    let client = own_address(10);
    let Some(_etcd) = Store::start(&dir, client, own_address(11)) else { return };
    let at = own_address(12);
    let etcd = |name: &str| format!("[etcd]\nservers = [\"{client}\"]\nname = \"{name}\"\n");
    let controller = format!("listen = \"{at}\"\n{}stores = [\"one\"]\n", etcd("main"));
    let _controller = serve(&dir, "controller", &controller);
    let file = dir.0.join("store.toml");
    let config = format!(
        "listen = [\"unix:{}/store\"]\n{}\
         [[volume]]\nname = \"db\"\npath = \"memory\"\nsize = \"1MiB\"\n\
         [[application]]\nname = \"orders\"\nvolume = \"db\"\ntarget = 100\n",
        dir.0.display(),
        etcd("one"),
    );
    std::fs::write(&file, config).unwrap();
    let store = headworks_store::server::Server::start(&file).unwrap();
    let goal = || store.running.status().applications[0].goal.clone();
    assert_eq!(goal(), "100/s");
    let set = |words: &[&str]| {
        let done = || ask(&[at], &[&["set", "orders"], words].concat()).status.success();
        until("the controller sets it", done);
    };
    set(&["--target", "200"]);
    until("the store hears the target", || goal() == "200/s");
    set(&["--forget"]);
    until("the store has its own again", || goal() == "100/s");
    store.stop();
}

#[test]
fn over_tls_each_question_is_answered_and_strangers_are_refused() {
    let dir = Dir::new("tls");
    let at = own_address(6);
    let script = "set -e
for authority in ours theirs; do
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=$authority -keyout $authority.key -out $authority.pem
done
for pair in controller:ours operator:ours stranger:theirs; do
  name=${pair%:*} authority=${pair#*:}
  openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name.key -out $name.csr
  printf 'subjectAltName=IP:%s' $1 > $name.ext
  openssl x509 -req -in $name.csr -CA $authority.pem -CAkey $authority.key -CAcreateserial -days 2 -extfile $name.ext -out $name.pem
done";
    let openssl = Command::new("sh")
        .args(["-c", script, "sh", &at.ip().to_string()])
        .current_dir(&dir.0)
        .output()
        .unwrap();
    if text(&openssl).contains("openssl: not found") {
        eprintln!("skipped: openssl is missing: apt-get install openssl");
        return;
    }
    assert!(openssl.status.success(), "{}", text(&openssl));
    let file = |name: &str| dir.0.join(name);
    let config = format!(
        "listen = \"{at}\"\nstate = \"{}\"\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\nclients = \"{}\"\n",
        file("state").display(),
        file("controller.pem").display(),
        file("controller.key").display(),
        file("ours.pem").display()
    );
    let _controller = serve(&dir, "config", &config);
    let reach = |name: &str, authority: &str| Reach {
        controllers: vec![at.to_string()],
        token: "-".to_owned(),
        tls: Some(Tls {
            certificate: file(&format!("{name}.pem")),
            key: file(&format!("{name}.key")),
            clients: file(&format!("{authority}.pem")),
        }),
    };
    let operator = reach("operator", "ours");
    until("it listens", || TcpStream::connect(at).is_ok());
    // It answers and closes at once: the answer must not be lost.
    for _ in 0..100 {
        assert!(operator.ask("status -").unwrap().starts_with('{'));
    }
    assert!(reach("stranger", "ours").ask("status -").is_err());
    assert!(reach("operator", "theirs").ask("status -").is_err());
}
