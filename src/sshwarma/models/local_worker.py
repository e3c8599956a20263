"""The process of a local model: llama.cpp's server on a loopback port it picks.

It runs as a file, with the packages of the server's environment but nothing of this program. The
first line of stdin is its configuration as JSON; it writes its port to stdout when it is ready, and
ends when stdin does.
"""

import json
import os
import sys

MAX_CACHE_MIB = 256
"""MiB of the cache of earlier prompts."""


def main() -> int:
    """Serve the model of the configuration until stdin ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # llama.cpp logs to both
    config = json.loads(sys.stdin.readline())
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = config["file"]
    params.n_ctx = config["context_tokens"]
    params.cpuparams.n_threads = config["threads"]
    params.cpuparams_batch.n_threads = config["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [config["key"]]
    params.n_parallel = 1
    params.cache_ram_mib = MAX_CACHE_MIB
    params.use_jinja = True
    params.ui = False
    params.endpoint_slots = False
    for name, value in config["sampling"].items():
        setattr(params.sampling, name, value)
    server = xllamacpp.Server(params)
    answers.write(json.dumps({"url": server.listening_address}) + "\n")
    answers.flush()
    sys.stdin.read()
    os._exit(0)  # the threads of llama.cpp take seconds to end


if __name__ == "__main__":
    sys.exit(main())
