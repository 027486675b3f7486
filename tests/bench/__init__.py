"""How much of a bare HTTPS server's speed the webhook keeps: `make bench`.

scenarios: policies and recorded reviews; echo: the server to compare with; load: the client that asks both;
__main__: starts the servers, takes turns and prints.
"""
