#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""SV1 miners on loopback that find and submit real shares. usage: miner.py PORT MINERS RATE
RATE: shares per second and miner. Lines on stdin: `pause` (answered when no share waits for its
answer), `resume`, `stats`; its end ends the miners. The answer is one line of JSON, the counts."""

import asyncio
import hashlib
import json
import random
import struct
import sys
import time

DIFFICULTY_1 = 0xFFFF << 208
HASHES_AT_MOST = 4000


def sha256d(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def words_swapped(text):
    raw = bytes.fromhex(text)
    return b"".join(raw[i : i + 4][::-1] for i in range(0, 32, 4))


class Stats:
    def __init__(self):
        self.connected = self.submitted = self.accepted = self.rejected = self.unsolved = 0
        self.latency_s = 0.0
        self.reasons = {}


class Miner:
    def __init__(self, number, running, stats):
        self.name, self.running, self.stats = f"user.w{number}", running, stats
        self.job = self.difficulty = None
        self.extranonce1, self.extranonce2_size = b"", 4
        self.extranonce2 = random.getrandbits(24)
        self.waiting = {}  # id of a submit: when
        self.next_id = 100

    def send(self, ident, method, params):
        self.to.write(
            json.dumps({"id": ident, "method": method, "params": params}).encode() + b"\n"
        )

    async def connect(self, port):
        self.from_, self.to = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        self.stats.connected += 1
        mask = {"version-rolling.mask": "1fffe000", "version-rolling.min-bit-count": 2}
        self.send(1, "mining.configure", [["version-rolling"], mask])
        self.send(2, "mining.subscribe", ["lab/1.0"])
        self.send(3, "mining.authorize", [self.name, "x"])

    def take_answer(self, message):
        self.stats.latency_s += time.monotonic() - self.waiting.pop(message["id"])
        if message.get("result") is True:
            self.stats.accepted += 1
            return
        self.stats.rejected += 1
        reason = str(message.get("error"))[:80]
        self.stats.reasons[reason] = self.stats.reasons.get(reason, 0) + 1

    async def read(self):
        while line := await self.from_.readline():
            message = json.loads(line)
            method, params = message.get("method"), message.get("params")
            if method == "mining.notify":
                self.job = params
            elif method == "mining.set_difficulty":
                self.difficulty = float(params[0])
            elif method == "mining.set_extranonce":
                self.extranonce1, self.extranonce2_size = bytes.fromhex(params[0]), params[1]
            elif message.get("id") == 2:
                self.extranonce1, self.extranonce2_size = (
                    bytes.fromhex(message["result"][1]),
                    message["result"][2],
                )
            elif message.get("id") in self.waiting:
                self.take_answer(message)
        self.stats.connected -= 1

    def solve(self, job):
        """(extranonce2, nonce) that meet the difficulty, or None."""
        _, prev_hash, coinbase1, coinbase2, branches, version, bits, ntime = job[:8]
        self.extranonce2 += 1
        size = min(self.extranonce2_size, 4)
        extranonce2 = (self.extranonce2 % (1 << 8 * size)).to_bytes(self.extranonce2_size, "big")
        root = sha256d(
            bytes.fromhex(coinbase1) + self.extranonce1 + extranonce2 + bytes.fromhex(coinbase2)
        )
        for branch in branches:
            root = sha256d(root + bytes.fromhex(branch))
        header = (
            bytes.fromhex(version)[::-1]
            + words_swapped(prev_hash)
            + root
            + bytes.fromhex(ntime)[::-1]
            + bytes.fromhex(bits)[::-1]
        )
        target = DIFFICULTY_1 / self.difficulty if self.difficulty > 0 else 1 << 256
        first = hashlib.sha256(header[:64])
        for nonce in range(HASHES_AT_MOST):
            hashed = first.copy()
            hashed.update(header[64:76] + struct.pack("<I", nonce))
            if int.from_bytes(hashlib.sha256(hashed.digest()).digest(), "little") <= target:
                return extranonce2.hex(), nonce
        return None

    async def mine(self, rate):
        due = time.monotonic() + random.random() / rate
        while True:
            await self.running.wait()
            await asyncio.sleep(due - time.monotonic())
            due = max(due + 1 / rate, time.monotonic() - 1)
            if not self.running.is_set() or self.job is None or self.difficulty is None:
                continue
            job = self.job
            solved = self.solve(job)
            if not solved:
                self.stats.unsolved += 1
                continue
            self.next_id += 1
            self.waiting[self.next_id] = time.monotonic()
            self.stats.submitted += 1
            self.send(
                self.next_id,
                "mining.submit",
                [self.name, job[0], solved[0], job[7], "%08x" % solved[1], "00000000"],
            )
            await self.to.drain()


async def commands():
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().strip()


async def main(port, count, rate):
    running, stats = asyncio.Event(), Stats()
    running.set()
    miners = [Miner(n, running, stats) for n in range(count)]
    tasks = []
    for miner in miners:
        await miner.connect(port)
        tasks += [asyncio.create_task(miner.read()), asyncio.create_task(miner.mine(rate))]
        await asyncio.sleep(0.02)
    async for command in commands():
        if command == "resume":
            running.set()
        elif command == "pause":
            running.clear()
            end = time.monotonic() + 10
            while any(m.waiting for m in miners) and time.monotonic() < end:
                await asyncio.sleep(0.01)
        waiting = sum(len(m.waiting) for m in miners)
        print(json.dumps({**vars(stats), "waiting": waiting}), flush=True)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])))
