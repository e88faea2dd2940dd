//! Messages in reports of 64 bytes (CTAP 2.1, section 11.2).

use core::time::Duration;
use std::time::Instant;

use atrest_secret::{OsRandom, Random};

use crate::Fido2Error;

/// Bytes of a report.
pub const REPORT: usize = 64;

/// The longest message: a first report, and 128 others.
const MAX: usize = REPORT - 7 + 128 * (REPORT - 5);

/// The longest that a key may be silent, and the longest that it may take with all its signs of life. Keys wait half a minute for a touch.
const SILENCE: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(60);

const BROADCAST: u32 = 0xffff_ffff;
const INIT: u8 = 0x86;
const CBOR: u8 = 0x90;
const CANCEL: u8 = 0x91;
const KEEPALIVE: u8 = 0xbb;
const ERROR: u8 = 0xbf;

const BAD: Fido2Error = Fido2Error::Malformed;

/// What carries reports to a security key and back.
pub trait Reports {
    /// Sends a report.
    ///
    /// # Errors
    /// [`Fido2Error::Io`], [`Fido2Error::Slow`].
    fn send(&mut self, report: &[u8; REPORT]) -> Result<(), Fido2Error>;

    /// Receives one.
    ///
    /// # Errors
    /// [`Fido2Error::Slow`] if none has come until then; [`Fido2Error::Io`].
    fn receive(&mut self, until: Instant) -> Result<[u8; REPORT], Fido2Error>;
}

/// How long a key may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    pub silence: Duration,
    pub limit: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { silence: SILENCE, limit: LIMIT }
    }
}

/// A channel to a security key.
pub struct Channel {
    reports: Box<dyn Reports>,
    id: u32,
    patience: Patience,
}

impl Channel {
    /// Asks for a channel.
    pub fn open(reports: Box<dyn Reports>, patience: Patience) -> Result<Self, Fido2Error> {
        let mut channel = Self { reports, id: BROADCAST, patience };
        let mut nonce = [0; 8];
        OsRandom.fill(&mut nonce)?;
        channel.send(INIT, &nonce)?;
        let until = Instant::now() + patience.silence;
        // Others may be asking at the same time, by the same channel.
        loop {
            let Some(answer) = channel.message(until, until, &mut |_| {})? else { continue };
            let [INIT, theirs @ ..] = &answer[..] else { return Err(BAD) };
            let (theirs, rest) = theirs.split_at_checked(nonce.len()).ok_or(BAD)?;
            if theirs != nonce {
                continue;
            }
            let [a, b, c, d, _, _, _, _, capabilities, ..] = *rest else { return Err(BAD) };
            channel.id = u32::from_be_bytes([a, b, c, d]);
            // Without this it is a key of the first generation.
            return if capabilities & 4 != 0 && channel.id != BROADCAST {
                Ok(channel)
            } else {
                Err(Fido2Error::NoSecrets)
            };
        }
    }

    /// Sends a command of CTAP, and returns the whole answer, with its status in front. `touch` is called once if the key waits for somebody.
    pub fn exchange(&mut self, command: &[u8], touch: &mut dyn FnMut()) -> Result<Vec<u8>, Fido2Error> {
        self.send(CBOR, command)?;
        let end = Instant::now() + self.patience.limit;
        let mut told = false;
        loop {
            let until = end.min(Instant::now() + self.patience.silence);
            let mut alive = |status: u8| {
                if status == 2 && !core::mem::replace(&mut told, true) {
                    touch();
                }
            };
            match self.message(until, end, &mut alive) {
                Ok(None) if Instant::now() < end => {}
                Ok(Some(answer)) => match &answer[..] {
                    [CBOR, answer @ ..] => return Ok(answer.to_vec()),
                    [ERROR, 6] => return Err(Fido2Error::Busy),
                    _ => return Err(BAD),
                },
                Ok(None) | Err(Fido2Error::Slow) => {
                    // It need not wait for a touch any more. Whether it hears that makes no difference here.
                    let _ = self.send(CANCEL, &[]);
                    return Err(Fido2Error::Slow);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn send(&mut self, command: u8, message: &[u8]) -> Result<(), Fido2Error> {
        let len = u16::try_from(message.len()).ok().filter(|len| usize::from(*len) <= MAX).ok_or(BAD)?;
        let [high, low] = len.to_be_bytes();
        let (first, rest) = message.split_at(message.len().min(REPORT - 7));
        self.report(&[command, high, low], first)?;
        for (number, piece) in (0..).zip(rest.chunks(REPORT - 5)) {
            self.report(&[number], piece)?;
        }
        Ok(())
    }

    fn report(&mut self, head: &[u8], piece: &[u8]) -> Result<(), Fido2Error> {
        let mut report = [0; REPORT];
        let id = self.id.to_be_bytes();
        let bytes = id.iter().chain(head).chain(piece);
        report.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        self.reports.send(&report)
    }

    /// The next message, its command in front; `None` if it was a sign of life. Reports of other channels are passed over.
    fn message(
        &mut self,
        until: Instant,
        end: Instant,
        alive: &mut dyn FnMut(u8),
    ) -> Result<Option<Vec<u8>>, Fido2Error> {
        let first = self.own(until)?;
        let [command, high, low, piece @ ..] = &first[..] else { return Err(BAD) };
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        // The first report of a message has this bit.
        if command & 0x80 == 0 || len > MAX {
            return Err(BAD);
        }
        if *command == KEEPALIVE {
            piece.first().filter(|_| len == 1).map(|status| alive(*status)).ok_or(BAD)?;
            return Ok(None);
        }
        let mut message = vec![*command];
        message.extend(piece.iter().take(len));
        for number in 0..128 {
            if message.len() > len {
                break;
            }
            let next = self.own(end.min(Instant::now() + self.patience.silence))?;
            let [sequence, piece @ ..] = &next[..] else { return Err(BAD) };
            if *sequence != number {
                return Err(BAD);
            }
            message.extend(piece.iter().take(len + 1 - message.len()));
        }
        Ok(Some(message))
    }

    /// The next report of this channel, without its number.
    fn own(&mut self, until: Instant) -> Result<Vec<u8>, Fido2Error> {
        loop {
            if Instant::now() >= until {
                return Err(Fido2Error::Slow);
            }
            let report = self.reports.receive(until)?;
            if let Some(rest) = report.strip_prefix(&self.id.to_be_bytes()) {
                return Ok(rest.to_vec());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use super::*;

    /// Answers what a script says: to each message that is whole, some reports.
    struct Scripted {
        sent: Rc<RefCell<Vec<[u8; REPORT]>>>,
        first: VecDeque<[u8; REPORT]>,
        answers: VecDeque<[u8; REPORT]>,
        endless: bool,
    }

    impl Reports for Scripted {
        fn send(&mut self, report: &[u8; REPORT]) -> Result<(), Fido2Error> {
            self.sent.borrow_mut().push(*report);
            if report[4] == INIT {
                let mut answer = [0; REPORT];
                answer[..7].copy_from_slice(&[0xff, 0xff, 0xff, 0xff, INIT, 0, 17]);
                answer[7..15].copy_from_slice(&report[7..15]);
                answer[15..24].copy_from_slice(&[1, 2, 3, 4, 2, 0, 0, 0, 4]);
                let mut other = answer;
                other[7] ^= 1;
                self.first.extend([other, answer]);
            }
            Ok(())
        }

        fn receive(&mut self, until: Instant) -> Result<[u8; REPORT], Fido2Error> {
            if let Some(report) = self.first.pop_front() {
                return Ok(report);
            }
            match self.answers.pop_front() {
                Some(report) => {
                    if self.endless {
                        std::thread::sleep(Duration::from_millis(5));
                        self.answers.push_back(report);
                    }
                    Ok(report)
                }
                None => {
                    std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    Err(Fido2Error::Slow)
                }
            }
        }
    }

    fn report(bytes: &[u8]) -> [u8; REPORT] {
        let mut report = [0; REPORT];
        report[..4].copy_from_slice(&[1, 2, 3, 4]);
        report[4..4 + bytes.len()].copy_from_slice(bytes);
        report
    }

    /// What comes of a command that is answered so, how often somebody was told to touch the key, and what was sent.
    fn asked(
        answers: &[&[u8]],
        endless: bool,
        command: &[u8],
    ) -> (Result<Vec<u8>, Fido2Error>, u32, Vec<[u8; REPORT]>) {
        let sent = Rc::new(RefCell::new(Vec::new()));
        let answers = answers.iter().map(|bytes| report(bytes)).collect();
        let scripted = Scripted { sent: sent.clone(), first: VecDeque::new(), answers, endless };
        let patience = Patience { silence: Duration::from_millis(100), limit: Duration::from_millis(400) };
        let mut channel = Channel::open(Box::new(scripted), patience).expect("a channel");
        let mut touches = 0;
        let answer = channel.exchange(command, &mut || touches += 1);
        let sent = sent.borrow()[1..].to_vec();
        (answer, touches, sent)
    }

    #[test]
    fn messages_are_cut_into_reports_and_put_together_again() {
        let command: Vec<u8> = (0..=200).collect();
        let first: Vec<u8> = [&[CBOR, 0, 60][..], &[5; 57]].concat();
        let last = [0, 6, 7, 8, 99];
        let (answer, touches, sent) =
            asked(&[&[KEEPALIVE, 0, 1, 2], &[KEEPALIVE, 0, 1, 2], &first, &last], false, &command);
        assert_eq!((answer, touches), (Ok([&[5; 57][..], &[6, 7, 8]].concat()), 1));
        let carried: Vec<u8> = sent
            .iter()
            .enumerate()
            .flat_map(|(at, report)| {
                assert_eq!(report[..4], [1, 2, 3, 4]);
                let head = if at == 0 { 7 } else { 5 };
                assert!(at == 0 || usize::from(report[4]) == at - 1, "they are numbered");
                report[head..].to_vec()
            })
            .collect();
        assert_eq!((sent[0][4], sent[0][5], sent[0][6], sent.len()), (CBOR, 0, 201, 4));
        assert_eq!(carried[..201], command);
        // The longest that there is, and one longer.
        let (answer, ..) = asked(&[&[CBOR, 0x1d, 0xba]], false, &[4]);
        assert_eq!(answer, Err(BAD));
        assert!(matches!(asked(&[&[CBOR, 0, 0]], false, &[0; MAX]).0, Ok(none) if none.is_empty()));
        assert_eq!(asked(&[&[CBOR, 0, 0]], false, &[0; MAX + 1]).0, Err(BAD));
    }

    #[test]
    fn a_key_that_says_nothing_or_nonsense_or_only_that_it_lives_is_left() {
        let begun = Instant::now();
        let (answer, touches, sent) = asked(&[&[KEEPALIVE, 0, 1, 1]], true, &[4]);
        assert_eq!((answer, touches), (Err(Fido2Error::Slow), 0));
        assert_eq!(sent.last().map(|report| report[4]), Some(CANCEL), "it need not go on");
        assert_eq!(asked(&[&[0xff; 3]], false, &[4]).0, Err(BAD));
        assert_eq!(asked(&[], false, &[4]).0, Err(Fido2Error::Slow));
        assert_eq!(asked(&[&[KEEPALIVE, 0, 2, 1]], false, &[4]).0, Err(BAD));
        assert_eq!(asked(&[&[ERROR, 0, 1, 6]], false, &[4]).0, Err(Fido2Error::Busy));
        assert_eq!(asked(&[&[ERROR, 0, 1, 1]], false, &[4]).0, Err(BAD));
        let long: Vec<u8> = [&[CBOR, 0, 60][..], &[5; 57]].concat();
        assert_eq!(
            asked(&[&long, &[1, 6, 7, 8]], false, &[4]).0,
            Err(BAD),
            "the second report of two is missing"
        );
        assert_eq!(asked(&[&long], false, &[4]).0, Err(Fido2Error::Slow), "the rest never comes");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn reports_of_other_channels_are_passed_over_and_do_not_buy_time() {
        struct Others;
        impl Reports for Others {
            fn send(&mut self, _: &[u8; REPORT]) -> Result<(), Fido2Error> {
                Ok(())
            }
            fn receive(&mut self, _: Instant) -> Result<[u8; REPORT], Fido2Error> {
                std::thread::sleep(Duration::from_millis(2));
                Ok([9; REPORT])
            }
        }
        let patience = Patience { silence: Duration::from_millis(100), limit: Duration::from_millis(100) };
        assert_eq!(Channel::open(Box::new(Others), patience).err(), Some(Fido2Error::Slow));
    }

    impl core::fmt::Debug for Channel {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            f.debug_struct("Channel").field("id", &self.id).finish_non_exhaustive()
        }
    }
}
