//! Which volume comes first: what a key, a header or a device lies on has to be open before it is needed.

use super::entry::Entry;
use super::notice::{Notice, Problem};

/// Leaves out what has the name of an earlier entry, and what needs itself, and puts the rest into an order in which it can be opened;
/// otherwise entries stay as they are.
pub fn arrange(entries: Vec<Entry>, notices: &mut Vec<Notice>) -> Vec<Entry> {
    let mut left = distinct(entries, notices);
    let mut done: Vec<Entry> = Vec::with_capacity(left.len());
    loop {
        let waits = |entry: &Entry| left.iter().any(|other| entry.needs().any(|name| name == other.name));
        match left.iter().position(|entry| !waits(entry)) {
            Some(first) => done.push(left.remove(first)),
            None => break,
        }
    }
    // Everything that is left waits for something that is left: following that leads into a cycle.
    while let Some(first) = left.first() {
        let mut names = vec![first.name.clone()];
        let mut at = first;
        while let Some(next) = left.iter().find(|other| at.needs().any(|name| name == other.name)) {
            let seen = names.iter().position(|name| *name == next.name);
            names.push(next.name.clone());
            at = next;
            if let Some(seen) = seen {
                names.drain(..seen);
                break;
            }
        }
        let named = |entry: &Entry| names.contains(&entry.name);
        for entry in left.iter().filter(|entry| named(entry) || entry.name == first.name) {
            let problem = Problem::Cycle { names: names.clone() };
            notices.push(Notice { origin: entry.origin.clone(), problem });
        }
        let first = first.name.clone();
        left.retain(|entry| entry.name != first && !names.contains(&entry.name));
    }
    done
}

fn distinct(entries: Vec<Entry>, notices: &mut Vec<Notice>) -> Vec<Entry> {
    let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries {
        match kept.iter().find(|other| other.name == entry.name) {
            Some(first) => {
                let problem = Problem::Duplicate { name: entry.name, first: first.origin.clone() };
                notices.push(Notice { origin: entry.origin, problem });
            }
            None => kept.push(entry),
        }
    }
    kept
}
