"""The OpenAPI document: components that operations share, and the operations."""
