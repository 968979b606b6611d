"""Writes into values.schema.json what `settings` of gateways and workers may say.

A name that is no flag would stop the process at its start: so Helm refuses it before. `make docs`
runs this; a test holds the file true.
"""

import json
from pathlib import Path
from typing import Any

from cli.flags import GATEWAY, WORKER
from cli.settings import SECRETS, Settings, flag_of

SCHEMA = Path(__file__).parent / "florilege" / "values.schema.json"

# What the chart says itself, of its own values: addresses, files, volumes.
OWN = {
    *("model", "device", "host", "port", "admin_host", "admin_port", "drain_s"),
    *("model_config_", "data_dir", "cache_dir"),
    *("redis_tls_ca_file", "redis_tls_cert_file", "redis_tls_key_file"),
    *SECRETS,
}


def settings_of(names: tuple[str, ...]) -> dict[str, Any]:
    """A schema of the flags among these settings, without their dashes."""
    known = Settings.model_json_schema()["properties"]
    properties = {
        flag_of(name).removeprefix("--"): _schema_of(known[name])
        for name in names
        if name not in OWN
    }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _schema_of(field: dict[str, Any]) -> dict[str, Any]:
    told = {key: value for key, value in field.items() if key not in ("title", "default")}
    told.pop("format", None)
    return told


def with_settings(schema: dict[str, Any]) -> dict[str, Any]:
    settings = {"gatewaySettings": settings_of(GATEWAY), "workerSettings": settings_of(WORKER)}
    return schema | {"$defs": schema["$defs"] | settings}


def text_of(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(text_of(with_settings(json.loads(SCHEMA.read_text()))))
