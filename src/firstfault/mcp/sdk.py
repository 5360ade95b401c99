"""What is taken from the SDK of the protocol, under one name for both of its generations."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = (("mcp.server.mcpserver", "MCPServer"), ("mcp.server.fastmcp", "FastMCP"))
"""Module and class of the server: from version 2 on, and before."""


def _loaded() -> tuple[Any, type[Exception]]:
    for place, name in _PLACES:
        try:
            module = import_module(place)
        except ModuleNotFoundError as error:
            if not place.startswith(error.name or "?"):
                raise
            continue
        return getattr(module, name), import_module(f"{place}.exceptions").ToolError
    raise ModuleNotFoundError("the SDK has no server that is known here", name="mcp")


Server, ToolError = _loaded()
"""The class of the server, and what a tool raises whose message the caller may read."""
