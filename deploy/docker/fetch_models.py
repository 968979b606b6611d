#!/opt/florilege/bin/python
"""fetch-models MODEL...: put hub models into $HF_HOME, as a worker looks for them.

Beside them a manifest, SHA256SUMS: `cd $HF_HOME && sha256sum --check --strict --quiet SHA256SUMS`.
The only thing in the images that uses the hub: run it with HF_HUB_OFFLINE=0.
"""

import hashlib
import os
import sys
from pathlib import Path

from checkpoint.errors import CheckpointError
from checkpoint.find import find_model


def main(models: list[str]) -> None:
    home = Path(os.environ["HF_HOME"])
    for model in models:
        try:
            found = find_model(model)
        except CheckpointError as error:
            sys.exit(str(error))
        print(f"{found.id} {found.revision}", flush=True)
    manifest = home / "SHA256SUMS"
    new = manifest.with_suffix(".new")
    new.write_text("".join(f"{digest(path)}  {path.relative_to(home)}\n" for path in files(home)))
    new.replace(manifest)


def files(home: Path) -> list[Path]:
    """What a worker reads: the snapshots' files, by the names that point at them."""
    return sorted(path for path in home.glob("hub/*/snapshots/**/*") if path.is_file())


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1:])
