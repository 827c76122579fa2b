"""nginx as a static file server, set up for nothing else, in a folder of its own."""

import getpass
from pathlib import Path

from benchmarks.tools import find

# Everything that nginx writes or opens is in the folder, so that it runs as anyone and beside any
# other nginx. The rest is what its manual advises for many requests of few files: one worker, no
# log, descriptors kept open, connections that are never closed for their number of requests.
_CONFIGURATION = """\
daemon off;
user {user};
worker_processes 1;
pid {folder}/nginx-{port}.pid;
error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  default_type application/x-npy;
  sendfile {sendfile};
  open_file_cache max=100 inactive=1h;
  open_file_cache_valid 1h;
  keepalive_requests 1000000000;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  fastcgi_temp_path {folder}/nginx-fastcgi;
  uwsgi_temp_path {folder}/nginx-uwsgi;
  scgi_temp_path {folder}/nginx-scgi;
  server {{
    listen {host}:{port};
    root {folder};
  }}
}}
"""


def command(host: str, port: int, folder: Path, *, sendfile: bool) -> list[str]:
    """Write the configuration of an nginx that serves the files of a folder; gives its command."""
    configuration = folder / f"nginx-{port}.conf"
    configuration.write_text(
        _CONFIGURATION.format(
            user=getpass.getuser(),
            folder=folder,
            host=host,
            port=port,
            sendfile="on" if sendfile else "off",
        ),
        encoding="utf-8",
    )
    return [find("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(configuration)]
