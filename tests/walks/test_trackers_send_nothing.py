"""MLflow and Weights & Biases send nothing unless the config asks for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path


def test_nothing_is_sent(tmp_path: Path) -> None:
    """All requests would go to this proxy."""
    connections: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                connections.append(connection.recv(100))
                connection.close()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        proxy = f"http://127.0.0.1:{server.getsockname()[1]}"
        variables = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy)
        kept = {
            name: value for name, value in os.environ.items()
            if not name.upper().startswith(("MLFLOW", "WANDB", "PYTEST", "CI", "DO_NOT_TRACK", "NO_PROXY"))
        }  # fmt: skip
        kept |= {f"WANDB_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "CACHE", "DATA")}
        sets = [word for value in ["name=tracked", "training.epochs=1", "data.n_train=40", "logging.mlflow=true", "logging.wandb=true"]
                for word in ("--set", value)]  # fmt: skip
        (tmp_path / "c.yaml").write_text("seed: 23")
        subprocess.run(
            [sys.executable, "-m", "seqattn", "train", "c.yaml", *sets, "--quiet"],
            check=True, cwd=tmp_path, env={**kept, **variables},
        )  # fmt: skip
        assert (tmp_path / "outputs/mlflow.db").exists()
        assert [*(tmp_path / "outputs/tracked/wandb").glob("offline-run-*/*.wandb")]
        assert connections == []
