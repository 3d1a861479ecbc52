"""One worker: where its time goes."""

from __future__ import annotations

from dashboards.description import FLEET, FLEET_VARIABLES, Dashboard, Graph, Query, Row, Table, Variable

_POD = f'{FLEET},pod="$pod"'
_OF_A_FLIGHT = 'stage=~"admission|gpu_wait|worker_flight|publish"'

WORKER_DASHBOARD = Dashboard(
    "worker",
    "Volery: one worker",
    (
        *FLEET_VARIABLES,
        Variable("pod", 'label_values(batch_pipeline_gpu_busy_seconds_total{namespace="$namespace",job="$job"}, pod)'),
    ),
    (
        Row(
            "Where the time goes",
            (
                Graph(
                    "What lanes do",
                    "Lanes in each stage of a flight, on average; what is missing to the number of lanes prepares or "
                    "waits for units. Publication counts each unit that is being published.",
                    "none",
                    (
                        Query(
                            f"sum by (stage) (rate(batch_pipeline_stage_seconds_sum{{{_POD},{_OF_A_FLIGHT}}}[5m]))",
                            "{{stage}}",
                        ),
                    ),
                    stacked=True,
                ),
                Graph(
                    "GPU busy",
                    "Share of the time in which a group is on the GPU.",
                    "percentunit",
                    (Query(f"sum(rate(batch_pipeline_gpu_busy_seconds_total{{{_POD}}}[5m]))", "busy"),),
                ),
                Graph(
                    "Stage times, mean",
                    "admission, gpu_wait, worker_flight: a flight; fetch_decode, publish: a unit; vad, diarize, asr: "
                    "a group.",
                    "s",
                    (
                        Query(
                            f"sum by (stage) (rate(batch_pipeline_stage_seconds_sum{{{_POD}}}[15m])) / "
                            f"sum by (stage) (rate(batch_pipeline_stage_seconds_count{{{_POD}}}[15m]))",
                            "{{stage}}",
                        ),
                    ),
                ),
                Graph(
                    "Stage times, nine of ten are shorter",
                    "By the buckets of the histogram: the true value lies in the bucket of the one shown.",
                    "s",
                    (
                        Query(
                            "histogram_quantile(0.9, sum by (le, stage) "
                            f"(rate(batch_pipeline_stage_seconds_bucket{{{_POD}}}[15m])))",
                            "{{stage}}",
                        ),
                    ),
                ),
                Graph(
                    "Decode budget",
                    "Audio-seconds held as preparations, and how many may be.",
                    "s",
                    (
                        Query(f"batch_pipeline_decode_budget_in_use_seconds{{{_POD}}}", "in use"),
                        Query(f"batch_pipeline_decode_budget_limit_seconds{{{_POD}}}", "limit"),
                    ),
                ),
                Graph(
                    "CUDA graphs captured",
                    "While models warm up; later captures cost time in the middle of the work.",
                    "none",
                    (Query(f"increase(batch_pipeline_graph_captures_total{{{_POD}}}[15m])", "captured"),),
                ),
            ),
        ),
        Row(
            "What becomes of its units",
            (
                Graph(
                    "Outcomes, units an hour",
                    "Retry: an attempt was charged, and the unit is tried again.",
                    "none",
                    (
                        Query(
                            f"3600 * sum by (outcome) (rate(batch_pipeline_units_total{{{_POD}}}[15m]))", "{{outcome}}"
                        ),
                    ),
                    stacked=True,
                ),
                Graph(
                    "Leases given back or lost, an hour",
                    "Refunds charge nobody; a lost lease's work is thrown away.",
                    "none",
                    (
                        Query(
                            f"3600 * sum by (reason) (rate(batch_pipeline_refunds_total{{{_POD}}}[15m]))",
                            "refunded: {{reason}}",
                        ),
                        Query(f"3600 * sum(rate(batch_pipeline_leases_lost_total{{{_POD}}}[15m]))", "lost"),
                    ),
                ),
                Table(
                    "Switches",
                    "As they are on the live objects.",
                    Query(f"max by (switch, state) (batch_pipeline_switch_state{{{_POD}}}) == 1"),
                ),
                Table(
                    "Quarantine",
                    "Why this process may no longer be trusted; empty where it may.",
                    Query(f"max by (reason) (batch_pipeline_quarantine{{{_POD}}}) == 1"),
                ),
            ),
        ),
    ),
)
