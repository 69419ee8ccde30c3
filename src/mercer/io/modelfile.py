"""`save` and `load`: a fitted model to one file, and back, bit for bit."""

from __future__ import annotations

import os
from typing import Any

from sklearn import __version__ as sklearn_version
from sklearn.base import BaseEstimator

from mercer import __version__
from mercer.engines import refuse_target, replace_file
from mercer.errors import InvalidInput, ModelFileError, speaks, who
from mercer.io import container
from mercer.io.registry import is_fitted
from mercer.io.tree import Decoder, Encoder


@speaks("save")
def save(model: Any, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write a fitted model to a file.

    The file holds the class, the parameters and what was learned: text and raw arrays, each with a
    digest, and never code (no pickle). It appears under its path whole or not at all: an error, a
    full disk or a killed process leaves what was there before.

    Kept are estimators of mercer, scikit-learn pipelines of these with its common transformers,
    kernels and `mercer.rkhs.Function`; classes of your own after `mercer.io.register`. Not kept
    are callbacks, metadata requests, and the memory layout of arrays (all become C order).

    Parameters
    ----------
    model : estimator, Kernel or Function
        What to save; an estimator must be fitted.
    path : str or path-like
        Where; the directory must exist. Any suffix; ``.mercer`` is customary.
    overwrite : bool, default=True
        Whether a file of that name may be replaced; if not, `FileExistsError`.

    Raises
    ------
    InvalidInput
        If the model is not fitted or holds what a file cannot, such as a Python function; the
        message says where it sits and what to do instead.
    OSError
        If the file cannot be written. Nothing is left behind, and an old file is unchanged.

    See Also
    --------
    load : Read the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import mercer
    >>> model = mercer.KernelRidge(mercer.RBF(2.0), alpha=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "ridge.mercer")
    ...     mercer.save(model, path)
    ...     again = mercer.load(path)
    >>> bool((again.predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    path = _path(path)
    if isinstance(model, BaseEstimator) and not is_fitted(model):
        raise InvalidInput(
            f"save: this {type(model).__name__} is not fitted, so there is nothing to keep; "
            "call fit first."
        )
    target = refuse_target(path, overwrite)
    encoder = Encoder()
    try:
        encoder.object(model, type(model).__name__)
    except RecursionError:
        raise InvalidInput(
            f"save: the parameters of this {type(model).__name__} nest too deep for Python; "
            "a model must not contain itself, and long sums of kernels are better added in pairs."
        ) from None
    header = {"written_by": _versions(), "objects": encoder.objects}
    replace_file(target, container.pieces(header, encoder.arrays), overwrite)


@speaks("load")
def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote.

    Safe for files from anywhere: nothing in a file is run, class names are looked up in a closed
    list, and sizes are checked against the file before memory is taken. A file in which any byte
    has changed is refused.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator, Kernel or Function
        The model, with the same predictions as the one that was saved.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or was written by a newer mercer.
    FileNotFoundError
        If there is no such file.

    See Also
    --------
    save : Write the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import mercer
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "kernel.mercer")
    ...     mercer.save(mercer.RBF(2.0) + mercer.Linear(), path)
    ...     mercer.load(path)
    RBF(length_scale=2.0) + Linear()
    """
    path = _path(path)
    note = ""
    try:
        header, arrays = container.read(path)
        if set(header) != {"written_by", "objects"} or not isinstance(header["written_by"], dict):
            raise ModelFileError("its header has unknown or missing parts")
        note = _version_note(header["written_by"])
        model = Decoder(header["objects"], arrays).model()
        if isinstance(model, BaseEstimator) and not is_fitted(model):
            raise ModelFileError(f"its {type(model).__name__} has learned nothing")
        return model
    except ModelFileError as error:
        told = str(error).removesuffix(".")  # what a class refused ends its own sentence
        message = f"load: {path!r} cannot be read: {told}{note}."
        raise ModelFileError(message) from error.__cause__


def _version_note(written_by: dict[str, Any]) -> str:
    """Say with what a file was written, if a class of another version may be why it fails."""
    here = _versions()
    other = {k: v for k, v in written_by.items() if k in here and v != here[k]}
    if not other:
        return ""
    then = ", ".join(f"{name} {str(version)[:20]}" for name, version in sorted(other.items()))
    now = ", ".join(f"{name} {here[name]}" for name in sorted(other))
    return f" (it was written with {then}; here is {now})"


def _versions() -> dict[str, str]:
    return {"mercer": __version__, "scikit-learn": sklearn_version}


def _path(path: Any) -> str:
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise InvalidInput(
            f"{who()}: the path is a {type(path).__name__}; give text or a pathlib.Path."
        ) from None
    if not text or "\0" in text:
        raise InvalidInput(f"{who()}: the path {text!r} is empty or has a NUL character.")
    return text
