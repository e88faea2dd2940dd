//! Random histories of a lower directory against a model of POSIX: names, links, contents and errors after each step, as it is
//! and through eCryptfs.

use std::collections::BTreeMap;

use atrest_filetree::Kind;
use atrest_filetree::posix::{Change, Errno, New, Node, Opened, Outcome, PosixTree, Rename};
use atrest_testkit::Scratch;
use atrest_testkit::property::hold;
use atrest_testkit::property::proptest::prelude::*;
use atrest_testkit::property::proptest::sample::Index;

use crate::lower::{ROOT, open};

/// Few, so that histories meet.
const NAMES: [&str; 4] = ["a", "b", "a name of some length", "ü"];
/// Longest file: some of the pages that eCryptfs encrypts.
const MOST: u64 = 10_000;

/// A step. Directories, files and open files are drawn from those that there are.
#[derive(Clone, Debug)]
enum Step {
    Create {
        parent: Index,
        name: &'static str,
    },
    MakeDirectory {
        parent: Index,
        name: &'static str,
    },
    MakeLink {
        parent: Index,
        name: &'static str,
        target: &'static str,
    },
    Link {
        file: Index,
        parent: Index,
        name: &'static str,
    },
    Remove {
        parent: Index,
        name: &'static str,
        directory: bool,
    },
    Rename {
        from: (Index, &'static str),
        to: (Index, &'static str),
        how: Rename,
    },
    Write {
        file: Index,
        offset: u64,
        len: usize,
        byte: u8,
    },
    Truncate {
        file: Index,
        size: u64,
    },
    /// A file that stays open, whatever becomes of its names.
    Open {
        file: Index,
    },
    WriteOpen {
        open: Index,
        offset: u64,
        len: usize,
        byte: u8,
    },
    Close {
        open: Index,
    },
    /// A directory that stays known, whatever becomes of its name.
    Stay {
        directory: Index,
    },
    /// The tree is closed, and opened again.
    Again,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = || any::<Index>();
    let name = || prop::sample::select(&NAMES[..]);
    let how =
        prop::sample::select(vec![Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange]);
    let range = || (0..MOST / 2, 0..MOST as usize / 2, 1..u8::MAX);
    let step = prop_oneof![
        4 => (index(), name()).prop_map(|(parent, name)| Step::Create { parent, name }),
        3 => (index(), name()).prop_map(|(parent, name)| Step::MakeDirectory { parent, name }),
        1 => (index(), name(), name()).prop_map(|(parent, name, target)| Step::MakeLink { parent, name, target }),
        2 => (index(), index(), name()).prop_map(|(file, parent, name)| Step::Link { file, parent, name }),
        3 => (index(), name(), any::<bool>())
            .prop_map(|(parent, name, directory)| Step::Remove { parent, name, directory }),
        6 => ((index(), name()), (index(), name()), how).prop_map(|(from, to, how)| Step::Rename { from, to, how }),
        4 => (index(), range()).prop_map(|(file, (offset, len, byte))| Step::Write { file, offset, len, byte }),
        2 => (index(), 0..MOST).prop_map(|(file, size)| Step::Truncate { file, size }),
        2 => index().prop_map(|file| Step::Open { file }),
        2 => (index(), range()).prop_map(|(open, (offset, len, byte))| Step::WriteOpen { open, offset, len, byte }),
        1 => index().prop_map(|open| Step::Close { open }),
        2 => index().prop_map(|directory| Step::Stay { directory }),
        1 => Just(Step::Again),
    ];
    prop::collection::vec(step, 1..30)
}

/// What there is, by numbers of the model's own. Files without a name are forgotten once nobody has them open.
#[derive(Clone, Debug)]
enum Object {
    File(Vec<u8>),
    Directory(BTreeMap<&'static str, usize>),
    Link(&'static str),
}

struct Model {
    objects: Vec<Object>,
}

const TOP: usize = 0;

type Path = Vec<&'static str>;

impl Model {
    fn new() -> Self {
        Self { objects: vec![Object::Directory(BTreeMap::new())] }
    }

    fn add(&mut self, object: Object) -> usize {
        self.objects.push(object);
        self.objects.len() - 1
    }

    fn names(&self, directory: usize) -> &BTreeMap<&'static str, usize> {
        match &self.objects[directory] {
            Object::Directory(names) => names,
            other => panic!("{other:?} has no names"),
        }
    }

    fn names_mut(&mut self, directory: usize) -> &mut BTreeMap<&'static str, usize> {
        match &mut self.objects[directory] {
            Object::Directory(names) => names,
            other => panic!("{other:?} has no names"),
        }
    }

    /// Everything that has a name, with each of its names; the top first.
    fn all(&self) -> Vec<(Path, usize)> {
        let mut found = vec![(Path::new(), TOP)];
        let mut at = 0;
        while let Some((path, object)) = found.get(at).cloned() {
            if let Object::Directory(names) = &self.objects[object] {
                let below = names.iter().map(|(name, object)| ([&path[..], &[*name]].concat(), *object));
                found.extend(below);
            }
            at += 1;
        }
        found
    }

    fn some(&self, which: &Index, is_one: impl Fn(&Object) -> bool) -> Option<(Path, usize)> {
        let found: Vec<_> =
            self.all().into_iter().filter(|(_, object)| is_one(&self.objects[*object])).collect();
        (!found.is_empty()).then(|| which.get(&found).clone())
    }

    fn directory(&self, which: &Index) -> (Path, usize) {
        self.some(which, |object| matches!(object, Object::Directory(_))).expect("the top")
    }

    fn file(&self, which: &Index) -> Option<(Path, usize)> {
        self.some(which, |object| matches!(object, Object::File(_)))
    }

    fn bytes(&mut self, file: usize) -> &mut Vec<u8> {
        match &mut self.objects[file] {
            Object::File(bytes) => bytes,
            other => panic!("{other:?} has no contents"),
        }
    }

    fn write(&mut self, file: usize, offset: u64, data: &[u8]) {
        let bytes = self.bytes(file);
        let (start, end) = (offset as usize, offset as usize + data.len());
        if !data.is_empty() {
            bytes.resize(bytes.len().max(end), 0);
            bytes[start..end].copy_from_slice(data);
        }
    }

    fn put(&mut self, parent: usize, name: &'static str, object: Object) -> Outcome<()> {
        if self.names(parent).contains_key(name) {
            return Err(Errno::EXIST);
        }
        let number = self.add(object);
        self.names_mut(parent).insert(name, number);
        Ok(())
    }

    fn is_directory(&self, object: usize) -> bool {
        matches!(self.objects[object], Object::Directory(_))
    }

    /// Whether `object` is `directory`, or below it.
    fn is_below(&self, object: usize, directory: usize) -> bool {
        object == directory
            || self.is_directory(directory)
                && self.names(directory).values().any(|below| self.is_below(object, *below))
    }

    fn remove(&mut self, parent: usize, name: &str, directory: bool) -> Outcome<()> {
        let object = *self.names(parent).get(name).ok_or(Errno::NOENT)?;
        match (&self.objects[object], directory) {
            (Object::Directory(names), true) if !names.is_empty() => return Err(Errno::NOTEMPTY),
            (Object::Directory(_), false) => return Err(Errno::ISDIR),
            (Object::File(_) | Object::Link(_), true) => return Err(Errno::NOTDIR),
            _ => {}
        }
        self.names_mut(parent).remove(name);
        Ok(())
    }

    /// In the order in which Linux looks (`do_renameat2`).
    fn rename(&mut self, from: (usize, &'static str), to: (usize, &'static str), how: Rename) -> Outcome<()> {
        let object = *self.names(from.0).get(from.1).ok_or(Errno::NOENT)?;
        let other = self.names(to.0).get(to.1).copied();
        match (how, other) {
            (Rename::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (Rename::Exchange, None) => return Err(Errno::NOENT),
            _ => {}
        }
        if self.is_below(to.0, object) {
            return Err(Errno::INVAL);
        }
        if let Some(other) = other {
            if self.is_below(from.0, other) {
                return Err(if how == Rename::Exchange { Errno::INVAL } else { Errno::NOTEMPTY });
            }
            if object == other {
                return Ok(());
            }
            if how == Rename::Replace {
                match (self.is_directory(object), self.is_directory(other)) {
                    (true, false) => return Err(Errno::NOTDIR),
                    (false, true) => return Err(Errno::ISDIR),
                    (true, true) if !self.names(other).is_empty() => return Err(Errno::NOTEMPTY),
                    _ => {}
                }
            }
        }
        self.names_mut(to.0).insert(to.1, object);
        match (how, other) {
            (Rename::Exchange, Some(other)) => self.names_mut(from.0).insert(from.1, other),
            _ => self.names_mut(from.0).remove(from.1),
        };
        Ok(())
    }
}

/// A tree, what it should be, and the files that are open.
struct History {
    kind: &'static str,
    scratch: Scratch,
    tree: Option<Box<dyn PosixTree>>,
    model: Model,
    /// Each keeps its node known, as the kernel does.
    open: Vec<(usize, Node, Opened)>,
    /// Directories that are known.
    known: Vec<(usize, Node)>,
}

impl History {
    fn new(kind: &'static str) -> Self {
        let scratch = Scratch::new();
        let tree = Some(open(kind, scratch.as_path(), true));
        Self { kind, scratch, tree, model: Model::new(), open: Vec::new(), known: Vec::new() }
    }

    fn tree(&self) -> &dyn PosixTree {
        &**self.tree.as_ref().expect("it is open")
    }

    /// Does something with the node of a path, which is known no longer than that.
    fn at<T>(&self, path: &[&str], work: impl FnOnce(&dyn PosixTree, Node) -> T) -> T {
        let tree = self.tree();
        let mut known = vec![Node::ROOT];
        for name in path {
            known.push(tree.lookup(known[known.len() - 1], name.as_bytes()).expect("the model has it").node);
        }
        let done = work(tree, known[known.len() - 1]);
        known[1..].iter().for_each(|node| tree.forget(*node, 1));
        done
    }

    /// Opens the file of a path, which stays known.
    fn open(&self, path: &[&str]) -> (Node, Opened) {
        let (name, directory) = path.split_last().expect("not the top");
        self.at(directory, |tree, parent| {
            let node = tree.lookup(parent, name.as_bytes()).expect("the model has it").node;
            (node, tree.open(node, true).expect("opens"))
        })
    }

    fn close(&mut self, which: usize) {
        let (_, node, opened) = self.open.swap_remove(which);
        drop(opened);
        self.tree().forget(node, 1);
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Create { parent, name } => {
                let (path, directory) = self.model.directory(parent);
                let created = self.at(&path, |tree, node| {
                    let (made, opened) = tree.create(node, name.as_bytes(), 0o600, ROOT)?;
                    drop(opened);
                    tree.forget(made.node, 1);
                    Ok(())
                });
                assert_eq!(created, self.model.put(directory, name, Object::File(Vec::new())));
            }
            Step::MakeDirectory { parent, name } => {
                let (path, directory) = self.model.directory(parent);
                let made = self.make(&path, name, New::Directory { mode: 0o700 });
                assert_eq!(made, self.model.put(directory, name, Object::Directory(BTreeMap::new())));
            }
            Step::MakeLink { parent, name, target } => {
                let (path, directory) = self.model.directory(parent);
                let made = self.make(&path, name, New::Link { target: target.as_bytes() });
                assert_eq!(made, self.model.put(directory, name, Object::Link(target)));
            }
            Step::Link { file, parent, name } => {
                let Some((file, number)) = self.model.file(file) else { return };
                let (path, directory) = self.model.directory(parent);
                let linked = self.at(&file, |_, file| {
                    self.at(&path, |tree, node| {
                        tree.link(file, node, name.as_bytes()).map(|linked| tree.forget(linked.node, 1))
                    })
                });
                let taken = self.model.names(directory).contains_key(name);
                assert_eq!(linked, if taken { Err(Errno::EXIST) } else { Ok(()) });
                if !taken {
                    self.model.names_mut(directory).insert(name, number);
                }
            }
            Step::Remove { parent, name, directory } => {
                let (path, number) = self.model.directory(parent);
                let removed = self.at(&path, |tree, node| tree.remove(node, name.as_bytes(), *directory));
                assert_eq!(removed, self.model.remove(number, name, *directory));
            }
            Step::Rename { from, to, how } => {
                let ((from_path, from_number), (to_path, to_number)) =
                    (self.model.directory(&from.0), self.model.directory(&to.0));
                let renamed = self.at(&from_path, |_, source| {
                    self.at(&to_path, |tree, target| {
                        tree.rename((source, from.1.as_bytes()), (target, to.1.as_bytes()), *how)
                    })
                });
                assert_eq!(renamed, self.model.rename((from_number, from.1), (to_number, to.1), *how));
            }
            Step::Write { file, offset, len, byte } => {
                let Some((path, number)) = self.model.file(file) else { return };
                let data = vec![*byte; *len];
                self.at(&path, |tree, node| {
                    tree.open(node, true).and_then(|opened| opened.file.write_at(*offset, &data))
                })
                .expect("writes");
                self.model.write(number, *offset, &data);
            }
            Step::Truncate { file, size } => {
                let Some((path, number)) = self.model.file(file) else { return };
                let change = Change { size: Some(*size), ..Change::default() };
                let changed =
                    self.at(&path, |tree, node| tree.set_attributes(node, &change)).expect("truncates");
                assert_eq!(changed.metadata.size, *size);
                self.model.bytes(number).resize(*size as usize, 0);
            }
            Step::Open { file } => {
                let Some((path, number)) = self.model.file(file) else { return };
                let (node, opened) = self.open(&path);
                self.open.push((number, node, opened));
            }
            Step::WriteOpen { open, offset, len, byte } => {
                if self.open.is_empty() {
                    return;
                }
                let data = vec![*byte; *len];
                let (number, _, opened) = open.get(&self.open);
                opened.file.write_at(*offset, &data).expect("writes");
                self.model.write(*number, *offset, &data);
            }
            Step::Close { open } => {
                if !self.open.is_empty() {
                    self.close(open.index(self.open.len()));
                }
            }
            Step::Stay { directory } => {
                let (path, number) = self.model.directory(directory);
                let Some((name, above)) = path.split_last() else { return };
                let found = self.at(above, |tree, parent| tree.lookup(parent, name.as_bytes()));
                self.known.push((number, found.expect("the model has it").node));
            }
            Step::Again => {
                self.open.clear();
                self.known.clear();
                self.tree = None;
                self.tree = Some(open(self.kind, self.scratch.as_path(), true));
            }
        }
    }

    fn make(&self, path: &[&str], name: &str, new: New<'_>) -> Outcome<()> {
        self.at(path, |tree, node| {
            tree.make(node, name.as_bytes(), new, ROOT).map(|made| tree.forget(made.node, 1))
        })
    }

    /// Every directory, file and link, by each of its names and by what is open of it.
    fn check(&self) {
        let mut nodes: BTreeMap<usize, Node> = BTreeMap::new();
        let all = self.model.all();
        for (path, number) in &all {
            let attributes = self.at(path, |tree, node| tree.attributes(node)).expect("it is there");
            let node = *nodes.entry(*number).or_insert(attributes.node);
            let metadata = &attributes.metadata;
            match &self.model.objects[*number] {
                Object::Directory(names) => {
                    let listed =
                        self.at(path, |tree, node| tree.open_directory(node)?.entries()).expect("lists");
                    let mut listed: Vec<_> = listed
                        .into_iter()
                        .map(|entry| String::from_utf8(entry.name).expect("a name"))
                        .collect();
                    listed.sort_unstable();
                    assert_eq!(
                        (metadata.kind, listed),
                        (Kind::Directory, Vec::from_iter(names.keys().map(|name| (*name).to_owned())))
                    );
                }
                Object::Link(target) => {
                    let read = self.at(path, |tree, node| tree.read_link(node)).expect("a target");
                    assert_eq!((metadata.kind, &read[..]), (Kind::Link, target.as_bytes()));
                }
                Object::File(bytes) => {
                    let names = all.iter().filter(|(_, other)| other == number).count();
                    assert_eq!((metadata.kind, metadata.size), (Kind::File, bytes.len() as u64), "{path:?}");
                    assert_eq!((attributes.node, metadata.links as usize), (node, names), "{path:?}");
                    let opened = self.at(path, |tree, node| tree.open(node, false)).expect("opens");
                    assert!(whole(&opened) == *bytes, "{path:?} holds something else");
                }
            }
        }
        for (number, node, opened) in &self.open {
            let Object::File(bytes) = &self.model.objects[*number] else { panic!("a file") };
            assert!(whole(opened) == *bytes, "an open file holds something else");
            let names = all.iter().filter(|(_, other)| other == number).count();
            let found = self.tree().attributes(*node).expect("it is known").metadata;
            assert_eq!((found.size, found.links as usize), (bytes.len() as u64, names), "an open file");
        }
        for (number, node) in &self.known {
            let Object::Directory(names) = &self.model.objects[*number] else { panic!("a directory") };
            let found = self.tree().attributes(*node).expect("it is known");
            let is_there = all.iter().any(|(_, other)| other == number);
            assert_eq!((found.metadata.kind, found.metadata.links > 0), (Kind::Directory, is_there));
            let entries = self.tree().open_directory(*node).and_then(|opened| opened.entries());
            let mut listed: Vec<_> = entries.expect("lists").into_iter().map(|entry| entry.name).collect();
            listed.sort_unstable();
            assert!(listed.iter().map(|name| &name[..]).eq(names.keys().map(|name| name.as_bytes())));
            for name in names.keys() {
                let found = self.tree().lookup(*node, name.as_bytes()).expect("it is there");
                self.tree().forget(found.node, 1);
            }
        }
    }
}

fn whole(opened: &Opened) -> Vec<u8> {
    let mut bytes = vec![0; 2 * MOST as usize];
    let len = opened.file.read_at(0, &mut bytes).expect("reads");
    bytes.truncate(len);
    bytes
}

fn any_history_leaves_what_the_model_says(kind: &'static str) {
    hold(kind, 12, 1000, steps(), |steps| {
        let mut history = History::new(kind);
        for step in &steps {
            history.take(step);
            history.check();
        }
    });
}

#[test]
fn any_history_of_a_lower_directory_as_it_is_leaves_what_the_model_says() {
    any_history_leaves_what_the_model_says("as it is");
}

#[test]
fn any_history_through_ecryptfs_leaves_what_the_model_says() {
    any_history_leaves_what_the_model_says("names and contents");
}

/// As where there are more files than a process may have descriptors.
#[test]
fn any_history_of_nodes_that_are_found_by_their_names_leaves_what_the_model_says() {
    any_history_leaves_what_the_model_says("as it is, by names");
    any_history_leaves_what_the_model_says("names and contents, by names");
}

#[test]
fn any_history_with_headers_in_attributes_leaves_what_the_model_says() {
    any_history_leaves_what_the_model_says("headers in attributes");
}
