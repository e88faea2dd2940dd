//! `atrest completions`: scripts for shells. Words of the definitions come from the script itself; what only the program knows (open volumes,
//! keyslots) it is asked for by `atrest complete`.

use std::io::{self, Write};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::args::tools::CompletionsArgs;
use crate::failure::Failure;

/// bash parts words at colons, too, and puts a candidate in place of the last part alone. So a candidate loses what stands before it.
const BASH: &str = r#"
_atrest_asked() {
    local -a words
    local line=${COMP_LINE:0:COMP_POINT} word found
    read -a words <<< "$line" 2>/dev/null
    [[ $line == *[[:space:]] ]] && words+=("")
    word=${words[-1]}
    found=$("$1" complete -- "${words[@]}" 2>/dev/null)
    if [[ -n $found ]]; then
        local kept=${word%"${word##*[:=]}"}
        mapfile -t COMPREPLY <<< "$found"
        if [[ -z ${COMPREPLY[0]} ]]; then
            # Names, and files besides.
            local -a files
            mapfile -t files < <(compgen -f -- "$2")
            COMPREPLY=("${COMPREPLY[@]:1}" "${files[@]}")
            compopt -o filenames
            return 0
        fi
        COMPREPLY=("${COMPREPLY[@]#"$kept"}")
        return 0
    fi
    _atrest "$@"
}
complete -F _atrest_asked -o bashdefault -o default atrest
"#;

const ZSH: &str = r#"
_atrest() {
    local -a found
    found=("${(@f)$("${words[1]}" complete -- "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -a found
    elif (( ${#found} > 1 )); then
        # Names, and files besides.
        shift found
        compadd -a found
        _files
    else
        _atrest_words "$@"
    fi
}

"#;

/// fish takes the value of an option from what is said of that option alone, and puts `--name=` in front of it by itself.
const FISH: &str = r#"
function __atrest_asked
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete -- $words 2>/dev/null | string replace -r -- '^--[^=]*=' ''
end
# Names, and files besides: an empty line comes first.
function __atrest_or_files
    set -l found (__atrest_asked)
    test (count $found) -gt 1; and test -z "$found[1]"
end
complete -c atrest -f -n 'test (count (__atrest_asked)) -gt 0; and not __atrest_or_files' -a '(__atrest_asked)'
complete -c atrest -F -n __atrest_or_files -a '(__atrest_asked)[2..-1]'
complete -c atrest -x -s S -l key-slot -a '(__atrest_asked)'
complete -c atrest -x -s c -l cipher -a '(__atrest_asked)'
complete -c atrest -x -s s -l key-size -a '(__atrest_asked)'
for name in new-key-slot drop-slot token-id keyslot-cipher keyslot-key-size hash
    complete -c atrest -x -l $name -a '(__atrest_asked)'
end
"#;

pub fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "atrest", &mut script);
    let script = asking(args.shell, String::from_utf8_lossy(&script).into_owned());
    io::stdout().write_all(script.as_bytes())?;
    Ok(())
}

/// The script with a question to the program in front of it.
fn asking(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH,
        Shell::Zsh => {
            // The last lines start the function that zsh knows by the file's name.
            let script = script.replacen("\n_atrest() {", "\n_atrest_words() {", 1);
            match script.rfind("\nif [ \"$funcstack[1]\"").and_then(|end| script.split_at_checked(end)) {
                Some((functions, start)) => format!("{functions}{ZSH}{}", start.trim_start()),
                // A generator that ends otherwise gives a script without the question.
                None => script.replacen("\n_atrest_words() {", "\n_atrest() {", 1),
            }
        }
        _ => script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generated_scripts_take_the_question() {
        for (shell, marks) in [
            (Shell::Bash, &["_atrest() {", "_atrest_asked() {"][..]),
            (
                Shell::Zsh,
                &["\n_atrest_words() {", "\n_atrest() {", "\nif [ \"$funcstack[1]\" = \"_atrest\" ]"],
            ),
            (Shell::Fish, &["function __atrest_asked"]),
        ] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "atrest", &mut script);
            let script = asking(shell, String::from_utf8(script).expect("text"));
            for mark in marks {
                assert_eq!(script.matches(mark).count(), 1, "{shell}: {mark}");
            }
        }
    }
}
