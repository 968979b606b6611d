"""The contract between gateways and workers: messages, protocols, transports."""
