"""Compare the answers of the service with a record of them.

``tests/data/same_requests.json`` lists the requests, ``tests/data/same.json`` has for each the
status and hashes of headers and body, both without prose. Nothing here depends on the service but
its application and its settings, so that the same requests compare any two versions.
"""
