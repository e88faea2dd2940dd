//! A line of shell as its commands and their words, as far as examples need it.

/// The commands of a line, each as its words. Redirections and comments are left out.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let line = line.replace("\\\n", " ");
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '<' | '>') => {
                // A descriptor in front of it belongs to it, and so does the file behind it.
                word = word.filter(|word| word.parse::<u32>().is_err());
                end(&mut commands, &mut word);
                while letters.next_if(|letter| *letter == ' ').is_some() {}
                while letters.next_if(|letter| !" ;|&".contains(*letter)).is_some() {}
            }
            (None, ' ') => end(&mut commands, &mut word),
            (None, '|' | ';' | '&') => {
                end(&mut commands, &mut word);
                commands.push(Vec::new());
            }
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    end(&mut commands, &mut word);
    commands.retain(|words| !words.is_empty());
    commands
}

fn end(commands: &mut [Vec<String>], word: &mut Option<String>) {
    if let (Some(words), Some(word)) = (commands.last_mut(), word.take()) {
        words.push(word);
    }
}

#[test]
fn a_line_is_read_as_a_shell_reads_it() {
    let words = |line: &str| commands(line).iter().map(|words| words.join("|")).collect::<Vec<_>>();
    assert_eq!(words("a 'b c' \"d\" # e"), ["a|b c|d"]);
    assert_eq!(words("a && b | c > f; d 3< g h"), ["a", "b", "c", "d|h"]);
    assert_eq!(words("a \\\n  b ''"), ["a|b|"]);
}
