"""nginx as a static file server in a folder of its own."""

import getpass
from pathlib import Path

from benchmarks.tools import find

# All its files are in the folder, so that it runs as any user and beside any other nginx.
# Otherwise as its manual advises for many requests of few files: one worker, no log, cached
# descriptors, no limit of requests per connection.
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
    """Write a configuration that serves the files of a folder, and return the command."""
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
