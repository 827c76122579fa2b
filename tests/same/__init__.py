"""The answers of the service, compared with a record of them.

``tests/data/same_requests.json`` lists the requests, ``tests/data/same.json`` what each is answered
with: the status, and a hash of the headers and one of the body. Prose is left out of both, so that
an answer may be worded anew. Nothing here knows the service but for its application and its
settings: whatever is moved within it, the same requests are compared.
"""
