//! A device that hands its reads on to another one hands on, too, what that one can do at once. The trait's default does nothing, so that
//! nobody sees that it is missing: each small request then goes to another thread.

use std::fs;

use atrest_testkit::oracle::workspace;

use crate::fallbacks::sources;

#[test]
fn who_hands_reads_on_hands_on_those_that_need_no_waiting() {
    let (mut found, mut wrong) = (0, Vec::new());
    let crates = fs::read_dir(workspace().join("crates")).expect("the crates");
    let crates =
        crates.map(|entry| entry.expect("an entry").path()).filter(|path| !path.ends_with("testkit"));
    for path in crates.flat_map(|path| sources(&path.join("src"))) {
        let text = fs::read_to_string(&path).expect("a source file");
        for device in wrappers(&text) {
            found += 1;
            if !device.contains("fn read_if_cached(") {
                wrong.push(format!("{}: {}", path.display(), device.lines().next().unwrap_or_default())); // intended: it is shown.
            }
        }
    }
    assert!(found >= 4, "{found} devices hand their reads on: is this the way in which they are found?");
    assert!(wrong.is_empty(), "without `read_if_cached`:\n{}", wrong.join("\n"));
}

#[test]
fn a_device_that_hands_reads_on_is_found() {
    let device = |body: &str| {
        format!(
            "use x;\n\nimpl BlockDevice for X {{\n    fn read_at(&self, offset: u64) {{\n        {body}\n    }}\n}}\n"
        )
    };
    assert_eq!(wrappers(&device("self.inner.read_at(offset, buf)")).count(), 1);
    assert_eq!(wrappers(&device("self.count(|| self.inner().read_at(offset, buf))")).count(), 1);
    assert_eq!(wrappers(&device("self.inner.read_at(offset + 1, buf)")).count(), 0);
    assert_eq!(wrappers("\nimpl Other for X {\n    self.inner.read_at(offset, buf)\n}\n").count(), 0);
}

/// The implementations of the trait that read where another device does.
fn wrappers(text: &str) -> impl Iterator<Item = &str> {
    let blocks =
        text.split("\nimpl").skip(1).filter_map(|block| block.split_once("\n}\n").map(|(body, _)| body));
    blocks.filter(|body| {
        let head = body.lines().next().unwrap_or_default(); // intended: an empty one is none.
        head.contains(" BlockDevice for ") && body.contains(".read_at(offset, buf)")
    })
}
