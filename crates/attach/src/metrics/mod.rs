//! What a volume has been asked for: requests, bytes, errors, requests in flight and latencies, by operation.
//!
//! [`session::Watched`](crate::session::Watched) counts below every face. [`Server`] answers by HTTP on Unix sockets:
//! in Prometheus' text format (`GET /metrics`), and as JSON for `status` in another process, which calls [`ask`].

mod ask;
mod counters;
mod http;
mod server;
mod text;

pub use ask::{AskError, ask};
pub(crate) use counters::Counters;
pub use server::{Server, Socket};

use std::collections::BTreeMap;

use atrest_device::StoreRequests;
use serde::{Deserialize, Serialize};

/// What a device is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Making writes durable.
    Flush,
    /// Saying that a range is no longer used.
    Discard,
    /// Storing zeros.
    WriteZeroes,
    /// Asking where the holes are.
    Extent,
}

impl Operation {
    pub(crate) const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Flush, Self::Discard, Self::WriteZeroes, Self::Extent];

    /// Its name in JSON and in labels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::WriteZeroes => "write_zeroes",
            Self::Extent => "extent",
        }
    }
}

/// What has been counted since the volume was opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Size of the volume in bytes.
    pub size: u64,
    /// Whether a flush has failed: every later write fails.
    pub failed: bool,
    /// By operation. Each is there, also one that nobody has asked for.
    pub operations: BTreeMap<Operation, OperationMetrics>,
    /// What its store of objects was asked for, if it lies on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<StoreMetrics>,
}

/// What a store of objects was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreMetrics {
    /// Requests by kind: `get`, `put`, `put_new` (to be stored only where there is none of that name), `list`, `delete`. Failed ones too.
    pub requests: BTreeMap<String, u64>,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that were another try of one that had failed.
    pub retried: u64,
    /// Bytes of objects that came.
    pub received_bytes: u64,
    /// Bytes of objects that were sent, also by requests that failed.
    pub sent_bytes: u64,
    /// Seconds for which what waits longest to be stored has waited. 0 if nothing waits.
    #[serde(default)]
    pub lag_seconds: f64,
}

impl From<StoreRequests> for StoreMetrics {
    fn from(of: StoreRequests) -> Self {
        let kinds = [
            ("get", of.get),
            ("put", of.put),
            ("put_new", of.put_new),
            ("list", of.list),
            ("delete", of.delete),
        ];
        Self {
            requests: kinds.map(|(kind, count)| (kind.to_owned(), count)).into(),
            failed: of.failed,
            retried: of.retried,
            received_bytes: of.received,
            sent_bytes: of.sent,
            lag_seconds: of.lag.map_or(0.0, |lag| lag.as_secs_f64()),
        }
    }
}

/// What has been counted of one operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OperationMetrics {
    /// Requests that have ended, those that failed among them.
    pub requests: u64,
    /// Bytes of the requests that did not fail.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that have not ended yet.
    pub in_flight: u64,
    /// Seconds that all requests took together.
    pub seconds: f64,
    /// How many took how long. What is missing to [`requests`](Self::requests) took longer than the last bound.
    pub latency: Vec<Bucket>,
}

/// One bucket of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Upper bound in seconds.
    pub le: f64,
    /// Requests that took at most that long: buckets are cumulative.
    pub count: u64,
}

impl OperationMetrics {
    /// The lowest bound, in seconds, that this share of the requests kept. `None` if there were none, or some of them
    /// took longer than the last bound.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.requests as f64 * share).ceil().max(1.0);
        let kept = self.latency.iter().find(|bucket| bucket.count as f64 >= rank);
        kept.map(|bucket| bucket.le)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_that_the_share_of_requests_keeps() {
        let latency = [(1e-6, 0), (2e-6, 50), (4e-6, 99)].map(|(le, count)| Bucket { le, count }).to_vec();
        let metrics =
            OperationMetrics { requests: 100, bytes: 0, errors: 0, in_flight: 0, seconds: 1.0, latency };
        assert_eq!(metrics.quantile(0.0), Some(2e-6));
        assert_eq!(metrics.quantile(0.5), Some(2e-6));
        assert_eq!(metrics.quantile(0.51), Some(4e-6));
        assert_eq!(metrics.quantile(0.99), Some(4e-6));
        assert_eq!(metrics.quantile(1.0), None);
        let none = OperationMetrics { requests: 0, latency: vec![Bucket { le: 1.0, count: 0 }], ..metrics };
        assert_eq!(none.quantile(0.5), None);
    }

    #[test]
    fn an_operation_has_the_same_name_in_json_and_in_labels() {
        for operation in Operation::ALL {
            assert_eq!(serde_json::to_string(&operation).unwrap(), format!("\"{}\"", operation.name()));
        }
    }
}
