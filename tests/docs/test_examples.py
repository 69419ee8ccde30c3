"""The example scripts run, and say what they promise to say."""

import re
import runpy
import sys
from pathlib import Path
from unittest import mock

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name, capsys):
    script = str(EXAMPLES / f"{name}.py")
    with mock.patch.object(sys, "argv", [script]):  # those of pytest are not for it
        runpy.run_path(script, run_name="__main__")
    return capsys.readouterr().out


def test_margins(capsys):
    out = run("svm_margins", capsys)
    margin, ruler, again = (
        float(re.search(pattern, out)[1])
        for pattern in (r"margin (\d\S+),", r"ruler: (\S+)", r"among them: (\S+)")
    )
    assert margin == ruler == again > 0
    plus, minus = re.findall(r"^ +(= \(.*\))$", out, re.M)
    assert plus == minus  # the point that both hulls share
    table = [line.split() for line in re.findall(r"^ +[\d.]+ .*$", out, re.M)]
    prices, shares = (
        [list(map(float, row)) for row in table if len(row) == width] for width in (6, 4)
    )
    assert len(prices) == 5 and all(error <= bound for *_, error, bound in prices)
    assert len(shares) == 4 and all(low <= nu + 1e-3 <= high + 2e-3 for nu, low, high, _ in shares)


def test_text(capsys):
    out = run("svm_text", capsys)
    assert int(re.search(r"(\d+)% \(guessing", out)[1]) >= 80
    names, *rows = [line.split() for line in out.splitlines()[-7:]]
    assert names == ["English", "Finnish", "German", "Italian"]
    for _, *shares in rows:
        assert sum(map(float, shares)) == pytest.approx(1, abs=0.03)


def test_structured_output(capsys):
    out = run("structured_output", capsys)
    assert int(re.search(r"never seen: (\d+)%", out)[1]) >= 95
    assert "42 is spelled 'forty-two'" in out


def test_choose_degree(capsys):
    out = run("choose_degree", capsys)
    rows = [list(map(float, line.split())) for line in re.findall(r"^ +\d .*$", out, re.M)][:8]
    assert [row[0] for row in rows] == list(range(1, 9))
    by_column = list(zip(*rows, strict=True))
    assert by_column[2].index(min(by_column[2])) == 7  # training: the richest
    assert all(by_column[j].index(min(by_column[j])) == 1 for j in (3, 5))  # left out, bound
    assert all(by_column[j].index(max(by_column[j])) == 1 for j in (6, 7))  # evidence, BIC
    chosen = re.search(r"chosen +(.*)$", out, re.M)[1].split()
    assert chosen == ["8", "2", "3", "2", "2", "2"]  # of this sample the folds take one more


def test_active_learning(capsys):
    out = run("active_learning", capsys)
    labels = re.findall(r"(\S+) *: (?:more than )?(\d+) labels", out)
    needed = {criterion: int(count) for criterion, count in labels}
    assert 2 * max(needed["a-optimal"], needed["variance"]) < needed["random"]


def test_bayes_rule(capsys):
    out = run("bayes_rule", capsys)
    least, _, *others = map(float, re.findall(r"^ +(0\.\d{4})  ", out, re.M))
    assert len(others) == 4 and all(least <= other for other in others)
    few, cheap = map(float, re.findall(r"cost (\S+)", out))
    assert cheap < few


def test_quantile_bands(capsys):
    out = run("quantile_bands", capsys)
    rows = [list(map(float, r.split())) for r in re.findall(r"^ +(0\.\d\d +0.*)$", out, re.M)]
    assert len(rows) == 5
    for level, seen, coming, saved in rows:
        assert seen <= level and abs(coming - level) < 0.03 and saved > 0
    assert re.search(r"as fitted, on [1-9]\d?% of the day; as answered, on 0%", out)
    assert out.count("┃") == 11


def test_intervals(capsys):
    out = run("intervals", capsys)
    fitted, left_out = (float(x) for x in re.findall(r"(?:fitted|left out): +(\S+)", out)[:2])
    assert fitted < left_out
    assert float(re.search(r"sixty refits: (\S+)", out)[1]) < 1e-10
    rows = [list(map(float, r.split())) for r in re.findall(r"^ +(0\.\d\d +0.*)$", out, re.M)]
    assert len(rows) == 4 and all(abs(hits - wanted) < 0.02 for wanted, hits, *_ in rows)
    assert all(naive < hits for _, hits, naive, _ in rows)
    apart, together = map(float, re.findall(r"(0\.\d+) inside", out))
    assert apart < 0.7 and together > 0.85


def test_ridge_path(capsys):
    out = run("ridge_path", capsys)
    rows = [list(map(float, r.split())) for r in re.findall(r"^ +(\S+ +\d\S* .*)$", out, re.M)]
    freedom, fitted, left_out = (list(c) for c in list(zip(*rows, strict=True))[1:4])
    assert len(rows) == 10 and freedom == sorted(freedom)
    assert fitted == sorted(fitted, reverse=True)
    assert left_out.index(min(left_out)) == 4
    assert "rows left out: λ = 0.01" in out


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_every_example_is_listed(path):
    assert path.name in (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")


def test_prototypes_xor(capsys):
    out = run("prototypes_xor", capsys)
    corners = re.findall(r"^   \(\d, \d\) +(\d) .* (\d)$", out, re.M)
    assert len(corners) == 4 and all(said == true for true, said in corners)
    plain, four, means, *_ = map(float, re.findall(r"^   (?:logistic|with) .* (\S+)$", out, re.M))
    assert plain < 0.7 and min(four, means) > 0.95
    rows = [line.split() for line in re.findall(r"^ +[\d.]+ +\d+ .*$", out, re.M)]
    assert len(rows) == 7 and rows[0][1] == "0" and all(int(row[1]) < 30 for row in rows)
    assert float(rows[-1][2]) < 0.1 and all(float(row[3]) < 1e-6 for row in rows)


def test_choose_loss(capsys):
    out = run("choose_loss", capsys)
    pulled = re.findall(r"^   (\w+)\S* +(0\.\d\d) +(0\.\d\d) +(0\.\d\d) +(\d+) of 200$", out, re.M)
    far = {name: float(worst) for name, _, _, worst, _ in pulled}
    assert len(far) == 4 and far["squared"] > 5 * max(far["Huber"], far["absolute"])
    assert int(pulled[-1][4]) < 120  # inside the tube no point pulls
    shares = re.findall(r"^   (\S+) +(0\.\d\d)   relative duality gap (\S+)$", out, re.M)
    assert [abs(float(share) - 0.5) < 0.05 for _, share, _ in shares] == [True] * 4 + [False]
    assert all(float(gap) <= 1e-6 for *_, gap in shares)
    rows = re.findall(r"^   (\S+) +(0\.\d{3}) +(0\.\d{3}) +(0\.\d{3})$", out, re.M)
    wrong = {name: float(quarter) for name, *_, quarter in rows}
    assert len(wrong) == 4 and max(wrong, key=wrong.get) == "exponential"
    off = [float(x) for x in re.findall(r"off by (\S+)$", out, re.M)]
    assert len(off) == 3 and min(off) < 0.1 < off[0]


def test_stream(capsys):
    out = run("stream", capsys)
    best = float(re.search(r"right on (\S+) of", out)[1])
    rows = [list(map(float, r.split())) for r in re.findall(r"^ +(\d+ +0\.\d{3} .*)$", out, re.M)]
    assert [row[0] for row in rows] == [100, 500, 2_000, 8_000, 20_000]
    apart = [row[3] for row in rows]
    assert apart == sorted(apart, reverse=True) and apart[-1] < 0.03
    assert rows[0][1] < rows[-1][1] and best - rows[-1][1] < 0.01
    assert all(row[4] == 6 and row[5] == row[0] for row in rows)
    assert float(re.search(r"weights differ by (\S+)", out)[1]) < 1e-10


def test_gp_series(capsys):
    out = run("gp_series", capsys)
    values = {
        n: float(v) for n, v in re.findall(r"^   (smooth|seasonal|composed) +(-\d\S+) ", out, re.M)
    }
    assert values["smooth"] < values["seasonal"] < values["composed"]
    assert float(re.search(r"composed .*error (\S+) ppm \(true", out)[1]) == pytest.approx(
        0.3, abs=0.03
    )
    errors = {n: float(v) for n, v in re.findall(r"^   (\w+) +root mean square +(\S+)", out, re.M)}
    assert errors["composed"] < 0.5 * errors["smooth"]
    assert float(re.search(r"the mean: (\S+) apart", out)[1]) < 1e-8


def test_gp_optimum(capsys):
    out = run("gp_optimum", capsys)
    best = {n: float(v) for n, v in re.findall(r"^   ([a-z-]+) +(\S+) +\S+$", out, re.M)}
    assert best["expected-improvement"] < 0.5 < best["random"] < best["variance"]
    assert float(re.search(r"lowest: (\S+) at", out)[1]) < 1.0


def test_gp_classes(capsys):
    out = run("gp_classes", capsys)
    rows = re.findall(
        r"^   (\w+) +mean distance (\S+), log loss (\S+), log evidence (-\S+)", out, re.M
    )
    assert [r[0] for r in rows] == ["laplace", "ep", "vi"] and all(float(r[1]) < 0.1 for r in rows)
    assert float(rows[2][3]) <= float(rows[1][3])  # the bound is below
    assert re.search(r"at \(0, +-12\): 0\.50", out)
    assert len(re.findall(r"right (?:1\.00|0\.9\d)", out)) == 3


def test_gp_outputs(capsys):
    out = run("gp_outputs", capsys)
    assert float(re.search(r"as found: (\S+)", out)[1]) < -0.95
    alone, both = map(float, re.findall(r"error (0\.\d+)", out))
    assert both < 0.3 * alone


def test_gp_sparse(capsys):
    out = run("gp_sparse", capsys)
    rows = [list(map(float, r.split())) for r in re.findall(r"^ +(\d+ +-?\d+\.\d .*)$", out, re.M)]
    below, above = [row[1] for row in rows], [row[2] for row in rows]
    assert [row[0] for row in rows] == [20, 40, 80, 160]
    assert max(below) <= min(above) + 0.1  # all enclose the same number, rounded to a tenth
    assert below[-1] > below[0] and above[-1] - below[-1] < 1.0
    noise = [float(v) for v in re.findall(r"bound .*noise (\S+)$", out, re.M)]
    assert noise[0] > 0.25 and noise[-1] == pytest.approx(0.2, abs=0.01)


def test_witness(capsys):
    out = run("witness", capsys)
    assert float(re.search(r"t test of the means: p = (\S+)", out)[1]) > 0.05
    assert float(re.search(r"MMD.*\n +\S+, p = (\S+)", out)[1]) <= 0.01
    rows = re.findall(r"witness (\S+), densities (\S+): more", out)
    assert len(rows) == 5 and all(float(a) * float(b) > 0 for a, b in rows)
    powers = dict(re.findall(r"^ +(median distance|aggregated|by splitting) +(\d+)%$", out, re.M))
    assert len(powers) == 3 and int(powers["aggregated"]) >= 15


def test_dependence(capsys):
    out = run("dependence", capsys)
    rows = re.findall(r"^ +(a \w+|its variance|nothing) +(\S+) +(\S+) +(\S+)$", out, re.M)
    found = {name: (float(r), float(p)) for name, r, _, p in rows}
    assert len(found) == 6
    assert all(p <= 0.01 for name, (_, p) in found.items() if name != "nothing")
    assert found["nothing"][1] > 0.05 and abs(found["a circle"][0]) < 0.15
    alone, given = (float(p) for p in re.findall(r"x and y.*: +p = (\S+)", out))
    assert alone <= 0.01 and given > 0.05
    plain, blocked = (int(share) for share in re.findall(r"shuffled.*: +(\d+)%", out))
    assert plain >= 40 and blocked <= 20


def test_drift(capsys):
    out = run("drift", capsys)
    first, second = out.split("--- ")[1:]
    assert "exit code 0" in first and "exit code 3" in second
    assert re.search(r"^column +amount", second, re.M)


def test_drift_columns(capsys):
    calm, repaired = run("drift_columns", capsys).split("--- ")[1:]
    assert "No sensor and no pair" in calm and "chance gives" in repaired
    alone = re.search(r"8 sensors is (0\.\d+)", repaired)
    assert float(alone[1]) > 0.05
    assert "All sensors together have the p-value 0.001." in repaired
    assert repaired.splitlines()[3].startswith("Temperature and pressure together: 0.00")
    rows = re.findall(r"temperature is (\S+) and pressure is (\S+)\.$", repaired, re.M)
    assert len(rows) == 3 and all(float(a) * float(b) < 0 for a, b in rows)


def test_rings(capsys):
    out = run("rings", capsys)
    linear, curved = (int(s) for s in re.findall(r"PCA +(\d+)%", out))
    assert linear < 75 and curved >= 95
    before, after = (float(v) for v in re.findall(r"(?:measured|components) +(0\.\d+)", out))
    assert after < 0.7 * before
    usual = float(re.search(r"95 % are below (\S+)", out)[1])
    middle, between, near = (
        float(re.search(rf"{n} +(\S+)", out)[1]) for n in ("the middle", "between", "on a ring")
    )
    assert min(middle, between) > usual > near
    assert re.search(r"spectral +\+1.00", out) and re.search(r"^ +k-means +-?\+?0.0", out, re.M)


def test_how_many_clusters(capsys):
    out = run("how_many_clusters", capsys)
    counts = [int(k) for k in re.findall(r"(\d+) clusters, objective", out)]
    assert counts == sorted(counts, reverse=True) and counts[-1] == 1
    assert re.search(r"about 5: .* 5 clusters", out)
    deviances = [float(v) for v in re.findall(r"^ +\d clusters: +(\d+)", out, re.M)]
    assert len(deviances) == 8 and deviances == sorted(deviances, reverse=True)


def test_density(capsys):
    out = run("density", capsys)
    rows = re.findall(r"left out (\S+) +new (\S+) +∫.* = (\S+)", out)
    left_out, new, error = (list(map(float, column)) for column in zip(*rows, strict=True))
    best = 3  # leave-one-out, among five
    assert max(left_out) == left_out[best] and max(new) == new[best] and min(error) == error[best]
    known, learned = (float(v) for v in re.findall(r"(?:known|400).* (0\.\d+)$", out, re.M))
    assert learned > known - 0.03
    (_, ends0), (_, ends1) = re.findall(r"(?:averages|lines) +(\S+) +(\S+)$", out, re.M)
    assert float(ends1) < float(ends0)


def test_splice_sites(capsys):
    out = run("splice_sites", capsys)
    right = [int(share) for share in re.findall(r"^   \S.* (\d+)%$", out, re.M)]
    assert len(right) == 5 and max(right[:3]) < min(right[3:])  # the place decides
    assert "features of shape (3000, 1024)" in out


def test_molecules(capsys):
    out = run("molecules", capsys)
    right = [int(share) for share in re.findall(r"^   \S.* (\d+)%$", out, re.M)]
    assert len(right) == 5 and right[0] < 65 < 95 < right[1]  # counting atoms says nothing
    apart, alike = map(float, re.findall(r"p = ([\d.]+)", out))
    assert apart <= 0.01 < 0.05 < alike


def test_authorship(capsys):
    out = run("authorship", capsys)
    words, letters, both = (int(s) for s in re.findall(r"^   \S.* (\d+)%$", out, re.M))
    assert min(words, letters, both) >= 60  # guessing gives 33 %
    assert both >= min(words, letters)


def test_clinic(capsys):
    out = run("clinic", capsys)
    numbers, proposed, by_hand = map(float, re.findall(r"R² (-?[\d.]+)", out))
    assert numbers < 0.2 < 0.5 < min(proposed, by_hand)


def test_why(capsys):
    out = run("why", capsys)
    found, defined = re.search(r"patient 0: (\S+), and by definition (\S+)", out).groups()
    assert float(found) == pytest.approx(float(defined), abs=1e-8)
    assert float(re.search(r"in all rows to (\S+)", out)[1]) < 1e-9
    shares = re.findall(r"standard deviations from its mean: (\S+)", out)
    assert len(shares) == 4 and "a model of the table as it is" in out
