"""Which settings each command takes. In the environment every command knows them all."""

from cli.settings import Settings

ENGINE = (
    *("model", "device", "dtype", "kernels", "cpu_kernels", "attention_backend", "graphs"),
    *("self_test", "max_batch_tokens", "max_batch_sequences", "watchdog_s"),
    *("max_input_tokens", "matryoshka", "task", "calibration", "token_input", "cache_dir"),
)
REDIS = tuple(name for name in Settings.model_fields if name.startswith("redis_"))
PROCESS = ("admin_host", "admin_port", "drain_s", "log_level", "trace_endpoint")

ALL = tuple(Settings.model_fields)
SERVE = tuple(name for name in ALL if name not in (*REDIS, "ready_when", "reuse_port"))
# Of a worker's settings one is a gateway's too: it cuts requests into jobs of so many sequences.
GATEWAY = tuple(name for name in ALL if name not in ENGINE or name == "max_batch_sequences")
WORKER = (*ENGINE, *REDIS, *PROCESS)
