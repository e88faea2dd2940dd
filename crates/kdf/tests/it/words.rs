//! Passphrases of words: the list is the published one, what is typed has one normal form, and drawing is even.

use std::collections::{BTreeMap, BTreeSet};

use atrest_kdf::words::{
    BITS_PER_WORD, LIST_LEN, MAX_LETTERS, TELLING_LETTERS, WordsError, generate, max_len, normalise,
};
use atrest_kdf::{Hash, digest};
use atrest_secret::{Random, RandomError};

const FILE: &str = include_str!("../../src/words/english.txt");

fn list() -> Vec<&'static str> {
    FILE.lines().collect()
}

fn normal(typed: &str) -> Result<String, WordsError> {
    let mut out = vec![0xa5; max_len(typed.len() / 4 + 1)];
    let result = normalise(typed.as_bytes(), &mut out);
    if result.is_err() {
        assert!(out.iter().all(|byte| *byte == 0), "what was read so far is wiped");
    }
    let (len, words) = result?;
    let text = String::from_utf8(out[..len].to_vec()).expect("letters");
    assert_eq!(words, text.split(' ').count());
    Ok(text)
}

/// bitcoin/bips, bip-0039/english.txt.
#[test]
fn the_list_is_the_published_one() {
    let mut sum = [0; 32];
    digest(Hash::Sha256, &[FILE.as_bytes()], &mut sum);
    let hex: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "2f5eed53a4727b4bf8880d8f3f199efc90e58503646d9ff8eff3a2ed3b24dbda");
    let words = list();
    assert_eq!(words.len(), LIST_LEN);
    assert_eq!(1 << BITS_PER_WORD, LIST_LEN);
    let starts: BTreeSet<_> = words.iter().map(|word| &word[..word.len().min(TELLING_LETTERS)]).collect();
    assert_eq!(starts.len(), LIST_LEN, "four letters tell them apart");
    assert_eq!(words.iter().map(|word| word.len()).max(), Some(MAX_LETTERS));
}

#[test]
fn every_word_is_known_in_full_and_by_any_start_of_four_letters() {
    for (number, word) in list().into_iter().enumerate() {
        let shortest = TELLING_LETTERS.min(word.len());
        // Each start of some words, the shortest and the whole of all.
        let step = if number % 16 == 0 { 1 } else { (word.len() - shortest).max(1) };
        for len in (shortest..=word.len()).step_by(step) {
            assert_eq!(normal(&word[..len]).as_deref(), Ok(word));
        }
        if number % 16 == 1 {
            assert_eq!(normal(&word.to_uppercase()).as_deref(), Ok(word));
        }
    }
}

#[test]
fn case_and_spacing_do_not_matter() {
    let expected = "abandon act zoo zone actress";
    for typed in
        ["abandon act zoo zone actress", "  Aban\tACT   zoo\nZone  actr \r\n", "ABANDO act ZOO zone ACTRES"]
    {
        assert_eq!(normal(typed).as_deref(), Ok(expected), "{typed:?}");
    }
}

#[test]
fn a_word_that_is_none_is_named_by_its_place_with_those_that_are_spelled_alike() {
    let unknown = |typed: &str| match normal(typed) {
        Err(WordsError::Unknown { position, near }) => {
            (position, near.into_iter().flatten().collect::<Vec<_>>())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(unknown("zoo abandno act"), (2, vec!["abandon"]));
    assert_eq!(unknown("Actros"), (1, vec!["across", "action", "actor"]));
    // Three letters are enough only if they are the word.
    assert_eq!(unknown("zoo zoo aba").0, 3);
    // Longer than its word; the right start with a wrong end.
    assert_eq!(unknown("zooo"), (1, vec!["zoo", "book", "cook"]));
    assert_eq!(unknown("abandoned").0, 1);
    assert_eq!(unknown("abanxon").0, 1);
    assert_eq!(unknown("correcthorsebatterystaple"), (1, vec![]));
    assert_eq!(unknown("zo\u{f6}").0, 1);
    assert_eq!(normal(""), Err(WordsError::NoWords));
    assert_eq!(normal(" \t\n"), Err(WordsError::NoWords));
    // What may reach a log says no word.
    let error = normal("abandno").expect_err("is none");
    assert!(!format!("{error} {error:?}").contains("aband"));
}

#[test]
fn a_buffer_that_is_too_small_is_an_error_and_wiped() {
    let mut out = [0xa5; 15];
    assert_eq!(normalise(b"abandon actress", &mut out), Err(WordsError::NoRoom));
    assert_eq!(out, [0; 15]);
}

/// Counts up in steps that lead through all remainders, two bytes at a time.
struct Counter(u16);

impl Random for Counter {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        out.copy_from_slice(&self.0.to_le_bytes());
        self.0 = self.0.wrapping_add(17);
        Ok(())
    }
}

#[test]
fn every_word_is_drawn_equally_often() {
    let words = list();
    let mut often: BTreeMap<String, usize> = BTreeMap::new();
    let mut random = Counter(0);
    for round in 0..1 << 10 {
        let mut out = [0; max_len(4)];
        let len = generate(&mut random, 4, &mut out).expect("random");
        let text = String::from_utf8(out[..len].to_vec()).expect("letters");
        if round % 8 == 0 {
            assert_eq!(normal(&text).as_deref(), Ok(text.as_str()), "is in the normal form already");
        }
        for word in text.split(' ') {
            *often.entry(word.to_owned()).or_default() += 1;
        }
    }
    assert_eq!(often.len(), words.len());
    assert!(often.values().all(|count| *count == 2));
}

/// Gives out after some words.
struct Failing(usize);

impl Random for Failing {
    fn fill(&mut self, out: &mut [u8]) -> Result<(), RandomError> {
        self.0 = self.0.checked_sub(1).ok_or(RandomError)?;
        out.fill(7);
        Ok(())
    }
}

#[test]
fn nothing_is_left_when_the_random_source_fails() {
    let mut out = [0xa5; max_len(5)];
    assert_eq!(generate(&mut Failing(3), 5, &mut out), Err(RandomError));
    assert_eq!(out, [0; max_len(5)]);
}
