"""How is a number spelled? Ridge regression whose answers are words, some of them never seen.

Inputs are numbers from 20 to 99, compared digit by digit; outputs are English words, compared by
the runs of letters that they share. From half of the numbers the model learns what a digit adds to
the spelling, and then finds the other half in a list. Run it with
``python examples/structured_output.py``; it takes a second.
"""

from __future__ import annotations

import random
from collections import Counter

import mercer

TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
UNITS = ["", *["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]]


def spelled(number: int) -> str:
    """Return a number from 20 to 99 in words."""
    tens, units = divmod(number, 10)
    return f"{TENS[tens - 2]}-{UNITS[units]}" if units else TENS[tens - 2]


def same_digits(a: int, b: int) -> float:
    """Count the digits that two numbers share in the same place: a kernel on numbers."""
    return float((a // 10 == b // 10) + (a % 10 == b % 10))


def runs(word: str) -> Counter:
    """Count the runs of one to three letters; the ends of the word count as letters."""
    marked = f"^{word}$"
    return Counter(marked[i : i + k] for k in (1, 2, 3) for i in range(len(marked) - k + 1))


def shared_runs(s: str, t: str) -> float:
    """Return the inner product of the two counts: a kernel on words."""
    other = runs(t)
    return float(sum(n * other[run] for run, n in runs(s).items()))


def main() -> None:
    """Learn half of the numbers, spell the other half."""
    numbers = list(range(20, 100))
    random.Random(0).shuffle(numbers)
    known, new = sorted(numbers[:40]), sorted(numbers[40:])
    dictionary = [spelled(number) for number in range(20, 100)]

    model = mercer.StructuredKernelRidge(same_digits, shared_runs, alpha="loo")
    model.fit(known, [spelled(number) for number in known], candidates=dictionary)
    right = model.score(new, [spelled(number) for number in new])
    print(f"learned from {len(known)} spellings, alpha {model.alpha_:.2g}")
    print(f"spelled right among {len(new)} numbers never seen: {100 * right:.0f}%\n")

    print(f"{'number':>6}  {'best':<14}{'second best':<14}")
    scores = model.decision_function(new)
    for number, row in list(zip(new, scores, strict=True))[::5]:
        first, second = row.argsort()[::-1][:2]
        print(f"{number:>6}  {dictionary[first]:<14}{dictionary[second]:<14}")

    wrong = ["fourty-two", "forty-too", "forty-two", "fortytwo"]
    print(f"\n42 is spelled {model.predict([42], candidates=wrong)[0]!r} rather than", end=" ")
    print(", ".join(repr(word) for word in wrong if word != "forty-two"))


if __name__ == "__main__":
    main()
