//! `atrest encrypt` and `decrypt`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atrest_attach::serve::Signals;
use atrest_device::BlockDevice;
use atrest_engine::bulk::{self, BulkError, BulkOptions, Destination, Summary};
use atrest_engine::contents::in_the_way;
use atrest_engine::{Access, Sequence, is_same};
use atrest_nbd::Uri;
use atrest_open::Device;
use indicatif::ProgressBar;
use serde_json::json;

use super::target::{contents, contents_of_file, create_private, open_device};
use super::unlock::{Use, unlock, unlock_over};
use crate::amount::Bytes;
use crate::args::bulk::{BulkArgs, DecryptArgs, EncryptArgs};
use crate::args::open::VolumeType;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::{progress, streams};

pub fn encrypt(args: &EncryptArgs, output: &Output) -> Result<(), Failure> {
    let Some(volume) = args.volume.as_deref().filter(|_| !args.in_place.in_place) else {
        return super::reencrypt::encrypt_in_place(args, output);
    };
    let zones = &args.in_place.zones;
    if zones.resilience.is_some() || zones.resilience_hash.is_some() || zones.hotzone_size.is_some() {
        return Err(Failure::parameters("--resilience and --hotzone-size are for --in-place"));
    }
    if streams::is_stream(&args.source) {
        return encrypt_stream(args, volume, output);
    }
    if is_same(&args.source, volume) {
        return Err(Failure::parameters("the source and the volume are the same file")
            .at(volume)
            .hint("--in-place encrypts a file or device where it is"));
    }
    let source = open_device(&args.source, Access::ReadOnlyShared)?;
    let wanted = Use { write: true, threads: args.how.threads, ..Use::default() };
    let unlocked = unlock(volume, &args.unlock, wanted, output)?;
    let disk = Arc::new(unlocked.disk);
    let checkpoint = checkpoint_path(volume, &args.source, &args.how)?;
    let interrupted = interrupted(&args.how, checkpoint.as_deref());
    let found = match args.how.resume {
        true => None,
        false => in_the_way(&*disk, 0..disk.size()).map_err(|error| Failure::from(error).at(volume))?,
    };
    match found {
        Some(found) => {
            // intended: there need not be an interrupted copy.
            let more = interrupted.map(|told| format!("; {told}")).unwrap_or_default();
            output.confirm(&format!("{} holds {found}, which is overwritten{more}", volume.display()))?;
        }
        None => begins_again(interrupted, output),
    }
    let mut options = options(&args.how, checkpoint.as_deref(), source.modified());
    let stop = Stop::on_signals()?;
    options.cancel = Some(&stop.asked);
    let mut listener = Listener::new(disk.size().min(source.size()), output);
    let result = bulk::encrypt(&source, &disk, options, &mut listener);
    listener.finish(result, &stop, checkpoint.as_deref(), volume)
}

pub fn decrypt(args: &DecryptArgs, output: &Output) -> Result<(), Failure> {
    let wanted = Use { threads: args.how.threads, ..Use::default() };
    let at = |error| Failure::from(error).at(&args.destination);
    if streams::is_pipe(&args.volume)? {
        return decrypt_sequence(args, output);
    }
    let volume = streams::volume(&args.volume, &args.unlock.secret)?;
    if streams::is_stream(&args.destination) {
        return decrypt_stream(args, &volume, output);
    }
    if is_same(&volume, &args.destination) {
        return Err(Failure::parameters("the volume and the destination are the same file")
            .at(&args.destination)
            .hint(
                "name another destination; `atrest reencrypt --decrypt --header FILE` decrypts a volume where it is",
            ));
    }
    let checkpoint = checkpoint_path(&args.destination, &volume, &args.how)?;
    let interrupted = interrupted(&args.how, checkpoint.as_deref());
    let destination = match Uri::is_meant(&args.destination) {
        true => Goal::Export(open_device(&args.destination, Access::ReadWriteExclusive)?),
        false => Goal::File(Destination::look(&args.destination, args.how.resume).map_err(at)?),
    };
    match destination.contents().filter(|_| !args.how.resume) {
        Some(contents) => {
            let path = args.destination.display();
            // intended: there need not be an interrupted copy.
            let more = interrupted.map(|told| format!("; {told}")).unwrap_or_default();
            output.confirm(&format!("{path} holds {contents}, which is overwritten{more}"))?;
        }
        None => begins_again(interrupted, output),
    }
    let unlocked = unlock(&volume, &args.unlock, wanted, output)?;
    let disk = Arc::new(unlocked.disk);
    let mut options = options(&args.how, checkpoint.as_deref(), unlocked.modified);
    let stop = Stop::on_signals()?;
    options.cancel = Some(&stop.asked);
    let mut listener = Listener::new(disk.size(), output);
    let result = match destination {
        Goal::Export(device) => bulk::decrypt(&disk, &device, options, &mut listener),
        Goal::File(destination) => bulk::decrypt_to(&disk, destination, options, &mut listener),
    };
    listener.finish(result, &stop, checkpoint.as_deref(), &args.destination)
}

/// Where a plaintext goes.
enum Goal {
    File(Destination),
    Export(Device),
}

impl Goal {
    /// What is there, if it holds data.
    fn contents(&self) -> Option<String> {
        match self {
            Self::File(destination) => destination.data().map(contents_of_file),
            Self::Export(device) => Some(contents(device)),
        }
    }
}

/// Where the checkpoint of a run is kept. Beside an export there is no place for one, and what is said of its file would not
/// be true of it tomorrow.
pub(super) fn checkpoint_path(
    output: &Path,
    input: &Path,
    how: &BulkArgs,
) -> Result<Option<PathBuf>, Failure> {
    let is_url = |path: &&&Path| atrest_open::is_url(path);
    match [output, input].iter().find(is_url) {
        None => Ok(bulk::checkpoint_path(output, input)),
        Some(_) if !how.resume => Ok(None),
        Some(uri) => Err(Failure::parameters(
            "a copy from or to an NBD export or a store keeps no checkpoint to resume from",
        )
        .at(uri)
        .hint("leave --resume out to start from the beginning")),
    }
}

/// What there is to say of an earlier run that did not finish, where this one does not go on with it.
pub(super) fn interrupted(how: &BulkArgs, checkpoint: Option<&Path>) -> Option<String> {
    let checkpoint = checkpoint.filter(|checkpoint| !how.resume && checkpoint.exists())?;
    Some(format!("an interrupted run left {}, and --resume goes on with it", checkpoint.display()))
}

/// Tells that an earlier run is not gone on with, where nothing is asked.
fn begins_again(interrupted: Option<String>, output: &Output) {
    if let Some(told) = interrupted {
        output.warn(format_args!("this run starts again; {told}"));
    }
}

/// Fills a volume from standard input.
fn encrypt_stream(args: &EncryptArgs, volume: &Path, output: &Output) -> Result<(), Failure> {
    refuse_resume(&args.how)?;
    let mut source = streams::input(&args.unlock.secret)?;
    let wanted = Use { write: true, threads: args.how.threads, ..Use::default() };
    let disk = unlock(volume, &args.unlock, wanted, output)?.disk;
    if let Some(found) = in_the_way(&disk, 0..disk.size()).map_err(|error| Failure::from(error).at(volume))? {
        output.confirm(&format!("{} holds {found}, which is overwritten", volume.display()))?;
    }
    let mut listener = Listener::counting(output);
    let begun = Instant::now();
    let copied = bulk::encrypt_stream(&mut source, &disk, &mut listener);
    listener.bar.finish_and_clear();
    let bytes = copied.map_err(|error| Failure::from(error).at(volume))?;
    summary(volume, bytes, 0, begun.elapsed(), output)
}

/// Sends the plaintext of a volume to standard output.
fn decrypt_stream(args: &DecryptArgs, volume: &Path, output: &Output) -> Result<(), Failure> {
    refuse_resume(&args.how)?;
    let mut destination = streams::output(output)?;
    let wanted = Use { threads: args.how.threads, ..Use::default() };
    let disk = unlock(volume, &args.unlock, wanted, output)?.disk;
    let mut listener = Listener::new(disk.size(), output);
    let copied = bulk::decrypt_stream(&disk, &mut destination, &mut listener);
    listener.bar.finish_and_clear();
    copied.map(drop).map_err(|error| match Failure::from(error) {
        // Whoever read it has seen enough.
        silent if silent.what().is_empty() => silent,
        failure => failure.at(volume),
    })
}

/// Decrypts a volume that comes through a pipe, in order.
fn decrypt_sequence(args: &DecryptArgs, output: &Output) -> Result<(), Failure> {
    refuse_resume(&args.how)?;
    if args.unlock.kind != VolumeType::Luks {
        return Err(Failure::parameters(
            "a pipe can bring a LUKS volume alone, which has its header in front",
        )
        .hint("name the file, or send it there by < FILE"));
    }
    if args.unlock.size.is_some() {
        return Err(Failure::parameters("--size is not for a volume that comes through a pipe")
            .hint("`head -c` cuts its plaintext off"));
    }
    let sequence = Arc::new(Sequence::new(Box::new(streams::input(&args.unlock.secret)?)));
    let to_stdout = streams::is_stream(&args.destination);
    if Uri::is_meant(&args.destination) {
        return Err(Failure::parameters(
            "how long it will be nobody knows, so it goes to a new file or to a pipe",
        )
        .at(&args.destination)
        .hint("decrypt it to a file first"));
    }
    let stdout = if to_stdout { Some(streams::output(output)?) } else { None };
    if !to_stdout && args.destination.exists() {
        return Err(Failure::new(Code::Busy, "it exists already").at(&args.destination).hint(
            "a volume from a pipe is decrypted to a new file, or to - for a pipe: choose another name, or remove it first",
        ));
    }
    let wanted = Use { threads: args.how.threads, ..Use::default() };
    let disk = unlock_over(Device::stream(sequence.clone()), &args.unlock, wanted, output)?.disk;
    let mut file = match stdout {
        Some(stdout) => stdout,
        None => create_private(&args.destination)?,
    };
    let mut listener = Listener::counting(output);
    let begun = Instant::now();
    let copied = bulk::decrypt_sequence(&disk, &sequence, &mut file, &mut listener);
    listener.bar.finish_and_clear();
    let bytes = copied.map_err(|error| match Failure::from(error) {
        // Whoever read it has seen enough.
        silent if silent.what().is_empty() => silent,
        failure => failure.at(&args.volume),
    })?;
    if to_stdout {
        return Ok(());
    }
    file.sync_all().map_err(|error| Failure::io(&error).at(&args.destination))?;
    summary(&args.destination, bytes, 0, begun.elapsed(), output)
}

/// A stream can't be read or written again.
fn refuse_resume(how: &BulkArgs) -> Result<(), Failure> {
    match how.resume {
        false => Ok(()),
        true => Err(Failure::parameters("a copy from or to a stream can't be resumed")
            .hint("leave --resume out to start from the beginning, or name a file")),
    }
}

pub(super) fn options<'a>(
    how: &BulkArgs,
    checkpoint: Option<&'a Path>,
    source_modified: Option<std::time::SystemTime>,
) -> BulkOptions<'a> {
    let mut options = BulkOptions::default();
    options.threads = how.threads.map_or(0, usize::from);
    options.checkpoint = checkpoint;
    options.without_checkpoint = how.no_checkpoint;
    options.resume = how.resume;
    options.source_modified = source_modified;
    options
}

/// A first signal ends the run in order, with a checkpoint; a second one ends the process, as soon as nothing holds it.
#[derive(Debug)]
pub(super) struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
    /// Whether something is going on that must not be cut off.
    held: Arc<(Mutex<bool>, Condvar)>,
}

/// Until this goes, no signal ends the process.
pub(super) struct Hold<'a>(&'a Stop);

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.0.let_go();
    }
}

impl Stop {
    pub(super) fn on_signals() -> Result<Self, Failure> {
        let signals = Signals::install()?;
        let stop = Self { asked: Arc::default(), signal: Arc::default(), held: Arc::default() };
        let (asked, signal, held) = (stop.asked.clone(), stop.signal.clone(), stop.held.clone());
        std::thread::Builder::new().name(String::from("signals")).spawn(move || {
            let Ok(first) = signals.wait() else { return };
            signal.store(first, Ordering::Relaxed);
            asked.store(true, Ordering::Release);
            if let Ok(second) = signals.wait() {
                let _free = free(&held);
                std::process::exit(128 + second);
            }
        })?;
        Ok(stop)
    }

    /// Keeps a second signal from ending the process until [`let_go`](Self::let_go).
    pub(super) fn hold_on(&self) {
        *self.held.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    pub(super) fn let_go(&self) {
        *self.held.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.held.1.notify_all();
    }

    /// Holds on for as long as what is returned lives.
    pub(super) fn hold(&self) -> Hold<'_> {
        self.hold_on();
        Hold(self)
    }

    /// Set when the run is to end.
    pub(super) fn asked(&self) -> &AtomicBool {
        &self.asked
    }

    /// 128 + the signal that ended the run, as a shell says it.
    pub(super) fn code(&self) -> Option<u8> {
        u8::try_from(128 + self.signal.load(Ordering::Relaxed)).ok()
    }

    /// The exit code of a run that a signal ended.
    pub(super) fn exit_code(&self, error: &BulkError) -> Option<u8> {
        matches!(error, BulkError::Cancelled { .. }).then(|| self.code()).flatten()
    }
}

/// Waits until nothing is held. Nobody holds on again while the guard lives.
fn free(held: &(Mutex<bool>, Condvar)) -> MutexGuard<'_, bool> {
    let is_held = held.0.lock().unwrap_or_else(PoisonError::into_inner);
    held.1.wait_while(is_held, |is_held| *is_held).unwrap_or_else(PoisonError::into_inner)
}

/// Shows progress as a bar, or as a JSON line each second, and the summary at the end.
pub(super) struct Listener<'a> {
    bar: ProgressBar,
    output: &'a Output,
    begun: bool,
    last_line: Instant,
}

impl<'a> Listener<'a> {
    pub(super) fn new(total: u64, output: &'a Output) -> Self {
        Self { bar: progress::bytes_bar(total, output), output, begun: false, last_line: Instant::now() }
    }

    /// Of a stream, of whose length nobody knows.
    fn counting(output: &'a Output) -> Self {
        Self { bar: progress::bytes_count(output), output, begun: false, last_line: Instant::now() }
    }

    /// Takes the bar away.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }

    pub(super) fn finish(
        self,
        result: Result<Summary, BulkError>,
        stop: &Stop,
        checkpoint: Option<&Path>,
        path: &Path,
    ) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let done = result.map_err(|error| {
            let failure = Failure::from(error).with_code(stop.exit_code(&error));
            let Some(checkpoint) = checkpoint else { return failure.at(path) };
            match error {
                BulkError::CheckpointFile(_) => failure
                    .at(checkpoint)
                    .hint("--no-checkpoint does without, but an interrupted run can't be resumed then"),
                BulkError::Cancelled { .. }
                | BulkError::Read(_)
                | BulkError::Write(_)
                | BulkError::Flush(_)
                    if checkpoint.exists() =>
                {
                    let hint = format!("--resume goes on from the checkpoint {}", checkpoint.display());
                    failure.at(path).hint(hint)
                }
                _ => failure.at(path),
            }
        })?;
        let Summary { bytes, resumed_from, elapsed, .. } = done;
        summary(path, bytes, resumed_from, elapsed, self.output)
    }
}

/// What was done, and how fast.
fn summary(
    path: &Path,
    bytes: u64,
    resumed_from: u64,
    elapsed: Duration,
    output: &Output,
) -> Result<(), Failure> {
    let seconds = elapsed.as_secs_f64();
    let rate = (bytes - resumed_from) as f64 / seconds.max(1e-9);
    if output.is_json() {
        return output.json_line(&json!({
            "event": "summary",
            "bytes": bytes,
            "resumed_from": resumed_from,
            "seconds": seconds,
            "bytes_per_second": rate as u64,
        }));
    }
    let text =
        format!("{}: {} in {seconds:.1} s, {:.0} MiB/s", path.display(), Bytes(bytes), rate / 1_048_576.0);
    output.done(&(), &text)
}

impl bulk::Progress for Listener<'_> {
    fn update(&mut self, done: u64, total: u64) {
        if !self.begun {
            self.begun = true;
            // What an earlier run did is no measure of the rate.
            self.bar.set_position(done);
            self.bar.reset_eta();
        }
        self.bar.set_position(done);
        if self.output.is_json() && self.last_line.elapsed() >= Duration::from_secs(1) {
            self.last_line = Instant::now();
            // A reader that went away is reported by the summary.
            let _ = self.output.json_line(&json!({ "event": "progress", "done": done, "total": total }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn what_is_held_is_not_cut_off() {
        let stop = Stop { asked: Arc::default(), signal: Arc::default(), held: Arc::default() };
        let hold = stop.hold();
        let (ended, end) = mpsc::channel();
        let held = stop.held.clone();
        let waits = std::thread::spawn(move || {
            let _free = free(&held);
            ended.send(()).expect("somebody listens");
        });
        let waited = end.recv_timeout(Duration::from_millis(100));
        assert_eq!(waited, Err(mpsc::RecvTimeoutError::Timeout), "in the middle");
        drop(hold);
        end.recv_timeout(Duration::from_secs(20)).expect("at the end of it");
        waits.join().expect("it ended");
    }
}
