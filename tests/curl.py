"""curl commands of documents, sent to an application in this process."""

import shlex
from urllib.parse import urlsplit

import httpx

from tests.client import Client


def sent(command: str, client: Client) -> httpx.Response:
    """Send the request of a curl command with -s, -o, -H and -d."""
    program, *words = shlex.split(command)
    assert program == "curl"
    headers: dict[str, str] = {}
    body, url = None, ""
    while words:
        word = words.pop(0)
        if word == "-H":
            name, _, value = words.pop(0).partition(": ")
            headers[name] = value
        elif word == "-d":
            body = words.pop(0)
        elif word == "-o":
            words.pop(0)
        elif word != "-s":
            split = urlsplit(word)
            assert split.netloc == "127.0.0.1:8000", command
            url = f"{split.path}?{split.query}"
    if body is None:
        return client.request("GET", url, headers=headers)
    return client.post(url, content=body, headers=headers)
