"""The name of a process that no later process can be given: its host, id and start time."""

from __future__ import annotations

import os
import socket

import psutil


def process_name() -> str:
    """Of this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def process_lives(name: str) -> bool:
    """Whether the process of that name lives; one on another host is taken to live, since nobody here can tell."""
    host, pid, started = name.rsplit(":", 2)
    if host != socket.gethostname():
        return True
    try:
        process = psutil.Process(int(pid))
        return f"{process.create_time():.2f}" == started and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
