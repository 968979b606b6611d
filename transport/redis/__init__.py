"""Jobs over Redis Streams: any number of gateways and workers, on one or several hosts."""
