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


def mackey_glass(out, series=100, points=600, ahead=84, unknown=100, steps=20):
    """x' = 0.2 x(t - 17) / (1 + x(t - 17)^10) - 0.1 x(t), one point a unit of time, from random starts.

    The target of a point is x 84 units later. The first points of a series have none, as a model cannot know
    the past before them.
    """
    h, lag, transient = 1 / steps, 17 * steps, 1000
    history = [np.random.default_rng(1).uniform(0.6, 1.3, series)] * (lag + 1)

    def slope(now, then):
        return 0.2 * then / (1 + then**10) - 0.1 * now

    for _ in range((transient + points + ahead) * steps):
        now, then, later = history[-1], history[-1 - lag], history[-lag]
        # Runge-Kutta of fourth order. Between two stored points the past is taken as linear.
        k1 = slope(now, then)
        k2 = slope(now + h / 2 * k1, (then + later) / 2)
        k3 = slope(now + h / 2 * k2, (then + later) / 2)
        k4 = slope(now + h * k3, later)
        history.append(now + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    x = np.array(history[transient * steps :: steps])[: points + ahead]
    rows = [
        (s, f"{x[t, s]:.9g}", f"{x[t + ahead, s]:.9g}" if t >= unknown else "")
        for s in range(series)
        for t in range(points)
    ]
    write_csv(out / "mackey-glass.csv", ["series", "x", "target"], rows)


def main():
    archive, out = map(pathlib.Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    tatoeba(archive, out)
    mackey_glass(out)


main()
