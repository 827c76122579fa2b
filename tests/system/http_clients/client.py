"""python client.py requests|httpx|urllib URL: send the requests of standard input."""

import json
import sys
import urllib.error
import urllib.request

import httpx
import requests


def with_urllib(method: str, url: str, headers: dict[str, str], body: str) -> tuple[int, bytes]:
    data = body.encode() or None
    try:
        request = urllib.request.Request(url, data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def main(library: str, url: str) -> None:
    with requests.Session() as session, httpx.Client() as client:
        for line in sys.stdin:
            method, target, fields, body = line.rstrip("\n").split("\t")
            headers = dict(each.split(": ") for each in fields.split("|") if each)
            if library == "requests":
                sent = session.request(method, url + target, headers=headers, data=body)
                status, content = sent.status_code, sent.content
            elif library == "httpx":
                answer = client.request(method, url + target, headers=headers, content=body)
                status, content = answer.status_code, answer.content
            else:
                status, content = with_urllib(method, url + target, headers, body)
            sys.stdout.write(json.dumps({"status": status, "body": content.hex()}) + "\n")


main(*sys.argv[1:])
