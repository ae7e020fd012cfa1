//! Tests of what is private in `src/measured.rs`.

use super::*;

const TEXT: &str = r#"# HELP waybill_jobs_run_total Runs
# TYPE waybill_jobs_run_total counter
waybill_jobs_run_total{queue="orders",kind="a \"b\", \\c",outcome="done"} 7
waybill_broker_up 1
waybill_run_seconds_bucket{queue="orders",kind="k",le="0.5"} 2
waybill_run_seconds_bucket{queue="orders",kind="k",le="1"} 5
waybill_run_seconds_bucket{queue="orders",kind="k",le="+Inf"} 6
waybill_run_seconds_sum{queue="orders",kind="k"} 4.25
waybill_run_seconds_count{queue="orders",kind="k"} 6
of_somebody_else 3
"#;

#[test]
fn each_kind_of_metric_keeps_its_numbers_and_its_labels() {
    let sent = of(TEXT, 5, 9);
    let named = |name: &str| sent.iter().find(|it| it.name == name).unwrap();
    assert_eq!(sent.len(), 3);
    let Some(Data::Sum(runs)) = &named("waybill_jobs_run_total").data else {
        panic!("a counter is a sum");
    };
    assert!(runs.is_monotonic);
    let point = &runs.data_points[0];
    assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
    assert_eq!(point.value, Some(Number::AsDouble(7.0)));
    let kind = Value::StringValue("a \"b\", \\c".to_owned());
    assert_eq!(point.attributes[1], pair("kind", kind));
    let Some(Data::Gauge(up)) = &named("waybill_broker_up").data else {
        panic!("a gauge is a gauge");
    };
    assert_eq!(up.data_points.len(), 1);
    let run = named("waybill_run_seconds");
    assert_eq!(run.unit, "s");
    let Some(Data::Histogram(times)) = &run.data else {
        panic!("a histogram is a histogram");
    };
    let point = &times.data_points[0];
    assert_eq!(point.explicit_bounds, [0.5, 1.0]);
    assert_eq!(point.bucket_counts, [2, 3, 1]);
    assert_eq!((point.count, point.sum), (6, Some(4.25)));
    assert_eq!(point.attributes.len(), 2);
}
