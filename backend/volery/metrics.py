"""Every Prometheus series of Volery, in one place. Labels are bounded: no keys, URIs or owners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

Stage = Literal["admission", "gpu_wait", "worker_flight", "fetch_decode", "publish", "vad", "diarize", "asr"]

# Where stages were measured: on an L4 (the profile `l4`: 28 s a unit, groups of 8) vad takes 1.04 s a group, diarize
# 0.51 with reuse and 0.64 without, asr 0.32 with graphs and 0.44 without, and a GPU section 1.9 s, or 2.6 without
# preparation; a fetch 0.27 and 0.43, a publication 0.2, an admission 0.05 and, in production, 1.49. Edges lie between
# what differs. The long ones: a request to storage may take a minute, a group of 7200 s takes one on an L4 and hours
# on a CPU, where it counts as stuck soon after the last edge.
_STAGE_EDGES = (
    *(0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.2, 1.6, 2.4, 3.2, 5),
    *(10, 30, 60, 120, 300, 900, 1800, 3600, 7200, 14400),
)
STAGE_SECONDS = Histogram(
    "batch_pipeline_stage_seconds",
    "Seconds by stage: admission, gpu_wait and worker_flight (the GPU section) once a flight; "
    "fetch_decode and publish once a unit; vad, diarize and asr once a group.",
    ["stage"],
    buckets=_STAGE_EDGES,
)
UNITS = Counter("batch_pipeline_units", "Units ended by this process.", ["outcome", "result_class"])
AUDIO_SECONDS = Counter("batch_pipeline_audio_seconds", "Audio-seconds of units published.")
LEASES_LOST = Counter("batch_pipeline_leases_lost", "Leases that lapsed or were taken away before publication.")
REFUNDS = Counter("batch_pipeline_refunds", "Leases given back without charging an attempt.", ["reason"])
BUDGET_IN_USE = Gauge("batch_pipeline_decode_budget_in_use_seconds", "Audio-seconds held as preparations.")
BUDGET_LIMIT = Gauge("batch_pipeline_decode_budget_limit_seconds", "Audio-seconds that preparations may hold.")
GPU_BUSY_SECONDS = Counter("batch_pipeline_gpu_busy_seconds", "Seconds in which a group was on the GPU thread.")
GRAPH_CAPTURES = Counter("batch_pipeline_graph_captures", "CUDA graphs captured by the decoder.")
VAD_DISAGREEMENT_SECONDS = Histogram(
    "batch_pipeline_vad_disagreement_seconds",
    "Seconds of a unit that exactly one of the two VAD engines calls speech, for the units that both looked at.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
VAD_RECOVERED = Counter(
    "batch_pipeline_vad_recovered", "Units that the VAD in use calls silent and that the other is sure of."
)
SECOND_VAD_FAILURES = Counter(
    "batch_pipeline_second_vad_failures",
    "Units on which the VAD engine that is not in use failed: they are what they are without it.",
    ["purpose"],
)
SWITCH_STATE = Gauge(
    "batch_pipeline_switch_state",
    "1 for the state that a switch is in, read from the live objects.",
    ["switch", "state"],
)
QUARANTINE = Gauge("batch_pipeline_quarantine", "1 once this process is quarantined.", ["reason"])
REFEREE_DEVICE = Gauge(
    "batch_pipeline_referee_device",
    "1 for the kind of device (cuda or cpu) that the referee's models are on, and why they are there.",
    ["device", "why"],
)
REFEREE_UNITS = Counter(
    "batch_pipeline_referee_units",
    "Units sampled for the referee: audited, dropped because its queue was full, or why one could not be judged.",
    ["outcome"],
)
REFEREE_ESCALATED = Counter("batch_pipeline_referee_escalated", "Audited units that the larger model had to decide.")
REFEREE_DISAGREEMENT = Histogram(
    "batch_pipeline_referee_disagreement",
    "Word error rate of published words against the referee's, after normalisation and escalation, by language code.",
    ["language"],
    buckets=(0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1),
)
REFEREE_QUEUE_UNITS = Gauge("batch_pipeline_referee_queue_units", "Units that wait for the referee.")
REFEREE = CollectorRegistry()
"""What a referee in a process of its own serves: of a worker's other series it would report 0."""

for _series in (REFEREE_DEVICE, REFEREE_UNITS, REFEREE_ESCALATED, REFEREE_DISAGREEMENT, REFEREE_QUEUE_UNITS):
    REFEREE.register(_series)
del _series

QUEUE = CollectorRegistry()
"""What the exporter serves, and no worker: a worker would report 0 of what it does not count."""

READY_UNITS = Gauge("batch_pipeline_ready_units", "Units that could be leased now.", registry=QUEUE)
OLDEST_READY_SECONDS = Gauge(
    "batch_pipeline_oldest_ready_seconds", "Age of the oldest unit that could be leased now.", registry=QUEUE
)
UNITS_IN_STATE = Gauge("batch_pipeline_units_in_state", "Units in the job store, by state.", ["state"], registry=QUEUE)
STORE_REACHABLE = Gauge(
    "batch_pipeline_store_reachable",
    "1 while the job store answers the exporter, else 0; what it last said of the queue is then NaN.",
    registry=QUEUE,
)


@contextmanager
def stage(name: Stage) -> Iterator[None]:
    """Observe the enclosed block as one run of a stage."""
    started = perf_counter()
    try:
        yield
    finally:
        STAGE_SECONDS.labels(name).observe(perf_counter() - started)
