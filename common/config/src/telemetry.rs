//! Where spans and metrics are sent, by the variables that OpenTelemetry has for it
//! (<https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>,
//! <https://opentelemetry.io/docs/specs/otel/protocol/exporter/>). Unlike there, nothing is sent unless an
//! endpoint is named or an exporter is asked for. While nothing is sent the other variables are not
//! checked, because a machine may have them for other programs.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use platform::token::Token;
use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use telemetry::{Options, Ratio, Sampler, Target};

use crate::Reader;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
/// Where a collector on this machine listens, if an exporter is asked for and no endpoint is named.
const USUAL: &str = "http://localhost:4318";

/// One kind of data, and the settings that are about it alone.
struct Signal {
    exporter: &'static str,
    endpoint: &'static str,
    path: &'static str,
}

const TRACES: Signal = Signal {
    exporter: "OTEL_TRACES_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    path: "/v1/traces",
};
const METRICS: Signal = Signal {
    exporter: "OTEL_METRICS_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    path: "/v1/metrics",
};

impl Reader<'_> {
    /// `None` when nothing is sent, or when something is wrong.
    pub(crate) fn telemetry(&mut self) -> Option<Options> {
        if self.flag("OTEL_SDK_DISABLED")? {
            return None;
        }
        let traces = self.is_sent(&TRACES)?;
        let metrics = self.is_sent(&METRICS)?;
        if !traces && !metrics {
            return None;
        }
        self.protocol();
        let headers = self.collector_headers()?;
        let timeout = self.millis("OTEL_EXPORTER_OTLP_TIMEOUT")?;
        let mut target = |signal: &Signal| {
            let (setting, url) = self.endpoint(signal)?;
            self.collector_in_clear(setting, &url, !headers.is_empty());
            Some(Target {
                url,
                headers: headers.clone(),
                timeout,
            })
        };
        let traces = if traces { Some(target(&TRACES)?) } else { None };
        let metrics = if metrics {
            Some(target(&METRICS)?)
        } else {
            None
        };
        Some(Options {
            traces,
            metrics,
            resource: self.resource()?,
            sampler: self.sampler()?,
            queue: self.size("OTEL_BSP_MAX_QUEUE_SIZE")?,
            batch: self.size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE")?,
            delay: self.millis("OTEL_BSP_SCHEDULE_DELAY")?,
            give_up: self.millis("OTEL_BSP_EXPORT_TIMEOUT")?,
            interval: self.millis("OTEL_METRIC_EXPORT_INTERVAL")?,
        })
    }

    /// What was given. Empty counts as not given, as the specification says.
    fn given(&self, name: &str) -> Option<&str> {
        let text = self.settings.get(name)?.trim();
        (!text.is_empty()).then_some(text)
    }

    fn is_sent(&mut self, signal: &Signal) -> Option<bool> {
        match self.given(signal.exporter) {
            None => Some(self.given(signal.endpoint).is_some() || self.given(ENDPOINT).is_some()),
            Some("otlp") => Some(true),
            Some("none") => Some(false),
            Some(other) => {
                let what = format!("is {other:?}; it must be otlp or none");
                self.wrong(signal.exporter, what);
                None
            }
        }
    }

    fn protocol(&mut self) {
        const NAME: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
        if let Some(other) = self.given(NAME).filter(|it| *it != "http/protobuf") {
            let what = format!(
                "is {other:?}; it must be http/protobuf, which collectors take on port 4318"
            );
            self.wrong(NAME, what);
        }
    }

    /// The whole address, and the setting that names it.
    fn endpoint(&mut self, signal: &Signal) -> Option<(&'static str, String)> {
        if self.given(signal.endpoint).is_some() {
            return Some((signal.endpoint, self.url(signal.endpoint)?));
        }
        let base = match self.given(ENDPOINT) {
            Some(_) => self.url(ENDPOINT)?,
            None => USUAL.to_owned(),
        };
        Some((ENDPOINT, format!("{base}{}", signal.path)))
    }

    fn collector_in_clear(&mut self, setting: &'static str, url: &str, has_headers: bool) {
        let Ok(url) = Url::parse(url) else { return };
        let (Some(host), "http") = (url.host_str(), url.scheme()) else {
            return;
        };
        if has_headers {
            self.credential_in_clear(setting, host, "begin it with https://");
        } else {
            self.in_clear(setting, host);
        }
    }

    /// The headers for the collector. Only their names are ever shown.
    fn collector_headers(&mut self) -> Option<Vec<(String, Token)>> {
        let pairs = self.pairs(HEADERS)?;
        let is_header = |(name, value): &(String, String)| {
            HeaderName::try_from(name).is_ok() && HeaderValue::try_from(value).is_ok()
        };
        if !pairs.iter().all(is_header) {
            self.wrong(HEADERS, "has a name or a value that no header can have");
            return None;
        }
        let token = |(name, value): (String, String)| (name, Token::new(value));
        Some(pairs.into_iter().map(token).collect())
    }

    fn resource(&mut self) -> Option<Vec<(String, String)>> {
        const NAME: &str = "service.name";
        let mut resource = self.pairs("OTEL_RESOURCE_ATTRIBUTES")?;
        let named = self.given("OTEL_SERVICE_NAME").map(ToOwned::to_owned);
        let is_named = resource.iter().any(|(name, _)| name == NAME);
        if named.is_some() || !is_named {
            resource.retain(|(name, _)| name != NAME);
            let name = named.unwrap_or_else(|| "waybill".to_owned());
            resource.push((NAME.to_owned(), name));
        }
        Some(resource)
    }

    /// A list of `name=value` with commas between them, its values percent-encoded.
    fn pairs(&mut self, list: &'static str) -> Option<Vec<(String, String)>> {
        let text = self.given(list).unwrap_or_default();
        let pair = |text: &str| {
            let (name, value) = text.split_once('=')?;
            let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
            let name = name.trim();
            (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
        };
        let parts = text.split(',').filter(|part| !part.trim().is_empty());
        let pairs: Option<Vec<_>> = parts.map(pair).collect();
        if pairs.is_none() {
            self.wrong(list, "must be name=value, with commas between them");
        }
        pairs
    }

    fn sampler(&mut self) -> Option<Sampler> {
        const NAME: &str = "OTEL_TRACES_SAMPLER";
        let text = self.text(NAME)?;
        let text = text.trim();
        let root = text.strip_prefix("parentbased_");
        let ratio = match root.unwrap_or(text) {
            "always_on" => Ratio::ALL,
            "always_off" => Ratio::NONE,
            "traceidratio" => self.ratio()?,
            _ => {
                let what = format!(
                    "is {text:?}; it must be always_on, always_off, traceidratio, or one of these \
                     after parentbased_"
                );
                self.wrong(NAME, what);
                return None;
            }
        };
        Some(Sampler {
            ratio,
            parent_based: root.is_some(),
        })
    }

    fn ratio(&mut self) -> Option<Ratio> {
        const NAME: &str = "OTEL_TRACES_SAMPLER_ARG";
        let expected = "a number from 0 to 1";
        let part: f64 = self.parse(NAME, expected)?;
        let ratio = Ratio::of(part);
        if ratio.is_none() {
            self.wrong(NAME, format_args!("is {part}; it must be {expected}"));
        }
        ratio
    }

    fn millis(&mut self, name: &str) -> Option<Duration> {
        let millis = self.number(name, 1, 86_400_000)?;
        Some(Duration::from_millis(u64::from(millis)))
    }

    fn size(&mut self, name: &str) -> Option<usize> {
        usize::try_from(self.number(name, 1, 1_000_000)?).ok()
    }
}
