"""A model server of vla-eval with a trivial model, as a program: ``python vla_eval_server.py LOG``; prints its port.

The instruction tells the model what to do; what it was asked is appended to the log, a line of JSON each.
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import numpy as np
from vla_eval.model_servers.predict import PredictModelServer
from vla_eval.model_servers.serve import serve_async

LOG = Path(sys.argv[1])


def log_line(**line: Any) -> None:
    with LOG.open("a") as log:
        log.write(json.dumps(line) + "\n")


class Trivial(PredictModelServer):
    """Walks along x in chunks of four, faster from one chunk to the next; the count belongs to the session."""

    def __init__(self) -> None:
        super().__init__(chunk_size=4)
        self.chunks: dict[str, int] = {}

    def get_observation_params(self) -> dict[str, Any]:
        return json.loads(os.environ["OBSERVATION_PARAMS"])

    async def on_episode_start(self, config: dict[str, Any], ctx: Any) -> None:
        await super().on_episode_start(config, ctx)
        log_line(start=config, session=ctx.session_id)
        if "refused" in config["task"]["name"]:
            raise ValueError("not this task")
        self.chunks[ctx.session_id] = 0

    async def on_episode_end(self, result: dict[str, Any], ctx: Any) -> None:
        await super().on_episode_end(result, ctx)
        log_line(end=result, session=ctx.session_id)

    def predict(self, obs: Any, ctx: Any) -> Any:
        task = obs["task_description"]
        shapes = {name: [*image.shape, int(image.sum())] for name, image in obs["images"].items()}
        states = obs["states"].tolist() if "states" in obs else None
        log_line(session=ctx.session_id, step=ctx.step, task=task, images=shapes, states=states)
        if "raise" in task:
            raise RuntimeError("no memory")
        if "die" in task and ctx.step:
            os._exit(1)
        if "sleep" in task and ctx.step:
            time.sleep(7200)
        if "shape" in task:
            return {"actions": np.zeros(6)}
        if "silent" in task:
            return {"thoughts": 1}
        count = self.chunks[ctx.session_id] = self.chunks[ctx.session_id] + 1
        return {"actions": np.tile([0.01 * count, 0, 0, 0, 0, 0, -0.3 if count == 1 else 0.0], (6, 1))}


async def main() -> None:
    async with anyio.create_task_group() as group:
        port = await group.start(partial(serve_async, Trivial(), "127.0.0.1", 0))
        print(port, flush=True)


anyio.run(main)
