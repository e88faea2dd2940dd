//! `ls -lh`, as everybody types it. Everywhere else `-h` prints help.

use std::ffi::OsString;

/// The letters that `ls` takes behind one dash, beside `h`.
const OF_LS: &str = "lR";

/// The words of a command line, with an `h` among other letters of `ls` spelled out.
pub fn as_options(words: Vec<OsString>) -> Vec<OsString> {
    // Options of all commands may stand in front of the command. None of these that take a value can have this one.
    if !words.iter().skip(1).take_while(|word| *word != "--").any(|word| word == "ls") {
        return words;
    }
    let mut spelled = Vec::with_capacity(words.len() + 1);
    let mut words = words.into_iter();
    for word in words.by_ref() {
        let is_end = word == "--";
        match word.to_str().and_then(without_h) {
            Some(rest) => spelled.extend([rest.into(), "--human-readable".into()]),
            None => spelled.push(word),
        }
        if is_end {
            break;
        }
    }
    spelled.extend(words);
    spelled
}

/// `-l` of `-lh`.
fn without_h(word: &str) -> Option<String> {
    let letters = word.strip_prefix('-')?;
    let rest: String = letters.chars().filter(|letter| *letter != 'h').collect();
    let is_of_ls = !rest.is_empty() && rest.chars().all(|letter| OF_LS.contains(letter));
    (is_of_ls && rest.len() < letters.len()).then(|| format!("-{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(line: &str) -> String {
        let words = as_options(line.split(' ').map(OsString::from).collect());
        words.iter().filter_map(|word| word.to_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_h_among_letters_of_ls_asks_for_sizes_that_people_read() {
        assert_eq!(spelled("atrest ls -lh v:/"), "atrest ls -l --human-readable v:/");
        assert_eq!(spelled("atrest ls -Rhl v:/"), "atrest ls -Rl --human-readable v:/");
        assert_eq!(spelled("atrest --quiet ls v:/ -hl"), "atrest --quiet ls v:/ -l --human-readable");
    }

    #[test]
    fn what_asks_for_help_or_is_of_another_command_stays() {
        for line in [
            "atrest ls -h",
            "atrest ls -l -h v:/",
            "atrest ls v:/ -- -lh",
            "atrest cp -rh v:/a b",
            "atrest open -lh v",
            "atrest ls --help",
            "atrest ls -lxh v:/",
            "atrest",
        ] {
            assert_eq!(spelled(line), line);
        }
    }
}
