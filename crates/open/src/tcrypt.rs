//! TrueCrypt and VeraCrypt volumes: every derivation that may be the right one is tried, on all processors.

use core::num::NonZero;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use atrest_kdf::{Hash, KdfError, WorkLimit};
use atrest_volume::tcrypt::{LockedTcrypt, Opened, TcryptError, TcryptOptions};
use atrest_volume::{Devices, Passphrase, UnlockError, UnlockOptions, Volume, VolumeFormat};

use crate::token::TokenKey;
use crate::{Key, Locked};

/// Time between two looks at whether the caller gave up.
const LOOK: Duration = Duration::from_millis(20);
/// What takes as long is told before it is spent.
const LONG: Duration = Duration::from_secs(5);

/// A derivation of so many times fewer iterations than another one takes no time beside it.
const BRIEF: u32 = 50;

struct Tcrypt<'a> {
    devices: Devices<'a>,
    options: TcryptOptions,
    progress: Option<fn(usize, usize)>,
}

pub(crate) fn locked(
    devices: Devices<'_>,
    options: TcryptOptions,
    progress: Option<fn(usize, usize)>,
) -> Box<dyn Locked + '_> {
    Box::new(Tcrypt { devices, options, progress })
}

impl Locked for Tcrypt<'_> {
    fn format(&self) -> VolumeFormat {
        VolumeFormat::Tcrypt
    }

    fn check(&self) -> Result<(), UnlockError> {
        LockedTcrypt::read(self.devices.header, &self.options).map(|_| ())
    }

    fn try_key(&self, key: &Key, options: &UnlockOptions) -> Result<Volume, UnlockError> {
        let passphrase = match key {
            Key::Passphrase(passphrase) | Key::File(passphrase) | Key::Token(TokenKey { passphrase, .. }) => {
                passphrase
            }
            Key::Volume(_) => return Err(TcryptError::VolumeKey.into()),
        };
        let locked = LockedTcrypt::read(self.devices.header, &self.options)?;
        let opened = try_all(&locked, passphrase, self.progress)?;
        opened.volume(self.devices.data.size(), options)
    }
}

/// Tries every derivation of a volume until one opens it, as many at once as there are processors. Each thread may do as much work as the
/// [`WorkLimit`] of the caller permits. `progress` is told before the first and after each how many are left, and how many there are.
///
/// # Errors
/// [`TcryptError::NotOpened`] if none opens it; [`UnlockError::Kdf`] if the work limit does not suffice or the caller cancels; otherwise what is wrong
/// with the header that the password opens.
pub fn try_all(
    locked: &LockedTcrypt,
    passphrase: &Passphrase,
    progress: Option<fn(usize, usize)>,
) -> Result<Opened, UnlockError> {
    locked.check_length(passphrase)?;
    let trials = locked.trials();
    let told = |left: usize| {
        if let Some(progress) = progress {
            progress(left, trials.len());
        }
    };
    let stated = WorkLimit::current();
    let enough = Arc::new(AtomicBool::new(false));
    let next = AtomicUsize::new(0);
    // intended: one thread does it, too.
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(trials.len());
    let order = in_order(trials, threads, |trial| (trial.hash(), trial.iterations()));
    told(trials.len());
    thread::scope(|scope| {
        let (results, arriving) = mpsc::channel();
        for thread in 0..threads {
            let (results, next, order) = (results.clone(), &next, &order);
            // One of those that are done at the same time is announced; what is left after it is, too, below.
            let announce = stated.announce.filter(|_| thread == 0);
            let limit = WorkLimit { cancel: Some(enough.clone()), announce, ..stated.clone() };
            scope.spawn(move || {
                limit.during(|| {
                    while let Some(trial) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let began = Instant::now();
                        let result = locked.attempt(trial, passphrase);
                        let done = !matches!(result, Ok(None));
                        // Nobody listens any more once one has opened it.
                        if results.send((result, began.elapsed())).is_err() || done {
                            break;
                        }
                    }
                });
            });
        }
        drop(results);
        let result = collect(&arriving, &stated, (trials.len(), threads), told);
        // The others end within milliseconds.
        enough.store(true, Ordering::Relaxed);
        result
    })
}

/// In which order so many threads take the trials. The last ones take the longest: with several threads they begin as soon as each has had one of
/// those that take long at all. Otherwise all threads but one would have nothing to do meanwhile.
fn in_order<T>(trials: &[T], threads: usize, how: impl Fn(&T) -> (Hash, u32)) -> Vec<&T> {
    let mut order: Vec<&T> = trials.iter().collect();
    let Some(longest) = trials.last().map(&how).filter(|_| threads > 1) else { return order };
    let of_longest = trials.iter().rev().take_while(|trial| how(trial) == longest).count();
    // Those of TrueCrypt make so few iterations that they cost next to nothing.
    let brief = trials.iter().take_while(|trial| how(trial).1 < longest.1 / BRIEF).count();
    if let Some(later) = order.get_mut(brief + threads..) {
        later.rotate_right(of_longest.min(later.len()));
    }
    order
}

/// Waits for the first attempt that opens the volume or fails.
fn collect(
    arriving: &mpsc::Receiver<(Result<Option<Opened>, UnlockError>, Duration)>,
    stated: &WorkLimit,
    (all, threads): (usize, usize),
    told: impl Fn(usize),
) -> Result<Opened, UnlockError> {
    let (mut left, mut announced) = (all, false);
    loop {
        match arriving.recv_timeout(LOOK) {
            Ok((Ok(None), took)) => {
                // cannot be less: each trial arrives once.
                left = left.saturating_sub(1);
                told(left);
                // cannot be cut off: there are some dozens.
                let expected = took * left.div_ceil(threads) as u32;
                if let Some(announce) = stated.announce.filter(|_| !announced && expected >= LONG) {
                    announce(expected);
                    announced = true;
                }
            }
            Ok((Ok(Some(opened)), _)) => return Ok(opened),
            Ok((Err(error), _)) => return Err(error),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                return Err(TcryptError::NotOpened { tried: all }.into());
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let given_up = stated.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed));
                if given_up {
                    return Err(UnlockError::Kdf(KdfError::Cancelled));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_several_threads_the_longest_derivation_does_not_come_last() {
        let veracrypt = [Hash::Sha512, Hash::Sha256, Hash::Blake2s256, Hash::Whirlpool, Hash::Streebog512];
        let all: Vec<_> =
            [(Hash::Sha512, 1000)].into_iter().chain(veracrypt.map(|hash| (hash, 500_000))).collect();
        let order = |trials: &[(Hash, u32)], threads| -> Vec<Hash> {
            in_order(trials, threads, |trial| *trial).into_iter().map(|trial| trial.0).collect()
        };
        let [a, b, c, d, long] = veracrypt;
        assert_eq!(order(&all, 1), [Hash::Sha512, a, b, c, d, long]);
        assert_eq!(order(&all, 2), [Hash::Sha512, a, b, long, c, d]);
        assert_eq!(order(&all, 3), [Hash::Sha512, a, b, c, long, d]);
        assert_eq!(order(&all, 16), [Hash::Sha512, a, b, c, d, long]);
        // Two headers of each; with a PIM all take as many iterations.
        let twice: Vec<_> = all[1..].iter().flat_map(|one| [*one; 2]).collect();
        assert_eq!(order(&twice, 2), [a, a, long, long, b, b, c, c, d, d]);
        assert_eq!(order(&all[5..], 2), [long]);
        assert_eq!(order(&[], 2), []);
    }
}
