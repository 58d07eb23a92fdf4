"""Makes the files of the trainings in README.md: prepare.py TATOEBA.zip OUT_FOLDER"""

import csv
import pathlib
import random
import sys
import zipfile

import numpy as np


def write_csv(path, header, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def tatoeba(archive, out):
    """Sentences by language, and English ones in three parts, also as tokens for an n-gram program."""
    with zipfile.ZipFile(archive) as files:
        name = next(name for name in files.namelist() if name.endswith("spa.txt"))
        lines = files.read(name).decode("utf-8").splitlines()
    pairs = [line.split("\t")[:2] for line in lines if "\t" in line]
    english, spanish = (list(dict.fromkeys(side)) for side in zip(*pairs))
    write_csv(out / "languages.csv", ["text", "language"],
              [(s, "en") for s in english] + [(s, "es") for s in spanish])

    random.Random(1).shuffle(english)
    tenth = len(english) // 10
    parts = {"test": english[:tenth], "validation": english[tenth : 2 * tenth], "train": english[2 * tenth :]}
    for part, sentences in parts.items():
        write_csv(out / f"english-{part}.csv", ["text"], [[s] for s in sentences])
        with open(out / f"english-{part}.tokens", "w", encoding="utf-8") as file:
            for s in sentences:
                file.write(f"<s> {' '.join(s.replace(' ', '_'))} </s>\n")


def mackey_glass(out, tau=17, points=20_000, steps=100):
    """x' = 0.2 x(t - tau) / (1 + x(t - tau)^10) - 0.1 x(t), one point a unit of time."""
    lag = tau * steps
    x = np.full(lag + 1, 1.2)

    def slope(now, then):
        return 0.2 * then / (1 + then**10) - 0.1 * now

    values, h = [], 1 / steps
    history = list(x)
    for n in range((points + 1000) * steps):
        now, then, later = history[-1], history[-1 - lag], history[-lag]
        # Runge-Kutta of fourth order; between two stored points the past is taken as linear.
        middle = (then + later) / 2
        k1 = slope(now, then)
        k2 = slope(now + h / 2 * k1, middle)
        k3 = slope(now + h / 2 * k2, middle)
        k4 = slope(now + h * k3, later)
        history.append(now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
        if n % steps == 0 and n >= 1000 * steps:
            values.append(history[-1])
    write_csv(out / "mackey-glass.csv", ["id", "x"], [(1, f"{v:.9g}") for v in values])


def main():
    archive, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    tatoeba(archive, out)
    mackey_glass(out)


main()
