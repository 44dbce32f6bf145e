//! `--cgroup`: all processes of a control group, and of those below it.

use crate::conserve::{Wakers, example};
use crate::leaves::{recorder, said, scratch};
use crate::random::can_record;
use crate::refused::record;
use crate::server;
use headworks_record::truth::{Clients, Server};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A control group. It goes when this is dropped, once its processes have ended.
struct Group(PathBuf);

impl Group {
    /// In a mounted hierarchy in which one can be made.
    fn make(name: &str) -> Option<Group> {
        let roots = ["", "/unified", "/pids", "/freezer", "/cpuacct"];
        let name = format!("headworks-test-{name}-{}", std::process::id());
        let paths = roots.map(|root| PathBuf::from(format!("/sys/fs/cgroup{root}/{name}")));
        let found = paths.into_iter().find_map(Group::at);
        if found.is_none() {
            println!("skipped: no control group can be made here");
        }
        found
    }

    fn at(path: PathBuf) -> Option<Group> {
        std::fs::create_dir(&path).ok()?;
        if path.join("cgroup.procs").exists() {
            return Some(Group(path));
        }
        // What is no hierarchy has folders, too.
        let _ = std::fs::remove_dir(&path);
        None
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }

    fn join(&self, pid: u32) -> std::io::Result<()> {
        std::fs::write(self.0.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let until = Instant::now() + Duration::from_secs(10);
        while std::fs::remove_dir(&self.0).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(std::thread::panicking() || !self.0.exists(), "{} stays", self.path());
    }
}

#[test]
fn a_control_group_may_be_empty_and_may_go_meanwhile() {
    let Some(group) = Group::make("goes") else { return };
    let (file, shown) = (scratch("group.toml"), group.path());
    let empty = said(&record(&["--cgroup", &shown, "--for", "1s"], &file));
    let mut wakers = Command::new(example("wakers"))
        .arg("4")
        .stdout(Stdio::null())
        .spawn()
        .expect("the example");
    let joined = group.join(wakers.id());
    let recording = recorder()
        .args(["record", "--cgroup", &shown, "--for", "60s", "--budget", "50%", "-o"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the recorder");
    std::thread::sleep(Duration::from_secs(3));
    wakers.kill().expect("it runs");
    wakers.wait().expect("it ends");
    drop(group);
    let output = recording.wait_with_output().expect("it ends");
    joined.expect("it joins the group");
    assert!(empty.contains("has no process"), "{empty}");
    // Not how long that took: the kernel may need a minute to attach or detach beside such a load.
    assert!(output.status.success() && said(&output).contains("ended"), "{}", said(&output));
    let gone = said(&record(&["--cgroup", &shown, "--for", "1s"], &scratch("gone.toml")));
    assert!(gone.contains("cannot read the control group"), "{gone}");
}

/// Two servers are in the group, one of them in a group below. A third one is not.
#[test]
fn a_control_group_is_recorded_with_those_below_it_and_no_other_process() {
    if !can_record() {
        return;
    }
    let Some(group) = Group::make("whole") else { return };
    let below = Group::at(group.0.join("below")).expect("a group below");
    let inside = server::start(3, &["named"]);
    let wakers = Wakers::start(&["4"]);
    let mut lock = Command::new(example("bottleneck"));
    lock.arg("lock");
    let outside = Server::start(lock).expect("a server");
    let joined = group.join(inside.pid()).and_then(|()| below.join(wakers.pid()));
    let clients =
        [&inside, &outside].map(|server| Clients::start(server.port, 2, Duration::from_millis(1)));
    let file = scratch("groups.toml");
    let output = record(&["--cgroup", &group.path(), "--for", "2s", "--budget", "50%"], &file);
    clients.into_iter().for_each(Clients::end);
    drop((inside, wakers, outside, below, group));
    joined.expect("they join their groups");
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let diagram = std::fs::read_to_string(&file).expect("a diagram");
    let programs: Vec<bool> =
        ["random_server", "wakers", "bottleneck"].map(|name| diagram.contains(name)).into();
    assert_eq!(programs, [true, true, false], "{diagram}");
    assert!(said.contains("stage-a") && said.contains("turns"), "{said}");
}

/// A hundredth of a processor, which the program would use more of.
#[test]
fn a_quota_of_processor_time_is_said_and_drawn() {
    if !can_record() {
        return;
    }
    let name = format!("headworks-test-quota-{}", std::process::id());
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
    let bounds = [("cpu.max", "1000 100000"), ("cpu.cfs_quota_us", "1000")];
    let bounded = roots.into_iter().find_map(|root| {
        let group = Group::at(PathBuf::from(root).join(&name))?;
        let set = |(file, text): (&str, &str)| std::fs::write(group.0.join(file), text).is_ok();
        let exists = |(file, _): (&str, &str)| group.0.join(file).exists();
        bounds.into_iter().any(|bound| exists(bound) && set(bound)).then_some(group)
    });
    let Some(group) = bounded else {
        println!("skipped: no control group can be bounded here");
        return;
    };
    let server = server::start(3, &["named"]);
    let joined = group.join(server.pid());
    let clients = Clients::start(server.port, 4, Duration::from_millis(1));
    let file = scratch("quota.toml");
    let output =
        record(&["--pid", &server.pid().to_string(), "--for", "3s", "--budget", "50%"], &file);
    clients.end();
    drop((server, group));
    joined.expect("it joins the group");
    let said = said(&output);
    assert!(output.status.success() && said.contains("control group's quota"), "{said}");
    let diagram = std::fs::read_to_string(&file).expect("a diagram");
    assert!(diagram.contains("cpu-quota"), "{diagram}");
}
