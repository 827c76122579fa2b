"""Write which bodies of the libraries were reviewed, as they stand in the facts.

    python -m tests.data.reviewed_bodies NAME …

After ``make facts`` with another library, tests/models/test_facts.py fails for each class and
function whose body is another one, with the types that have it. Read it, mend what the entries say
of it, then name it here (``transformers qwen2_vl.Qwen2VLModel.get_rope_index``, or a library alone
for all of its bodies).
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOCK = Path(__file__).with_suffix(".json")
FACTS = Path(__file__).parents[2] / "service" / "models" / "facts"


def bodies_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the hash of each class and function."""
    return {name: body for body, names in facts["bodies"].items() for name in names}


def unreviewed(facts: Mapping[str, Any], lock: Mapping[str, str]) -> dict[str, list[str]]:
    """Return each class and function whose body is not the reviewed one, with its types."""
    changed = {name: body for name, body in bodies_of(facts).items() if lock.get(name) != body}
    changed |= dict.fromkeys(lock.keys() - bodies_of(facts).keys(), "")
    used = {
        name: {*fact.get("functions", {}).values(), *(each["body"] for each in fact["modules"])}
        for name, fact in facts["types"].items()
    }
    return {
        name: [kind for kind, hashes in used.items() if body in hashes]
        for name, body in changed.items()
    }


def main(library: str, *names: str) -> None:
    """Note the bodies of a library, or of some of its names, as reviewed."""
    lock = json.loads(LOCK.read_text()) if LOCK.exists() else {}
    (path,) = FACTS.glob(f"{library}-*.json")
    bodies, own = bodies_of(json.loads(path.read_bytes())), lock.get(library, {})
    chosen = {name: bodies.get(name) for name in names} if names else bodies
    kept = {**own, **chosen} if names else chosen
    lock[library] = {name: body for name, body in sorted(kept.items()) if body}
    LOCK.write_text(json.dumps(lock, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
