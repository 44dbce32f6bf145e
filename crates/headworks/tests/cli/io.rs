//! `headworks io`, and what is said of files.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use headworks_rig::find_program;

use crate::support::{RunDir, is_root, signal, text, wait_until};

/// A program that is killed with its children at the end, however that comes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: its process group, which it leads.
        unsafe { libc::kill(-(self.0.id() as libc::pid_t), libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

const PROFILE: &str = "name = \"own\"\ntitle = \"a program\"\nframing = \"generic\"\nserved_by = \"threads\"\n\
    [programs]\nservers = []\n[calls]\naccept = []\nreceive = []\nsend = []\nsleep = []\n\
    [preflight]\nsettings = \"none\"\nrun_as = \"caller\"\nchecks = []\n[stop]\nsignal = \"SIGTERM\"\n\
    [[threads]]\nname = \"*\"\npriority = 1\n";

const SETTINGS: &str =
    "[io]\nscheduler = \"afq\"\n[[io.thread]]\nname = \"absent\"\npriority = 6\n";

#[test]
fn a_job_is_told_of_its_files_and_not_of_a_gate() {
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "job", "--io", "split-deadline"]);
    let output = command.args(["--", "sh", "-c", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("governed by split-deadline"), "{said}");
    assert!(!said.contains("gate") && !said.contains("warning"), "{said}");
    run.assert_nothing_left("the job ended");
    let said = text(&run.headworks(["io", "top"]).output().unwrap());
    assert!(said.contains("headworks run --io split-deadline"), "{said}");
}

/// The file's own sections decide first, and those of the profile stay in force, as at the start.
#[test]
fn new_settings_keep_the_rules_of_the_profile() {
    let run = RunDir::new();
    let (profile, settings) = (run.file("profile.toml", PROFILE), run.file("toml", SETTINGS));
    let file = std::env::temp_dir().join(format!("headworks-io-set-{}", std::process::id()));
    let writes = format!(
        "while :; do dd if=/dev/zero of={} bs=4k count=1 conv=notrunc,fsync; sleep 0.05; done",
        file.display()
    );
    let profile = profile.to_str().unwrap();
    let mut command = run.headworks(["run", "--name", "set", "--io", "afq", "--profile", profile]);
    command.args(["--", "sh", "-c", &writes]).stdout(Stdio::null()).stderr(Stdio::null());
    let _running = Running(command.process_group(0).spawn().unwrap());
    let priorities = || -> Vec<u64> {
        let output = run.headworks(["io", "top", "--json", "--name", "set"]).output().unwrap();
        let state: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let accounts = state["accounts"].as_array().cloned().unwrap_or_default();
        let writers = accounts.iter().filter(|account| account["fsyncs"] != 0);
        writers.filter_map(|account| account["priority"].as_u64()).collect()
    };
    wait_until("it writes", || priorities().len() > 2);
    let settings = settings.to_str().unwrap();
    let said = run.ok(["io", "set", "--name", "set", "--config", settings]);
    assert!(said.contains("afq"), "{said}");
    let before = priorities().len();
    wait_until("others write", || priorities().len() > before + 2);
    assert!(priorities().iter().all(|priority| *priority == 1), "{:?}", priorities());
    fs::remove_file(file).unwrap();
}

/// Calls on files need no daemon. Who says that nothing is held would mislead.
#[test]
fn files_are_held_after_the_daemons_death_and_doctor_says_so() {
    let run = RunDir::new();
    let mut command = run.headworks(["run", "--name", "left", "--io", "afq", "--", "sleep", "600"]);
    let _running = Running(command.stderr(Stdio::null()).process_group(0).spawn().unwrap());
    wait_until("its daemon serves", || run.listens("left"));
    // The directory in which volumes run.
    fs::create_dir_all(run.path().join("volumes/disk")).unwrap();
    let doctor = || text(&run.headworks(["doctor", "sh"]).output().unwrap());
    assert!(doctor().contains("runs, and its daemon listens"), "{}", doctor());
    signal(run.daemon("left"), libc::SIGKILL);
    wait_until("it is gone", || !run.listens("left"));
    assert!(doctor().contains("afq still holds them"), "{}", doctor());
    assert!(!doctor().contains("rm -r"), "{}", doctor());
    wait_until("it is missed", || run.status("left")["gate"] == "stale");
    let status = run.ok(["status", "--name", "left"]);
    assert!(status.contains("afq still holds them"), "{status}");
    let refusal = run.refused(["run", "--name", "volumes", "--", "true"]);
    assert!(refusal.contains("where volumes run"), "{refusal}");
    run.ok(["io", "set", "--name", "left", "--scheduler", "noop"]);
    assert!(doctor().contains("all requests pass") && !doctor().contains("still holds"));
}

/// What a job starts as another user, or with other directories, may not open the region itself.
#[test]
fn parts_of_a_job_that_run_as_another_user_are_governed() {
    if !is_root() || find_program("setpriv").is_none() || find_program("unshare").is_none() {
        println!("skipped: needs root, setpriv and unshare (apt-get install util-linux)");
        return;
    }
    let run = RunDir::new();
    let file =
        |name: &str| Path::new("/var/tmp").join(format!("headworks-{name}-{}", std::process::id()));
    let (other, hidden) = (file("other"), file("hidden"));
    fs::write(&other, "").unwrap();
    std::os::unix::fs::chown(&other, Some(65_534), Some(65_534)).unwrap();
    let flush = |file: &Path| {
        format!(
            "dd if=/dev/zero of={} bs=4k count=1 conv=notrunc,fsync status=none",
            file.display()
        )
    };
    let script = format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups {}\n\
         unshare --mount sh -c 'mount -t tmpfs none {} && exec {}' || echo no mount\n\
         unset LD_PRELOAD; exec {} io top --json --name job",
        flush(&other),
        run.path().display(),
        flush(&hidden),
        crate::support::program().display(),
    );
    let mut command = run.headworks(["run", "--name", "job", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]);
    let output = command.output().unwrap();
    let (said, errors) = (text(&output), String::from_utf8_lossy(&output.stderr).into_owned());
    let _ = (fs::remove_file(&other), fs::remove_file(&hidden));
    let foreign = errors.lines().filter(|line| !line.starts_with("headworks: ")).count();
    assert!(foreign == 0 && !errors.contains("cannot use the region"), "{errors}");
    let json = &said[said.find('{').expect(&said)..];
    let mut values = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    let state = values.next().expect(&said).expect(&said);
    let accounts = state["accounts"].as_array().unwrap().iter();
    let fsyncs: u64 = accounts.filter_map(|account| account["fsyncs"].as_u64()).sum();
    let wanted = if said.contains("no mount") { 1 } else { 2 };
    assert_eq!(fsyncs, wanted, "{said}");
}

const SERVER: &str = "import socket, sys, time\n\
    s = socket.create_server(('127.0.0.1', 0))\n\
    print(s.getsockname()[1], flush=True)\n\
    c = [s.accept() for _ in range(2)]\n\
    time.sleep(600)\n";

/// Programs that a script starts map the gate's region once a client can come.
#[test]
fn a_server_that_a_script_starts_is_behind_the_gate() {
    let Some(python) = find_program("python3") else {
        println!("skipped: no python3 (apt-get install python3)");
        return;
    };
    let run = RunDir::new();
    let server = run.file("server.py", SERVER);
    let script = format!("{} {}; true", python.display(), server.display());
    let mut command = run.headworks(["run", "--name", "late", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.process_group(0).spawn().unwrap();
    let stdout = child.stdout.take().unwrap();
    let _running = Running(child);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    let port: u16 = line.trim().parse().unwrap();
    let _clients = [0; 2].map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).unwrap());
    wait_until("both are seen", || run.status("late")["users"] == 2);
}

/// Writes a mebibyte, and waits.
const WRITER: &str = "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
    int main(int argc, char **argv) {\n\
        int fd = open(argv[1], O_WRONLY | O_CREAT, 0600);\n\
        write(fd, calloc(1, 1 << 20), 1 << 20);\n\
        fsync(fd);\n\
        sleep(600);\n}\n";

/// The same, in Go, with a library of C: such a program is linked dynamically.
const GO_WRITER: &str = "package main\n\nimport \"C\"\nimport (\"os\"; \"time\")\n\n\
    func main() {\n\
        file, _ := os.Create(os.Args[1])\n\
        file.Write(make([]byte, 1<<20))\n\
        file.Sync()\n\
        time.Sleep(600 * time.Second)\n}\n";

fn static_writer(run: &RunDir) -> Option<PathBuf> {
    let compiler = find_program("cc").or_else(|| {
        println!("skipped: no C compiler (apt-get install gcc libc6-dev)");
        None
    })?;
    let (source, made) = (run.file("writer.c", WRITER), run.file("writer", ""));
    let mut command = Command::new(compiler);
    let output = command.args(["-static", "-w", "-o"]).args([&made, &source]).output().unwrap();
    if !output.status.success() {
        println!("skipped: no static C library (apt-get install libc6-dev)");
    }
    output.status.success().then_some(made)
}

fn go_writer(run: &RunDir) -> Option<PathBuf> {
    let Some(go) = find_program("go") else {
        println!("skipped: no Go (apt-get install golang-go)");
        return None;
    };
    let (source, made) = (run.file("writer.go", GO_WRITER), run.file("go-writer", ""));
    let mut command = Command::new(go);
    command.args(["build", "-o"]).args([&made, &source]);
    command.env("CGO_ENABLED", "1").env("GOFLAGS", "").env("GO111MODULE", "off");
    let output = command.output().unwrap();
    if !output.status.success() {
        println!("skipped: Go makes no program here: {}", text(&output));
    }
    output.status.success().then_some(made)
}

/// A writer that a shell started under `--io` is told of by every command.
fn writes_unseen(run: &RunDir, program: &Path) {
    // On storage: what lies in memory is not governed.
    let file = Path::new("/var/tmp").join(format!("headworks-unseen-{}", std::process::id()));
    let script = format!("{} {}; true", program.display(), file.display());
    let mut command = run.headworks(["run", "--name", "unseen", "--io", "split-deadline"]);
    command.args(["--profile", "generic", "--", "sh", "-c", &script]).stderr(Stdio::null());
    let _running = Running(command.process_group(0).spawn().unwrap());
    let top = || -> Value {
        let output = run.headworks(["io", "top", "--json", "--name", "unseen"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    };
    wait_until("it is told of", || !top()["unseen"][0].is_null());
    let unseen = top()["unseen"].as_array().unwrap().clone();
    assert_eq!((unseen.len(), &unseen[0]["seen_bytes"]), (1, &0.into()), "{unseen:?}");
    assert_eq!(unseen[0]["why"], "makes its own system calls", "{unseen:?}");
    let once = ["io", "top", "-d", "0.1", "--count", "1", "--name", "unseen"];
    for said in [run.ok(once), run.ok(["status", "--name", "unseen"])] {
        assert!(said.contains("makes its own system calls"), "{said}");
    }
    let doctor = text(&run.headworks(["doctor", "sh"]).output().unwrap());
    assert!(doctor.contains("makes its own system calls"), "{doctor}");
    let _ = fs::remove_file(file);
}

#[test]
fn a_static_program_is_said_to_be_not_governed() {
    let run = RunDir::new();
    let Some(program) = static_writer(&run) else { return };
    let program_text = program.to_str().unwrap();
    let refusal = run.refused(["run", "--io", "rcp", "--", program_text]);
    let doctor = text(&run.headworks(["doctor", program_text]).output().unwrap());
    for said in [refusal, doctor] {
        assert!(said.contains("makes its own system calls") && !said.contains("maria"), "{said}");
    }
    writes_unseen(&run, &program);
}

#[test]
fn a_program_of_go_is_said_to_be_not_governed() {
    let run = RunDir::new();
    let Some(program) = go_writer(&run) else { return };
    let program_text = program.to_str().unwrap();
    let args = ["run", "--name", "go", "--io", "rcp", "--", program_text, "/dev/null"];
    let mut child = run.headworks(args).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let running = Running(child);
    let lines = std::io::BufRead::lines(std::io::BufReader::new(stderr)).map_while(Result::ok);
    let said: Vec<String> = lines.take_while(|line| !line.contains("io top")).collect();
    drop(running);
    assert!(said.iter().any(|line| line.contains("makes its own system calls")), "{said:?}");
    let doctor = text(&run.headworks(["doctor", program_text]).output().unwrap());
    assert!(doctor.contains("makes its own system calls"), "{doctor}");
    writes_unseen(&run, &program);
}
