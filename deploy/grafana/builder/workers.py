"""Workers and their devices: load, faults, graphs, memory; and the processes of all."""

from deploy.grafana.builder.dashboard import Dashboard, Row
from deploy.grafana.builder.expressions import BOTH, PROCESS, own, quantile, rate, ratio, shared
from deploy.grafana.builder.panel import Panel, Query

_NO_WORKER = "No worker is scraped"
_NO_GPU = "No GPU is scraped"
_CPU_WORKER = "a worker on a CPU has none"
_ONE = "{{instance}} {{model}}"
_GPU = "{{instance}} GPU {{gpu}}"
# Every gateway counts the same changes.
_CHANGES = f"max by (model) (rate(florilege_model_changes_total{{{BOTH}}}[$__rate_interval]))"

WORKERS_ROW = Row(
    "Workers",
    (
        Panel(
            "Live workers",
            "By model, as gateways see their heartbeats.",
            "short",
            (Query(shared("live_workers", "model"), "{{model}}"),),
            "No gateway knows a model",
        ),
        Panel(
            "Busy share of the device",
            "Device time of batches by time. Above 1: two steps in flight.",
            "percentunit",
            (Query(rate("batch_duration_seconds_sum", "instance"), "{{instance}}"),),
            _NO_WORKER,
        ),
        Panel(
            "Tokens by worker",
            "Tokens a second that ran on each device, padding included.",
            "si:tok/s",
            (Query(rate("batch_tokens_sum", "instance, model"), _ONE),),
            _NO_WORKER,
            stacked=True,
        ),
        Panel(
            "Models",
            "What each worker serves, and how.",
            "none",
            (Query(own("model_info")),),
            _NO_WORKER,
            kind="table",
        ),
        Panel(
            "Tokens a batch may hold",
            "Halved after a batch that the memory was too small for, doubled again later.",
            "si:tok",
            (Query(own("batch_budget_tokens"), _ONE),),
            _NO_WORKER,
        ),
        Panel(
            "Faults",
            "A second. Out of memory: the batch ran in halves. Split: to find the input at "
            "fault. Not finite: rows with NaN or infinity.",
            "ops",
            (
                Query(rate("oom_total", "model"), "{{model}} out of memory"),
                Query(rate("batch_bisect_total", "model"), "{{model}} split"),
                Query(rate("non_finite_total", "model"), "{{model}} not finite"),
            ),
            _NO_WORKER,
        ),
        Panel(
            "Differences between workers",
            "Announcements a second that were unlike the one before. Rises for as long as the "
            "workers of a model differ in weights, dtype or limits.",
            "ops",
            (Query(_CHANGES, "{{model}}"),),
            "No gateway knows a model",
        ),
        Panel(
            "Misranked known pair",
            "1: a reranker put a known pair in the wrong order at its start.",
            "none",
            (Query(own("misranked_known_pair"), _ONE),),
            _NO_WORKER,
            most=1,
        ),
    ),
)

GRAPHS = Row(
    "CUDA graphs",
    (
        Panel(
            "Steps replayed",
            "Share of an accelerator's steps that replayed a graph. Large steps never do: their "
            "launch costs nothing that counts.",
            "percentunit",
            (
                Query(
                    ratio(
                        rate("graph_replays_total", "model"),
                        f"{rate('graph_replays_total', 'model')}"
                        f" + {rate('graph_misses_total', 'model')}",
                    ),
                    "{{model}}",
                ),
            ),
            _NO_GPU,
            most=1,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "Replays by bucket",
            "A second, by padded tokens.",
            "ops",
            (Query(rate("graph_replays_total", "bucket"), "{{bucket}}"),),
            _NO_GPU,
            stacked=True,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "Captures and evictions",
            "A second. Steady evictions: more configurations are in use than memory has room for.",
            "ops",
            (
                Query(rate("graph_captures_total", "model"), "{{model}} captured"),
                Query(rate("graph_capture_failures_total", "model"), "{{model}} failed"),
                Query(rate("graph_evictions_total", "model"), "{{model}} evicted"),
            ),
            _NO_WORKER,
        ),
        Panel(
            "Graphs",
            "That can be replayed.",
            "short",
            (Query(own("graphs"), _ONE),),
            _NO_GPU,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "Memory of graphs",
            "Device memory that graphs keep.",
            "bytes",
            (Query(own("graph_bytes"), _ONE),),
            _NO_GPU,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "Memory of the model's device",
            "In use by anyone, and what it has.",
            "bytes",
            (
                Query(own("device_used_bytes"), f"{_ONE} used"),
                Query(own("device_total_bytes"), f"{_ONE} total"),
            ),
            _NO_GPU,
            empty_ok=_CPU_WORKER,
        ),
    ),
)

GPUS = Row(
    "GPUs, as NVML tells",
    (
        Panel(
            "GPU utilization",
            "Share of time in which any kernel ran: it saturates long before the GPU does.",
            "percentunit",
            (Query(own("gpu_utilization_ratio", PROCESS), _GPU),),
            _NO_GPU,
            most=1,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "GPU memory",
            "Used, reserved by the driver, and what the GPU has.",
            "bytes",
            (
                Query(own("gpu_memory_used_bytes", PROCESS), f"{_GPU} used"),
                Query(own("gpu_memory_reserved_bytes", PROCESS), f"{_GPU} reserved"),
                Query(own("gpu_memory_total_bytes", PROCESS), f"{_GPU} total"),
            ),
            _NO_GPU,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "GPU power",
            "Drawn by each board.",
            "watt",
            (Query(own("gpu_power_watts", PROCESS), _GPU),),
            _NO_GPU,
            empty_ok=_CPU_WORKER,
        ),
        Panel(
            "Memory errors",
            "Errors that ECC could not correct, in the time shown.",
            "short",
            (
                Query(
                    "sum by (instance, gpu) "
                    f"(increase(florilege_gpu_ecc_errors_total{{{PROCESS}}}[$__range]))",
                    _GPU,
                ),
            ),
            _NO_GPU,
            steps=((None, "green"), (1, "red")),
            empty_ok=_CPU_WORKER,
        ),
    ),
)

PROCESSES = Row(
    "Processes of gateways and workers",
    (
        Panel(
            "CPU",
            "Cores in use.",
            "short",
            (
                Query(
                    "sum by (instance) (rate(process_cpu_seconds_total"
                    '{instance=~"$instance", job=~".*florilege.*"}[$__rate_interval]))',
                    "{{instance}}",
                ),
            ),
            "No process is scraped",
        ),
        Panel(
            "Memory",
            "Resident.",
            "bytes",
            (
                Query(
                    'process_resident_memory_bytes{instance=~"$instance", job=~".*florilege.*"}',
                    "{{instance}}",
                ),
            ),
            "No process is scraped",
        ),
        Panel(
            "Open files",
            "Connections among them, by what the process may open.",
            "percentunit",
            (
                Query(
                    'process_open_fds{instance=~"$instance", job=~".*florilege.*"}'
                    ' / process_max_fds{instance=~"$instance", job=~".*florilege.*"}',
                    "{{instance}}",
                ),
            ),
            "No process is scraped",
            most=1,
        ),
        Panel(
            "Uptime",
            "Since each process began.",
            "s",
            (
                Query(
                    "time() - process_start_time_seconds"
                    '{instance=~"$instance", job=~".*florilege.*"}',
                    "{{instance}}",
                ),
            ),
            "No process is scraped",
        ),
        Panel(
            "Lag of the event loop",
            "How late 99 of 100 wake-ups came at most. All requests of a process wait as long.",
            "s",
            (
                Query(
                    quantile(0.99, "loop_lag_seconds", "instance", PROCESS),
                    "{{instance}}",
                ),
            ),
            "No process is scraped",
        ),
    ),
)

WORKERS = Dashboard(
    "workers",
    "Workers and GPU",
    "Workers and their devices: load, faults, graphs, memory; and the processes of all.",
    (WORKERS_ROW, GRAPHS, GPUS, PROCESSES),
)
