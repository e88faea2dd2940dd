//! Figures of open volumes: offered with `open` and `mount`, asked for with `status`.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use atrest_attach::metrics::{AskError, Metrics, OperationMetrics, Server, Socket, StoreMetrics, ask};
use atrest_attach::session::{Entry, Registration, Registry, Watched};

use serde::Serialize;

use super::flash;
use super::text::counted;
use crate::amount::Bytes;
use crate::args::inside::MountArgs;
use crate::args::open::VolumeType;
use crate::failure::Failure;
use crate::output::Output;

/// How long a process may take to tell its figures. One that hangs keeps `status` no longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// Refuses `--metrics` where there would be nothing to tell.
pub fn check_mount(args: &MountArgs) -> Result<(), Failure> {
    let Some(socket) = &args.metrics else { return Ok(()) };
    let is_tree =
        matches!(args.unlock.kind, VolumeType::Ecryptfs | VolumeType::Directory) || args.volume.is_dir();
    if is_tree || flash::is_flash_volume(&args.volume, &args.unlock) {
        return Err(Failure::parameters(
            "--metrics has no figures of encrypted flash and of directories: there is no block device below them",
        )
        .at(socket));
    }
    Ok(())
}

/// Listens where `--metrics` says.
pub fn bind(socket: Option<&Path>) -> Result<Option<Socket>, Failure> {
    Ok(socket.map(Socket::bind).transpose()?)
}

/// Tells the volume's figures to `status`, and to whoever asks on `socket`, until it is dropped. That must be before
/// the registration is: then nobody else can have the name yet.
pub fn serve(
    socket: Option<Socket>,
    device: Arc<Watched>,
    registration: &Registration,
    registry: &Registry,
    output: &Output,
) -> Option<Server> {
    let name = registration.entry().name;
    let of_session = registry.metrics_socket(&name).map_err(Failure::from);
    let sockets = match of_session.and_then(|path| Socket::bind(&path).map_err(Failure::from)) {
        Ok(of_session) => [Some(of_session), socket],
        // The volume can be used all the same.
        Err(failure) => {
            output.warn(format!("`atrest status` will show no figures: {}", failure.what()));
            [None, socket]
        }
    };
    let server = Server::start(sockets.into_iter().flatten().collect(), &name, device);
    server.inspect_err(|error| output.warn(format!("no figures are told: {error}"))).ok()
}

/// What `status --json` says of figures.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Told<'a> {
    Metrics(&'a Metrics),
    /// Why there are none.
    NoMetrics(String),
}

impl<'a> From<&'a Result<Metrics, AskError>> for Told<'a> {
    fn from(told: &'a Result<Metrics, AskError>) -> Self {
        match told {
            Ok(metrics) => Self::Metrics(metrics),
            Err(error) => Self::NoMetrics(error.to_string()),
        }
    }
}

/// Asks the processes of all volumes, side by side.
pub fn ask_all(entries: &[Entry], registry: &Registry) -> Vec<Result<Metrics, AskError>> {
    let one = |entry: &Entry| match registry.metrics_socket(&entry.name) {
        Ok(socket) if !entry.has_ended() => ask(&socket, ANSWER_WITHIN),
        // What has ended, or has no name of ours, answers nowhere.
        _ => Err(AskError::Absent),
    };
    thread::scope(|scope| {
        let asking: Vec<_> = entries.iter().map(|entry| scope.spawn(move || one(entry))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap_or(Err(AskError::Absent))).collect()
    })
}

/// Lines for a person.
pub fn lines(told: &Result<Metrics, AskError>) -> String {
    let metrics = match told {
        Ok(metrics) => metrics,
        Err(error) => return format!("  no figures: {error}\n"),
    };
    let asked = metrics.operations.iter().filter(|(_, of)| of.requests + of.in_flight > 0);
    let lines: String =
        asked.map(|(operation, of)| format!("  {}: {}\n", operation.name(), line(of))).collect();
    let lines = if lines.is_empty() { "  no requests yet\n".into() } else { lines };
    lines + &metrics.store.as_ref().map_or_else(String::new, |store| format!("  {}\n", of_store(store)))
}

/// What a store of objects was asked for.
pub fn of_store(of: &StoreMetrics) -> String {
    let kinds = of.requests.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>();
    let [failed, retried] = [of.failed, of.retried];
    let bytes = format!("{} bytes received, {} sent", of.received_bytes, of.sent_bytes);
    let waits = match of.lag_seconds {
        0.0 => String::new(),
        seconds => format!("; the oldest that is not stored yet waits for {seconds:.1} s"),
    };
    format!("store: {}; {failed} failed, {retried} tried again; {bytes}{waits}", kinds.join(", "))
}

/// What the stores of the volumes that are open here and lie at this place were asked for since.
pub fn of_open(path: &Path, output: &Output) -> Result<Vec<(Entry, StoreMetrics)>, Failure> {
    let registry = super::serve::registry(output)?;
    let mut entries = registry.list()?;
    entries.retain(|entry| entry.path == path);
    let told = ask_all(&entries, &registry);
    let store = |(entry, told): (Entry, Result<Metrics, AskError>)| Some((entry, told.ok()?.store?));
    Ok(entries.into_iter().zip(told).filter_map(store).collect())
}

fn line(of: &OperationMetrics) -> String {
    let requests = counted(of.requests, "request", "requests");
    let errors = counted(of.errors, "error", "errors");
    let mut line = format!("{requests}, {}, {errors}, {} in flight", Bytes(of.bytes), of.in_flight);
    if of.requests > 0 {
        let (half, most) = (bound_text(of, 0.5), bound_text(of, 0.99));
        line.push_str(&format!(", p50 {half}, p99 {most}"));
    }
    line
}

/// What a histogram tells of a quantile: a bound.
fn bound_text(of: &OperationMetrics, share: f64) -> String {
    match (of.quantile(share), of.latency.last()) {
        (Some(seconds), _) if seconds < 1e-3 => format!("≤ {:.0} µs", seconds * 1e6),
        (Some(seconds), _) if seconds < 1.0 => format!("≤ {:.1} ms", seconds * 1e3),
        (Some(seconds), _) => format!("≤ {seconds:.1} s"),
        (None, last) => format!("> {:.1} s", last.map_or(0.0, |bucket| bucket.le)),
    }
}

#[cfg(test)]
mod tests {
    use atrest_attach::metrics::Bucket;

    use super::*;

    fn told(le: f64) -> String {
        let latency = vec![Bucket { le, count: 1 }];
        line(&OperationMetrics { requests: 1, bytes: 512, errors: 0, in_flight: 2, seconds: le, latency })
    }

    #[test]
    fn bounds_are_told_in_units_that_a_person_reads() {
        assert_eq!(told(1e-6), "1 request, 512 bytes, 0 errors, 2 in flight, p50 ≤ 1 µs, p99 ≤ 1 µs");
        assert!(told(512e-6).ends_with("p99 ≤ 512 µs"));
        assert!(told(1024e-6).ends_with("p99 ≤ 1.0 ms"));
        assert!(told(1.048576).ends_with("p99 ≤ 1.0 s"));
        let slow = OperationMetrics {
            requests: 2,
            bytes: 0,
            errors: 2,
            in_flight: 0,
            seconds: 20.0,
            latency: vec![Bucket { le: 8.388608, count: 0 }],
        };
        assert_eq!(line(&slow), "2 requests, 0 bytes, 2 errors, 0 in flight, p50 > 8.4 s, p99 > 8.4 s");
    }
}
