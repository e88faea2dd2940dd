//! Manual pages: one of section 1 for each command, made of its definition, and one of section 5 for each format
//! ([`formats`]), written by hand.

pub mod formats;
mod roff;

use std::collections::BTreeMap;

use clap::{Arg, Command};

use crate::help::{examples, notes};
use roff::Page;

/// The day of this version in CHANGELOG.md, which a page has in its heading. The day of a build would make two builds differ.
const RELEASED: &str = "2026-11-28";

const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "It is done."),
    ("1", "The arguments are wrong, or don't fit together."),
    ("2", "No permission, or no such passphrase."),
    ("3", "There is too little memory."),
    ("4", "The device is not what it should be: missing, not a volume, damaged, failing."),
    ("5", "It exists already, or is in use."),
];

/// The formats that a command is about, by the beginning of its name. The longest that fits counts.
const FORMATS: &[(&str, &[&str])] = &[
    (
        "atrest",
        &[
            "luks",
            "plain",
            "tcrypt",
            "bitlocker",
            "filevault",
            "ecryptfs",
            "fscrypt",
            "flash",
            "sealed",
            "sealed-volume",
            "verity",
            "integrity",
        ],
    ),
    ("atrest open", &["luks", "plain", "tcrypt", "bitlocker", "filevault", "sealed-volume"]),
    ("atrest format", &["luks", "tcrypt", "flash", "sealed", "sealed-volume", "integrity"]),
    ("atrest image", &["flash", "sealed"]),
    ("atrest mount", &["luks", "ecryptfs", "fscrypt", "flash"]),
    ("atrest ls", &["luks", "ecryptfs", "fscrypt", "flash"]),
    ("atrest cat", &["luks", "ecryptfs", "fscrypt", "flash"]),
    ("atrest cp", &["luks", "ecryptfs", "fscrypt", "flash"]),
    ("atrest mkdir", &["luks", "flash"]),
    ("atrest rm", &["luks", "flash"]),
    ("atrest mv", &["luks", "flash"]),
    ("atrest tree", &["ecryptfs", "fscrypt"]),
    ("atrest tree check", &["ecryptfs"]),
    ("atrest tree export", &["ecryptfs"]),
    ("atrest tree passphrase", &["ecryptfs"]),
    ("atrest tree build", &["fscrypt"]),
    ("atrest tree policies", &["fscrypt"]),
    ("atrest info", &["luks", "bitlocker", "filevault", "tcrypt", "flash"]),
    ("atrest header", &["luks", "tcrypt", "bitlocker"]),
    ("atrest key", &["luks", "tcrypt", "flash"]),
    ("atrest convert", &["luks", "tcrypt", "plain"]),
    ("atrest hand-over", &["sealed", "sealed-volume"]),
    ("atrest snapshot", &["sealed-volume"]),
    ("atrest gc", &["sealed-volume"]),
    ("atrest clone", &["sealed-volume"]),
    ("atrest flatten", &["sealed-volume"]),
    ("atrest rekey", &["sealed-volume"]),
    ("atrest repair", &["luks", "sealed"]),
    ("atrest erase", &["luks", "sealed"]),
    ("atrest scrub", &["luks", "integrity"]),
    ("atrest verity", &["verity"]),
    ("atrest kdf", &["luks", "flash"]),
];

/// Every page: the name of its file, and its text.
pub fn pages(mut root: Command) -> BTreeMap<String, String> {
    root.build();
    let mut pages = BTreeMap::new();
    fn walk(command: &Command, path: &str, above: Option<&Command>, pages: &mut BTreeMap<String, String>) {
        pages.insert(format!("{}.1", path.replace(' ', "-")), page(command, path, above));
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
            walk(sub, &format!("{path} {}", sub.get_name()), Some(command), pages);
        }
    }
    walk(&root, "atrest", None, &mut pages);
    for (name, text) in formats::PAGES {
        let dated = text.replacen("@RELEASED@", RELEASED, 1);
        pages.insert(format!("atrest-{name}.5"), dated);
    }
    pages
}

/// The page of one command.
pub fn page(command: &Command, path: &str, above: Option<&Command>) -> String {
    let name = path.replace(' ', "-");
    let version = env!("CARGO_PKG_VERSION");
    let mut page = Page::new(&format!("{name} 1 \"{RELEASED}\" \"atrest {version}\" \"User commands\""));
    // intended: a test holds that every command says what it does.
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    page.section("NAME");
    page.line(&format!("{name} \\- {}", roff::escaped(first_line(&about))));
    page.section("SYNOPSIS");
    synopsis(&mut page, command, path);
    page.section("DESCRIPTION");
    let long = command.get_long_about().map_or(about, ToString::to_string);
    page.paragraphs(&long);
    let notes = notes(command);
    if !notes.is_empty() && above.is_some() {
        page.paragraph_break();
        page.paragraphs(&notes);
    }
    commands(&mut page, command, path);
    options(&mut page, command, above.is_some());
    page.section("EXIT STATUS");
    for (code, what) in EXIT_STATUS {
        page.item(code, what);
    }
    if command.get_arguments().any(|arg| arg.get_id() == "run") {
        page.paragraph_break();
        page.paragraphs("With --run, the exit status is that of the command.");
    }
    if above.is_none() {
        environment(&mut page);
    }
    page.section("EXAMPLES");
    page.examples(&examples_of(command));
    page.section("SEE ALSO");
    page.line(&references(command, path, above));
    page.text
}

/// What fits the list of all pages: the first sentence, without its full stop.
fn first_line(about: &str) -> &str {
    about.split(". ").next().unwrap_or(about).trim_end_matches('.')
}

/// A command's own examples, or those of the commands in it.
fn examples_of(command: &Command) -> Vec<String> {
    let own = examples(command);
    if !own.is_empty() {
        return own;
    }
    let subs = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    subs.flat_map(|sub| examples_of(sub).into_iter().take(1)).collect()
}

fn synopsis(page: &mut Page, command: &Command, path: &str) {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let rest = usage.strip_prefix(path).unwrap_or(usage);
    page.line(&format!("\\fB{}\\fR{}", roff::escaped(path), roff::escaped(rest)));
}

fn commands(page: &mut Page, command: &Command, path: &str) {
    let mut subs =
        command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()).peekable();
    if subs.peek().is_none() {
        return;
    }
    page.section("COMMANDS");
    for sub in subs {
        // intended: without a text there is only the name.
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        page.item(&format!("{}-{}(1)", path.replace(' ', "-"), sub.get_name()), &about);
    }
}

/// Arguments, then options without a heading, then the groups in the order of their first option.
fn options(page: &mut Page, command: &Command, has_globals: bool) {
    let shown: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let mut headings: Vec<Option<&str>> = vec![None];
    for arg in &shown {
        let heading = arg.get_help_heading();
        // Those of every command come last.
        if !headings.contains(&heading) && !arg.is_global_set() {
            headings.push(heading);
        }
    }
    if has_globals || !headings.contains(&Some("Global options")) {
        headings.push(Some("Global options"));
    }
    page.section("OPTIONS");
    for heading in headings {
        let group: Vec<&&Arg> = shown.iter().filter(|arg| arg.get_help_heading() == heading).collect();
        if let (Some(heading), false) = (heading, group.is_empty()) {
            page.subsection(heading);
        }
        let (places, named): (Vec<&&Arg>, Vec<&&Arg>) =
            group.into_iter().partition(|arg| arg.is_positional());
        for arg in places.into_iter().chain(named) {
            option(page, arg);
        }
    }
}

fn option(page: &mut Page, arg: &Arg) {
    let values =
        // intended: an option without a value has no names of values.
        arg.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect::<Vec<_>>();
    let takes = arg.get_num_args().is_some_and(|range| range.max_values() > 0);
    let may_be_left_out = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let mut head = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => values.join(" "),
    };
    if takes && !arg.is_positional() && !values.is_empty() {
        let value = values.join(" ");
        head.push_str(&if may_be_left_out { format!(" [{value}]") } else { format!(" {value}") });
    }
    // intended: without a text there is only the option.
    let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
    page.item(&head, &help);
    let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes && !defaults.is_empty() {
        page.paragraphs(&format!("[default: {}]", defaults.join(" ")));
    }
    let possible = arg.get_possible_values();
    let mut possible = possible.iter().filter(|value| !value.is_hide_set()).peekable();
    if takes && !arg.is_hide_possible_values_set() && possible.peek().is_some() {
        page.line(".RS");
        for value in possible {
            // intended: without a text there is only the value.
            let what = value.get_help().map(ToString::to_string).unwrap_or_default();
            page.item(value.get_name(), &what);
        }
        page.line(".RE");
    }
}

fn environment(page: &mut Page) {
    page.section("ENVIRONMENT");
    for (name, what) in [
        ("XDG_RUNTIME_DIR", "Where sockets and the list of open volumes lie."),
        ("NO_COLOR", "No colour on terminals, if it is set and not empty."),
        (
            "LC_ALL, LC_CTYPE, LANG",
            "Bars are drawn with letters where the character set has no block characters.",
        ),
        ("ATREST_PATH, ATREST_URI, ATREST_SOCKET", "Set for the command of --run: where the open volume is."),
    ] {
        page.item(name, what);
    }
}

/// The pages that a reader of this one may want next.
fn references(command: &Command, path: &str, above: Option<&Command>) -> String {
    let mut names = vec![("atrest".to_owned(), 1)];
    let parent = path.rsplit_once(' ').map_or(path, |(parent, _)| parent);
    let mut add = |name: String, section| {
        if name != path.replace(' ', "-") && !names.contains(&(name.clone(), section)) {
            names.push((name, section));
        }
    };
    if let Some(above) = above.filter(|_| parent.contains(' ')) {
        add(parent.replace(' ', "-"), 1);
        for sub in above.get_subcommands().filter(|sub| sub.get_name() != "help") {
            add(format!("{}-{}", parent.replace(' ', "-"), sub.get_name()), 1);
        }
    }
    if above.is_some() {
        for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
            add(format!("{}-{}", path.replace(' ', "-"), sub.get_name()), 1);
        }
    } else {
        for name in ["open", "format", "mount"] {
            add(format!("atrest-{name}"), 1);
        }
    }
    for name in formats_of(path) {
        add(format!("atrest-{name}"), 5);
    }
    names.retain(|(name, _)| name != &path.replace(' ', "-"));
    let shown: Vec<String> =
        names.iter().map(|(name, section)| format!(".BR {} ({section})", roff::escaped(name))).collect();
    shown.join(" ,\n")
}

fn formats_of(path: &str) -> &'static [&'static str] {
    let fits = |of: &str| path == of || path.strip_prefix(of).is_some_and(|rest| rest.starts_with(' '));
    // "atrest" alone is for the page of the program: of a command that is about no format no format is named.
    let found = FORMATS.iter().filter(|(of, _)| fits(of) && (*of != "atrest" || path == "atrest"));
    found.max_by_key(|(of, _)| of.len()).map_or(&["luks"], |(_, formats)| formats)
}

#[cfg(all(test, feature = "whole"))]
mod tests {
    use std::path::Path;
    use std::process::Command as Process;

    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn all() -> BTreeMap<String, String> {
        pages(Cli::command())
    }

    #[test]
    fn every_page_has_its_sections_and_leads_nowhere_that_is_not_there() {
        let pages = all();
        assert!(pages.len() > 90, "{} pages", pages.len());
        assert_eq!(pages.keys().filter(|name| name.ends_with(".5")).count(), formats::PAGES.len());
        for (file, text) in &pages {
            for section in ["NAME", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO"] {
                assert!(text.contains(&format!("\n.SH {section}\n")), "{file} has no {section}");
            }
            assert!(
                !text.contains("docs/") && !text.contains(".md"),
                "{file} names a file that is not installed"
            );
            for line in text.lines().filter_map(|line| line.strip_prefix(".BR ")) {
                let mut words = line.split(' ');
                let name = words.next().expect("a name").replace("\\-", "-");
                let section = words.next().expect("a section").trim_matches(['(', ')']);
                let theirs = ["cryptsetup", "veritysetup", "integritysetup"].contains(&name.as_str())
                    && section == "8";
                assert!(
                    theirs || pages.contains_key(&format!("{name}.{section}")),
                    "{file} leads to {name}({section})"
                );
            }
        }
    }

    #[test]
    fn the_examples_of_the_formats_are_command_lines_of_this_program() {
        for (name, text) in formats::PAGES {
            let mut count = 0;
            for example in text.split(".EX\n").skip(1).flat_map(|rest| rest.split(".EE").next()) {
                for line in example.lines().map(|line| line.replace("\\-", "-")) {
                    count += crate::help::examples_parse(&line).unwrap_or_else(|error| panic!("{error}"));
                }
            }
            assert!(count >= 2, "{name} has {count} examples");
        }
    }

    #[test]
    fn man_has_nothing_to_warn_of() {
        let scratch = atrest_testkit::Scratch::new();
        for (file, text) in all() {
            std::fs::write(scratch.path(&file), text).expect("a page");
        }
        if !Path::new("/usr/bin/groff").exists() && !Path::new("/usr/bin/mandoc").exists() {
            // What can be held without a formatter: no line begins as a request that is none.
            for (file, text) in all() {
                for line in text.lines().filter(|line| line.starts_with('.')) {
                    // intended: an empty line has no request.
                    let request = line.split(' ').next().unwrap_or_default();
                    let known = [
                        ".TH", ".SH", ".SS", ".TP", ".PP", ".IP", ".RS", ".RE", ".EX", ".EE", ".in", ".B",
                        ".I", ".BR",
                    ];
                    assert!(known.contains(&request), "{file}: {line}");
                }
            }
            return;
        }
        let told = Process::new("bash")
            .args(["-c", "groff -man -Tutf8 -Kutf8 -ww -z -rHY=0 ./*.1 ./*.5 2>&1"])
            .current_dir(scratch.as_path())
            .output()
            .expect("groff");
        assert_eq!(String::from_utf8_lossy(&told.stdout), "");
    }
}
