"""All parts, in the order of a run: what the others rest on comes first."""

from bench.gpu.parts import (
    agreement,
    attention,
    clients,
    forwards,
    graphs,
    kernels,
    latencies,
    machine,
    peer,
    products,
)
from bench.gpu.parts.part import Part, at_once, by_model

_ALL = (
    Part("machine", "The machine", 10, at_once(machine.measure)),
    Part("attention", "Attention", 70, at_once(attention.measure)),
    Part("products", "Products of few tokens", 20, at_once(products.measure)),
    Part("agreement", "Agreement", 90, by_model(agreement.measure)),
    Part("forwards", "Forwards", 95, by_model(forwards.measure)),
    Part("graphs", "Memory of graphs", 15, by_model(graphs.measure)),
    Part("latencies", "Latencies", 15, at_once(latencies.measure)),
    Part("peer", "Beside sentence-transformers", 55, by_model(peer.measure)),
    Part("clients", "Four clients", 40, by_model(clients.measure)),
    Part("kernels", "Kernels", 15, by_model(kernels.measure)),
)
PARTS = {part.name: part for part in _ALL}
