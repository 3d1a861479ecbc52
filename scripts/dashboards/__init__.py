"""The dashboards, described in a few words; scripts/generate_dashboards.py makes Grafana's JSON of them."""
