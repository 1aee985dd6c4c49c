"""Striped files: one file over several directories or devices.

`dio.open` and all else take them by name.
"""

from __future__ import annotations

import os

from . import _dio


def create(path, targets, *, stripe=None, count=None, force=False):
    """Makes an empty striped file with an object in each of the `targets`, which are directories or
    block devices.

    `stripe` is the number of bytes that lie together in one object, a multiple of 4096; `count` the
    number of objects. With `force`, devices that hold data are used, and the data are lost.
    """
    listed = [os.fsdecode(target) for target in targets]
    _dio.stripe_create(os.fsdecode(path), listed, stripe, count, force)


def inspect(path):
    """Size, stripe and objects of a striped file, and what is wrong with them.

    None for any other file.
    """
    return _dio.stripe_inspect(os.fsdecode(path))
