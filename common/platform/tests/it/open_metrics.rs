//! Metrics in the form of OpenMetrics.

use platform::metrics::open_metrics::of;

#[test]
fn a_counter_keeps_its_samples_and_its_family_loses_its_end() {
    let text = "# HELP jobs_total What \"ran\"\n# TYPE jobs_total counter\njobs_total{kind=\"a\"} 2\n\n\
                # HELP up_total_ratio A gauge\n# TYPE up_total_ratio gauge\nup_total_ratio 1\n\n\
                # HELP old_total No counter\n# TYPE old_total gauge\nold_total 1\n";
    let open = "# HELP jobs What \\\"ran\\\"\n# TYPE jobs counter\njobs_total{kind=\"a\"} 2\n\
                # HELP up_total_ratio A gauge\n# TYPE up_total_ratio gauge\nup_total_ratio 1\n\
                # HELP old_total No counter\n# TYPE old_total gauge\nold_total 1\n# EOF\n";
    assert_eq!(of(text), open);
    assert_eq!(of(""), "# EOF\n");
}
