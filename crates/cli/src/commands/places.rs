//! Where the files are that a command is given: `VOLUME:/path`, or a volume and then paths in it. Names in a path may be patterns.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use atrest_filetree::{FileTree, Kind, LastLink, TreePath, resolve};
use atrest_nbd::Uri;
use glob::{MatchOptions, Pattern};

use super::inside::{at, find};
use super::unlock::is_sealed;
use crate::failure::Failure;

/// Paths in one volume.
#[derive(Debug, PartialEq, Eq)]
pub struct Places {
    pub volume: PathBuf,
    pub paths: Vec<PathBuf>,
}

impl Places {
    /// What the words after `atrest COMMAND` name: `VOLUME:/path…`, each in the same volume, or `VOLUME path…`.
    ///
    /// # Errors
    /// If there is no word, and for places in several volumes.
    pub fn of(words: &[PathBuf], command: &str) -> Result<Self, Failure> {
        // What moves has a goal, too.
        let goal = if command == "mv" { " secret.img:/pictures" } else { "" };
        let example = format!("as in: atrest {command} secret.img:/photos{goal}");
        let Some((first, rest)) = words.split_first() else {
            return Err(Failure::parameters("no volume is named").hint(example));
        };
        // What is there under this very name is the volume, also if its name looks like a place in another.
        let Some((volume, path)) = split(first).filter(|_| !first.exists()) else {
            return Ok(Self { volume: first.clone(), paths: rest.to_vec() });
        };
        let mut paths = vec![path];
        for word in rest {
            match split(word) {
                Some((other, path)) if other == volume => paths.push(path),
                Some((other, _)) => {
                    return Err(Failure::parameters(format!(
                        "{} and {} are two volumes",
                        volume.display(),
                        other.display()
                    ))
                    .hint("name one volume at a time"));
                }
                None => {
                    return Err(Failure::parameters(format!("{} is no place in a volume", word.display()))
                        .hint(example));
                }
            }
        }
        Ok(Self { volume, paths })
    }

    /// What they name where a volume alone does not say enough.
    ///
    /// # Errors
    /// Those of [`Places::of`], and if there is no path.
    pub fn with_paths(words: &[PathBuf], command: &str) -> Result<Self, Failure> {
        let places = Self::of(words, command)?;
        match places.paths.is_empty() {
            true => Err(Failure::parameters(format!("no path in {} is named", places.volume.display()))
                .hint(format!("as in: atrest {command} {}:/photos", places.volume.display()))),
            false => Ok(places),
        }
    }
}

/// `VOLUME:/path` in its two halves; `None` for a path of this system.
pub fn split(word: &Path) -> Option<(PathBuf, PathBuf)> {
    let text = word.as_os_str().as_bytes();
    let halves = |colon: usize| {
        let half = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        (half(&text[..colon]), half(&text[colon + 1..]))
    };
    if text.starts_with(b"./") || text.starts_with(b"../") {
        // A local name may contain anything; a volume there is written with its directory all the same.
        let (volume, path) = halves(text.windows(2).rposition(|pair| pair == b":/")?);
        return (volume.is_file() || volume.is_dir()).then_some((volume, path));
    }
    // The first one of a URI is that of its scheme.
    let is_uri = Uri::is_meant(word) || is_sealed(word);
    let scheme = if is_uri { text.windows(3).position(|three| three == b"://")? + 3 } else { 0 };
    let colon = scheme + text[scheme..].windows(2).position(|pair| pair == b":/")?;
    Some(halves(colon))
}

/// How names match: as in a shell, where a pattern says nothing of names that begin with a dot.
const LIKE_A_SHELL: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: false,
    require_literal_leading_dot: true,
};

/// The entries that `path` names, by their names. With `*`, `?` or `[…]` in it these may be several, but for a file that has such a name.
/// Whether there is what a path without them names is for the caller to find out.
///
/// # Errors
/// If nothing matches, if a pattern is none, and if a directory can't be listed.
pub fn matching(tree: &dyn FileTree, path: &Path, last: LastLink) -> Result<Vec<TreePath>, Failure> {
    let is_pattern = |name: &OsStr| name.as_bytes().iter().any(|byte| b"*?[".contains(byte));
    let literal = find(tree, path, last);
    if !is_pattern(path.as_os_str()) || literal.as_ref().is_ok_and(|path| tree.metadata(path).is_ok()) {
        return Ok(vec![literal?]);
    }
    let mut places = vec![PathBuf::from("/")];
    for component in path.components().filter(|part| !matches!(part, Component::RootDir)) {
        let name = component.as_os_str();
        if !is_pattern(name) {
            places.iter_mut().for_each(|place| place.push(name));
            continue;
        }
        let pattern = Pattern::new(&name.to_string_lossy()).map_err(|error| {
            Failure::parameters(format!("{}: this is no pattern: {}", path.display(), error.msg))
        })?;
        let mut found = Vec::new();
        for place in places {
            let Ok(directory) = resolve(tree, place.as_os_str().as_bytes(), LastLink::Follow) else {
                continue;
            };
            if !tree.metadata(&directory).is_ok_and(|metadata| metadata.kind == Kind::Directory) {
                continue;
            }
            let names = tree.list(&directory).map_err(at(&place))?.into_iter().map(|entry| entry.name);
            let matching = names
                .filter(|name| pattern.matches_with(&String::from_utf8_lossy(name), LIKE_A_SHELL))
                .map(|name| place.join(std::ffi::OsString::from_vec(name)));
            found.extend(matching);
        }
        places = found;
    }
    places.sort();
    let mut entries = Vec::new();
    for place in places {
        let found = resolve(tree, place.as_os_str().as_bytes(), last);
        entries.extend(found.ok().filter(|found| tree.metadata(found).is_ok()));
    }
    match entries.is_empty() {
        true => Err(Failure::parameters(format!("{}: nothing matches", path.display()))),
        false => Ok(entries),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_path_is_split_at_its_colon() {
        let split = |text: &str| split(Path::new(text));
        assert_eq!(split("a.img:/x/y"), Some(("a.img".into(), "/x/y".into())));
        assert_eq!(split("/dev/sdx:/"), Some(("/dev/sdx".into(), "/".into())));
        assert_eq!(split("a.img:/x:/y"), Some(("a.img".into(), "/x:/y".into())));
        assert_eq!(split("nbd://host:1/x:/y"), Some(("nbd://host:1/x".into(), "/y".into())));
        assert_eq!(split("nbd://[::1]:/y"), Some(("nbd://[::1]".into(), "/y".into())));
        let socket = "nbd+unix:///?socket=/run/x.sock";
        assert_eq!(split(&format!("{socket}:/y:/z")), Some((socket.into(), "/y:/z".into())));
        for local in ["nbd://host/x", socket, "plain", "/etc/passwd", "c:file", "./no-such-volume:/x"] {
            assert_eq!(split(local), None, "{local}");
        }
    }

    #[test]
    fn places_are_in_one_volume_in_either_form() {
        let of = |words: &[&str]| Places::of(&words.iter().map(PathBuf::from).collect::<Vec<_>>(), "ls");
        let places = |paths: &[&str]| Places {
            volume: "no-such.img".into(),
            paths: paths.iter().map(PathBuf::from).collect(),
        };
        assert_eq!(of(&["no-such.img"]).ok(), Some(places(&[])));
        assert_eq!(of(&["no-such.img", "/a", "/b:/c"]).ok(), Some(places(&["/a", "/b:/c"])));
        assert_eq!(of(&["no-such.img:/a", "no-such.img:/b"]).ok(), Some(places(&["/a", "/b"])));
        for (words, says) in [
            (&["no-such.img:/a", "other.img:/b"][..], "no-such.img and other.img are two volumes"),
            (&["no-such.img:/a", "/b"], "/b is no place in a volume"),
            (&[], "no volume is named"),
        ] {
            assert_eq!(of(words).expect_err("refused").what(), says);
        }
    }
}
