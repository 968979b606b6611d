"""Suites that start what they measure: Redis, gateways, and workers on simulated devices."""
