"""Models and nothing but models: VAD, segmentation, diarization, ASR. Synchronous."""

import os

# The models' threads share their CPUs with those that fetch and decode. Threads that spin while they wait
# for each other then slow everything many times over; libgomp reads this once, when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Libraries that report home do so unless they are told not to before they are imported: audio is nobody else's matter.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
os.environ.setdefault("PYANNOTE_METRICS_ENABLED", "false")
