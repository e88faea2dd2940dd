//! `atrest reencrypt --online` and `--stop`: asked of the process that serves the volume; and what answers in that process.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use atrest_attach::control::{Answer, Request};
use atrest_attach::gate::Gate;
use atrest_attach::session::Entry;
use atrest_device::Media;
use atrest_engine::Access;
use atrest_open::{Background, Progress, Reopen, Serve};
use atrest_secret::VolumeKey;
use atrest_volume::luks2::Luks2;
use atrest_volume::luks2::reencrypt::ReencryptKeys;
use atrest_volume::{Devices, LockedVolume};
use serde_json::json;

use super::bulk::Stop;
use super::reencrypt::{Given, begin_reencryption, not_luks2};
use super::reencrypt_mapped;
use super::serve;
use super::suspend::tell;
use super::target::{no_header, open_device};
use super::text::counted;
use crate::args::reencrypt::ReencryptArgs;
use crate::failure::{Code, Failure};
use crate::output::Output;
use crate::progress;

/// How often the process is asked how far it is.
const PAUSE: Duration = Duration::from_millis(200);

/// The re-encryption that goes on in this process, if there is one.
#[derive(Default)]
pub struct Rewritten(Mutex<Option<Background>>);

impl Rewritten {
    /// Answers what is asked of the volume behind the gate.
    pub fn answer(&self, request: &Request<'_>, gate: &Arc<Gate>, reopen: &Arc<Reopen>) -> Answer {
        let mut background = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // What is done leaves an ordinary volume.
        background.take_if(|background| background.progress() == Progress::Done && is_begin(request));
        match (request, &*background) {
            (Request::Reencrypt { old: [], .. }, Some(background)) => background.go_on(),
            (Request::Reencrypt { old: [], .. }, None) => return Err("nothing was stopped in it".into()),
            (Request::Reencrypt { old: [_, ..], .. }, Some(background))
                if matches!(background.progress(), Progress::Kept(_)) =>
            {
                return Err(
                    "it has been re-encrypted; close it and open it again before that is done once more"
                        .into(),
                );
            }
            (Request::Reencrypt { .. }, Some(_)) => return Err("it is being re-encrypted already".into()),
            (Request::Reencrypt { old, new }, None) => {
                let keys = [old, new].into_iter().filter(|key| !key.is_empty());
                let keys: Vec<VolumeKey> = keys.map(|key| VolumeKey::copy_from(key)).collect();
                *background = Some(start(gate, reopen, keys)?);
            }
            (Request::StopReencryption, Some(background)) => background.stop(),
            (Request::StopReencryption, None) => return Err("it is not being re-encrypted".into()),
            // Asked before the header is changed.
            (_, None) => {
                gate.check_open().map_err(|error| error.to_string())?;
                Background::check(reopen)?;
            }
            _ => {}
        }
        Ok(match background.as_ref().map(Background::progress) {
            None => "none".into(),
            Some(Progress::Running { done, total }) => format!("running {done} {total}"),
            Some(Progress::Stopped { done, total }) => format!("stopped {done} {total}"),
            Some(Progress::Done) => "done".into(),
            Some(Progress::Kept(why)) => format!("kept {why}"),
            Some(Progress::Failed(why)) => format!("failed {why}"),
        })
    }
}

fn is_begin(request: &Request<'_>) -> bool {
    matches!(request, Request::Reencrypt { old: [_, ..], .. })
}

fn start(gate: &Arc<Gate>, reopen: &Arc<Reopen>, keys: Vec<VolumeKey>) -> Result<Background, String> {
    let gate = gate.clone();
    let serve = move |what: Serve| {
        let changed = match what {
            Serve::Online(online, before) => gate.rewrite(online, &before),
            Serve::Done(disk) => gate.rewritten(disk),
        };
        changed.map_err(|error| error.to_string())
    };
    Background::start(reopen.clone(), keys, serve)
}

/// What the process says of it.
enum Said {
    None,
    Running(u64, u64),
    Stopped(u64, u64),
    Done,
    Kept(String),
    Failed(String),
}

fn parse(text: &str) -> Option<Said> {
    // intended: a word alone.
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let numbers = || {
        let (done, total) = rest.split_once(' ')?;
        Some((done.parse().ok()?, total.parse().ok()?))
    };
    Some(match word {
        "none" => Said::None,
        "running" => numbers().map(|(done, total)| Said::Running(done, total))?,
        "stopped" => numbers().map(|(done, total)| Said::Stopped(done, total))?,
        "done" => Said::Done,
        "kept" => Said::Kept(rest.into()),
        "failed" => Said::Failed(rest.into()),
        _ => return None,
    })
}

pub fn reencrypt(args: &ReencryptArgs, output: &Output) -> Result<(), Failure> {
    let registry = serve::registry(output)?;
    let Some(entry) = registry.find(&args.path)? else {
        return match reencrypt_mapped::find_or_named(&args.path)? {
            Some(_) if args.stop => {
                Err(Failure::parameters("a mapping is re-encrypted by the process that was asked for it")
                    .hint("end that one: Ctrl-C, or SIGTERM"))
            }
            Some(mapping) => reencrypt_mapped::reencrypt(args, &mapping, output),
            None => {
                let what =
                    format!("neither a process of yours nor the kernel has {} open", args.path.display());
                Err(Failure::new(Code::Device, what).hint("`atrest status` lists what is open"))
            }
        };
    };
    if args.decrypt || args.resume || args.zones.hotzone_size.is_some() {
        return Err(Failure::parameters(
            "--decrypt, --resume and --hotzone-size are not for what a process serves, but for mappings of the kernel",
        ));
    }
    let ask = |request: &Request<'_>| {
        let told = tell(&registry, &entry, request)?;
        parse(&told).ok_or_else(|| Failure::new(Code::Device, "another version of atrest serves it"))
    };
    if args.stop {
        return finished(&entry, &ask(&Request::StopReencryption)?, output);
    }
    let stop = Stop::on_signals()?;
    match ask(&Request::Reencryption)? {
        Said::Running(..) => {}
        Said::Stopped(..) => drop(ask(&Request::Reencrypt { old: &[], new: &[] })?),
        Said::None | Said::Done | Said::Kept(_) => {
            let keys = keys(args, &entry, output)?;
            let Some((old, new)) = keys.split_first() else {
                return Err(Failure::parameters("it has no volume key").at(&entry.path));
            };
            let new = new.first().map_or(&[][..], VolumeKey::expose);
            ask(&Request::Reencrypt { old: old.expose(), new })?;
        }
        failed @ Said::Failed(_) => return finished(&entry, &failed, output),
    }
    if args.init_only {
        return finished(&entry, &ask(&Request::Reencryption)?, output);
    }
    let bar = progress::bytes_bar(0, output);
    loop {
        let said = ask(&Request::Reencryption)?;
        match said {
            Said::Running(done, total) if !stop.asked().load(Ordering::Acquire) => {
                bar.set_length(total);
                bar.set_position(done);
                std::thread::sleep(PAUSE);
            }
            Said::Running(..) => {
                bar.finish_and_clear();
                let said = ask(&Request::StopReencryption)?;
                return finished(&entry, &said, output).map_err(|failure| failure.with_code(stop.code()));
            }
            said => {
                bar.finish_and_clear();
                return finished(&entry, &said, output);
            }
        }
    }
}

fn finished(entry: &Entry, said: &Said, output: &Output) -> Result<(), Failure> {
    let name = &entry.name;
    let of = |done: u64, total: u64| format!("{} of {total}", counted(done, "byte", "bytes"));
    let (word, text) = match said {
        Said::None => ("none", format!("{name} is not being re-encrypted")),
        Said::Running(done, total) => ("running", format!("{name}: {} are done", of(*done, *total))),
        Said::Stopped(done, total) => (
            "stopped",
            format!(
                "{name}: stopped after {}; `atrest reencrypt --online {name}` goes on",
                of(*done, *total)
            ),
        ),
        Said::Done => ("done", format!("{name} is re-encrypted")),
        Said::Kept(why) => {
            output.warn(format!(
                "{name}: the process that serves it keeps both keys until it is closed: {why}"
            ));
            ("done", format!("{name} is re-encrypted"))
        }
        Said::Failed(why) => {
            let what =
                format!("{name}: the re-encryption has failed, and nothing is written any more: {why}");
            return Err(Failure::new(Code::Device, what).hint("close it, and `atrest reencrypt --resume`"));
        }
    };
    output.done(&json!({ "name": name, "reencryption": word }), &text)
}

/// The volume keys before and afterwards of the re-encryption that the header is in, which is begun if none was.
fn keys(args: &ReencryptArgs, entry: &Entry, output: &Output) -> Result<Vec<VolumeKey>, Failure> {
    let data = open_device(&entry.path, Access::ReadWrite)?;
    let header = args.header.as_deref().map(|path| open_device(path, Access::ReadWrite)).transpose()?;
    let devices = Devices::with_header(header.as_ref().map(|header| header as &dyn Media), &data);
    let at = |failure: Failure| failure.at(args.header.as_deref().unwrap_or(&entry.path));
    let locked = LockedVolume::read(devices.header)
        .map_err(|error| at(no_header(error, header.as_ref().unwrap_or(&data))))?;
    let Some(luks2) = locked.luks2() else { return Err(at(not_luks2())) };
    if luks2.info().requirements.iter().any(|name| name.contains("reencrypt")) {
        return Given::of(args, output)?
            .with(&entry.path, output, |keys| luks2.reencryption_keys(devices, keys));
    }
    // Whatever can't be read is told before the header is changed.
    let given = Given::of(args, output)?;
    let (begun, passphrase) = begin_reencryption(args, &locked, luks2, devices, output)?;
    drop(begun);
    let keys = ReencryptKeys { volume_keys: &given.volume_keys, passphrase: passphrase.as_ref() };
    let luks2 = Luks2::read(devices.header).map_err(|error| at(error.into()))?;
    luks2.reencryption_keys(devices, keys).map_err(|error| at(error.into()))
}
