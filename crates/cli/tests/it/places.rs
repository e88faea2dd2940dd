//! `VOLUME:/path`: one way to name a file inside a volume, in every command that takes one. What changes is judged by mtools and fsck.fat.

use serde_json::Value;

use crate::common::{Ran, Scratch};

/// A volume `vol` with a FAT filesystem: `a.txt`, `b.txt`, `c.dat`, `d/e.txt`, `d/f/g.txt`, and `.hidden.txt`.
struct Files(Scratch);

impl Files {
    fn new() -> Self {
        let scratch = Scratch::with_volume();
        scratch
            .bash(
                "truncate -s 4M plain; mkfs.fat plain; mkdir -p tree/d/f; cd tree;
                for name in a.txt b.txt c.dat d/e.txt d/f/g.txt .hidden.txt; do echo of $name > $name; done
                mcopy -s -i ../plain a.txt b.txt c.dat d .hidden.txt ::/
                cd ..; $ATREST encrypt plain vol --key-file key --yes",
            )
            .ok();
        Self(scratch)
    }

    fn atrest(&self, args: &[&str]) -> Ran {
        self.0.atrest(&[args, &["--key-file", "key"]].concat())
    }

    fn lines(&self, args: &[&str]) -> Vec<String> {
        self.atrest(args).ok().stdout.lines().map(str::to_owned).collect()
    }

    /// All names, as mtools has them, in a filesystem that its checker finds whole.
    fn judged(&self) -> String {
        let line = "rm -f again; $ATREST decrypt vol again --key-file key > told &&
            truncate -s 4M again && fsck.fat -n again > told && mdir -/ -b -a -i again ::/ | sort";
        self.0.bash(line).ok().stdout
    }
}

#[test]
fn a_place_is_named_as_cp_names_it_and_the_older_way() {
    let files = Files::new();
    assert_eq!(files.atrest(&["cat", "vol:/d/e.txt"]).ok().stdout, "of d/e.txt\n");
    assert_eq!(files.atrest(&["cat", "vol", "/d/e.txt"]).ok().stdout, "of d/e.txt\n");
    assert_eq!(files.atrest(&["cat", "./vol:/d/e.txt"]).ok().stdout, "of d/e.txt\n");
    assert_eq!(files.atrest(&["cat", "vol:/a.txt", "vol:/b.txt"]).ok().stdout, "of a.txt\nof b.txt\n");
    assert_eq!(files.lines(&["ls", "vol:/d"]), ["e.txt", "f"]);
    assert_eq!(files.lines(&["ls", "vol", "/d"]), ["e.txt", "f"]);
    assert_eq!(files.lines(&["ls", "vol"]), [".hidden.txt", "a.txt", "b.txt", "c.dat", "d"]);
    // A file whose name looks like a place is the volume all the same.
    std::fs::create_dir(files.0.path("x:")).expect("a directory");
    std::fs::rename(files.0.path("vol"), files.0.path("x:/vol")).expect("moved");
    assert_eq!(files.lines(&["ls", "x:/vol", "/d"]), ["e.txt", "f"]);
    std::fs::rename(files.0.path("x:/vol"), files.0.path("vol")).expect("moved back");

    files.atrest(&["cat", "vol"]).fails(1, "no path in vol is named");
    files.atrest(&["cat", "vol:/a.txt", "other:/b.txt"]).fails(1, "two volumes");
    files.atrest(&["ls", "vol:/a.txt", "/d"]).fails(1, "/d is no place in a volume");
    files.atrest(&["ls", "vol:/no/such"]).fails(4, "/no/such: no such file");
}

#[test]
fn ls_tells_paths_where_names_do_not_say_enough() {
    let files = Files::new();
    let below = ["/d:", "e.txt", "f", "", "/d/f:", "g.txt"];
    assert_eq!(files.lines(&["ls", "-R", "vol:/d"]), below);
    assert_eq!(files.lines(&["ls", "vol:/a.txt", "vol:/d"]), ["/a.txt", "", "/d:", "e.txt", "f"]);
    let rows = files.atrest(&["ls", "--json", "-R", "vol:/d"]).ok().json();
    let told =
        |row: &Value| (row["path"].as_str().map(str::to_owned), row["name"].as_str().map(str::to_owned));
    let expected = [("/d/e.txt", "e.txt"), ("/d/f", "f"), ("/d/f/g.txt", "g.txt")];
    let rows: Vec<_> = rows.as_array().expect("rows").iter().map(told).collect();
    assert_eq!(rows, expected.map(|(path, name)| (Some(path.into()), Some(name.into()))));
    // One directory alone: names are enough, as they ever were.
    assert!(files.atrest(&["ls", "--json", "vol"]).ok().json()[0].get("path").is_none());
}

#[test]
fn names_may_be_patterns_and_those_of_hidden_files_are_left_out() {
    let files = Files::new();
    assert_eq!(files.lines(&["ls", "vol:/*.txt"]), ["/a.txt", "/b.txt"]);
    assert_eq!(files.atrest(&["cat", "vol:/[bc].*"]).ok().stdout, "of b.txt\nof c.dat\n");
    assert_eq!(files.atrest(&["cat", "vol:/*/?/g.txt"]).ok().stdout, "of d/f/g.txt\n");
    files.atrest(&["ls", "vol:/*.jpg"]).fails(1, "/*.jpg: nothing matches");
    files.atrest(&["ls", "vol:/[a"]).fails(1, "no pattern");
    std::fs::create_dir(files.0.path("out")).expect("a directory");
    files.atrest(&["cp", "-r", "vol:/*.txt", "vol:/d", "out"]).ok();
    files.0.bash("rm tree/c.dat tree/.hidden.txt; diff -r tree out").ok();
}

#[test]
fn several_are_copied_in_moved_and_removed_and_the_filesystem_stays_whole() {
    let files = Files::new();
    for name in ["one", "two"] {
        files.0.file(name, name);
    }
    files.atrest(&["mkdir", "vol:/new", "vol:/old"]).ok();
    files.atrest(&["cp", "one", "two", "vol:/new"]).ok();
    files.atrest(&["mv", "vol:/*.txt", "vol:/c.dat", "vol:/old"]).ok();
    files.atrest(&["mv", "vol", "/d/f", "/new/g"]).ok();
    files.atrest(&["rm", "vol:/d/e.txt", "vol:/d"]).ok();
    let expected =
        ["::/.hidden.txt", "::/new/", "::/new/g/", "::/new/g/g.txt", "::/new/one", "::/new/two", "::/old/"];
    let moved = ["::/old/a.txt", "::/old/b.txt", "::/old/c.dat"];
    let judged = files.judged();
    assert_eq!(judged.lines().collect::<Vec<_>>(), [&expected[..], &moved].concat());
    assert_eq!(
        files.atrest(&["cat", "vol:/new/*"]).fails(4, "/new/g: ").stdout,
        "",
        "g is a directory, and comes first"
    );
    assert_eq!(files.atrest(&["cat", "vol:/new/[ot]*"]).ok().stdout, "onetwo");
    assert_eq!(files.atrest(&["cat", "vol:/new/g/g.txt"]).ok().stdout, "of d/f/g.txt\n");

    // What can't be done whole is not begun.
    files.atrest(&["mv", "vol:/new/one", "vol:/new/two"]).fails(5, "it exists already");
    files.atrest(&["mv", "vol:/new/one", "vol:/new/two", "vol:/nowhere"]).fails(1, "into a directory only");
    files.atrest(&["mv", "vol:/new/one", "vol:/missing", "vol:/old"]).fails(4, "/missing");
    files.atrest(&["rm", "vol:/new/one", "vol:/missing"]).fails(4, "/missing");
    files.atrest(&["mv", "vol:/new", "vol:/new/g"]).fails(1, "/new can't be moved to /new/g/new");
    files.atrest(&["mv", "vol:/new/one", "vol:/new", "vol:/new/g"]).fails(1, "/new can't be moved");
    files.atrest(&["mv", "--yes", "vol:/old", "vol:/old"]).fails(1, "/old can't be moved");
    files.atrest(&["mv", "vol:/new"]).fails(1, "where to");
    files.atrest(&["cp", "one", "two", "vol:/nowhere"]).fails(1, "into a directory only");
    files.atrest(&["cp", "vol:/new/one", "vol:/new/two", "nowhere"]).fails(1, "into a directory only");
    files.atrest(&["cp", "vol:/new/*", "-"]).fails(1, "into a directory only");
    files.atrest(&["cp", "one", "vol:/new/one", "vol:/old"]).fails(1, "one side must be");
    assert_eq!(files.judged(), judged);
    files.atrest(&["mv", "--yes", "vol:/new/one", "vol:/new/two"]).ok();
    assert_eq!(files.atrest(&["cat", "vol:/new/two"]).ok().stdout, "one");
}

#[test]
fn two_files_of_one_name_do_not_take_each_others_place() {
    let files = Files::new();
    files.0.bash("mkdir h i; echo h > h/log; echo i > i/log; echo j > i/LOG; mkdir out").ok();
    files.atrest(&["mkdir", "vol:/x", "vol:/y", "vol:/all"]).ok();
    files.atrest(&["cp", "h/log", "vol:/x"]).ok();
    files.atrest(&["cp", "i/LOG", "vol:/y"]).ok();
    let judged = files.judged();
    let says = "two files named LOG would be in /all";
    files.atrest(&["mv", "--yes", "vol:/[xy]/*", "vol:/all"]).fails(1, says);
    files.atrest(&["mv", "--yes", "vol:/x/log", "vol:/x/log", "vol:/all"]).fails(1, "two files named log");
    files.atrest(&["cp", "--yes", "h/log", "i/log", "vol:/all"]).fails(1, "two files named log");
    files.atrest(&["cp", "--yes", "h/log", "i/LOG", "vol:/all"]).fails(1, says);
    files.atrest(&["cp", "--yes", "vol:/x/log", "vol:/x/log", "out"]).fails(1, "two files named log");
    assert_eq!(files.judged(), judged);
    // Here these are two names.
    files.atrest(&["cp", "vol:/[xy]/*", "out"]).ok();
    files.0.bash("diff h/log out/log && diff i/LOG out/LOG").ok();
    // A path of this system that looks like a place names no file of a volume.
    files.0.bash("mkdir vol2: && cp vol vol2:/x").ok();
    files.atrest(&["cp", "vol2:/x", "out"]).fails(1, "no path in vol2:/x is named");
}

#[test]
fn ls_lh_shows_sizes_as_people_read_them() {
    let files = Files::new();
    let size = |flag: &str| {
        let shown = files.lines(&["ls", flag, "vol:/d/e.txt"]);
        shown[0].split_whitespace().skip(3).take(2).collect::<Vec<_>>().join(" ")
    };
    assert!(size("-l").starts_with("11 "), "{}", size("-l"));
    assert_eq!(size("-lh"), "11 bytes");
    assert!(files.atrest(&["ls", "-h"]).ok().stdout.contains("Examples:"));
    files.atrest(&["ls", "--human-readable", "vol:/d"]).fails(1, "--long");
}
