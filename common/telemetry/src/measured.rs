//! The metrics of the process as OTLP has them, read from the text that Prometheus scrapes. So there is
//! one list of metrics (`platform::metrics::ALL`), and a collector that scrapes and one that is sent to
//! see the same names, labels and numbers.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric as Sent, NumberDataPoint,
    Sum,
};
use platform::metrics::{ALL, Kind, Metric};

use crate::span::pair;

type Labels = Vec<(String, String)>;

/// What is known of one series: its value, or the parts of a histogram.
#[derive(Default)]
struct Series {
    value: f64,
    sum: f64,
    count: f64,
    /// The upper bounds, with the number of samples up to each.
    buckets: Vec<(f64, f64)>,
}

/// The metrics of a text in Prometheus' format. `begun` is when counting began, `now` the time of the
/// text, both in nanoseconds since 1970.
pub fn of(text: &str, begun: u64, now: u64) -> Vec<Sent> {
    let mut families: BTreeMap<&'static str, (&'static Metric, BTreeMap<Labels, Series>)> =
        BTreeMap::new();
    for line in text.lines() {
        let Some((name, mut labels, value)) = sample(line) else {
            continue;
        };
        let Some((metric, part)) = family(name) else {
            continue;
        };
        let bound = match part {
            "_bucket" => take(&mut labels, "le"),
            _ => None,
        };
        let (_, all) = families
            .entry(metric.name)
            .or_insert_with(|| (metric, BTreeMap::new()));
        let series = all.entry(labels).or_default();
        match part {
            "_sum" => series.sum = value,
            "_count" => series.count = value,
            "_bucket" => {
                let bound = bound.and_then(|bound| bound.parse().ok());
                series.buckets.extend(bound.map(|bound| (bound, value)));
            }
            _ => series.value = value,
        }
    }
    let families = families.into_values();
    families
        .map(|(metric, series)| sent(metric, series, begun, now))
        .collect()
}

/// The metric that a sample belongs to, and which part of a histogram it is.
fn family(name: &str) -> Option<(&'static Metric, &'static str)> {
    if let Some(metric) = ALL.iter().find(|metric| metric.name == name) {
        return Some((metric, ""));
    }
    ["_bucket", "_sum", "_count"].into_iter().find_map(|part| {
        let family = name.strip_suffix(part)?;
        let is_it = |metric: &&Metric| metric.name == family && metric.kind == Kind::Histogram;
        Some((ALL.iter().find(is_it)?, part))
    })
}

fn sent(metric: &Metric, series: BTreeMap<Labels, Series>, begun: u64, now: u64) -> Sent {
    let cumulative = i32::from(AggregationTemporality::Cumulative);
    let data = match metric.kind {
        Kind::Gauge => Data::Gauge(Gauge {
            data_points: series
                .into_iter()
                .map(|(labels, it)| number(labels, it.value, 0, now))
                .collect(),
        }),
        Kind::Counter => Data::Sum(Sum {
            data_points: series
                .into_iter()
                .map(|(labels, it)| number(labels, it.value, begun, now))
                .collect(),
            aggregation_temporality: cumulative,
            is_monotonic: true,
        }),
        Kind::Histogram => Data::Histogram(Histogram {
            data_points: series
                .into_iter()
                .map(|(labels, it)| buckets(labels, &it, begun, now))
                .collect(),
            aggregation_temporality: cumulative,
        }),
    };
    Sent {
        name: metric.name.to_owned(),
        description: metric.help.to_owned(),
        unit: unit(metric.name).to_owned(),
        data: Some(data),
        ..Sent::default()
    }
}

/// The unit in the code of UCUM that OTLP takes.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    if name.ends_with("_seconds") {
        "s"
    } else if name.ends_with("_bytes") {
        "By"
    } else {
        ""
    }
}

fn number(labels: Labels, value: f64, begun: u64, now: u64) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: begun,
        time_unix_nano: now,
        value: Some(Number::AsDouble(value)),
        ..NumberDataPoint::default()
    }
}

/// Prometheus counts the samples up to each bound, OTLP those between two bounds.
fn buckets(labels: Labels, series: &Series, begun: u64, now: u64) -> HistogramDataPoint {
    let mut below = 0.0;
    let mut bucket_counts = Vec::with_capacity(series.buckets.len());
    for (_, up_to) in &series.buckets {
        bucket_counts.push(whole(up_to - below));
        below = *up_to;
    }
    let bounds = series.buckets.iter().map(|(bound, _)| *bound);
    HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: begun,
        time_unix_nano: now,
        count: whole(series.count),
        sum: Some(series.sum),
        bucket_counts,
        explicit_bounds: bounds.filter(|bound| bound.is_finite()).collect(),
        ..HistogramDataPoint::default()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it counts samples"
)]
fn whole(number: f64) -> u64 {
    number.max(0.0) as u64
}

fn attributes(labels: Labels) -> Vec<KeyValue> {
    let value = |(name, value): (String, String)| pair(name, Value::StringValue(value));
    labels.into_iter().map(value).collect()
}

/// Takes a label out of the others.
fn take(labels: &mut Labels, name: &str) -> Option<String> {
    let at = labels.iter().position(|(it, _)| it == name)?;
    Some(labels.remove(at).1)
}

/// Reads `name{label="value",..} number`. `None` for a line that is no sample.
fn sample(line: &str) -> Option<(&str, Labels, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let (head, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, rest)) = head.split_once('{') else {
        return Some((head, Labels::new(), value));
    };
    Some((name, labels(rest.strip_suffix('}')?)?, value))
}

fn labels(mut text: &str) -> Option<Labels> {
    let mut labels = Labels::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let (value, rest) = quoted(rest)?;
        labels.push((name.trim_start_matches(',').to_owned(), value));
        text = rest;
    }
    Some(labels)
}

/// A value up to its closing quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
#[path = "../tests/unit/measured.rs"]
mod tests;
