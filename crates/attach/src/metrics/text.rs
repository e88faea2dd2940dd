//! Prometheus' text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).

use std::fmt::{Display, Write};

use super::{Metrics, Operation, OperationMetrics, StoreMetrics};

/// The media type of [`page`].
pub(super) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Writes the figures of the volume of that name. A name in the register has no character that would have to be
/// escaped.
pub(super) fn page(volume: &str, metrics: &Metrics) -> String {
    let mut page = Page { text: String::new(), volume };
    page.family("atrest_build_info", "gauge", "Version of the program that serves the volume.");
    page.line("atrest_build_info", &[("version", &env!("CARGO_PKG_VERSION"))], 1);
    page.family("atrest_volume_size_bytes", "gauge", "Size of the volume.");
    page.line("atrest_volume_size_bytes", &[], metrics.size);
    page.family("atrest_volume_failed", "gauge", "1 if a flush has failed: every later write fails.");
    page.line("atrest_volume_failed", &[], u8::from(metrics.failed));
    page.each(
        metrics,
        "atrest_requests_total",
        "counter",
        "Requests that have ended, failed ones too.",
        |of| of.requests,
    );
    page.each(metrics, "atrest_request_errors_total", "counter", "Requests that have failed.", |of| {
        of.errors
    });
    page.each(
        metrics,
        "atrest_request_bytes_total",
        "counter",
        "Bytes of the requests that succeeded.",
        |of| of.bytes,
    );
    page.each(metrics, "atrest_requests_in_flight", "gauge", "Requests that have not ended yet.", |of| {
        of.in_flight
    });
    page.family("atrest_request_duration_seconds", "histogram", "How long requests took.");
    for (operation, of) in &metrics.operations {
        page.histogram("atrest_request_duration_seconds", *operation, of);
    }
    if let Some(store) = &metrics.store {
        page.store(store);
    }
    page.text
}

struct Page<'a> {
    text: String,
    volume: &'a str,
}

impl Page<'_> {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &[(&str, &dyn Display)], value: impl Display) {
        let volume = self.volume;
        self.write(format_args!("{name}{{volume=\"{volume}\""));
        for (label, text) in labels {
            self.write(format_args!(",{label}=\"{text}\""));
        }
        self.write(format_args!("}} {value}\n"));
    }

    fn each(
        &mut self,
        metrics: &Metrics,
        name: &str,
        kind: &str,
        help: &str,
        value: impl Fn(&OperationMetrics) -> u64,
    ) {
        self.family(name, kind, help);
        for (operation, of) in &metrics.operations {
            self.line(name, &[("operation", &operation.name())], value(of));
        }
    }

    fn histogram(&mut self, name: &str, operation: Operation, of: &OperationMetrics) {
        let operation = operation.name();
        for bucket in &of.latency {
            let labels: &[(&str, &dyn Display)] = &[("operation", &operation), ("le", &bucket.le)];
            self.line(&format!("{name}_bucket"), labels, bucket.count);
        }
        let labels: &[(&str, &dyn Display)] = &[("operation", &operation), ("le", &"+Inf")];
        self.line(&format!("{name}_bucket"), labels, of.requests);
        self.line(&format!("{name}_sum"), &[("operation", &operation)], of.seconds);
        self.line(&format!("{name}_count"), &[("operation", &operation)], of.requests);
    }

    fn store(&mut self, store: &StoreMetrics) {
        let name = "atrest_store_requests_total";
        self.family(name, "counter", "Requests to the store of objects, failed ones too.");
        for (kind, count) in &store.requests {
            self.line(name, &[("kind", kind)], count);
        }
        let name = "atrest_store_request_errors_total";
        self.family(name, "counter", "Requests to the store of objects that have failed.");
        self.line(name, &[], store.failed);
        let name = "atrest_store_retries_total";
        self.family(name, "counter", "Requests to the store of objects that were another try.");
        self.line(name, &[], store.retried);
        let name = "atrest_store_bytes_total";
        self.family(name, "counter", "Bytes of objects that came from the store or were sent to it.");
        self.line(name, &[("direction", &"received")], store.received_bytes);
        self.line(name, &[("direction", &"sent")], store.sent_bytes);
        let name = "atrest_store_lag_seconds";
        self.family(name, "gauge", "For how long what waits longest to be stored has waited.");
        self.line(name, &[], store.lag_seconds);
    }

    fn write(&mut self, text: core::fmt::Arguments<'_>) {
        // Writing to a String can't fail.
        let _ = self.text.write_fmt(text);
    }
}
