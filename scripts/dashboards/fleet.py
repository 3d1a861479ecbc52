"""The fleet: what it gets done, what waits, and how units end."""

from __future__ import annotations

from dashboards.description import FLEET, FLEET_VARIABLES, Dashboard, Figure, Graph, Query, Row, Table

_DONE = f"sum(rate(batch_pipeline_audio_seconds_total{{{FLEET}}}[15m]))"
_WORKERS = f"count(batch_pipeline_gpu_busy_seconds_total{{{FLEET}}})"
_BUSY = f"sum(rate(batch_pipeline_gpu_busy_seconds_total{{{FLEET}}}[15m]))"

FLEET_DASHBOARD = Dashboard(
    "fleet",
    "Volery: fleet",
    FLEET_VARIABLES,
    (
        Row(
            "Now",
            (
                Figure(
                    "Audio-hours per GPU-hour",
                    "Audio published in the last quarter of an hour, for each GPU that a worker holds.",
                    "none",
                    Query(f"{_DONE} / {_WORKERS}"),
                ),
                Figure("Workers", "Workers that report.", "none", Query(_WORKERS)),
                Figure(
                    "Ready units",
                    "Units that could be leased now.",
                    "none",
                    Query(f"max(batch_pipeline_ready_units{{{FLEET}}})"),
                ),
                Figure(
                    "Oldest ready unit",
                    "How long it has waited.",
                    "s",
                    Query(f"max(batch_pipeline_oldest_ready_seconds{{{FLEET}}})"),
                ),
                Figure(
                    "Dead units",
                    "Units whose attempts are used up.",
                    "none",
                    Query(f'max(batch_pipeline_units_in_state{{{FLEET},state="dead"}})'),
                ),
                Figure(
                    "Quarantines, last hour",
                    "Processes that may no longer be trusted, and reported it.",
                    "none",
                    Query(f"count(max_over_time(batch_pipeline_quarantine{{{FLEET}}}[1h]) > 0) or vector(0)"),
                ),
            ),
        ),
        Row(
            "Work",
            (
                Graph(
                    "Audio-hours per GPU-hour",
                    "Held: of each GPU that a worker holds. Busy: of the time in which a group is on the GPU.",
                    "none",
                    (Query(f"{_DONE} / {_WORKERS}", "held"), Query(f"{_DONE} / {_BUSY}", "busy")),
                ),
                Graph(
                    "GPU busy",
                    "Share of the time in which a group is on a worker's GPU.",
                    "percentunit",
                    (Query(f"sum by (pod) (rate(batch_pipeline_gpu_busy_seconds_total{{{FLEET}}}[15m]))", "{{pod}}"),),
                ),
                Graph(
                    "Units in the job store",
                    "As the exporter counts them. Ready: those that back off, too.",
                    "none",
                    (
                        Query(
                            f'max by (state) (batch_pipeline_units_in_state{{{FLEET},state=~"ready|leased|dead"}})',
                            "{{state}}",
                        ),
                    ),
                ),
                Graph(
                    "Age of the oldest ready unit",
                    "VoleryQueueAge is raised by this.",
                    "s",
                    (Query(f"max(batch_pipeline_oldest_ready_seconds{{{FLEET}}})", "oldest"),),
                ),
            ),
        ),
        Row(
            "How units end",
            (
                Graph(
                    "Outcomes, units an hour",
                    "Retry: an attempt was charged, and the unit is tried again.",
                    "none",
                    (
                        Query(
                            f"3600 * sum by (outcome) (rate(batch_pipeline_units_total{{{FLEET}}}[15m]))", "{{outcome}}"
                        ),
                    ),
                    stacked=True,
                ),
                Graph(
                    "Classes of results, units an hour",
                    "What was found in units that are done.",
                    "none",
                    (
                        Query(
                            "3600 * sum by (result_class) "
                            f'(rate(batch_pipeline_units_total{{{FLEET},outcome="done"}}[15m]))',
                            "{{result_class}}",
                        ),
                    ),
                    stacked=True,
                ),
                Graph(
                    "Attempts, an hour",
                    "Charged to units that failed, and leases that were refunded without a charge, by reason.",
                    "none",
                    (
                        Query(
                            "3600 * sum by (outcome) "
                            f'(rate(batch_pipeline_units_total{{{FLEET},outcome=~"retry|dead"}}[15m]))',
                            "charged: {{outcome}}",
                        ),
                        Query(
                            f"3600 * sum by (reason) (rate(batch_pipeline_refunds_total{{{FLEET}}}[15m]))",
                            "refunded: {{reason}}",
                        ),
                    ),
                ),
                Graph(
                    "Leases lost, an hour",
                    "VoleryLeasesLost is raised by this.",
                    "none",
                    (
                        Query(
                            f"3600 * sum by (pod) (rate(batch_pipeline_leases_lost_total{{{FLEET}}}[15m]))", "{{pod}}"
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Referee",
            (
                Graph(
                    "Disagreement, mean",
                    "Word error rate of published words against the referee's, mean of the units that were audited.",
                    "percentunit",
                    (
                        Query(
                            "sum by (language) (increase("
                            f"batch_pipeline_referee_disagreement_sum{{{FLEET}}}[6h])) / "
                            "sum by (language) (increase("
                            f"batch_pipeline_referee_disagreement_count{{{FLEET}}}[6h]))",
                            "{{language}}",
                        ),
                    ),
                ),
                Graph(
                    "Units that the referee disagrees with",
                    "Share of the audited units with a word error rate above 0.25. Raises VoleryRefereeDisagreement.",
                    "percentunit",
                    (
                        Query(
                            f'1 - sum(increase(batch_pipeline_referee_disagreement_bucket{{{FLEET},le="0.25"}}[6h])) / '
                            f"sum(increase(batch_pipeline_referee_disagreement_count{{{FLEET}}}[6h]))",
                            "share",
                        ),
                    ),
                ),
                Graph(
                    "Sampled units, an hour",
                    "Audited, dropped because the queue was full, or why there is no judgement; those for which the "
                    "larger model was asked are audited, too.",
                    "none",
                    (
                        Query(
                            f"3600 * sum by (outcome) (rate(batch_pipeline_referee_units_total{{{FLEET}}}[15m]))",
                            "{{outcome}}",
                        ),
                        Query(f"3600 * sum(rate(batch_pipeline_referee_escalated_total{{{FLEET}}}[15m]))", "escalated"),
                    ),
                ),
                Table(
                    "Devices of the referee",
                    "Where its models are, and why; empty until it has judged a unit.",
                    Query(f"max by (pod, device, why) (batch_pipeline_referee_device{{{FLEET}}}) == 1"),
                ),
            ),
        ),
        Row(
            "Silence",
            (
                Graph(
                    "Disagreement of the two VAD engines",
                    "Seconds of a unit that exactly one of them calls speech, of the units that both looked at.",
                    "s",
                    tuple(
                        Query(
                            f"histogram_quantile({share}, sum by (le) "
                            f"(rate(batch_pipeline_vad_disagreement_seconds_bucket{{{FLEET}}}[6h])))",
                            legend,
                        )
                        for share, legend in ((0.5, "median"), (0.9, "worst tenth"))
                    ),
                ),
                Graph(
                    "Units shown to the second VAD, an hour",
                    "Looked at by both, recovered from silence, and those on which the second failed.",
                    "none",
                    (
                        Query(
                            f"3600 * sum(rate(batch_pipeline_vad_disagreement_seconds_count{{{FLEET}}}[15m]))",
                            "looked at",
                        ),
                        Query(f"3600 * sum(rate(batch_pipeline_vad_recovered_total{{{FLEET}}}[15m]))", "recovered"),
                        Query(
                            f"3600 * sum by (purpose) (rate(batch_pipeline_second_vad_failures_total{{{FLEET}}}[15m]))",
                            "failed: {{purpose}}",
                        ),
                    ),
                ),
            ),
        ),
    ),
)
