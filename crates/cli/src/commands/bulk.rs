//! `atrest encrypt` and `decrypt`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use atrest_attach::serve::Signals;
use atrest_device::BlockDevice;
use atrest_engine::bulk::{self, BulkError, BulkOptions, Destination, Summary};
use atrest_engine::contents::in_the_way;
use atrest_engine::{Access, is_same};
use indicatif::ProgressBar;
use serde_json::json;

use super::target::{contents, open_device};
use super::text::counted;
use super::unlock::{Use, unlock};
use crate::args::bulk::{BulkArgs, DecryptArgs, EncryptArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::progress;

pub fn encrypt(args: &EncryptArgs, output: &Output) -> Result<(), Failure> {
    let Some(volume) = args.volume.as_deref().filter(|_| !args.in_place.in_place) else {
        return super::reencrypt::encrypt_in_place(args, output);
    };
    let zones = &args.in_place.zones;
    if zones.resilience.is_some() || zones.resilience_hash.is_some() || zones.hotzone_size.is_some() {
        return Err(Failure::parameters("--resilience and --hotzone-size are for --in-place"));
    }
    refuse_stream(&args.source, "the plaintext is read at any place, not as a stream")?;
    if is_same(&args.source, volume) {
        return Err(Failure::parameters("the source and the volume are the same file")
            .at(volume)
            .hint("--in-place encrypts a file or device where it is"));
    }
    let source = open_device(&args.source, Access::ReadOnlyShared)?;
    let wanted = Use { write: true, threads: args.how.threads, ..Use::default() };
    let unlocked = unlock(volume, &args.unlock, wanted, output)?;
    let disk = Arc::new(unlocked.disk);
    let checkpoint = bulk::checkpoint_path(volume, &args.source);
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
        None => interrupted
            .into_iter()
            .for_each(|told| output.warn(format_args!("this run starts again; {told}"))),
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
    refuse_stream(&args.destination, "the plaintext is written at any place, not as a stream")?;
    if is_same(&args.volume, &args.destination) {
        return Err(Failure::parameters("the volume and the destination are the same file")
            .at(&args.destination)
            .hint(
                "name another destination; `cryptsetup reencrypt --decrypt` decrypts a volume where it is",
            ));
    }
    let checkpoint = bulk::checkpoint_path(&args.destination, &args.volume);
    let interrupted = interrupted(&args.how, checkpoint.as_deref());
    let destination = Destination::look(&args.destination, args.how.resume).map_err(at)?;
    if !args.how.resume
        && let Some(device) = destination.data()
    {
        let (path, contents) = (args.destination.display(), contents(device));
        // intended: there need not be an interrupted copy.
        let more = interrupted.map(|told| format!("; {told}")).unwrap_or_default();
        output.confirm(&format!("{path} holds {contents}, which is overwritten{more}"))?;
    }
    let unlocked = unlock(&args.volume, &args.unlock, wanted, output)?;
    let disk = Arc::new(unlocked.disk);
    let mut options = options(&args.how, checkpoint.as_deref(), unlocked.modified);
    let stop = Stop::on_signals()?;
    options.cancel = Some(&stop.asked);
    let mut listener = Listener::new(disk.size(), output);
    let result = bulk::decrypt_to(&disk, destination, options, &mut listener);
    listener.finish(result, &stop, checkpoint.as_deref(), &args.destination)
}

/// What there is to say of an earlier run that did not finish, where this one does not go on with it.
fn interrupted(how: &BulkArgs, checkpoint: Option<&Path>) -> Option<String> {
    let checkpoint = checkpoint.filter(|checkpoint| !how.resume && checkpoint.exists())?;
    Some(format!("an interrupted run left {}, and --resume goes on with it", checkpoint.display()))
}

/// `-` is a stream to many programs. Here it would be a file of that name.
fn refuse_stream(path: &Path, why: &str) -> Result<(), Failure> {
    match path.as_os_str() == "-" {
        false => Ok(()),
        true => Err(Failure::parameters(format!("\"-\" is no file: {why}"))
            .hint("name a file, or write ./- for one of this name")),
    }
}

fn options<'a>(
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

/// A first signal ends the run in order, with a checkpoint; a second one ends the process.
pub(super) struct Stop {
    asked: Arc<AtomicBool>,
    signal: Arc<AtomicI32>,
}

impl Stop {
    pub(super) fn on_signals() -> Result<Self, Failure> {
        let signals = Signals::install()?;
        let stop = Self { asked: Arc::default(), signal: Arc::default() };
        let (asked, signal) = (stop.asked.clone(), stop.signal.clone());
        std::thread::Builder::new().name(String::from("signals")).spawn(move || {
            let Ok(first) = signals.wait() else { return };
            signal.store(first, Ordering::Relaxed);
            asked.store(true, Ordering::Release);
            if let Ok(second) = signals.wait() {
                std::process::exit(128 + second);
            }
        })?;
        Ok(stop)
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
    fn exit_code(&self, error: &BulkError) -> Option<u8> {
        matches!(error, BulkError::Cancelled { .. }).then(|| self.code()).flatten()
    }
}

/// Shows progress as a bar, or as a JSON line each second, and the summary at the end.
struct Listener<'a> {
    bar: ProgressBar,
    output: &'a Output,
    begun: bool,
    last_line: Instant,
}

impl<'a> Listener<'a> {
    fn new(total: u64, output: &'a Output) -> Self {
        Self { bar: progress::bytes_bar(total, output), output, begun: false, last_line: Instant::now() }
    }

    fn finish(
        self,
        result: Result<Summary, BulkError>,
        stop: &Stop,
        checkpoint: Option<&Path>,
        path: &Path,
    ) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let summary = result.map_err(|error| {
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
        let Summary { bytes, resumed_from, elapsed, .. } = summary;
        let seconds = elapsed.as_secs_f64();
        let rate = (bytes - resumed_from) as f64 / seconds.max(1e-9);
        if self.output.is_json() {
            return self.output.json_line(&json!({
                "event": "summary",
                "bytes": bytes,
                "resumed_from": resumed_from,
                "seconds": seconds,
                "bytes_per_second": rate as u64,
            }));
        }
        let text = format!(
            "{}: {} in {seconds:.1} s, {:.0} MiB/s",
            path.display(),
            counted(bytes, "byte", "bytes"),
            rate / 1_048_576.0
        );
        self.output.done(&(), &text)
    }
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
