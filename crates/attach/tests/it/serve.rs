//! Serving as a process: readiness, signals, a command, the background, and closing from another process.

use crate::common::{run, serve_file, try_run};
use atrest_attach::session::{CloseError, Kind, Registry, User};
use atrest_testkit::{Scratch, needs, wait_until};
use rustix::fs::{Mode, OFlags};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SIZE: u64 = 16 << 20;

struct Place {
    directory: Scratch,
    file: PathBuf,
}

impl Place {
    fn new() -> Place {
        let directory = Scratch::new();
        let file = directory.path("disk.img");
        let random: Vec<u8> = (0..SIZE).map(|i| (i * i / 7) as u8).collect();
        std::fs::write(&file, random).unwrap();
        std::fs::create_dir(directory.path("m")).unwrap();
        Place { directory, file }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path(name).to_str().unwrap().into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = serve_file();
        command.arg(&self.file).args(arguments).current_dir(self.directory.as_path());
        command
    }

    /// Waits until the command has got so many signals, and has written a line into `got` for each.
    fn got(&self, times: usize) {
        let got = || std::fs::read(self.path("got")).map_or(0, |lines| lines.len());
        wait_until("the command gets the signal", || got() >= times);
    }

    /// Lets a command go on that is [`UNTIL_GO`].
    fn go(&self) {
        std::fs::write(self.path("go"), b"").unwrap();
    }

    /// Whether the server runs, and has the volume where it was.
    fn is_served_to(&self, child: &mut Child) -> bool {
        child.try_wait().unwrap().is_none() && Path::new(&self.path("m/volume")).exists()
    }

    fn registry(&self) -> Registry {
        Registry::at(self.path("registry").into()).unwrap()
    }
}

/// What a command does until the test lets it go on.
const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.01; done";

/// Starts a server and returns its ready line.
fn start(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim_end().into())
}

fn signal(name: &str, child: &Child) {
    run("kill", &[&format!("-{name}"), &child.id().to_string()]);
}

#[test]
fn each_ending_signal_closes_in_order() {
    for name in ["TERM", "INT", "HUP"] {
        let place = Place::new();
        let socket = place.path("socket");
        let (mut child, line) = start(place.command(&["--nbd", &socket]));
        assert_eq!(line, format!("ready nbd+unix:///?socket={socket}"));
        assert_eq!(run("nbdinfo", &["--size", &line[6..]]).trim(), SIZE.to_string());
        signal(name, &child);
        assert!(child.wait().unwrap().success(), "{name}");
        assert!(!Path::new(&socket).exists());

        let (mut child, line) = start(place.command(&["--fuse", &place.path("m")]));
        assert_eq!(line, format!("ready fuse {}", place.path("m/volume")));
        assert!(std::fs::read(place.path("m/volume")).unwrap() == std::fs::read(&place.file).unwrap());
        signal(name, &child);
        assert!(child.wait().unwrap().success(), "{name}");
        assert!(!Path::new(&place.path("m/volume")).exists());
    }
}

#[test]
fn a_mounted_file_in_use_outlives_the_first_signal_and_not_the_second() {
    let place = Place::new();
    let mut command = place.command(&["--fuse", &place.path("m")]);
    command.stderr(Stdio::piped());
    let (mut child, _) = start(command);
    let mut file = std::fs::File::open(place.path("m/volume")).unwrap();
    signal("TERM", &child);
    wait_until("the mount is out of sight", || !Path::new(&place.path("m/volume")).exists());
    file.read_exact(&mut [0; 4096]).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    signal("TERM", &child);
    assert!(!child.wait().unwrap().success());
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("second signal"), "{message}");
}

#[test]
fn a_command_is_served_as_long_as_it_runs_and_its_status_is_returned() {
    let place = Place::new();
    let script = "nbdinfo --size \"$ATREST_URI\"; exit 7";
    let nbd = place.command(&["--nbd", &place.path("s"), "--run", "sh", "-c", script]).output().unwrap();
    assert_eq!(nbd.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&nbd.stdout).trim(), SIZE.to_string());
    assert!(!Path::new(&place.path("s")).exists());
    let script = "cmp \"$ATREST_PATH\" \"$0\" && kill -KILL $$";
    let file = place.file.to_str().unwrap();
    let fuse =
        place.command(&["--fuse", &place.path("m"), "--run", "sh", "-c", script, file]).output().unwrap();
    assert_eq!(fuse.status.code(), Some(128 + 9), "{fuse:?}");
    assert!(!Path::new(&place.path("m/volume")).exists());
    let absent = place.command(&["--nbd", &place.path("s"), "--run", "/no/such/program"]).output().unwrap();
    assert!(!absent.status.success());
    assert!(String::from_utf8_lossy(&absent.stderr).contains("cannot run /no/such/program"));
    assert!(!Path::new(&place.path("s")).exists());
}

#[test]
fn a_signal_is_passed_to_the_command_and_the_volume_stays_until_it_ends() {
    let place = Place::new();
    let script = format!(
        "trap 'echo >> got; {UNTIL_GO}; cmp $ATREST_PATH disk.img && exit 42; exit 1' TERM; echo; sleep 100 & wait"
    );
    let (mut child, _) = start(place.command(&["--fuse", &place.path("m"), "--run", "sh", "-c", &script]));
    signal("TERM", &child);
    place.got(1);
    assert!(place.is_served_to(&mut child));
    place.go();
    assert_eq!(child.wait().unwrap().code(), Some(42));
}

#[test]
fn a_command_may_be_interrupted_at_its_terminal_and_keeps_its_volume() {
    let place = Place::new();
    let script = format!("trap 'echo >> got' INT; echo; {UNTIL_GO}; cmp $ATREST_PATH disk.img && exit 42");
    let mut command = place.command(&["--fuse", &place.path("m"), "--run", "sh", "-c", &script]);
    // A group of its own, to which a terminal would send SIGINT.
    command.process_group(0);
    let (mut child, _) = start(command);
    let group = format!("-{}", child.id());
    for times in 1..=2 {
        run("kill", &["-INT", "--", &group]);
        place.got(times);
        assert!(place.is_served_to(&mut child), "{times}");
    }
    place.go();
    assert_eq!(child.wait().unwrap().code(), Some(42));
    assert!(!Path::new(&place.path("m/volume")).exists());
}

#[test]
fn a_hangup_is_passed_on_as_such_and_a_second_sigterm_kills_the_command() {
    let place = Place::new();
    let script = "trap 'exit 43' HUP; echo; sleep 100 & wait";
    let (mut child, _) = start(place.command(&["--nbd", &place.path("s"), "--run", "sh", "-c", script]));
    signal("HUP", &child);
    assert_eq!(child.wait().unwrap().code(), Some(43));

    let script = format!("trap 'echo >> got' TERM HUP; echo; {UNTIL_GO}");
    let mut command = place.command(&["--fuse", &place.path("m"), "--run", "sh", "-c", &script]);
    command.stderr(Stdio::piped());
    let (mut child, _) = start(command);
    for (times, name) in [(1, "HUP"), (2, "HUP"), (3, "TERM")] {
        signal(name, &child);
        place.got(times);
        assert!(place.is_served_to(&mut child), "{name}");
    }
    signal("TERM", &child);
    assert_eq!(child.wait().unwrap().code(), Some(128 + 9));
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(message.contains("was killed"), "{message}");
    assert!(!Path::new(&place.path("m/volume")).exists());
}

#[test]
fn what_else_is_mounted_in_the_directory_stays() {
    let place = Place::new();
    let point = place.path("m");
    let here = Path::new(&point).join("here");
    run("mount", &["-t", "tmpfs", "tmpfs", &point]);
    let (mut child, _) = start(place.command(&["--fuse", &point]));
    run("umount", &[&point]);
    assert!(child.wait().unwrap().success());
    std::fs::write(&here, b"x").unwrap();
    let listed = run("findmnt", &["--noheadings", "--output", "FSTYPE", "--mountpoint", &point]);
    run("umount", &[&point]);
    assert_eq!(listed.trim(), "tmpfs");
}

#[test]
fn a_mount_that_cannot_be_taken_away_is_reported_and_not_waited_for() {
    let place = Place::new();
    let point = place.path("m");
    let registry = place.path("registry");
    let arguments = ["--fuse", &point, "--registry", &registry, "--name", "it"];
    let mut command = place.command(&arguments);
    command.stderr(Stdio::piped());
    let (mut child, _) = start(command);
    run("mount", &["-t", "tmpfs", "tmpfs", &point]);
    signal("TERM", &child);
    let status = child.wait().unwrap();
    run("umount", &[&point]);
    run("umount", &[&point]);
    let mut message = String::new();
    child.stderr.take().unwrap().read_to_string(&mut message).unwrap();
    assert!(!status.success() && message.contains("cannot unmount"), "{status} {message}");
    assert!(message.contains("another mount covers it"), "{message}");
}

#[test]
fn the_service_manager_is_told() {
    let place = Place::new();
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = place.command(&["--nbd", &place.path("socket")]);
    let (mut child, _) = start({
        command.env("NOTIFY_SOCKET", &path);
        command
    });
    let message = || {
        let mut buffer = [0; 200];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    };
    assert_eq!(message(), format!("MAINPID={}\nREADY=1\n", child.id()));
    signal("TERM", &child);
    assert_eq!(message(), "STOPPING=1\n");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_daemon_is_ready_when_its_starter_returns_and_close_waits_until_it_is_gone() {
    let place = Place::new();
    for (face, at) in [("--nbd", "socket"), ("--fuse", "m")] {
        // Relative paths: the daemon leaves the directory it was started in.
        let mut command = serve_file();
        command.current_dir(place.directory.as_path());
        command.args(["disk.img", face, at, "--daemon", "--registry", "registry", "--name", "it"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(line.starts_with("ready ") && line.ends_with('\n'), "{line}");
        let registry = place.registry();
        let entry = registry.find("it").unwrap().unwrap();
        assert_eq!(entry.path, place.file.canonicalize().unwrap());
        match &entry.kind {
            Kind::NbdUnix { uri, .. } => drop(run("nbdinfo", &["--size", uri])),
            Kind::Fuse { directory, .. } => {
                let file = std::fs::File::open(directory.join("volume")).unwrap();
                let busy = registry.close("it", Duration::from_secs(5));
                assert!(matches!(busy, Err(CloseError::Busy { .. })), "{busy:?}");
                assert_eq!(file.metadata().unwrap().len(), SIZE);
            }
            other => panic!("{other:?}"),
        }
        let stat = run("ps", &["-o", "sid=,tty=", "-p", &entry.pid().to_string()]);
        assert_eq!(stat.split_whitespace().collect::<Vec<_>>(), [&entry.pid().to_string(), "?"]);
        registry.close(place.file.to_str().unwrap(), Duration::from_secs(20)).unwrap();
        assert!(!Path::new(&format!("/proc/{}/fd/0", entry.pid())).exists());
        assert!(registry.list().unwrap().is_empty());
        assert_eq!(std::fs::read_dir(place.path("registry")).unwrap().count(), 0);
    }
    assert!(!Path::new(&place.path("socket")).exists());
}

#[test]
fn what_was_unmounted_lazily_and_is_in_use_is_not_waited_for() {
    let place = Place::new();
    let (registry, point) = (place.path("registry"), place.path("m"));
    let arguments = ["--fuse", &point, "--daemon", "--registry", &registry, "--name", "it"];
    assert!(place.command(&arguments).output().unwrap().status.success());
    let registry = place.registry();
    let path = Path::new(&point).join("volume");
    let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let mut reader = Command::new("sleep").arg("1000").current_dir(&point).spawn().unwrap();
    let me = User::Process { pid: std::process::id() as i32, command: own_name() };
    let sleep = User::Process { pid: reader.id() as i32, command: "sleep".into() };
    match registry.close("it", Duration::from_secs(60)) {
        Err(CloseError::Busy { users, .. }) => {
            assert!(users.contains(&me) && users.contains(&sleep), "{users:?}")
        }
        other => panic!("{other:?}"),
    }
    run("umount", &["--lazy", &point]);
    let before = Instant::now();
    match registry.close("it", Duration::from_secs(60)) {
        Err(error @ CloseError::Detached { .. }) => {
            let CloseError::Detached { users, .. } = &error else { unreachable!() };
            assert!(users.contains(&me) && users.contains(&sleep), "{users:?}");
            assert!(error.to_string().contains(&format!("process {} (sleep)", reader.id())), "{error}");
        }
        other => panic!("{other:?}"),
    }
    assert!(before.elapsed() < Duration::from_secs(20), "it waited {:?}", before.elapsed());
    // Nothing was taken from its users, and what they write is kept.
    reader.kill().unwrap();
    reader.wait().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"written late", 4096).unwrap();
    assert!(matches!(registry.close("it", Duration::from_secs(60)), Err(CloseError::Detached { .. })));
    drop(file);
    wait_until("it closes with its last user", || registry.list().unwrap().is_empty());
    assert_eq!(std::fs::read(&place.file).unwrap()[4096..4108], *b"written late");
}

fn own_name() -> String {
    std::fs::read_to_string("/proc/self/comm").unwrap().trim_end().into()
}

#[test]
fn a_daemon_that_cannot_start_says_why_and_its_starter_fails() {
    let place = Place::new();
    std::fs::write(place.path("socket"), b"not a socket").unwrap();
    let output = place.command(&["--nbd", &place.path("socket"), "--daemon"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a socket"));
    assert!(output.stdout.is_empty());
}

/// Whether a signal waits in the pipe into which a process that catches it writes it down.
fn a_pipe_holds_a_byte(process: u32) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let is_pipe =
        |path: &PathBuf| std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"));
    descriptors.map(|entry| entry.unwrap().path()).filter(is_pipe).any(|path| {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(path, flags, Mode::empty());
        pipe.is_ok_and(|pipe| rustix::io::ioctl_fionread(pipe).is_ok_and(|len| len > 0))
    })
}

#[test]
fn a_signal_ends_the_starter_of_a_daemon_only_after_the_daemon() {
    let place = Place::new();
    // A lock on the directory keeps the daemon from getting ready.
    let directory = std::fs::File::open(place.directory.as_path()).unwrap();
    rustix::fs::flock(&directory, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut command = place.command(&["--nbd", &place.path("socket"), "--daemon"]);
    let mut starter = command.stdout(Stdio::piped()).spawn().unwrap();
    let children = || std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", starter.id())).unwrap();
    wait_until("it has forked", || !children().is_empty());
    let daemon: u32 = children().trim().parse().unwrap();
    // Words of its status: bits of signals, of which SIGTERM is the fifteenth.
    let has_term = |process: u32, word: &str| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let bits = status.lines().find_map(|line| line.strip_prefix(word)).unwrap();
        u64::from_str_radix(bits.trim_start_matches(':').trim(), 16).unwrap() & 1 << 14 != 0
    };
    wait_until("the starter holds signals back", || has_term(starter.id(), "SigBlk"));
    wait_until("the daemon catches signals", || has_term(daemon, "SigCgt"));
    signal("TERM", &starter);
    wait_until("the signal is passed on", || a_pipe_holds_a_byte(daemon));
    assert!(starter.try_wait().unwrap().is_none(), "the daemon still works on it");
    drop(directory);
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&starter.wait().unwrap()), Some(15));
    assert!(!Path::new(&format!("/proc/{daemon}")).exists(), "the daemon outlives its starter");
    assert!(!Path::new(&place.path("socket")).exists());
}

#[test]
fn a_daemon_whose_ready_line_nobody_takes_is_open_and_said_to_be() {
    let place = Place::new();
    let registry = place.path("registry");
    let arguments = ["--nbd", &place.path("socket"), "--daemon", "--registry", &registry, "--name", "it"];
    let mut command = place.command(&arguments);
    command.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    assert!(command.status().unwrap().success());
    assert_eq!(
        run("nbdinfo", &["--size", &format!("nbd+unix:///?socket={}", place.path("socket"))]).trim(),
        SIZE.to_string()
    );
    place.registry().close("it", Duration::from_secs(20)).unwrap();
}

#[test]
fn what_a_killed_daemon_leaves_behind_is_cleared_away() {
    let place = Place::new();
    for (face, at) in [("--nbd", "socket"), ("--fuse", "m")] {
        let arguments =
            [face, &place.path(at), "--daemon", "--registry", &place.path("registry"), "--name", "it"];
        assert!(place.command(&arguments).output().unwrap().status.success());
        let entry = place.registry().find("it").unwrap().unwrap();
        run("kill", &["-KILL", &entry.pid().to_string()]);
        wait_until("its death is noticed", || place.registry().list().unwrap().is_empty());
        assert!(!Path::new(&place.path("socket")).exists());
        std::fs::read_dir(place.path("m")).expect("the dead mount is gone");
        // The place can be used again at once.
        assert!(place.command(&arguments).output().unwrap().status.success());
        place.registry().close("it", Duration::from_secs(20)).unwrap();
    }
}

/// With a fork and an own view of /dev: an unprivileged user mounts through fusermount3 and serves by NBD.
#[test]
fn an_unprivileged_user_serves_both_ways() {
    needs::root("stepping down to another user");
    let place = Place::new();
    let directory = place.directory.as_path().to_str().unwrap();
    run("chown", &["-R", "65534:65534", directory]);
    run("mknod", &["-m", "666", &place.path("fuse"), "c", "10", "229"]);
    // The example may lie where others can't read it.
    let program = place.path("serve_file");
    std::fs::copy(serve_file().get_program(), &program).unwrap();
    let inner = "cd \"$0\" && ./serve_file disk.img --fuse m --run sh -c 'cmp $ATREST_PATH disk.img && \
                 mkfs.ext4 -q -F $ATREST_PATH && e2fsck -f -n $ATREST_PATH' && \
                 ./serve_file disk.img --nbd s --run sh -c 'nbdcopy $ATREST_URI copy && cmp copy disk.img'";
    let outer = format!(
        "mount --bind {directory}/fuse /dev/fuse && \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups sh -c \"$1\" {directory}"
    );
    let output = try_run("unshare", &["--mount", "sh", "-c", &outer, "sh", inner]);
    assert!(output.is_ok(), "{output:?}");
}
