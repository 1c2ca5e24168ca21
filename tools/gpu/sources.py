"""Writes the programs that a table of tests/measured names: what `programs.py` times.

Usage: python tools/gpu/sources.py tests/measured/h200/programs.tsv FOLDER target/release/phzc

A source is `gen …`, arguments of phzc, or a file below ../shared.
"""

import pathlib
import shutil
import subprocess
import sys

SHARED = pathlib.Path(__file__).resolve().parents[2].parent / "shared"


def main():
    table, folder, phzc = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    names, *rows = [line.split("\t") for line in table.read_text().splitlines()]
    for row in rows:
        program, source = row[names.index("program")], row[names.index("source")]
        if source.startswith("gen "):
            subprocess.run([phzc, *source.split(), "-o", str(folder / f"{program}.ir")], check=True)
        else:
            path = SHARED / source
            shutil.copy(path, folder / f"{program}{''.join(path.suffixes[-2:])}")


if __name__ == "__main__":
    main()
