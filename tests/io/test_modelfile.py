"""Save and load of whole models: same bits, any damage seen, old file kept, golden files read."""

import json
import os
import pathlib
import pickletools
import random
import threading

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
import mercer.features
import mercer.models
from mercer.engines import files
from mercer.errors import InvalidInput, ModelFileError
from mercer.io import load, save
from mercer.kernels import RBF, FromFunction, Linear, Matern, Polynomial
from mercer.models import KernelRidge, KernelRidgeClassifier
from mercer.solvers.base import Solution

rng = np.random.default_rng(0)
X, NEW = rng.normal(size=(30, 3)), rng.normal(size=(11, 3))
y = np.sin(X[:, 0]) + X[:, 1]
LABELS = np.array(["low", "high", "λ"])[np.digitize(y, [-0.5, 0.5])]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
COUNTS = sp.random_array((30, 9), density=0.3, random_state=rng, format="csr")


def outputs(model, data):
    """Everything that a model says of new points."""
    names = ("predict", "transform", "decision_function", "predict_proba", "score_samples")
    return {name: getattr(model, name)(data) for name in names if hasattr(model, name)}


def assert_same_bits(a, b):
    assert a.keys() == b.keys() and a
    for name in a:
        before, after = np.asarray(a[name]), np.asarray(b[name])
        assert before.dtype == after.dtype and before.shape == after.shape
        assert (
            before.tolist() == after.tolist()
            if before.dtype == object
            else (before.tobytes() == after.tobytes())
        )


MODELS = [
    (KernelRidge(), X, y, NEW),
    (KernelRidge(RBF("median"), alpha=0.1, fit_intercept=True), X, y, NEW),
    (KernelRidge(Matern(2.0, 0.8) + 0.5 * Linear(), alpha=np.array([0.1, 2.0])), X, X[:, :2], NEW),
    (KernelRidge("linear", alpha="loo"), X, y, NEW),
    (KernelRidge(alpha="loo", alphas=[0.1, 1.0, 10.0]), X, X, NEW),
    (KernelRidge(Polynomial(2)), X.astype(np.float32), y, NEW.astype(np.float32)),
    (KernelRidge("precomputed"), X @ X.T, y, NEW @ X.T),
    (KernelRidge(), COUNTS, y, COUNTS[:7]),
    (KernelRidge(RBF()), sp.csr_matrix(COUNTS), y, sp.csr_matrix(COUNTS)[:7]),
    (KernelRidge(RBF().on(["a", "c"]) + RBF().on("b")), FRAME, y, FRAME[::2]),
    (KernelRidge(), FRAME, y, FRAME[::2]),
    (KernelRidgeClassifier(), X, LABELS, NEW),
    (KernelRidgeClassifier(class_weight="balanced"), X, LABELS.astype(object), NEW),
    (KernelRidgeClassifier(class_weight={0: 1.0, 1: 3.0}, alpha="loo"), X, (y > 0) * 1, NEW),
    (KernelRidgeClassifier(), X, y > 0, NEW),
    (make_pipeline(StandardScaler(), KernelRidge()), X, y, NEW),
]


@pytest.mark.parametrize(("model", "data", "target", "new"), MODELS, ids=lambda v: type(v).__name__)
def test_predictions_are_the_same_bits(again, model, data, target, new):
    fitted = clone(model).fit(data, target)
    back = again(fitted)
    assert type(back) is type(fitted) and repr(back) == repr(fitted)
    assert_same_bits(outputs(fitted, new), outputs(back, new))
    again(clone(back).fit(data, target))


def estimators():
    for module in (mercer.models, mercer.features):
        for name in module.__all__:
            cls = getattr(module, name)
            if name == "SparseCounts":  # of strings and graphs: see test_sparse_counts
                continue
            if isinstance(cls, type) and issubclass(cls, BaseEstimator) and hasattr(cls, "fit"):
                yield cls


@pytest.mark.parametrize("cls", list(estimators()), ids=lambda c: c.__name__)
def test_every_public_estimator(again, tmp_path, cls):
    with pytest.raises(InvalidInput, match=rf"{cls.__name__} is not fitted.*fit first"):
        save(cls(), tmp_path / "m")
    assert not list(tmp_path.iterdir())
    tags = cls().__sklearn_tags__()
    target = (y > 0).astype(int) if tags.estimator_type == "classifier" else y
    fitted = cls().fit(X, target)
    back = again(fitted)
    restored = set(vars(back))  # before answers are given, which may keep what they computed
    assert_same_bits(outputs(fitted, NEW), outputs(back, NEW))
    learned = {name for name in cls._learned if name in vars(fitted)}
    assert restored == learned | set(fitted.get_params(deep=False))


def test_the_certificate_is_kept(again):
    model = KernelRidge(alpha=0.5).fit(X, y)
    back = again(model)
    assert isinstance(back.solution_, Solution)
    assert back.solution_.summary() == model.solution_.summary()
    assert back.loo().tolist() == pytest.approx(model.loo().tolist(), rel=1e-12)
    assert np.array_equal(back.function_(NEW), model.function_(NEW))


def test_column_names_are_checked_after_loading(again):
    back = again(KernelRidge().fit(FRAME, y))
    assert back.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        back.predict(FRAME.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="2 features"):
        again(KernelRidge().fit(X, y)).predict(NEW[:, :2])


def test_a_loaded_model_is_independent_and_can_be_fitted(again):
    model = KernelRidge().fit(X, y)
    back = again(model)
    before = model.predict(NEW)
    back.X_fit_[:] = 0
    back.dual_coef_[:] = 0
    assert np.array_equal(model.predict(NEW), before)
    assert np.array_equal(back.fit(X, y).predict(NEW), before)


def test_functions_are_refused_and_nothing_is_written(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    for kernel in (lambda a, b: float(a @ b), FromFunction(np.dot), RBF().warp(np.tanh)):
        model = KernelRidge(kernel, alpha=1.0).fit(X, y)
        with pytest.raises(InvalidInput, match=r"KernelRidge\.kernel .*function.*register"):
            save(model, path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("model", [None, 5, "model", [KernelRidge()], KernelRidge, X])
def test_what_is_not_a_model(tmp_path, model):
    with pytest.raises(InvalidInput, match="save"):
        save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_a_model_that_contains_itself(tmp_path):
    kernel = RBF().exp()
    kernel.kernel = kernel
    with pytest.raises(InvalidInput, match="nest too deep"):
        save(kernel, tmp_path / "m")


@pytest.mark.parametrize("path", [None, 3, "", "a\0b", ["m"]])
def test_paths_that_are_none(path):
    with pytest.raises(InvalidInput, match="path"):
        save(RBF(), path)
    with pytest.raises(InvalidInput, match="path"):
        load(path)


def test_paths_of_every_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("m", b"m", pathlib.Path("m"), str(tmp_path / "m")):
        save(RBF(2.0), path)
        assert load(path) == RBF(2.0)
    assert os.listdir(tmp_path) == ["m"]
    with pytest.raises(FileNotFoundError):
        load("none")
    with pytest.raises(ModelFileError, match="a directory"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError, match="create it first"):
        save(RBF(), "none/m")
    with pytest.raises(InvalidInput, match="is a directory"):
        save(RBF(), tmp_path)


def test_overwrite(tmp_path):
    path = tmp_path / "m"
    save(RBF(1.0), path, overwrite=False)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save(RBF(2.0), path, overwrite=False)
    assert load(path) == RBF(1.0)
    save(RBF(2.0), path)
    assert load(path) == RBF(2.0)
    with pytest.raises(TypeError):
        save(RBF(), path, True)  # by name only: overwrite=True says what it does


@pytest.fixture
def small(tmp_path):
    """A whole model in a small file."""
    path = tmp_path / "small.mercer"
    model = KernelRidgeClassifier(RBF(2.0), alpha=0.5).fit(X[:4], ["a", "b", "a", "b"])
    save(model, path)
    return path, model


def test_no_byte_of_a_model_can_change_unnoticed(small):
    path, model = small
    content = path.read_bytes()
    dice = random.Random(1)
    with open(path, "r+b", buffering=0) as file:
        for i, byte in enumerate(content):
            for new in {byte ^ (1 << dice.randrange(8)), 0x00, 0xFF} - {byte}:
                os.pwrite(file.fileno(), bytes([new]), i)
                with pytest.raises(ModelFileError):
                    load(path)
            os.pwrite(file.fileno(), bytes([byte]), i)
    assert load(path).dual_coef_.tobytes() == model.dual_coef_.tobytes()


def test_no_part_of_a_model_is_a_model(small):
    path, _ = small
    for length in reversed(range(path.stat().st_size)):
        os.truncate(path, length)
        with pytest.raises(ModelFileError):
            load(path)


def test_random_damage_to_a_larger_model(tmp_path):
    path = tmp_path / "m"
    save(KernelRidge().fit(rng.normal(size=(400, 40)), rng.normal(size=400)), path)
    content = bytearray(path.read_bytes())
    dice = random.Random(2)
    for _ in range(150):
        i, bit = dice.randrange(len(content)), 1 << dice.randrange(8)
        content[i] ^= bit
        path.write_bytes(content)
        with pytest.raises(ModelFileError):
            load(path)
        content[i] ^= bit


def test_messages_name_the_file_and_the_damage(small):
    path, _ = small
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=r"load: '.*small\.mercer'.*digest.*damaged"):
        load(path)


def test_no_pickle_inside(small):
    path, _ = small
    content = path.read_bytes()
    assert b"sklearn" not in content and b"mercer.models" not in content
    for start in range(len(content) - 1):
        if content[start] == 0x80 and content[start + 1] <= 5:  # PROTO of every pickle
            with pytest.raises(Exception):  # noqa: B017
                list(pickletools.genops(content[start:]))
    header = json.loads(content[48 : 48 + int.from_bytes(content[8:16], "little")])
    assert set(header) == {"arrays", "objects", "schema", "written_by"}
    assert header["written_by"]["mercer"] == mercer.__version__


@pytest.mark.parametrize("name", ["fsync", "replace", "fdopen"])
def test_a_failed_save_keeps_the_old_model(small, monkeypatch, name):
    path, model = small
    content = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, name, broken)
    with pytest.raises(OSError, match="No space"):
        save(KernelRidge().fit(X, y), path)
    monkeypatch.undo()
    assert path.read_bytes() == content and os.listdir(path.parent) == [path.name]
    assert type(load(path)) is type(model)


def test_writers_and_readers_at_once(tmp_path):
    path = tmp_path / "m"
    models = [KernelRidge(alpha=a).fit(X, y) for a in (0.1, 1.0)]
    save(models[0], path)
    errors, done = [], threading.Event()

    def write(model):
        try:
            for _ in range(20):
                save(model, path)
        except BaseException as error:
            errors.append(error)

    def read():
        try:
            while not done.is_set():
                back = load(path)
                wanted = models[back.alpha == 1.0]
                assert back.dual_coef_.tobytes() == wanted.dual_coef_.tobytes()
        except BaseException as error:
            errors.append(error)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(model,)) for model in models]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert not errors and os.listdir(tmp_path) == ["m"]


GOLDEN = pathlib.Path(__file__).parent / "golden"


def golden_names():
    return sorted(path.stem for path in GOLDEN.glob("*.mercer"))


def test_there_are_golden_files():
    assert len(golden_names()) >= 4


@pytest.mark.parametrize("name", golden_names())
def test_golden_files_load_for_ever(name):
    """Files written once by each release; what they predict is written beside them."""
    model = load(GOLDEN / f"{name}.mercer")
    told = json.loads((GOLDEN / f"{name}.json").read_text())
    data = pd.DataFrame(told["table"]) if "table" in told else np.array(told["points"])
    values = model(data) if told["call"] == "__call__" else getattr(model, told["call"])(data)
    assert type(model).__name__ == told["class"]
    if np.asarray(values).dtype.kind == "f":
        np.testing.assert_allclose(values, np.array(told["values"]), rtol=1e-12, atol=1e-14)
    else:
        assert np.asarray(values).tolist() == told["values"]
