"""``make demo`` from end to end: the report, and the files it says it wrote."""

import re
import runpy
from pathlib import Path

import mercer

ROOT = Path(__file__).parents[2]


def test_demo(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(mercer.__file__).parents[1]))
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    out = capsys.readouterr().out
    files = sorted(p.name for p in (tmp_path / "demo-output").iterdir())
    assert files == ["diabetes.mercer", "known.csv", "new.csv", "predictions.csv"]
    for name in files:
        assert f"demo-output/{name}  (" in out
    errors = {
        line[:22].strip(): float(line[22:].split()[0])
        for line in out.splitlines()
        if re.match(" +(mean of the target|linear ridge|tuned kernel ridge|feature machine)", line)
    }
    assert len(errors) == 4
    for name in ("tuned kernel ridge", "feature machine"):
        assert errors[name] < 0.8 * errors["mean of the target"]
    # the library and the command line learn alike from all rows that are known
    assert f"RMSE over all of them: {errors['feature machine']}" in out
    assert len((tmp_path / "demo-output" / "predictions.csv").read_text().splitlines()) == 93
