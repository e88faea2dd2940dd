//! The command line.

use std::path::PathBuf;
use std::time::Duration;

/// How the program is used.
pub const USAGE: &str = "\
Usage: mutants [OPTION...]
    --only PATH...        mutants of files whose paths begin so; otherwise of all rooms
    --name TEXT           only mutants whose names hold the text
    --tests PACKAGE...    tests of these packages; otherwise of those that the table of rooms names
    --test TEXT           only tests whose names hold the text: package/program/test
    --classic             only mutants that cargo-mutants makes, too
    --commit REVISION     of this commit; otherwise of the working tree
    --sample N            so many of them
    --seed S              another sample; otherwise the last commit determines it
    --survivors-of FILE   only those that survived according to a file of --json
    --minutes M           stop after so many minutes
    --slow S              leave out tests that take more than S seconds (30)
    --patience S          run no further test against a mutant after S seconds (60)
    --jobs N              so many tests side by side (2)
    --json FILE           write what became of each mutant
    --list                name the mutants, and run nothing
    --entries             print entries for equivalent.txt, and run nothing
    --build               build them, and run nothing";

/// What the user asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// What paths begin with. None means all.
    pub only: Vec<String>,
    /// What is in the names of the mutants.
    pub name: Option<String>,
    /// What is in the names of the tests.
    pub test: Option<String>,
    /// Packages whose tests run. None means those of the table.
    pub tests: Vec<String>,
    /// Whether only mutants of cargo-mutants count.
    pub classic: bool,
    /// The commit that is mutated. None means the working tree.
    pub commit: Option<String>,
    /// How many mutants.
    pub sample: Option<usize>,
    /// What determines the sample.
    pub seed: Option<u64>,
    /// A report of which only the survivors count.
    pub survivors_of: Option<PathBuf>,
    /// When no further mutant is begun.
    pub minutes: Option<u64>,
    /// How long a test may take.
    pub slow: Duration,
    /// How long tests run against one mutant.
    pub patience: Duration,
    /// How many tests run side by side.
    pub jobs: usize,
    /// Where the report is written to.
    pub json: Option<PathBuf>,
    /// Whether mutants are only named.
    pub list: bool,
    /// Whether entries for equivalent mutants are printed.
    pub entries: bool,
    /// Whether mutants are only built.
    pub build: bool,
}

impl Options {
    /// Reads the words of a command line.
    pub fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            only: Vec::new(),
            name: None,
            test: None,
            tests: Vec::new(),
            classic: false,
            commit: None,
            sample: None,
            seed: None,
            survivors_of: None,
            minutes: None,
            slow: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            jobs: 2,
            json: None,
            list: false,
            entries: false,
            build: false,
        };
        let mut words = words.peekable();
        while let Some(option) = words.next() {
            let mut values = Vec::new();
            while let Some(value) = words.next_if(|word| !word.starts_with("--")) {
                values.push(value);
            }
            let count = values.len();
            let mut one =
                || if count == 1 { values.pop() } else { None }.ok_or(format!("{option} takes one value"));
            match option.as_str() {
                "--sample" => options.sample = Some(number(&one()?)? as usize),
                "--seed" => options.seed = Some(number(&one()?)?),
                "--commit" => options.commit = Some(one()?),
                "--name" => options.name = Some(one()?),
                "--test" => options.test = Some(one()?),
                "--survivors-of" => options.survivors_of = Some(one()?.into()),
                "--minutes" => options.minutes = Some(number(&one()?)?),
                "--slow" => options.slow = Duration::from_secs(number(&one()?)?),
                "--patience" => options.patience = Duration::from_secs(number(&one()?)?),
                "--jobs" => options.jobs = (number(&one()?)? as usize).max(1),
                "--json" => options.json = Some(one()?.into()),
                "--only" if count > 0 => options.only.append(&mut values),
                "--tests" if count > 0 => options.tests.append(&mut values),
                "--classic" if count == 0 => options.classic = true,
                "--list" if count == 0 => options.list = true,
                "--entries" if count == 0 => options.entries = true,
                "--build" if count == 0 => options.build = true,
                _ => return Err(format!("{option} is not understood\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn read(line: &str) -> Result<Options, String> {
        Options::read(line.split_whitespace().map(String::from))
    }

    #[test]
    fn options_are_read() {
        let options = read("--only a b --sample 20 --list --only c").expect("this is right");
        assert_eq!(
            (options.only.join(" ").as_str(), options.sample, options.list),
            ("a b c", Some(20), true)
        );
        for wrong in ["a", "--sample", "--sample x", "--sample 1 2", "--only", "--list a", "--lists"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
