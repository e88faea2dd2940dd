use super::place::runtime;
use super::*;
use rustix::process::{Uid, geteuid};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use atrest_testkit::{Scratch, needs};

fn registry() -> (Scratch, Registry) {
    let directory = Scratch::new();
    let registry = Registry::at(directory.path("atrest")).unwrap();
    (directory, registry)
}

fn entry(name: &str, path: &Path) -> Entry {
    let kind = Kind::NbdUnix { socket: path.join("s"), uri: "nbd+unix:///?socket=s".into() };
    Entry::new(name, path, kind, false).unwrap()
}

#[test]
fn what_is_registered_is_found_by_name_and_by_path_and_gone_when_dropped() {
    let (directory, registry) = registry();
    let registration = registry.register(entry("a", directory.as_path())).unwrap();
    let path = directory.as_path().to_str().unwrap();
    assert_eq!(registry.find("a").unwrap(), Some(registration.entry()));
    assert_eq!(registry.find(path).unwrap(), Some(registration.entry()));
    assert_eq!(registry.list().unwrap(), [registration.entry()]);
    assert_eq!(registry.find("b").unwrap(), None);
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(registry.path.join("a.json")), 0o600);
    assert_eq!(mode(registry.path.clone()), 0o700);
    drop(registration);
    assert!(registry.list().unwrap().is_empty());
}

#[test]
fn a_live_name_is_taken_and_a_free_one_is_proposed() {
    let (directory, registry) = registry();
    let _registration = registry.register(entry("vol", directory.as_path())).unwrap();
    let taken = registry.register(entry("vol", directory.as_path()));
    assert!(matches!(taken, Err(SessionError::NameTaken { pid, .. }) if pid == std::process::id() as i32));
    assert_eq!(registry.free_name(Path::new("/x/vol.img")).unwrap(), "vol-2");
    assert_eq!(registry.free_name(Path::new("/x/.strange ä name")).unwrap(), "strange---name");
}

#[test]
fn names_that_could_leave_the_directory_are_refused() {
    let (directory, registry) = registry();
    for name in ["", ".", "..", "a/b", ".hidden", "a b", &"x".repeat(65)] {
        let refused = registry.register(entry(name, directory.as_path()));
        assert!(matches!(refused, Err(SessionError::Name { .. })), "{name:?}");
    }
}

#[test]
fn entries_of_dead_or_different_processes_are_stale() {
    let (directory, registry) = registry();
    let mut dead = Command::new("true").spawn().unwrap();
    let pid = dead.id() as i32;
    dead.wait().unwrap();
    let mut stale = entry("dead", directory.as_path());
    stale.process.pid = pid;
    // The id of a living process, ours, at another start time: it has been used again.
    let mut reused = serde_json::to_value(entry("reused", directory.as_path())).unwrap();
    reused["process"]["start_time"] = 1.into();
    std::fs::write(registry.file("dead"), serde_json::to_vec(&stale).unwrap()).unwrap();
    std::fs::write(registry.file("reused"), serde_json::to_vec(&reused).unwrap()).unwrap();
    std::fs::write(registry.file("garbage"), b"{").unwrap();
    assert!(registry.list().unwrap().is_empty());
    assert_eq!(std::fs::read_dir(&registry.path).unwrap().count(), 0);
}

#[test]
fn a_directory_that_others_can_write_to_is_not_used() {
    let directory = Scratch::new();
    let path = directory.path("open");
    std::fs::create_dir(&path).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o770)).unwrap();
    let why = |path: &Path| match Registry::at(path.into()).map(drop) {
        Err(SessionError::Untrusted { path: named, why }) if named == path => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(&path), Distrust::Mode { mode: 0o770 });
    let link = directory.path("link");
    std::os::unix::fs::symlink(directory.as_path(), &link).unwrap();
    assert_eq!(why(&link), Distrust::NotADirectory);
    needs::root("giving a directory away");
    let given = directory.path("given");
    std::fs::create_dir(&given).unwrap();
    std::os::unix::fs::chown(&given, Some(1234), None).unwrap();
    assert_eq!(why(&given), Distrust::Owner { uid: 1234 });
}

#[test]
fn a_directory_in_tmp_that_somebody_else_made_is_passed_over_and_no_hindrance() {
    needs::root("giving directories away");
    let directory = Scratch::new();
    let tmp = directory.as_path();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    let open = || Registry::temporary(tmp, Uid::ROOT);
    mode(tmp, 0o777);
    let unsafe_parent = open().map(drop);
    assert!(
        matches!(&unsafe_parent, Err(SessionError::Untrusted { path, why: Distrust::NotSticky { mode: 0o777 } }) if path == tmp),
        "{unsafe_parent:?}"
    );
    mode(tmp, 0o1777);
    std::os::unix::fs::chown(tmp, Some(1234), None).unwrap();
    let foreign_parent = open().map(drop);
    assert!(
        matches!(&foreign_parent, Err(SessionError::Untrusted { path, why: Distrust::Owner { uid: 1234 } }) if path == tmp),
        "{foreign_parent:?}"
    );
    std::os::unix::fs::chown(tmp, Some(0), None).unwrap();
    // Somebody was here first: with a directory, with a link to one of the victim's.
    std::fs::create_dir(tmp.join("atrest-0")).unwrap();
    std::os::unix::fs::chown(tmp.join("atrest-0"), Some(1234), None).unwrap();
    std::fs::create_dir(tmp.join("own")).unwrap();
    std::os::unix::fs::symlink(tmp.join("own"), tmp.join("atrest-0-2")).unwrap();
    std::os::unix::fs::lchown(tmp.join("atrest-0-2"), Some(1234), None).unwrap();
    let registry = open().unwrap();
    assert_eq!(registry.path, tmp.join("atrest-0-3"));
    assert_eq!(registry.path.metadata().unwrap().mode() & 0o7777, 0o700);
    assert!(matches!(
        registry.passed_over(),
        Some(SessionError::Untrusted { why: Distrust::Owner { uid: 1234 }, .. })
    ));
    // What was opened there is found there, also when the usual name becomes free.
    std::fs::remove_dir(tmp.join("atrest-0")).unwrap();
    let again = open().unwrap();
    assert_eq!(again.path, tmp.join("atrest-0-3"));
    assert!(!tmp.join("atrest-0").exists());
    // One's own with a wrong mode is an error, not a reason to go elsewhere.
    mode(&registry.path, 0o777);
    let open_to_all = open().map(drop);
    assert!(
        matches!(open_to_all, Err(SessionError::Untrusted { why: Distrust::Mode { mode: 0o777 }, .. })),
        "{open_to_all:?}"
    );
    // Somebody took them all.
    std::fs::remove_dir(&registry.path).unwrap();
    for number in 1..=16 {
        let name = if number == 1 { "atrest-0".into() } else { format!("atrest-0-{number}") };
        let _ = std::fs::create_dir(tmp.join(&name));
        std::os::unix::fs::lchown(tmp.join(&name), Some(1234), None).unwrap();
    }
    assert!(matches!(
        open().map(drop),
        Err(SessionError::Untrusted { why: Distrust::Owner { uid: 1234 }, .. })
    ));
}

#[test]
fn close_ends_the_serving_process_and_reports_one_that_does_not_end() {
    let (directory, registry) = registry();
    let serve = |name: &str, script: &str| {
        let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        // The trap is set when the line comes.
        let mut ready = [0; 2];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let mut entry = entry(name, directory.as_path());
        entry.process = Process::of(child.id() as i32).unwrap();
        std::fs::write(registry.file(name), serde_json::to_vec(&entry).unwrap()).unwrap();
        child
    };
    let mut obedient = serve("obedient", "echo r; exec sleep 100");
    // In life, init or a shell collects the daemon; here it is this process.
    let collector = std::thread::spawn(move || obedient.wait().unwrap());
    // It ended, and nothing says that it had closed the volume.
    let closed = registry.close("obedient", Duration::from_secs(20));
    assert!(matches!(closed, Err(CloseError::Killed { .. })), "{closed:?}");
    assert!(!collector.join().unwrap().success());
    assert!(registry.find("obedient").unwrap().is_none());

    let mut stubborn = serve("stubborn", "trap '' TERM; echo r; exec sleep 100");
    let refused = registry.close("stubborn", Duration::from_millis(200));
    assert!(matches!(refused, Err(CloseError::Timeout { pid, .. }) if pid == stubborn.id() as i32));
    stubborn.kill().unwrap();
    stubborn.wait().unwrap();
    let absent = registry.close("stubborn", Duration::from_secs(1));
    assert!(matches!(absent, Err(CloseError::NotOpen { .. })));
}

#[test]
fn a_failed_flush_is_seen_in_the_registry_until_close_has_told_it() {
    use atrest_device::{BlockDevice, Cause, DeviceError, Geometry, Operation};
    struct Failing;
    impl BlockDevice for Failing {
        fn size(&self) -> u64 {
            0
        }
        fn geometry(&self) -> Geometry {
            Geometry::default()
        }
        fn is_read_only(&self) -> bool {
            false
        }
        fn read_at(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn write_at(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn flush(&self) -> Result<(), DeviceError> {
            Err(DeviceError::new(Operation::Flush, 0, 0, Cause::Os(5)))
        }
    }
    let (directory, registry) = registry();
    let watched = Watched::new(Arc::new(Failing));
    let registration = registry.register(entry("it", directory.as_path())).unwrap();
    watched.tell(&registration);
    assert_eq!(registry.find("it").unwrap().unwrap().failed, None);
    watched.flush().unwrap_err();
    assert!(registry.find("it").unwrap().unwrap().failed.is_some(), "seen while it is still served");
    drop(registration);

    // The process that failed has ended.
    let mut child = Command::new("true").spawn().unwrap();
    let mut left = entry("it", directory.as_path());
    left.process.pid = child.id() as i32;
    left.failed = Some("the flush failed".into());
    child.wait().unwrap();
    let leave = || std::fs::write(registry.file("it"), serde_json::to_vec(&left).unwrap()).unwrap();
    leave();
    let listed = registry.list().unwrap();
    assert!(listed.len() == 1 && listed[0].has_ended());
    assert_eq!(registry.free_name(Path::new("/x/it.img")).unwrap(), "it-2");
    let closed = registry.close("it", Duration::from_secs(1));
    assert!(matches!(&closed, Err(CloseError::Failed { failure, .. }) if failure == "the flush failed"));
    assert!(matches!(registry.close("it", Duration::from_secs(1)), Err(CloseError::NotOpen { .. })));
    // Using the name again takes note of it too.
    leave();
    let registration = registry.register(entry("it", directory.as_path())).unwrap();
    assert_eq!(registry.find("it").unwrap().unwrap().failed, None);
    drop(registration);
    assert!(registry.list().unwrap().is_empty());
}

#[test]
fn the_lock_says_who_lives_where_proc_does_not() {
    let (directory, registry) = registry();
    let registration = registry.register(entry("it", directory.as_path())).unwrap();
    let file = registry.file("it");
    let look = || registry.list().unwrap().iter().map(|entry| entry.has_ended()).collect::<Vec<_>>();
    // What /proc shows of the process does not match, or nothing would be shown at all (hidepid).
    let rewrite = |entry: &Entry, start_time: u64, pid: i32| {
        let mut other = serde_json::to_value(entry).unwrap();
        other["process"]["start_time"] = start_time.into();
        other["process"]["pid"] = pid.into();
        // In place: it is the same file.
        std::fs::write(&file, serde_json::to_vec(&other).unwrap()).unwrap();
    };
    rewrite(&registration.entry(), 1, i32::MAX);
    assert_eq!(look(), [false]);
    let taken = registry.register(entry("it", directory.as_path()));
    assert!(matches!(taken, Err(SessionError::NameTaken { .. })));
    // A failure is written to a new file, which is held as well.
    registration.record.fail("no");
    rewrite(&registration.entry(), 1, i32::MAX);
    assert_eq!(look(), [false]);
    drop(registration);
    assert_eq!(look(), [true], "it failed and is gone");
}

#[test]
fn a_file_that_is_held_and_not_understood_is_left_alone() {
    let (directory, registry) = registry();
    let registration = registry.register(entry("held", directory.as_path())).unwrap();
    std::fs::write(registry.file("held"), b"the next version's").unwrap();
    // Not locked, but of a process that lives.
    let mut newer = serde_json::to_value(entry("lives", directory.as_path())).unwrap();
    newer["kind"] = "telepathy".into();
    std::fs::write(registry.file("lives"), newer.to_string()).unwrap();
    newer["process"]["start_time"] = 1.into();
    std::fs::write(registry.file("dead"), newer.to_string()).unwrap();
    assert!(registry.list().unwrap().is_empty());
    for name in ["held", "lives"] {
        assert!(registry.file(name).exists(), "{name}");
        assert_eq!(registry.free_name(&directory.path(name)).unwrap(), format!("{name}-2"));
        let taken = registry.register(entry(name, directory.as_path()));
        assert!(matches!(taken, Err(SessionError::Foreign { .. })), "{name}");
    }
    assert!(!registry.file("dead").exists());
    drop(registration);
}

#[test]
fn a_path_that_is_not_text_is_kept_byte_for_byte() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let (directory, registry) = registry();
    let path = directory.path(OsStr::from_bytes(b"v\xff\n.img"));
    std::fs::write(&path, b"").unwrap();
    let kind = Kind::NbdUnix { socket: path.join("s"), uri: "nbd+unix:///?socket=s".into() };
    let registration = registry.register(Entry::new("it", &path, kind, true).unwrap()).unwrap();
    let entry = registration.entry();
    assert_eq!(entry.path.as_os_str(), path.canonicalize().unwrap().as_os_str());
    assert_eq!(registry.list().unwrap(), std::slice::from_ref(&entry));
    assert_eq!(registry.find(&path).unwrap(), Some(entry.clone()));
    let json = serde_json::to_value(&entry).unwrap();
    assert!(json["path"]["hex"].as_str().unwrap().ends_with("76ff0a2e696d67"), "{json}");
    assert!(json["path"]["text"].as_str().unwrap().ends_with("v\u{fffd}\n.img"), "{json}");
    for bad in ["7", "7x", "+f"] {
        let mut json = json.clone();
        json["path"]["hex"] = bad.into();
        serde_json::from_value::<Entry>(json).expect_err(bad);
    }
}

#[test]
fn a_path_that_is_open_twice_is_closed_by_name_only() {
    let (directory, registry) = registry();
    let a = registry.register(entry("a", directory.as_path())).unwrap();
    let _b = registry.register(entry("b", directory.as_path())).unwrap();
    match registry.close(directory.as_path(), Duration::ZERO) {
        Err(CloseError::Ambiguous { names }) => assert_eq!(names, ["a", "b"]),
        other => panic!("{other:?}"),
    }
    drop(a);
    assert_eq!(registry.find_all(directory.as_path()).unwrap().len(), 1);
}

#[test]
fn a_runtime_directory_that_is_absent_or_another_user_s_is_not_used() {
    let directory = Scratch::new();
    let own = directory.as_path().to_path_buf();
    let (me, other) = (geteuid(), Uid::from_raw(1234));
    assert_eq!(runtime(me, Some(own.clone())), Some(own.clone()));
    assert_eq!(runtime(other, Some(own.clone())), None, "it belongs to somebody else");
    for absent in [Some(own.join("absent")), Some("relative".into()), None] {
        assert_eq!(runtime(me, absent), None);
    }
}
