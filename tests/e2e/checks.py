# SPDX-License-Identifier: BSD-2-Clause
"""Assertions whose messages say what was expected of what."""

import time


class Failure(AssertionError):
    pass


class Skip(Exception):
    """What the test needs is not there."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: {got}, expected {wanted}")


def close(got, wanted, tolerance, what):
    check(
        abs(got - wanted) <= tolerance * wanted,
        f"{what}: {got}, expected {wanted} ± {tolerance:.0%}",
    )


def until(condition, seconds, what):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"{what}: not within {seconds} s")
        time.sleep(0.02)
