#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Holds the direction of the arrows: which room may include whose headers.

    tests/arrows.py [TREE]      names every #include that points back; exit 1 when there is one
    tests/arrows.py --test      plants one violation of each kind in a copy and sees it named

Ends with "N passed, N failed". Knows nothing of C but its #include lines.
"""
import pathlib
import re
import shutil
import sys
import tempfile

# A room and the rooms whose headers it may include, besides its own.
# include/roletrace: "abi" are the types shared with BPF, "hist" the bucket maths.
ARROWS = {
    "base": [],
    "options": ["base"],
    "target": ["base"],
    "symbols": ["base"],
    "plan": ["symbols", "base", "abi", "hist"],
    "attach": ["plan", "target", "base", "abi", "hist", "bpf"],
    "collect": ["attach", "plan", "target", "snapshot", "base", "abi", "hist", "bpf"],
    "snapshot": ["base", "hist"],
    "export": ["snapshot", "base", "hist"],
    "ui": ["snapshot", "base", "hist"],
    "serve": ["snapshot", "base", "hist"],
    "main": ["options", "base", "target", "symbols", "plan", "attach", "collect", "snapshot",
             "export", "ui", "serve", "abi", "hist"],
    "include": ["abi", "hist"],
    "programs": ["abi", "hist"],  # bpf/
}

# Headers of libraries, and the only places that may include them.
LIBRARIES = [
    ("libbpf", r"^(bpf/(?!bpf_(helpers|tracing|core_read|endian)\.h)|linux/bpf)|\.skel\.h$", ["attach/", "collect/"]),
    ("BPF helpers", r"^bpf/bpf_(helpers|tracing|core_read|endian)\.h$", ["bpf/"]),
    ("libelf, libdw", r"^(libelf|gelf|nlist|dwarf)\.h$|^elfutils/", ["symbols/"]),
    ("libiberty", r"^(libiberty/)?(libiberty|demangle)\.h$", ["symbols/"]),
    ("jansson", r"^jansson\.h$", ["snapshot/read"]),
    ("protobuf-c", r"^protobuf-c/|\.pb-c\.h$", ["export/pprof.c"]),
    ("Zydis", r"^(Zydis|Zycore)/", ["plan/insn.c"]),
]

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.M)


def place(path):
    """daemon/plan/insn.c -> (plan, plan/insn.c); bpf/a.c -> (programs, bpf/a.c)"""
    top, rest = path.parts[0], path.parts[1:]
    if top == "bpf":
        return "programs", str(path)
    if top == "include":
        return "include", str(path)
    if len(rest) > 1:
        return rest[0], "/".join(rest)
    stem = rest[0].split(".")[0].split("_")[0]  # daemon/options.c, options_table.c, main.c
    return (stem if stem in ARROWS else "main"), rest[0]


def room_of_header(name, path, tree):
    """The room that an include names, or None for the system's and a library's headers."""
    if name.endswith(".skel.h"):
        return "bpf"
    if name.startswith("roletrace/"):
        return "hist" if name == "roletrace/hist.h" else "abi"
    for base in (path.parent, pathlib.Path("daemon"), pathlib.Path("include"), pathlib.Path("bpf")):
        found = base / name
        if (tree / found).is_file():
            room, _ = place(pathlib.Path(*normal(found.parts)))
            if room == "include":
                return "hist" if found.name == "hist.h" else "abi"
            return "bpf" if room == "programs" else room
    return None


def normal(parts):
    out = []
    for part in parts:
        if part == ".." and out:
            out.pop()
        elif part != ".":
            out.append(part)
    return out


def violations(tree):
    files = 0
    wrong = []
    for path in sorted(p for top in ("daemon", "include", "bpf") for p in (tree / top).rglob("*.[ch]")):
        path = path.relative_to(tree)
        room, where = place(path)
        files += 1
        if room not in ARROWS:
            wrong.append(f"{path}: '{room}' is no room; a new one has its row in tests/arrows.py")
            continue
        text = (tree / path).read_text(errors="replace")
        for match in INCLUDE.finditer(text):
            name = match[2]
            line = text.count("\n", 0, match.start()) + 1
            for library, pattern, places in LIBRARIES:
                if re.search(pattern, name) and not where.startswith(tuple(places)):
                    wrong.append(f"{path}:{line}: <{name}>: only {', '.join(places)} know {library}")
            header = room_of_header(name, path, tree)
            own = {room, "bpf" if room == "programs" else room}
            if header and header not in own and header not in ARROWS[room]:
                wrong.append(f"{path}:{line}: \"{name}\": {room} must not know {header}")
    return files, wrong


# file, what is added to it, what the complaint must say
PLANTED = [
    ("daemon/base/planted.c", '#include "plan/plan.h"', "base must not know plan"),
    ("daemon/base/planted.c", '#include "roletrace/abi.h"', "base must not know abi"),
    ("daemon/options/planted.c", '#include "plan/plan.h"', "options must not know plan"),
    ("daemon/options_planted.c", '#include "plan/plan.h"', "options must not know plan"),
    ("daemon/target/planted.c", '#include "../plan/plan.h"', "target must not know plan"),
    ("daemon/symbols/planted.h", '#include "roletrace/abi.h"', "symbols must not know abi"),
    ("daemon/plan/planted.c", "#include <gelf.h>", "know libelf"),
    ("daemon/plan/planted.c", "# include <Zydis/Zydis.h>", "know Zydis"),
    ("daemon/export/planted.c", "#include <jansson.h>", "know jansson"),
    ("daemon/export/planted.c", '#include "pprof.pb-c.h"', "know protobuf-c"),
    ("daemon/plan/planted.c", '#include "attach/planted.h"', "plan must not know attach"),
    ("daemon/plan/planted.c", "#include <bpf/libbpf.h>", "know libbpf"),
    ("daemon/export/planted.c", '#include "functions.skel.h"', "export must not know bpf"),
    ("daemon/export/planted.c", '#include "plan/plan.h"', "export must not know plan"),
    ("daemon/snapshot/planted.c", '#include "plan/plan.h"', "snapshot must not know plan"),
    ("daemon/attach/planted.c", '#include "snapshot/snapshot.h"', "attach must not know snapshot"),
    ("daemon/ui/planted.c", "#include <elfutils/libdw.h>", "know libelf"),
    ("daemon/collect/planted.c", '#include "ui/planted.h"', "collect must not know ui"),
    ("daemon/gossip/planted.c", "", "is no room"),
    ("bpf/planted.bpf.c", '#include "plan/plan.h"', "programs must not know plan"),
]


def test(tree):
    """Every planted violation is named: the number of those that are not."""
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        copy = pathlib.Path(tmp) / "tree"
        for top in ("daemon", "include", "bpf"):
            shutil.copytree(tree / top, copy / top, ignore=lambda d, names: [
                n for n in names if "." in n and not n.endswith((".c", ".h"))])
        for header in ("attach", "ui"):
            (copy / "daemon" / header).mkdir(exist_ok=True)
            (copy / "daemon" / header / "planted.h").write_text("")
        for name, text, complaint in PLANTED:
            planted = copy / name
            planted.parent.mkdir(exist_ok=True)
            planted.write_text("/* */\n" + text + "\n")
            if not any(w.startswith(name) and complaint in w for w in violations(copy)[1]):
                print(f"arrows: planted in {name}: {text or 'a new room'}: not seen")
                failed += 1
            planted.unlink()
            if planted.parent.name == "gossip":
                planted.parent.rmdir()
    return failed


def main():
    if sys.argv[1:] == ["--test"]:
        tree = pathlib.Path(__file__).resolve().parent.parent
        planted_failed = test(tree)
        planted = len(PLANTED)
    else:
        tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
        tree = tree if tree.is_dir() else tree.parent.parent
        planted_failed = planted = 0
    files, wrong = violations(tree)
    for line in wrong:
        print(line)
    failed = planted_failed + (1 if wrong or not files else 0)
    print(f"arrows: {files} files, {len(wrong)} includes that point back")
    print(f"{planted + 1 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
