"""A made-up table of house prices, a plain way to write tables, and lines of reports."""

import csv

import numpy as np


def write(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def line(outcome, label):
    found = [row for row in outcome.out.splitlines() if row.startswith(label + " ")]
    assert found, outcome
    return " / ".join(row[len(label) :].strip() for row in found)


def house_columns(n=60, seed=0):
    rng = np.random.default_rng(seed)
    area = rng.uniform(40, 200, n).round(1)
    rooms = rng.integers(1, 7, n)
    town = rng.choice(["north", "south", "west"], n)
    price = 1000 * (2 * area + 20 * rooms + 80 * (town == "west") + rng.normal(0, 10, n)).round(1)
    return {
        "area": area.tolist(),
        "rooms": rooms.tolist(),
        "town": town.tolist(),
        "price": price.tolist(),
    }
