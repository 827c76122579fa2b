"""Use the generated client, and print what it made of each answer as one JSON object."""

import base64
import json
import sys

from posref_client import Client
from posref_client.api.encoding import get_encoding
from posref_client.api.rope import get_rope, get_rope_as, post_rope_apply, post_rope_config
from posref_client.models import (
    Config,
    Extension,
    Pack,
    Problem,
    RopeApplyLayout,
    RopeApplyRequest,
    RopeConfigReport,
    Table,
    Tables,
)
from posref_client.types import File

client = Client(sys.argv[1])

table = get_encoding.sync(client=client, seq_len=2, d_model=4)
assert isinstance(table, Table)
tables = get_rope.sync(client=client, head_dim=4, seq_len=2, pack=Pack.HALF)
assert isinstance(tables, Tables)
file = get_rope_as.sync(Extension.NPY, client=client, head_dim=4, seq_len=2)
assert isinstance(file, File)
problem = get_rope.sync(client=client, head_dim=5, seq_len=2)
assert isinstance(problem, Problem)
body = RopeApplyRequest(x=[[1, 2, 3, 4], [5, 6, 7, 8]])
rotated = post_rope_apply.sync(client=client, body=body, layout=RopeApplyLayout.HALF)
assert isinstance(rotated, Table)
config = Config.from_dict(json.loads(sys.argv[2]))
report = post_rope_config.sync(client=client, body=config)
assert isinstance(report, RopeConfigReport)
settings = report.rope["default"]

told = {
    "table": {"shape": table.shape, "dtype": table.dtype, "data": table.data},
    "tables": {
        "layout": tables.layout,
        "shapes": tables.shapes.to_dict(),
        "data": tables.data.to_dict(),
    },
    "file": base64.b64encode(file.payload.read()).decode(),
    "problem": {"status": problem.status, "parameter": problem.errors[0].parameter},
    "rotated": rotated.data,
    "config": {"rope_theta": settings.rope_theta, "links": [settings.table, settings.file]},
}
sys.stdout.write(json.dumps(told))
